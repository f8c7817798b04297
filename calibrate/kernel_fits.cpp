#include "calibrate/kernel_fits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "calibrate/kernel_fit_table.h"
#include "calibrate/statistics.h"
#include "calibrate/sustained_clock.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/text/rounding.h"

namespace llmsim::calibrate {
namespace {

using hwdb::Database;
using sim::DType;
using sim::GemmMachine;

// The collector of all grids; others time other libraries or shorter runs.
constexpr const char* kGridCollector = "trtllm 1.3.0rc20";

std::string percent(double share) { return three_digits(100.0 * share) + " %"; }

std::string listed(const std::vector<FittedValue>& values) {
  std::string text;
  for (const FittedValue& value : values) {
    text += (text.empty() ? "" : ", ") + value.name + " " + three_digits(value.value) + " ± " +
            three_digits(value.standard_error);
  }
  return text;
}

// The shape of the curve as another device has it, but its own height.
GemmPrior held_at(const sim::GemmCoefficients& c) {
  GemmPrior prior;
  prior.k_half = {c.k_half, 0.0};
  prior.wave_quantisation = {c.wave_quantisation, 0.0};
  prior.kernel_time = {c.kernel_time.value(), 0.0};
  return prior;
}

struct Source {
  sim::Evidence evidence = sim::Evidence::Fitted;
  std::string source;
  std::string fitted_from{};
};

// Carries out the lines of the table, one after the other.
class KernelFitter {
 public:
  explicit KernelFitter(const Database& database) : database_(database) {}

  KernelFits take() { return std::move(fits_); }

  void operator()(const FitGrids& line) {
    GemmPrior prior;
    for (const GemmGrid& grid : gemm_grids(database_, line.id)) {
      GemmMachine machine = machine_of({line.id, grid.dtype});
      const GemmFit fit = fit_gemm(machine, prior, grid.samples);
      add_fit({line.id, grid.dtype}, fit, grid.source);
      machine.coefficients = fit.coefficients;
      fitted_[{line.id, grid.dtype}] = machine;
      if (grid.dtype == DType::Bf16) prior = prior_from(fit, 0.3);
    }
  }

  void operator()(const FitBestGemm& line) {
    const std::map<std::string, double> best = best_gemms(database_, line.gemms),
                                        best_like = best_gemms(database_, line.like);
    std::vector<double> rates, ratios;
    for (const auto& [collector, rate] : best) {
      rates.push_back(std::log(rate));
      if (best_like.contains(collector)) ratios.push_back(std::log(rate / best_like.at(collector)));
    }
    const double spread = std::max(0.05, std::min(scatter(rates), scatter(ratios)));
    const double ratio = best.at(kGridCollector) / best_like.at(kGridCollector);
    const GemmMachine& reference = fitted_.at(line.like);
    GemmMachine machine = machine_of(line.gemms);
    machine.coefficients = reference.coefficients;
    machine.coefficients.max_efficiency *= ratio * (reference.peak / machine.peak);
    const sim::GemmCoefficients& c = machine.coefficients;
    const std::vector<FittedValue> values{
        {"k_half", c.k_half, 0.5 * c.k_half},
        {"kernel_time_s", c.kernel_time.value(), 0.3 * c.kernel_time.value()},
        {"max_efficiency", c.max_efficiency, spread * c.max_efficiency},
        {"wave_quantisation", c.wave_quantisation, 0.2}};
    const Source source{sim::Evidence::Fitted,
                        "curve of " + line.like.id + " " + name_of(line.like.dtype) +
                            ", height by the best GEMMs of ai-dynamo/aiconfigurator @095f58a "
                            "(2026-08-21), trtllm 1.3.0rc20",
                        "best GEMM " + three_digits(ratio) + " times as fast; all collectors " +
                            three_digits(std::exp(mean(ratios)))};
    add_values(line.gemms, values, source);
    if (line.gemms.dtype == DType::Bf16) add_like(line.gemms, values, source);
    fits_.summaries.push_back(
        {line.gemms.id, what(line.gemms.dtype), listed(values), ratios.size(), spread, {}});
    fitted_[line.gemms] = machine;
  }

