#include "calibrate/benchmark_fit.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "calibrate/benchmark_samples.h"
#include "calibrate/site_fit.h"
#include "calibrate/statistics.h"
#include "hwdb/benchmarks/device_name.h"
#include "hwdb/hardware/coefficients.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using hwdb::BenchmarkFile;
using sim::Cluster;
using sim::DType;

// Spreads of priors, and errors that measurements have at least (benchmark_fit.h).
constexpr double kEfficiencySpread = 0.15, kShapeSpread = 0.5, kLaunchSpread = 0.3;
constexpr double kFractionSpread = 0.25, kLatencySpread = 0.7;
constexpr double kMemorySpread = 0.05, kMemoryError = 0.02;
constexpr double kClockSpread = 0.05, kClockError = 0.03;
constexpr std::size_t kFewAllToAlls = 8;
constexpr std::size_t kFewReadings = 30;
constexpr double kSameLimit = 0.02;  // of a power limit
constexpr sim::Bytes kLargeMessage = 1.0 * sim::MiB;
// Of wave_quantisation, whose logit is fitted.
constexpr double kLeastShare = 0.01;

std::optional<hwdb::CoefficientValue> value_of(const Cluster& cluster, const std::string& key) {
  for (const hwdb::CoefficientValue& value : hwdb::coefficient_values(cluster))
    if (value.key == key) return value;
  return std::nullopt;
}

// A value known as x0 +- s0 that is measured as x +- s; errors are of logarithms.
struct Known {
  double value = 0.0, error = 0.0;
};
Known combined(const Known& prior, const Known& measured) {
  const double a = 1.0 / (prior.error * prior.error), b = 1.0 / (measured.error * measured.error);
  return {std::exp((a * std::log(prior.value) + b * std::log(measured.value)) / (a + b)),
          1.0 / std::sqrt(a + b)};
}

// The cluster as far as it is fitted.
struct BenchmarkFitting {
  const hwdb::Database& database;
  std::span<const BenchmarkFile> files;
  Cluster cluster;
  BenchmarkFit fit;
};

// Sets a coefficient, which becomes a row of the part.
void change(BenchmarkFitting& f, BenchmarkPart& part, const std::string& key, double value,
            std::optional<double> error) {
  const auto before = value_of(f.cluster, key);
  part.changes.push_back({.key = key,
                          .before = before ? before->value : 0.0,
                          .after = value,
                          .standard_error = error,
                          .unit = before ? before->unit : ""});
  hwdb::set_coefficient(f.cluster, key, value);
}

double median_error(const std::vector<double>& log_errors) {
  std::vector<double> errors;
  for (const double error : log_errors) errors.push_back(std::abs(std::expm1(error)));
  return median(errors);
}

// --- GEMMs ---

GemmPrior prior_of(const sim::GemmCoefficients& known) {
  return {.max_efficiency = {known.max_efficiency, kEfficiencySpread},
          .k_half = {std::max(1.0, known.k_half), kShapeSpread},
          .wave_quantisation = {std::clamp(known.wave_quantisation, kLeastShare, 1.0 - kLeastShare),
                                kShapeSpread},
          .kernel_time = {known.kernel_time.value(), kLaunchSpread},
          .weight_gradient_factor = {known.weight_gradient_factor, 0.0},
          .transposed_factor = {known.transposed_factor, 0.0}};
}

std::string shape_of(const GemmSample& sample) {
  return fmt::format("{}x{}x{}", sample.gemm.m, sample.gemm.n, sample.gemm.k);
}

std::string gemms_text(DType dtype, const std::vector<GemmSample>& samples) {
  const auto smaller = [](const GemmSample& a, const GemmSample& b) {
    return a.gemm.flops < b.gemm.flops;
  };
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end(), smaller);
  const std::string range =
      samples.size() == 1 ? shape_of(*least) : shape_of(*least) + " to " + shape_of(*most);
  return std::string(name_of(dtype)) + " GEMMs, " + range;
}

