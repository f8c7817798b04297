#include "calibrate/collective_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "calibrate/statistics.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using sim::Cluster;

// What a fit changes of the cluster.
struct FabricCoefficient {
  Parameter parameter;  // starts at the prior
  double spread;        // of the prior, in ln
  void (*set)(Cluster&, double);
  std::optional<double> start{};  // of the descent, where it is not the prior
};

Cluster with(Cluster cluster, std::span<const FabricCoefficient> coefficients,
             std::span<const double> values) {
  for (std::size_t i = 0; i < coefficients.size(); ++i) coefficients[i].set(cluster, values[i]);
  return cluster;
}

double log_error(const CollectiveSample& sample, const Cluster& cluster) {
  return std::log(predicted(sample, cluster) / sample.time);
}

void set_errors(const Cluster& cluster, std::span<const CollectiveSample> samples,
                CollectiveFit& result) {
  std::vector<double> sizes;
  double squares = 0.0;
  for (const CollectiveSample& sample : samples) {
    const double error = log_error(sample, cluster);
    sizes.push_back(std::abs(error));
    squares += error * error;
  }
  result.samples = samples.size();
  result.rms = std::sqrt(squares / static_cast<double>(samples.size()));
  result.median_abs_error = median(sizes);
}

CollectiveFit fit(const Cluster& cluster, std::span<const FabricCoefficient> coefficients,
                  std::span<const CollectiveSample> samples,
                  const LeastSquaresOptions& options = {}) {
  if (samples.empty())
    throw Error("fit: no measured collectives; add measurements of the subject \"collectives\"");
  std::vector<Parameter> parameters;
  for (const FabricCoefficient& coefficient : coefficients) {
    parameters.push_back(coefficient.parameter);
    parameters.back().start = coefficient.start.value_or(coefficient.parameter.start);
  }
  const auto residuals = [&](std::span<const double> values, std::span<double> out) {
    const Cluster trial = with(cluster, coefficients, values);
    for (std::size_t i = 0; i < samples.size(); ++i)
      out[i] = std::sqrt(samples[i].weight) * log_error(samples[i], trial);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double moved = std::log(values[i] / coefficients[i].parameter.start);
      out[samples.size() + i] = kUsualMisfit * moved / coefficients[i].spread;
    }
  };
  const LeastSquaresFit solution =
      least_squares(parameters, samples.size() + parameters.size(), residuals, options);
  CollectiveFit result;
  result.values = solution.values;
  // Few messages may agree by chance, and where none depends on a value its prior is what is known.
  const double inflation = std::max(1.0, options.least_scale / solution.residual_deviation);
  for (FittedValue& value : result.values) value.standard_error *= inflation;
  std::vector<double> values;
  for (const FittedValue& value : solution.values) values.push_back(value.value);
  set_errors(with(cluster, coefficients, values), samples, result);
  return result;
}

}  // namespace

sim::Seconds predicted(const CollectiveSample& sample, const Cluster& cluster) {
  Cluster part = cluster;
  part.num_devices = sample.ranks;
  sim::Strategy strategy;
  strategy.dp = sample.ranks;
  return collective_time(sample.kind, sample.message,
                         group_links(strategy, sim::GroupKind::Data, part, 1.0));
}

CollectiveFit fit_fabric(const Cluster& cluster, std::span<const CollectiveSample> samples,
                         const LinkPrior& prior) {
  const std::vector<FabricCoefficient> coefficients{
      {{"collective_fraction", prior.fraction, 0.0},
       prior.fraction_spread,
       [](Cluster& c, double v) { c.device.achieved.collective_fraction = v; }},
      {{"fabric.latency_s", prior.latency, 0.0}, prior.latency_spread, [](Cluster& c, double v) {
         c.fabric.latency = sim::Seconds(v);
       }}};
  return fit(cluster, coefficients, samples, prior.options);
}

CollectiveFit fit_fabric(const Cluster& cluster, std::span<const CollectiveSample> samples) {
  return fit_fabric(cluster, samples, {});
}

// Where the network is faster than the links inside of nodes nothing depends on its share, and a
// descent from there goes nowhere: those from slower networks are tried too.
CollectiveFit fit_network(const Cluster& cluster, std::span<const CollectiveSample> samples,
                          const LinkPrior& prior) {
  std::vector<FabricCoefficient> coefficients{
      {{"scale_out_fraction", prior.fraction, 0.0},
       prior.fraction_spread,
       [](Cluster& c, double v) { c.device.achieved.scale_out_fraction = v; }},
      {{"network.latency_s", prior.latency, 0.0}, prior.latency_spread, [](Cluster& c, double v) {
         c.network.latency = sim::Seconds(v);
       }}};
  constexpr double kSlower[] = {0.7, 0.5, 0.35}, kBetter = 0.99;
  CollectiveFit best = fit(cluster, coefficients, samples, prior.options);
  for (const double slower : kSlower) {
    coefficients.front().start = slower * prior.fraction;
    CollectiveFit other = fit(cluster, coefficients, samples, prior.options);
    if (other.rms < kBetter * best.rms) best = std::move(other);
  }
  return best;
}

CollectiveFit fit_loopback(const Cluster& cluster, std::span<const CollectiveSample> samples) {
  const std::vector<FabricCoefficient> coefficients{
      {{"collective_fraction", 0.5, 0.0},
       1.0,
       [](Cluster& c, double v) { c.device.achieved.collective_fraction = v; }},
      {{"fabric.latency_s", 1e-4, 0.0},
       1.5,
       [](Cluster& c, double v) { c.fabric.latency = sim::Seconds(v); }},
      {{"fabric.sum_bytes_per_s", 2e9, 0.0}, 1.5, [](Cluster& c, double v) {
         c.fabric.sum_bandwidth = sim::BytesPerSecond(v);
       }}};
  return fit(cluster, coefficients, samples);
}

CollectiveFit fit_all_to_all(const Cluster& cluster, std::span<const CollectiveSample> samples) {
  const std::vector<FabricCoefficient> coefficients{
      {{"network.all_to_all_latency_s", 1e-4, 0.0},
       1.5,
       [](Cluster& c, double v) { c.network.all_to_all_latency = sim::Seconds(v); }},
      {{"network.peer_latency_s", 1e-6, 0.0}, 1.5, [](Cluster& c, double v) {
         c.network.peer_latency = sim::Seconds(v);
       }}};
  return fit(cluster, coefficients, samples);
}

CollectiveFit describe_collectives(const Cluster& cluster,
                                   std::span<const CollectiveSample> samples) {
  CollectiveFit result;
  set_errors(cluster, samples, result);
  return result;
}

}  // namespace llmsim::calibrate