  void operator()(const FitTrainingShapes& line) {
    GemmPrior prior = held_at(fitted_.at({line.like, DType::Bf16}).coefficients);
    prior.weight_gradient_factor.spread = 1.0;
    const GemmsOf gemms{line.id, DType::Bf16};
    const GemmFit fit = fit_gemm(machine_of(gemms), prior, training_shapes(database_, line.id));
    add_fit(gemms, fit, training_shapes_source(database_, line.id));
  }

  void operator()(const FitWeightGradient& line) {
    const GemmsOf gemms{line.id, DType::Bf16};
    GemmPrior prior = held_at(fitted_.at(gemms).coefficients);
    prior.weight_gradient_factor.spread = 1.0;
    GemmFit fit = fit_gemm(fitted_.at(gemms), prior, training_shapes(database_, line.id));
    fit.values.erase(fit.values.begin());  // max_efficiency
    add_fit(gemms, fit, training_shapes_source(database_, line.id));
  }

  // The 16-bit format of a table stands for bf16.
  void operator()(const FitLargeGemms& line) {
    const std::vector<GemmSample> samples =
        large_gemms(gemm_table(database_, line.gemms.id, "", line.gemms.dtype));
    if (samples.empty()) return;
    GemmPrior prior = line.like ? held_at(curves_.at(*line.like)) : GemmPrior{};
    if (!line.like) prior.kernel_time = {line.kernel_time_s, 0.0};
    GemmMachine machine = machine_of(line.gemms);
    const GemmFit fit = fit_gemm(machine, prior, samples);
    add_fit(line.gemms, fit, "large GEMMs of the matmul tables of " + line.gemms.id);
    machine.coefficients = curves_[line.gemms] = fit.coefficients;
    if (line.gemms.dtype != DType::Fp8) fitted_[{line.gemms.id, DType::Bf16}] = machine;
  }

  void operator()(const AssumeCurve& line) {
    const sim::GemmCoefficients& c =
        curves_.contains(line.like) ? curves_.at(line.like) : fitted_.at(line.like).coefficients;
    add_values(line.gemms,
               {{"k_half", c.k_half, 0.5 * c.k_half},
                {"wave_quantisation", c.wave_quantisation, 0.2},
                {"kernel_time_s", c.kernel_time.value(), line.kernel_time_error_s}},
               {sim::Evidence::Assumed, "as " + line.like.id + " " + name_of(line.like.dtype)});
    const GemmsOf wide{line.gemms.id, DType::Bf16};
    if (fitted_.contains(wide)) return;
    // Stands for 16-bit GEMMs where nothing else does.
    GemmMachine& machine = fitted_[wide] = machine_of(line.gemms);
    machine.coefficients.k_half = c.k_half;
    machine.coefficients.kernel_time = c.kernel_time;
  }

  void operator()(const AssumeFp32Curve& line) {
    const GemmsOf gemms{line.id, DType::Fp32};
    const GemmMachine& wide = fitted_.at({line.id, DType::Bf16});
    const double share = machine_of(gemms).peak / wide.peak;
    const double k_half = share * wide.coefficients.k_half,
                 kernel_time = wide.coefficients.kernel_time.value();
    add_values(
        gemms,
        {{"k_half", k_half, 0.5 * k_half}, {"kernel_time_s", kernel_time, 0.3 * kernel_time}},
        {sim::Evidence::Assumed,
         "as 16-bit GEMMs: a time, in elements at " + three_digits(share) + " of their rate"});
  }