void fit_gemms(BenchmarkFitting& f, DType dtype) {
  const sim::Device& device = f.cluster.device;
  const std::vector<GemmSample> samples = benchmarked_gemms(f.files, device, dtype);
  if (samples.empty()) return;
  if (device.matrix_peak[static_cast<std::size_t>(dtype)].value() <= 0.0)
    return f.fit.notes.push_back(fmt::format("{} GEMMs are left out: {} has no peak in {}",
                                             samples.size(), device.id, name_of(dtype)));
  const sim::GemmMachine before = sim::gemm_machine(device, dtype);
  const GemmFit fit =
      fit_gemm(before, prior_of(before.coefficients), samples, {.least_scale = kUsualMisfit});
  BenchmarkPart part{.measured = gemms_text(dtype, samples), .samples = samples.size()};
  part.error_before = median_error(gemm_log_errors(before, samples));
  for (const FittedValue& value : fit.values)
    change(f, part, std::string("gemm.") + name_of(dtype) + "." + value.name, value.value,
           value.standard_error);
  part.error_after =
      median_error(gemm_log_errors(sim::gemm_machine(f.cluster.device, dtype), samples));
  f.fit.parts.push_back(std::move(part));
}

// --- what is read off ---

// A median as its own part; `prior` and errors are of logarithms.
void add_median(BenchmarkFitting& f, const std::string& measured, const std::string& key,
                std::size_t samples, const Known& reading, const Known& prior, double most) {
  const Known known = combined(prior, reading);
  BenchmarkPart part{.measured = measured, .samples = samples};
  const double value = std::min(most, known.value);
  part.error_before = std::abs(prior.value / reading.value - 1.0);
  part.error_after = std::abs(value / reading.value - 1.0);
  change(f, part, key, value, value * known.error);
  f.fit.parts.push_back(std::move(part));
}

double relative_error(const Figure& figure, double least) {
  return std::max(least, figure.standard_error.value_or(0.0) / figure.value);
}

std::optional<Known> memory_fraction(const BenchmarkFitting& f, std::size_t& samples) {
  const std::vector<Repeated> rates = memory_rates(f.files, f.cluster.device);
  samples = rates.size();
  if (rates.empty()) return std::nullopt;
  const Figure rate = figure(rates);
  return Known{rate.value / f.cluster.device.memory_bandwidth.value(),
               relative_error(rate, kMemoryError)};
}

void fit_memory(BenchmarkFitting& f) {
  std::size_t samples = 0;
  const auto measured = memory_fraction(f, samples);
  if (!measured) return;
  add_median(f, "copies in device memory", "memory_fraction", samples, *measured,
             {f.cluster.device.achieved.memory_fraction, kMemorySpread}, 1.0);
}

void fit_host_link(BenchmarkFitting& f) {
  const std::vector<Repeated> rates = host_rates(f.files);
  if (rates.empty()) return;
  const Figure rate = figure(rates);
  BenchmarkPart part{.measured = "copies over the host link", .samples = rates.size()};
  part.error_before = std::abs(f.cluster.device.host_bandwidth.value() / rate.value - 1.0);
  change(f, part, "host_bytes_per_s", rate.value, rate.standard_error);
  f.fit.parts.push_back(std::move(part));
}

void note_power(BenchmarkFitting& f, const LoadedClocks& loaded) {
  const auto nominal = f.cluster.device.watts;
  if (loaded.watts)
    f.fit.notes.push_back(fmt::format(
        "power under load: {:.0f} W{}", *loaded.watts,
        loaded.limit_watts ? fmt::format(" of a limit of {:.0f} W", *loaded.limit_watts) : ""));
  if (!loaded.limit_watts || *loaded.limit_watts <= 0.0) return;
  if (!nominal || std::abs(*loaded.limit_watts / *nominal - 1.0) > kSameLimit)
    f.fit.power_limit = loaded.limit_watts;
}

