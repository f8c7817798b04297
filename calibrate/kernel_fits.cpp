#include "calibrate/kernel_fits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "calibrate/measured_kernels.h"
#include "calibrate/statistics.h"
#include "calibrate/sustained_clock.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/text/rounding.h"
#include "sim/base/error.h"

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

  // All grids of a device; that of bf16, which comes first, is the prior of the low-precision
  // formats.
  void grids_of(const std::string& id, const KernelFitLine&) {
    GemmPrior prior;
    for (const GemmGrid& grid : gemm_grids(database_, id)) {
      GemmMachine machine = machine_of({id, grid.dtype});
      const GemmFit fit = fit_gemm(machine, prior, grid.samples);
      add_fit({id, grid.dtype}, fit, grid.source);
      machine.coefficients = fit.coefficients;
      fitted_[{id, grid.dtype}] = machine;
      if (grid.dtype == DType::Bf16) prior = prior_from(fit, 0.3);
    }
  }

  // GEMMs without a grid have the curve of others, `like`, and the height that the best GEMM of the
  // same collector gives:
  //
  //   max_efficiency P = like.max_efficiency like.P best / like.best      P the data sheet's peaks
  //
  // Collectors differ by their kernels, of either: the error is the smaller of what the ratios and
  // the rates themselves scatter by, and at least 5 %.
  void best_gemm_of(const std::string& id, const KernelFitLine& line) {
    const GemmsOf gemms = gemms_of(id, line.format), like = like_of(id, line);
    const std::map<std::string, double> best = best_gemms(database_, gemms),
                                        best_like = best_gemms(database_, like);
    std::vector<double> rates, ratios;
    for (const auto& [collector, rate] : best) {
      rates.push_back(std::log(rate));
      if (best_like.contains(collector)) ratios.push_back(std::log(rate / best_like.at(collector)));
    }
    const double spread = std::max(0.05, std::min(scatter(rates), scatter(ratios)));
    const double ratio = best.at(kGridCollector) / best_like.at(kGridCollector);
    const GemmMachine& reference = fitted_.at(like);
    GemmMachine machine = machine_of(gemms);
    machine.coefficients = reference.coefficients;
    machine.coefficients.max_efficiency *= ratio * (reference.peak / machine.peak);
    const sim::GemmCoefficients& c = machine.coefficients;
    const std::vector<FittedValue> values{
        {"k_half", c.k_half, 0.5 * c.k_half},
        {"kernel_time_s", c.kernel_time.value(), 0.3 * c.kernel_time.value()},
        {"max_efficiency", c.max_efficiency, spread * c.max_efficiency},
        {"wave_quantisation", c.wave_quantisation, 0.2}};
    const Source source{sim::Evidence::Fitted,
                        "curve of " + like.id + " " + name_of(like.dtype) +
                            ", height by the best GEMMs of ai-dynamo/aiconfigurator @095f58a "
                            "(2026-08-21), trtllm 1.3.0rc20",
                        "best GEMM " + three_digits(ratio) + " times as fast; all collectors " +
                            three_digits(std::exp(mean(ratios)))};
    add_values(gemms, values, source);
    if (gemms.dtype == DType::Bf16) add_like(gemms, values, source);
    fits_.summaries.push_back(
        {gemms.id, what(gemms.dtype), listed(values), ratios.size(), spread, {}});
    fitted_[gemms] = machine;
  }

  // The shapes of a training process, bf16: height and weight-gradient factor under the curve of
  // `like`.
  void training_shapes_of(const std::string& id, const KernelFitLine& line) {
    GemmPrior prior = held_at(fitted_.at({line.like, DType::Bf16}).coefficients);
    prior.weight_gradient_factor.spread = 1.0;
    const GemmsOf gemms{id, DType::Bf16};
    const GemmFit fit = fit_gemm(machine_of(gemms), prior, training_shapes(database_, id));
    add_fit(gemms, fit, training_shapes_source(database_, id));
  }

  // The weight-gradient factor alone of a device whose other coefficients its grid gives; the clock
  // of the training process is free.
  void weight_gradient_of(const std::string& id, const KernelFitLine&) {
    const GemmsOf gemms{id, DType::Bf16};
    GemmPrior prior = held_at(fitted_.at(gemms).coefficients);
    prior.weight_gradient_factor.spread = 1.0;
    GemmFit fit = fit_gemm(fitted_.at(gemms), prior, training_shapes(database_, id));
    fit.values.erase(fit.values.begin());  // max_efficiency
    add_fit(gemms, fit, training_shapes_source(database_, id));
  }

  // Large GEMMs that were measured one by one, if there are any: the height, under the curve of
  // another device's GEMMs if there is one.  Tables of launches that were timed with events say
  // nothing of the kernel time, which is stated.  The 16-bit format of a table stands for bf16.
  void large_gemms_of(const std::string& id, const KernelFitLine& line) {
    const GemmsOf gemms = gemms_of(id, line.format), like = like_of(id, line);
    const std::vector<GemmSample> samples =
        large_gemms(gemm_table(database_, gemms.id, "", gemms.dtype));
    if (samples.empty()) return;
    GemmPrior prior = !line.like.empty() ? held_at(curves_.at(like)) : GemmPrior{};
    if (line.like.empty()) prior.kernel_time = {line.kernel_time.value(), 0.0};
    GemmMachine machine = machine_of(gemms);
    const GemmFit fit = fit_gemm(machine, prior, samples);
    add_fit(gemms, fit, "large GEMMs of the matmul tables of " + gemms.id);
    machine.coefficients = curves_[gemms] = fit.coefficients;
    if (gemms.dtype != DType::Fp8) fitted_[{gemms.id, DType::Bf16}] = machine;
  }

  // Nobody measured the curve: that of `like`, its kernel time with the stated error.
  void assumed_curve_of(const std::string& id, const KernelFitLine& line) {
    const GemmsOf gemms = gemms_of(id, line.format), like = like_of(id, line);
    const sim::GemmCoefficients& c =
        curves_.contains(like) ? curves_.at(like) : fitted_.at(like).coefficients;
    add_values(gemms,
               {{"k_half", c.k_half, 0.5 * c.k_half},
                {"wave_quantisation", c.wave_quantisation, 0.2},
                {"kernel_time_s", c.kernel_time.value(), line.kernel_time_error.value()}},
               {sim::Evidence::Assumed, "as " + like.id + " " + name_of(like.dtype)});
    const GemmsOf wide{gemms.id, DType::Bf16};
    if (fitted_.contains(wide)) return;
    // Stands for 16-bit GEMMs where nothing else does.
    GemmMachine& machine = fitted_[wide] = machine_of(gemms);
    machine.coefficients.k_half = c.k_half;
    machine.coefficients.kernel_time = c.kernel_time;
  }

  // Nobody measured GEMMs in fp32.  k_half is the fill and drain of the K loop, a time, in elements
  // of K at the format's rate: it shrinks with the peak.
  void assumed_fp32_curve_of(const std::string& id, const KernelFitLine&) {
    const GemmsOf gemms{id, DType::Fp32};
    const GemmMachine& wide = fitted_.at({id, DType::Bf16});
    const double share = machine_of(gemms).peak / wide.peak;
    const double k_half = share * wide.coefficients.k_half,
                 kernel_time = wide.coefficients.kernel_time.value();
    add_values(
        gemms,
        {{"k_half", k_half, 0.5 * k_half}, {"kernel_time_s", kernel_time, 0.3 * kernel_time}},
        {sim::Evidence::Assumed,
         "as 16-bit GEMMs: a time, in elements at " + three_digits(share) + " of their rate"});
  }

  // Of devices with one chip, see sustained_clock.h.
  void sustained_clock_of(const std::string&, const KernelFitLine& line) {
    const auto wide = sustained_clocks(database_, line.chip, fitted_, DType::Bf16);
    const auto narrow = sustained_clocks(database_, line.chip, fitted_, DType::Fp8);
    const std::string source =
        "long-running GEMMs over the fitted short ones, mean of sources, by power limit";
    for (std::size_t i = 0; i < line.chip.size(); ++i) {
      add(line.chip[i], "sustained_clock", wide->clocks[i], wide->error,
          {sim::Evidence::Fitted, source, wide->fitted_from});
      if (!narrow || !fitted_.contains({line.chip[i], DType::Fp8})) continue;
      const double factor = narrow->clocks[i] / wide->clocks[i];
      const double error = std::hypot(narrow->error, wide->error) * factor;
      add(line.chip[i], "gemm.fp8.clock_factor", factor, error,
          {sim::Evidence::Fitted, source + ", over the clock of 16-bit GEMMs",
           narrow->fitted_from});
      if (fitted_.contains({line.chip[i], DType::Fp4}))
        add(line.chip[i], "gemm.fp4.clock_factor", factor, error,
            {sim::Evidence::Assumed, "as " + line.chip[i] + " fp8: nobody ran 4-bit GEMMs long"});
    }
  }

  void attention_of(const std::string& id, const KernelFitLine& line) {
    const std::vector<AttentionSample> samples =
        attention_table(database_, id, line.implementations);
    const std::string& name = line.implementations.front();
    const sim::Device device = hwdb::device(database_, id).device;
    const AttentionFit fit = fit_attention(
        sim::attention_machine(device, DType::Bf16, sim::AttentionKernel::Flash2), samples);
    fits_.summaries.push_back(
        {id, "attention, " + name, listed(fit.values), fit.samples, fit.rms, std::nullopt});
    if (!line.kernel) return;
    const Source source{sim::Evidence::Fitted, name + ": attention tables of " + id,
                        std::to_string(fit.samples) + " rates, RMS error " + percent(fit.rms)};
    add_values(id, "attention." + *line.kernel, fit.values, source);
    attention_[{id, *line.kernel}] = fit;
  }

  // Nobody measured the kernel: a fraction of what `like_kernel` reaches on the nearest device that
  // was.
  void assumed_attention_of(const std::string& id, const KernelFitLine& line) {
    for (const FittedValue& value :
         attention_.at({like_of(id, line).id, line.like_kernel}).values) {
      const bool rate = value.name == "forward" || value.name == "backward";
      const double scaled = rate ? line.factor * value.value : value.value;
      add(id, "attention." + *line.kernel + value.name, scaled,
          std::hypot(value.standard_error, 0.25 * scaled), {sim::Evidence::Assumed, line.why});
    }
  }

  // Curves of collectives on one node.
  void fabric_of(const std::string& id, const KernelFitLine&) {
    const std::vector<CollectiveSample> samples =
        collective_curves(database_, id, true, std::nullopt);
    const CollectiveFit fit = fit_fabric(hwdb::cluster(database_, id, 8).cluster, samples);
    const Source source{
        sim::Evidence::Fitted,
        "collective curves of " + id + " on one node, messages of 16 KiB and more",
        std::to_string(fit.samples) + " times, median error " + percent(fit.median_abs_error)};
    add_values(id, "", fit.values, source);
    add_collective_summary(id, "collectives, one node", fit);
  }

  // All-to-alls of a system over many nodes; systems whose network is like it take the values over.
  void all_to_all_of(const std::string& id, const KernelFitLine& line) {
    std::vector<CollectiveSample> samples = collective_curves(database_, id, false, line.system);
    std::erase_if(samples, [](const CollectiveSample& sample) {
      return sample.kind != sim::CollectiveKind::AllToAll;
    });
    const CollectiveFit fit =
        fit_all_to_all(hwdb::cluster(database_, *line.system, 16).cluster, samples);
    const Source source{
        sim::Evidence::Fitted, "all-to-all curves of " + *line.system + " over several nodes",
        std::to_string(fit.samples) + " times, median error " + percent(fit.median_abs_error)};
    for (const FittedValue& value : fit.values) {
      add_to("system", *line.system, value.name, value.value, value.standard_error, source);
      for (const std::string& like : line.alike)
        add_to("system", like, value.name, value.value, 0.5 * value.value,
               {sim::Evidence::Assumed,
                "as " + *line.system + ", whose adapters are of an earlier generation"});
    }
    add_collective_summary(*line.system, "all-to-alls, many nodes", fit);
  }

  // Networks are described, not fitted: two nodes do not tell a latency that holds for hundreds.
  void network_of(const std::string& id, const KernelFitLine& line) {
    const std::vector<CollectiveSample> samples =
        collective_curves(database_, id, false, line.system);
    const std::string name = line.system.value_or(id);
    add_collective_summary(
        name, "collectives, many nodes",
        describe_collectives(hwdb::cluster(database_, name, 16).cluster, samples));
  }

 private:
  static GemmsOf like_of(const std::string& id, const KernelFitLine& line) {
    return gemms_of(line.like.empty() ? id : line.like, line.like_format);
  }

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

  void add_values(const std::string& id, const std::string& prefix,
                  const std::vector<FittedValue>& values, const Source& source) {
    for (const FittedValue& value : values)
      add(id, prefix + value.name, value.value, value.standard_error, source);
  }

  void add_values(const GemmsOf& gemms, const std::vector<FittedValue>& values,
                  const Source& source) {
    add_values(gemms.id, std::string("gemm.") + name_of(gemms.dtype) + ".", values, source);
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

using Fit = void (KernelFitter::*)(const std::string& id, const KernelFitLine& line);

Fit fit_named(const std::string& name) {
  static const std::map<std::string, Fit> fits = {
      {"grids", &KernelFitter::grids_of},
      {"best_gemm", &KernelFitter::best_gemm_of},
      {"training_shapes", &KernelFitter::training_shapes_of},
      {"weight_gradient", &KernelFitter::weight_gradient_of},
      {"large_gemms", &KernelFitter::large_gemms_of},
      {"assumed_curve", &KernelFitter::assumed_curve_of},
      {"assumed_fp32_curve", &KernelFitter::assumed_fp32_curve_of},
      {"sustained_clock", &KernelFitter::sustained_clock_of},
      {"attention", &KernelFitter::attention_of},
      {"assumed_attention", &KernelFitter::assumed_attention_of},
      {"fabric", &KernelFitter::fabric_of},
      {"all_to_all", &KernelFitter::all_to_all_of},
      {"network", &KernelFitter::network_of},
  };
  const auto found = fits.find(name);
  if (found == fits.end()) throw Error("facts/kernel_fits.json: fit = " + name + ": no such fit");
  return found->second;
}

}  // namespace

KernelFits kernel_fits(const Database& database) {
  KernelFitter fitter(database);
  for (const KernelFitLine& line : kernel_fit_table()) {
    const Fit fit = fit_named(line.fit);
    if (!line.chip.empty()) (fitter.*fit)(line.chip.front(), line);
    for (const std::string& id : line.devices) (fitter.*fit)(id, line);
  }
  return fitter.take();
}

}  // namespace llmsim::calibrate