  void operator()(const FitSustainedClock& line) {
    const auto wide = sustained_clocks(database_, line.ids, fitted_, DType::Bf16);
    const auto narrow = sustained_clocks(database_, line.ids, fitted_, DType::Fp8);
    const std::string source =
        "long-running GEMMs over the fitted short ones, mean of sources, by power limit";
    for (std::size_t i = 0; i < line.ids.size(); ++i) {
      add(line.ids[i], "sustained_clock", wide->clocks[i], wide->error,
          {sim::Evidence::Fitted, source, wide->fitted_from});
      if (!narrow || !fitted_.contains({line.ids[i], DType::Fp8})) continue;
      const double factor = narrow->clocks[i] / wide->clocks[i];
      const double error = std::hypot(narrow->error, wide->error) * factor;
      add(line.ids[i], "gemm.fp8.clock_factor", factor, error,
          {sim::Evidence::Fitted, source + ", over the clock of 16-bit GEMMs",
           narrow->fitted_from});
      if (fitted_.contains({line.ids[i], DType::Fp4}))
        add(line.ids[i], "gemm.fp4.clock_factor", factor, error,
            {sim::Evidence::Assumed, "as " + line.ids[i] + " fp8: nobody ran 4-bit GEMMs long"});
    }
  }

  void operator()(const StateCoefficient& line) { fits_.coefficients.push_back(line.row); }

  void operator()(const FitAttention& line) {
    const std::vector<AttentionSample> samples =
        attention_table(database_, line.id, line.implementations);
    const std::string& name = line.implementations.front();
    const sim::Device device = hwdb::device(database_, line.id).device;
    const AttentionFit fit = fit_attention(
        sim::attention_machine(device, DType::Bf16, sim::AttentionKernel::Flash2), samples);
    fits_.summaries.push_back(
        {line.id, "attention, " + name, listed(fit.values), fit.samples, fit.rms, std::nullopt});
    if (!line.kernel) return;
    const Source source{sim::Evidence::Fitted, name + ": attention tables of " + line.id,
                        std::to_string(fit.samples) + " rates, RMS error " + percent(fit.rms)};
    for (const FittedValue& value : fit.values)
      add(line.id, "attention." + *line.kernel + value.name, value.value, value.standard_error,
          source);
    attention_[{line.id, *line.kernel}] = fit;
  }

  void operator()(const AssumeAttention& line) {
    for (const FittedValue& value : attention_.at({line.like, line.like_kernel}).values) {
      const bool rate = value.name == "forward" || value.name == "backward";
      const double scaled = rate ? line.factor * value.value : value.value;
      add(line.id, "attention." + line.kernel + value.name, scaled,
          std::hypot(value.standard_error, 0.25 * scaled), {sim::Evidence::Assumed, line.why});
    }
  }

  void operator()(const FitFabric& line) {
    const std::vector<CollectiveSample> samples =
        collective_curves(database_, line.id, true, std::nullopt);
    const CollectiveFit fit = fit_fabric(hwdb::cluster(database_, line.id, 8).cluster, samples);
    const Source source{
        sim::Evidence::Fitted,
        "collective curves of " + line.id + " on one node, messages of 16 KiB and more",
        std::to_string(fit.samples) + " times, median error " + percent(fit.median_abs_error)};
    for (const FittedValue& value : fit.values)
      add(line.id, value.name, value.value, value.standard_error, source);
    add_collective_summary(line.id, "collectives, one node", fit);
  }

  void operator()(const FitAllToAll& line) {
    std::vector<CollectiveSample> samples =
        collective_curves(database_, line.id, false, line.system);
    std::erase_if(samples, [](const CollectiveSample& sample) {
      return sample.kind != sim::CollectiveKind::AllToAll;
    });
    const CollectiveFit fit =
        fit_all_to_all(hwdb::cluster(database_, line.system, 16).cluster, samples);
    const Source source{
        sim::Evidence::Fitted, "all-to-all curves of " + line.system + " over several nodes",
        std::to_string(fit.samples) + " times, median error " + percent(fit.median_abs_error)};
    for (const FittedValue& value : fit.values) {
      add_to("system", line.system, value.name, value.value, value.standard_error, source);
      for (const std::string& like : line.alike)
        add_to("system", like, value.name, value.value, 0.5 * value.value,
               {sim::Evidence::Assumed,
                "as " + line.system + ", whose adapters are of an earlier generation"});
    }
    add_collective_summary(line.system, "all-to-alls, many nodes", fit);
  }