void fit_clock(BenchmarkFitting& f) {
  const LoadedClocks loaded = loaded_clocks(f.files);
  if (loaded.clocks.empty()) return;
  const Figure clock = figure(loaded.clocks);
  add_median(f, "clock under load over " + loaded.over, "sustained_clock", loaded.readings,
             {clock.value, relative_error(clock, kClockError)},
             {f.cluster.device.achieved.sustained_clock, kClockSpread}, 1.0);
  if (loaded.readings < kFewReadings)
    f.fit.notes.push_back(fmt::format(
        "clock: {} readings under load alone; log a whole training run", loaded.readings));
  note_power(f, loaded);
}

// --- collectives ---

std::string collectives_text(const std::string& where,
                             const std::vector<CollectiveSample>& samples) {
  std::set<std::string> kinds, ranks;
  for (const CollectiveSample& sample : samples)
    kinds.insert(name_of(sample.kind)), ranks.insert(std::to_string(sample.ranks));
  const auto joined = [](const std::set<std::string>& words) {
    return sim::joined(std::vector<std::string>(words.begin(), words.end()), ", ");
  };
  return where + ": " + joined(kinds) + " of " + joined(ranks) + " ranks";
}

double median_error(const std::vector<CollectiveSample>& samples, const Cluster& cluster) {
  return std::expm1(describe_collectives(cluster, samples).median_abs_error);
}

LinkPrior link_prior(double fraction, sim::Seconds latency) {
  return {.fraction = fraction,
          .fraction_spread = kFractionSpread,
          .latency = latency.value(),
          .latency_spread = kLatencySpread,
          .options = {.least_scale = kUsualMisfit}};
}

template <class Fit>
void fit_links(BenchmarkFitting& f, const std::string& where,
               const std::vector<CollectiveSample>& samples, Fit fit) {
  if (samples.empty()) return;
  BenchmarkPart part{.measured = collectives_text(where, samples), .samples = samples.size()};
  part.error_before = median_error(samples, f.cluster);
  for (const FittedValue& value : fit(f.cluster, samples).values)
    change(f, part, value.name, value.value, value.standard_error);
  part.error_after = median_error(samples, f.cluster);
  f.fit.parts.push_back(std::move(part));
}

// A network that is faster than the links inside of nodes sets no collective's rate: its share is
// not known from them.
void note_unknown_network(BenchmarkFitting& f) {
  constexpr double kKnown = 0.1;
  for (const BenchmarkPart& part : f.fit.parts)
    for (const BenchmarkChange& one : part.changes)
      if (one.key == "scale_out_fraction" && one.standard_error.value_or(0.0) > kKnown * one.after)
        f.fit.notes.push_back(fmt::format(
            "scale_out_fraction: these messages hardly tell it, +- {:.0f} %; where links inside of "
            "nodes are as slow as the network, it sets no rate",
            100.0 * *one.standard_error / one.after));
}

// Rows of a system win over those of its device.
void note_rows_of_system(BenchmarkFitting& f) {
  for (const hwdb::Coefficient& row : f.database.coefficients("system", f.cluster.id)) {
    for (const BenchmarkPart& part : f.fit.parts)
      for (const BenchmarkChange& one : part.changes)
        if (one.key == row.key)
          f.fit.notes.push_back("system " + f.cluster.id + " has its own " + row.key +
                                ", which wins where it is named");
  }
}

bool has_links(BenchmarkFitting& f, const BenchmarkedCollectives& all) {
  const bool fabric = f.cluster.fabric.device_bandwidth.value() > 0.0 &&
                      f.cluster.fabric.kind != sim::FabricKind::Loopback;
  const bool any = !all.one_node.empty() || !all.several_nodes.empty() || !all.all_to_alls.empty();
  if (any && !fabric)
    f.fit.notes.push_back("collectives are left out: no links between devices are known of " +
                          f.cluster.device.id);
  return any && fabric;
}