  void operator()(const DescribeNetwork& line) {
    const std::vector<CollectiveSample> samples =
        collective_curves(database_, line.id, false, line.system);
    const std::string name = line.system.value_or(line.id);
    add_collective_summary(
        name, "collectives, many nodes",
        describe_collectives(hwdb::cluster(database_, name, 16).cluster, samples));
  }

 private:
  GemmMachine machine_of(const GemmsOf& gemms) const {
    return sim::gemm_machine(hwdb::device(database_, gemms.id).device, gemms.dtype);
  }

  static std::string what(DType dtype) { return std::string("gemm ") + name_of(dtype); }

  void add(const std::string& id, const std::string& key, double value, double error,
           const Source& from) {
    add_to("device", id, key, value, error, from);
  }

  void add_to(const char* scope, const std::string& id, const std::string& key, double value,
              double error, const Source& from) {
    fits_.coefficients.push_back({scope, id, key, hwdb::rounded(value, 4), hwdb::rounded(error, 2),
                                  from.evidence, from.source, from.fitted_from,
                                  hwdb::Origin::Shipped});
  }

  void add_values(const GemmsOf& gemms, const std::vector<FittedValue>& values,
                  const Source& source) {
    const std::string prefix = std::string("gemm.") + name_of(gemms.dtype) + ".";
    for (const FittedValue& value : values)
      add(gemms.id, prefix + value.name, value.value, value.standard_error, source);
  }

  // What is fitted for one format serves the other 16-bit format and tf32 until they are measured.
  void add_like(const GemmsOf& gemms, const std::vector<FittedValue>& values,
                const Source& source) {
    for (const DType dtype : {DType::Tf32, DType::Fp16, DType::Bf16}) {
      const double peak = hwdb::device(database_, gemms.id)
                              .device.matrix_peak[static_cast<std::size_t>(dtype)]
                              .value();
      if (dtype == gemms.dtype || peak <= 0.0) continue;
      std::vector<FittedValue> wider = values;
      for (FittedValue& value : wider)
        value.standard_error = std::hypot(value.standard_error, 0.05 * value.value);
      add_values({gemms.id, dtype}, wider,
                 {sim::Evidence::Assumed,
                  std::string("as ") + name_of(gemms.dtype) + ": " + source.source});
    }
  }

  void add_fit(const GemmsOf& gemms, const GemmFit& fit, const std::string& measured) {
    const Source source{sim::Evidence::Fitted, measured,
                        std::to_string(fit.samples) + " GEMMs, RMS error " + percent(fit.rms)};
    add_values(gemms, fit.values, source);
    if (gemms.dtype != DType::Fp8) add_like(gemms, fit.values, source);
    fits_.summaries.push_back(
        {gemms.id, what(gemms.dtype), listed(fit.values), fit.samples, fit.rms, fit.rms_large});
  }

  void add_collective_summary(const std::string& id, const std::string& name,
                              const CollectiveFit& fit) {
    const std::string median = "median error " + percent(fit.median_abs_error);
    const std::string values = fit.values.empty() ? median : listed(fit.values) + "; " + median;
    fits_.summaries.push_back({id, name, values, fit.samples, fit.rms, std::nullopt});
  }

  const Database& database_;
  KernelFits fits_;
  FittedMachines fitted_;  // by device and format; tables of 16 bits as bf16
  std::map<GemmsOf, sim::GemmCoefficients> curves_;  // of tables, by the format that was measured
  std::map<std::pair<std::string, std::string>, AttentionFit> attention_;  // by device and kernel
};

}  // namespace

KernelFits kernel_fits(const Database& database) {
  KernelFitter fitter(database);
  for (const KernelFitLine& line : kernel_fit_table()) std::visit(fitter, line);
  return fitter.take();
}

}  // namespace llmsim::calibrate