void fit_collectives(BenchmarkFitting& f) {
  const BenchmarkedCollectives all = benchmarked_collectives(f.files, f.cluster);
  f.fit.notes.insert(f.fit.notes.end(), all.left_out.begin(), all.left_out.end());
  if (!has_links(f, all)) return;
  fit_links(f, "one node", all.one_node, [](const Cluster& cluster, const auto& samples) {
    return fit_fabric(
        cluster, samples,
        link_prior(cluster.device.achieved.collective_fraction, cluster.fabric.latency));
  });
  if (f.cluster.network.node_bandwidth.value() <= 0.0) return;
  fit_links(f, "several nodes", all.several_nodes, [](const Cluster& cluster, const auto& samples) {
    return fit_network(
        cluster, samples,
        link_prior(cluster.device.achieved.scale_out_fraction, cluster.network.latency));
  });
  if (all.all_to_alls.size() >= kFewAllToAlls)
    fit_links(f, "several nodes", all.all_to_alls, fit_all_to_all);
  else if (!all.all_to_alls.empty())
    f.fit.notes.push_back(fmt::format("{} all-to-alls over several nodes are too few for a fit",
                                      all.all_to_alls.size()));
}

// --- sites ---

std::vector<Repeated> log_ratios(const std::vector<CollectiveSample>& samples,
                                 const Cluster& cluster) {
  std::vector<Repeated> ratios;
  for (const CollectiveSample& sample : samples)
    if (sample.message >= kLargeMessage)
      ratios.push_back({std::log(predicted(sample, cluster) / sample.time), 0.0});
  return ratios;
}

// Of an effect that is 0 +- `prior`.
void set_effect(double hwdb::SiteEffects::*effect, double measured, double error,
                hwdb::Site& site) {
  const double prior = site.deviations.*effect;
  const double share = prior * prior / (prior * prior + error * error);
  site.effects.*effect = share * measured;
  site.deviations.*effect = prior * std::sqrt(1.0 - share);
}

bool learn_network(const BenchmarkFitting& f, hwdb::Site& site) {
  const BenchmarkedCollectives all = benchmarked_collectives(f.files, f.cluster);
  std::vector<Repeated> ratios = log_ratios(all.several_nodes, f.cluster);
  if (ratios.empty()) ratios = log_ratios(all.one_node, f.cluster);
  if (ratios.empty()) return false;
  const Figure ratio = figure(ratios);
  set_effect(&hwdb::SiteEffects::network, ratio.value,
             std::max(kUsualMisfit, ratio.standard_error.value_or(0.0)), site);
  return true;
}

bool learn_memory(const BenchmarkFitting& f, hwdb::Site& site) {
  std::size_t samples = 0;
  const auto measured = memory_fraction(f, samples);
  if (!measured) return false;
  set_effect(&hwdb::SiteEffects::memory,
             std::log(measured->value / f.cluster.device.achieved.memory_fraction), measured->error,
             site);
  return true;
}

BenchmarkFitting fitting_of(const hwdb::Database& database, const std::string& like,
                            std::span<const BenchmarkFile> files) {
  int ranks = 1;
  for (const BenchmarkFile& file : files)
    for (const hwdb::MeasuredCollective& one : file.collectives) ranks = std::max(ranks, one.ranks);
  // Whole nodes: devices that do not fill them would be spread over smaller ones.
  Cluster cluster = hwdb::cluster(database, like, 1).cluster;
  const int per_node = cluster.devices_per_node, nodes = (ranks + per_node - 1) / per_node;
  if (nodes > 1) cluster = hwdb::cluster(database, like, nodes * per_node).cluster;
  return {database, files, cluster, {.like = cluster.device.id}};
}

// Names that the files give, each once.
std::vector<std::string> names_in(std::span<const BenchmarkFile> files) {
  std::vector<std::string> names;
  for (const BenchmarkFile& file : files)
    if (!file.device_name.empty() &&
        std::find(names.begin(), names.end(), file.device_name) == names.end())
      names.push_back(file.device_name);
  return names;
}

void note_other_devices(BenchmarkFitting& f) {
  for (const std::string& name : names_in(f.files)) {
    const std::vector<std::string> ids = hwdb::accelerators_named(f.database, name);
    if (!ids.empty() && std::find(ids.begin(), ids.end(), f.fit.like) == ids.end())
      f.fit.notes.push_back("the files name a " + name + ", which is " + sim::joined(ids, " or ") +
                            ", not " + f.fit.like);
  }
}

}  // namespace

std::vector<hwdb::Coefficient> BenchmarkFit::coefficients(const std::string& id,
                                                          const std::string& source) const {
  std::vector<hwdb::Coefficient> rows;
  for (const BenchmarkPart& part : parts) {
    for (const BenchmarkChange& one : part.changes)
      rows.push_back({.scope = "device",
                      .id = id,
                      .key = one.key,
                      .value = one.after,
                      .standard_error = one.standard_error,
                      .evidence = sim::Evidence::Fitted,
                      .source = source,
                      .fitted_from = part.measured});
  }
  return rows;
}

std::string benchmarked_device(const hwdb::Database& database,
                               std::span<const BenchmarkFile> files) {
  std::set<std::string> found;
  for (const std::string& name : names_in(files)) {
    const std::vector<std::string> ids = hwdb::accelerators_named(database, name);
    if (ids.size() > 1)
      throw Error("the files name a device '" + name + "', which may be " +
                  sim::joined(ids, " or ") + "; pass --like");
    if (ids.empty())
      throw Error("the files name a device '" + name + "', which the catalogue does not have" +
                  hwdb::did_you_mean(name, database.names(hwdb::HardwareKind::Accelerator)) +
                  "; pass --like with a device that is like it ('llmsim hardware list')");
    found.insert(ids.front());
  }
  if (found.empty())
    throw Error(
        "the files do not name their device; pass --like, for example --like h100_sxm ('llmsim "
        "hardware list')");
  if (found.size() > 1)
    throw Error("the files are of several devices, " +
                sim::joined(std::vector<std::string>(found.begin(), found.end()), ", ") +
                "; give those of one device, or pass --like");
  return *found.begin();
}

BenchmarkFit fit_benchmarks(const hwdb::Database& database, const std::string& like,
                            std::span<const BenchmarkFile> files) {
  BenchmarkFitting f = fitting_of(database, like, files);
  note_other_devices(f);
  for (int i = 0; i < sim::kNumDTypes; ++i) fit_gemms(f, static_cast<DType>(i));
  fit_memory(f);
  fit_host_link(f);
  fit_clock(f);
  fit_collectives(f);
  note_unknown_network(f);
  note_rows_of_system(f);
  for (const BenchmarkFile& file : files)
    for (const std::string& why : file.left_out) f.fit.notes.push_back(file.file + ": " + why);
  if (f.fit.parts.empty())
    throw Error("nothing in these files can be fitted" +
                (f.fit.notes.empty() ? "" : ": " + f.fit.notes.front()));
  return std::move(f.fit);
}

hwdb::Site benchmarked_site(const hwdb::Database& database, const std::string& like,
                            std::span<const BenchmarkFile> files, const std::string& name) {
  const BenchmarkFitting f = fitting_of(database, like, files);
  hwdb::Site site;
  site.name = name;
  site.deviations = SitePriors{}.spreads;
  const bool network = learn_network(f, site), memory = learn_memory(f, site);
  if (!network && !memory)
    throw Error(
        "a site holds what collectives and copies in device memory say, of which these files have "
        "none of use; store what GEMMs and clocks say as a device, with --name");
  site.source =
      "benchmarks (calibrate/benchmark_fit.h) over " + f.fit.like + ", " + database.version();
  site.fitted_from = source_of(files);
  return site;
}

std::string source_of(std::span<const BenchmarkFile> files) {
  std::vector<std::string> texts;
  for (const BenchmarkFile& file : files)
    texts.push_back(file.program + " (" + file.file.substr(file.file.find_last_of("/\\") + 1) +
                    ")");
  constexpr std::size_t kNamed = 8;
  const std::size_t more = texts.size() - std::min(texts.size(), kNamed);
  texts.resize(texts.size() - more);
  return sim::joined(texts, "; ") +
         (more > 0 ? " and " + std::to_string(more) + " more files" : "");
}

}  // namespace llmsim::calibrate
