#include "calibrate/fact_fits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "calibrate/attention_fit.h"
#include "calibrate/collective_fit.h"
#include "calibrate/gemm_fit.h"
#include "calibrate/statistics.h"
#include "hwdb/hardware.h"
#include "hwdb/measured_rows.h"
#include "sim/hardware/power_limit.h"

namespace llmsim::calibrate {
namespace {

using hwdb::Database;
using hwdb::MeasuredRow;
using hwdb::Measurement;
using sim::DType;
using sim::GemmMachine;

// --- samples ---

std::optional<DType> dtype_named(const std::string& name) {
  if (name == "bf16") return DType::Bf16;
  if (name == "fp16") return DType::Fp16;
  if (name == "fp8" || name == "fp8_e4m3") return DType::Fp8;
  return std::nullopt;
}

sim::Operator gemm(double m, double n, double k, DType dtype, DType out) {
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  return sim::gemm("measured", 1, whole(m), whole(n), whole(k), dtype, out);
}

sim::Operator product_of(const MeasuredRow& row, DType dtype) {
  return gemm(row.number("m").value(), row.number("n").value(), row.number("k").value(), dtype,
              dtype == DType::Fp8 ? DType::Bf16 : dtype);
}

struct Grid {
  DType dtype;
  std::string source;
  std::vector<GemmSample> samples;
};

Grid grid_of(const Measurement& measurement) {
  Grid grid{dtype_named(hwdb::fields(measurement).text("dtype").value()).value(), measurement.source, {}};
  for (const MeasuredRow& row : hwdb::rows(measurement)) {
    GemmSample sample{product_of(row, grid.dtype), sim::Seconds(row.number("time_us").value() * 1e-6)};
    if (grid.dtype == DType::Fp8) sample.quantised = row.number("m").value() * row.number("k").value();
    grid.samples.push_back(sample);
  }
  return grid;
}

// Kinds that say little of what the vendor's library sustains today.
bool is_typical(const std::string& kind) {
  for (const char* other : {"threshold", "MAMF v1", "HipKittens", "AITER", "sample output"}) {
    if (kind.find(other) != std::string::npos) return false;
  }
  return true;
}

// GEMMs that were measured one by one; `kind` is a part of the name of their kind.
std::vector<GemmSample> table(const Database& database, const std::string& id, const std::string& kind, DType dtype) {
  std::vector<GemmSample> samples;
  for (const Measurement& measurement : database.measurements("matmul", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    const std::string measured_as = row.text("kind").value_or("");
    if (measured_as.find(kind) == std::string::npos || !is_typical(measured_as) || !row.number("m")) continue;
    if (dtype_named(row.text("dtype").value_or("")) != dtype) continue;
    const sim::Operator op = product_of(row, dtype);
    samples.push_back({op, op.flops / sim::FlopsPerSecond(row.number("achieved_flops").value())});
  }
  return samples;
}

// Large enough that neither launches nor odd shapes matter.
std::vector<GemmSample> large(std::vector<GemmSample> samples) {
  std::erase_if(samples, [](const GemmSample& s) { return s.gemm.flops < 0.13 * sim::TFLOP || s.gemm.n % 8 != 0; });
  return samples;
}

// "b=1, m=4096, k=5120, n=1536, layout=TN, ..."
double number_after(const std::string& text, const char* name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? 0.0 : std::stod(text.substr(at + std::char_traits<char>::length(name)));
}

// Forward (TN), data-gradient (NN) and weight-gradient (NT, accumulated) GEMMs in a training process.
std::vector<GemmSample> training_shapes(const Database& database, const std::string& id) {
  std::vector<GemmSample> samples;
  for (const Measurement& measurement : database.measurements("matmul_training_shape_efficiency", id)) {
    const double peak = hwdb::fields(measurement).number("peak_flops").value();
    for (const MeasuredRow& row : hwdb::rows(measurement)) {
      if (row.text("op") != "matmul") continue;
      const std::string shape = row.text("shape").value();
      const bool weight_gradient = shape.find("layout=NT") != std::string::npos;
      sim::Operator op = gemm(number_after(shape, " m="), number_after(shape, " n="), number_after(shape, " k="), DType::Bf16,
                              weight_gradient ? DType::Fp32 : DType::Bf16);
      op.weight_gradient = weight_gradient;
      samples.push_back({op, op.flops / sim::FlopsPerSecond(peak * row.number("efficiency").value())});
    }
  }
  return samples;
}

void append(FactFits& fits, const FactFits& more) {
  fits.coefficients.insert(fits.coefficients.end(), more.coefficients.begin(), more.coefficients.end());
  fits.summaries.insert(fits.summaries.end(), more.summaries.begin(), more.summaries.end());
}

GemmMachine machine_of(const Database& database, const std::string& id, DType dtype) {
  return sim::gemm_machine(hwdb::device(database, id).device, dtype);
}

// --- rows ---

double rounded(double value, int digits) {
  if (value == 0.0) return 0.0;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

std::string printed(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

struct Origin {
  sim::Evidence evidence = sim::Evidence::Fitted;
  std::string source;
  std::string fitted_from;
};

void add(FactFits& fits, const std::string& id, const std::string& key, double value, double error, const Origin& origin) {
  fits.coefficients.push_back({"device", id, key, rounded(value, 4), rounded(error, 2), origin.evidence, origin.source,
                               origin.fitted_from, hwdb::Origin::Shipped});
}

std::string gemm_prefix(DType dtype) { return std::string("gemm.") + name_of(dtype) + "."; }

void add_values(FactFits& fits, const std::string& id, DType dtype, const std::vector<FittedValue>& values,
                const Origin& origin) {
  for (const FittedValue& value : values)
    add(fits, id, gemm_prefix(dtype) + value.name, value.value, value.standard_error, origin);
}

// What is fitted for one format serves the other 16-bit format and tf32 until they are measured.
void add_like(FactFits& fits, const Database& database, const std::string& id, DType fitted,
              const std::vector<FittedValue>& values, const Origin& origin) {
  for (const DType dtype : {DType::Tf32, DType::Fp16, DType::Bf16}) {
    const double peak = hwdb::device(database, id).device.matrix_peak[static_cast<std::size_t>(dtype)].value();
    if (dtype == fitted || peak <= 0.0) continue;
    std::vector<FittedValue> wider = values;
    for (FittedValue& value : wider) value.standard_error = std::hypot(value.standard_error, 0.05 * value.value);
    add_values(fits, id, dtype, wider, {sim::Evidence::Assumed, std::string("as ") + name_of(fitted) + ": " + origin.source, ""});
  }
}

std::string listed(const std::vector<FittedValue>& values) {
  std::string text;
  for (const FittedValue& value : values) {
    text += (text.empty() ? "" : ", ") + value.name + " " + printed(value.value) + " ± " + printed(value.standard_error);
  }
  return text;
}

void add_fit(FactFits& fits, const Database& database, const std::string& id, DType dtype, const GemmFit& fit,
             const std::string& source) {
  const Origin origin{sim::Evidence::Fitted, source,
                      std::to_string(fit.samples) + " GEMMs, RMS error " + printed(100.0 * fit.rms) + " %"};
  add_values(fits, id, dtype, fit.values, origin);
  if (dtype != DType::Fp8) add_like(fits, database, id, dtype, fit.values, origin);
  fits.summaries.push_back({id, std::string("gemm ") + name_of(dtype), listed(fit.values), fit.samples, fit.rms, fit.rms_large});
}

// --- sustained clocks ---

double spread_of(const std::vector<double>& values) {
  double squares = 0.0;
  for (const double value : values) squares += (value - mean(values)) * (value - mean(values));
  return std::sqrt(squares / std::max(1.0, static_cast<double>(values.size()) - 1.0));
}

// One source's rate of long-running GEMMs over that of the fitted kernels.
struct SustainedRatio {
  std::string label;
  double log_ratio = 0.0;
};

// A table of GEMMs, if the device has one.
void add_table_ratio(const std::vector<GemmSample>& samples, const GemmMachine& fitted, const std::string& label,
                     std::vector<SustainedRatio>& ratios) {
  if (!samples.empty()) ratios.push_back({label, mean(gemm_log_errors(fitted, samples))});
}

// Estimates of the best sustained rate without a shape.
void add_chart_ratio(const Database& database, const std::string& id, const GemmMachine& fitted,
                     std::vector<SustainedRatio>& ratios) {
  for (const Measurement& measurement : database.measurements("matmul", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    if (row.text("kind").value_or("").find("'max-achievable FLOPs' estimate") == std::string::npos) continue;
    const sim::FlopsPerSecond achieved(row.number("achieved_flops").value());
    ratios.push_back({"AMD's chart", std::log(achieved / (fitted.coefficients.max_efficiency * fitted.peak))});
  }
}

// What the fits found, by device and format.
using FittedMachines = std::map<std::pair<std::string, DType>, GemmMachine>;

std::vector<SustainedRatio> sustained_ratios(const Database& database, const std::string& id, const FittedMachines& fitted) {
  std::vector<SustainedRatio> ratios;
  const auto add_tables = [&](DType measured, const GemmMachine& machine) {
    add_table_ratio(large(table(database, id, "10,000 warm-up", measured)), machine, "after 10,000 warm-ups", ratios);
    add_table_ratio(large(table(database, id, "mostly independent of boost", measured)), machine, "mean of long runs", ratios);
    add_table_ratio(large(table(database, id, "AMD max-achievable", measured)), machine, "AMD max-achievable", ratios);
  };
  const GemmMachine& wide = fitted.at({id, DType::Bf16});
  add_tables(DType::Bf16, wide);
  add_tables(DType::Fp16, wide);
  add_chart_ratio(database, id, wide, ratios);
  add_table_ratio(training_shapes(database, id), wide, "training process", ratios);
  if (const auto low_precision = fitted.find({id, DType::Fp8}); low_precision != fitted.end())
    add_tables(DType::Fp8, low_precision->second);
  return ratios;
}

// Devices with the same chip: under a limit of W watts all sustain a rate of c W^a (sim/hardware/power_limit.h), and their clock
// is that over the rate of their short GEMMs, which differ by the limit too.  c is the mean over all sources.  Sources differ
// by more than their own errors, so the error of the mean comes from their spread, and is at least 3 %.
void add_sustained_clock(FactFits& fits, const Database& database, const std::vector<std::string>& ids,
                         const FittedMachines& fitted) {
  // Of ln W^a over the rate of short GEMMs.
  const auto share = [&](const std::string& id) {
    const GemmMachine& machine = fitted.at({id, DType::Bf16});
    const double watts = hwdb::device(database, id).device.watts.value();
    return sim::kPowerExponent * std::log(watts) - std::log(machine.coefficients.max_efficiency * machine.peak.value());
  };
  std::vector<double> logs;
  std::string text;
  for (const std::string& id : ids) {
    for (const SustainedRatio& ratio : sustained_ratios(database, id, fitted)) {
      logs.push_back(ratio.log_ratio - share(id));
      text += (text.empty() ? "" : ", ") + id + " " + ratio.label + " " + printed(std::exp(ratio.log_ratio));
    }
  }
  const double error = std::max(0.03, spread_of(logs) / std::sqrt(static_cast<double>(logs.size())));
  for (const std::string& id : ids) {
    const double clock = std::min(1.0, std::exp(mean(logs) + share(id)));
    add(fits, id, "sustained_clock", clock, error,
        {sim::Evidence::Fitted, "long-running GEMMs over the fitted short ones, mean of sources, by power limit", text});
  }
}

// --- devices ---

void fit_grids(FactFits& fits, const Database& database, const std::string& id, FittedMachines& fitted) {
  GemmPrior prior;
  for (const Measurement& measurement : database.measurements("matmul_grids", id)) {
    const Grid grid = grid_of(measurement);
    GemmMachine machine = machine_of(database, id, grid.dtype);
    const GemmFit fit = fit_gemm(machine, prior, grid.samples);
    add_fit(fits, database, id, grid.dtype, fit, grid.source);
    machine.coefficients = fit.coefficients;
    fitted[{id, grid.dtype}] = machine;
    if (grid.dtype == DType::Bf16) prior = prior_from(fit, 0.3);  // for the low-precision formats, which come later
  }
}

// The shape of the curve as another device has it, but its own height.
GemmPrior held_at(const sim::GemmCoefficients& c) {
  GemmPrior prior;
  prior.k_half = {c.k_half, 0.0};
  prior.wave_quantisation = {c.wave_quantisation, 0.0};
  prior.kernel_time = {c.kernel_time.value(), 0.0};
  return prior;
}

void fit_training_shapes(FactFits& fits, const Database& database, const std::string& id, const GemmMachine& like) {
  GemmPrior prior = held_at(like.coefficients);
  prior.weight_gradient_factor.spread = 1.0;
  const std::vector<GemmSample> samples = training_shapes(database, id);
  const GemmFit fit = fit_gemm(machine_of(database, id, DType::Bf16), prior, samples);
  add_fit(fits, database, id, DType::Bf16, fit, database.measurements("matmul_training_shape_efficiency", id).front().source);
}

// The weight-gradient factor of a device whose other coefficients its grid gives; the clock of the training process is free.
void fit_weight_gradient(FactFits& fits, const Database& database, const std::string& id, const GemmMachine& fitted) {
  GemmPrior prior = held_at(fitted.coefficients);
  prior.weight_gradient_factor.spread = 1.0;
  GemmFit fit = fit_gemm(fitted, prior, training_shapes(database, id));
  fit.values.erase(fit.values.begin());  // max_efficiency
  add_fit(fits, database, id, DType::Bf16, fit, database.measurements("matmul_training_shape_efficiency", id).front().source);
}

// --- formats and devices without a grid ---

// A device and a format.
struct Gemms {
  std::string id;
  DType dtype;
};

// The collector of all grids above; others time other libraries or shorter runs.
constexpr const char* kGridCollector = "trtllm 1.3.0rc20";

const char* collector_name_of(DType dtype) {
  if (dtype == DType::Fp4) return "nvfp4";
  return dtype == DType::Fp8 ? "fp8" : "bfloat16";
}

// Rate of the best GEMM that each collector found, by collector.
std::map<std::string, double> best_gemms(const Database& database, const Gemms& gemms) {
  std::map<std::string, double> best;
  for (const Measurement& measurement : database.measurements("matmul_best_by_collector", gemms.id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    if (row.text("dtype") == collector_name_of(gemms.dtype)) {
      best[row.text("framework").value()] = row.number("best_flops").value();
    }
  }
  return best;
}

// GEMMs without a grid have the curve of others, `like`, and the height that the best product of the same collector gives:
//
//   max_efficiency P = like.max_efficiency like.P best / like.best        P the data sheet's peaks
//
// Collectors differ by their kernels, of either: the error is the smaller of what the ratios and the rates themselves scatter by,
// and at least 5 %.
void fit_best_gemm(FactFits& fits, const Database& database, const Gemms& gemms, const Gemms& like, FittedMachines& fitted) {
  const std::map<std::string, double> best = best_gemms(database, gemms), best_like = best_gemms(database, like);
  std::vector<double> rates, ratios;
  for (const auto& [collector, rate] : best) {
    rates.push_back(std::log(rate));
    if (best_like.contains(collector)) ratios.push_back(std::log(rate / best_like.at(collector)));
  }
  const double spread = std::max(0.05, std::min(spread_of(rates), spread_of(ratios)));
  const double ratio = best.at(kGridCollector) / best_like.at(kGridCollector);

  const GemmMachine& reference = fitted.at({like.id, like.dtype});
  GemmMachine machine = machine_of(database, gemms.id, gemms.dtype);
  machine.coefficients = reference.coefficients;
  machine.coefficients.max_efficiency *= ratio * (reference.peak / machine.peak);
  const sim::GemmCoefficients& c = machine.coefficients;
  const std::vector<FittedValue> values{{"k_half", c.k_half, 0.5 * c.k_half},
                                        {"kernel_time_s", c.kernel_time.value(), 0.3 * c.kernel_time.value()},
                                        {"max_efficiency", c.max_efficiency, spread * c.max_efficiency},
                                        {"wave_quantisation", c.wave_quantisation, 0.2}};
  const Origin origin{sim::Evidence::Fitted,
                      "curve of " + like.id + " " + name_of(like.dtype) +
                          ", height by the best GEMMs of ai-dynamo/aiconfigurator @095f58a (2026-08-21), trtllm 1.3.0rc20",
                      "best GEMM " + printed(ratio) + " times as fast; all collectors " + printed(std::exp(mean(ratios)))};
  add_values(fits, gemms.id, gemms.dtype, values, origin);
  if (gemms.dtype == DType::Bf16) add_like(fits, database, gemms.id, gemms.dtype, values, origin);
  fits.summaries.push_back({gemms.id, std::string("gemm ") + name_of(gemms.dtype), listed(values), ratios.size(), spread, {}});
  fitted[{gemms.id, gemms.dtype}] = machine;
}

// Kernel times of AMD devices are of hipBLASLt in one stream; the tables time launches with events, which says nothing of them.
constexpr double kHipKernelTime = 5e-6;

GemmFit fit_table(FactFits& fits, const Database& database, const std::string& id, DType dtype, const GemmPrior& prior,
                  FittedMachines& fitted) {
  std::vector<GemmSample> samples = large(table(database, id, "", dtype));
  GemmMachine machine = machine_of(database, id, dtype);
  const GemmFit fit = fit_gemm(machine, prior, samples);
  add_fit(fits, database, id, dtype, fit, "large GEMMs of the matmul tables of " + id);
  machine.coefficients = fit.coefficients;
  if (dtype != DType::Fp8) fitted[{id, DType::Bf16}] = machine;
  return fit;
}

void fit_amd(FactFits& fits, const Database& database, FittedMachines& fitted) {
  GemmPrior prior;
  prior.kernel_time = {kHipKernelTime, 0.0};
  const GemmFit mi210 = fit_table(fits, database, "mi210", DType::Fp16, prior, fitted);
  const GemmPrior shape = held_at(mi210.coefficients);
  for (const char* id : {"mi250x_gcd", "mi300x", "mi325x", "mi355x"}) {
    if (!large(table(database, id, "", DType::Bf16)).empty()) fit_table(fits, database, id, DType::Bf16, shape, fitted);
    const std::vector<FittedValue> held{{"k_half", mi210.coefficients.k_half, 0.5 * mi210.coefficients.k_half},
                                        {"wave_quantisation", mi210.coefficients.wave_quantisation, 0.2},
                                        {"kernel_time_s", kHipKernelTime, 2e-6}};
    const Origin origin{sim::Evidence::Assumed, "as mi210 fp16", ""};
    for (const DType dtype : {DType::Fp16, DType::Bf16, DType::Fp8}) add_values(fits, id, dtype, held, origin);
  }
  for (const char* id : {"mi300x", "mi355x"}) fit_table(fits, database, id, DType::Fp8, shape, fitted);
  for (const char* id : {"mi300x", "mi325x"}) add_sustained_clock(fits, database, {id}, fitted);
}

// No GEMM of V100 is in the facts: the shape of its curve is that of A100.  (Its max_efficiency comes from a measured run.)
void add_v100(FactFits& fits, const Database& database, const sim::GemmCoefficients& a100, FittedMachines& fitted) {
  const std::vector<FittedValue> held{{"k_half", a100.k_half, 0.5 * a100.k_half},
                                      {"wave_quantisation", a100.wave_quantisation, 0.2},
                                      {"kernel_time_s", a100.kernel_time.value(), 1e-6}};
  add_values(fits, "v100_sxm_32", DType::Fp16, held, {sim::Evidence::Assumed, "as a100_sxm_80 bf16", ""});
  GemmMachine machine = machine_of(database, "v100_sxm_32", DType::Fp16);
  machine.coefficients.k_half = a100.k_half;
  machine.coefficients.kernel_time = a100.kernel_time;
  fitted[{"v100_sxm_32", DType::Bf16}] = machine;  // what stands for its 16-bit GEMMs
}

// Attention without a fused kernel multiplies in batches, and heads of 108, 150 and 450 (no multiples of 8) put every factor at a
// misaligned address: BLOOM candidates with them take 1.3 to 1.4 times as long although attention is 3 % of their FLOPs.
void add_misaligned_batches(FactFits& fits) {
  const Origin origin{
      sim::Evidence::Fitted, "BLOOM tuning log on A100: steps with heads of 108, 150 and 450 against 96 to 216 at equal width",
      "10 steps of 3 head sizes at tensor parallelism 4 and 8; heads of 104 and 112, multiples of 8, lose nothing"};
  add(fits, "a100_sxm_80", "gemm.misaligned_batch_factor", 0.08, 0.03, origin);
  add(fits, "h100_sxm", "gemm.misaligned_batch_factor", 0.08, 0.05, {sim::Evidence::Assumed, "as a100_sxm_80", ""});
}

// A 1.2B model (24 layers of 2048) whose head has 50257 rows takes 1.11 times as long as with 50304; the head's GEMMs are 7.9
// % of its FLOPs, so they run at 0.079 / (0.079 + 0.11) = 0.42 of the aligned rate.  1024 x 2145 x 1024 costs less, 0.8, but is a
// few microseconds of launch and fill.
void add_misalignment(FactFits& fits) {
  const Origin origin{
      sim::Evidence::Assumed,
      "vocabulary 50257 against 50304: +11 % of a 1.2B step whose head is 7.9 % of its FLOPs; 1024x2145x1024 against "
      "aligned squares gives 0.8",
      ""};
  for (const char* id : {"a100_sxm_80", "h100_sxm", "mi250x_gcd", "mi300x"})
    add(fits, id, "gemm.misaligned_factor", 0.42, 0.15, origin);
  add_misaligned_batches(fits);
  add(fits, "v100_sxm_32", "gemm.misaligned_factor", 0.35, 0.15,
      {sim::Evidence::Assumed, "cuBLAS before 11 leaves the tensor cores unless all dimensions are multiples of 8", ""});
}

// --- attention ---

std::optional<AttentionPass> pass_named(const std::string& direction) {
  if (direction == "fwd") return AttentionPass::Forward;
  if (direction == "bwd") return AttentionPass::Backward;
  if (direction == "fwd+bwd") return AttentionPass::Both;
  return std::nullopt;
}

// Rows that leave something open are left out.  Where neither heads nor hidden are given, the benchmark's hidden size is 2048.
std::optional<AttentionSample> attention_sample(const MeasuredRow& row) {
  const auto pass = pass_named(row.text("direction").value_or(""));
  const auto causal = row.flag("causal");
  const auto batch = row.number("batch"), achieved = row.number("achieved_flops"), head_dim = row.number("head_dim");
  if (!pass || !causal || !batch || !achieved || !head_dim) return std::nullopt;
  const double heads = row.number("heads").value_or(row.number("hidden").value_or(2048.0) / *head_dim);
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  const sim::Operator op =
      attention_forward(whole(*batch), whole(heads), whole(row.number("seq_len").value()), whole(*head_dim), *causal);
  return AttentionSample{op, *pass, attention_flops(op, *pass) / sim::FlopsPerSecond(*achieved)};
}

std::vector<AttentionSample> attention_table(const Database& database, const std::string& id,
                                             const std::vector<std::string>& implementations) {
  std::vector<AttentionSample> samples;
  for (const Measurement& measurement : database.measurements("attention", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    const std::string implementation = row.text("implementation").value_or("");
    if (std::find(implementations.begin(), implementations.end(), implementation) == implementations.end()) continue;
    if (const auto sample = attention_sample(row)) samples.push_back(*sample);
  }
  return samples;
}

AttentionFit fit_attention_table(FactFits& fits, const Database& database, const std::string& id,
                                 const std::vector<std::string>& implementations) {
  const std::vector<AttentionSample> samples = attention_table(database, id, implementations);
  const sim::Device device = hwdb::device(database, id).device;
  const AttentionFit fit = fit_attention(sim::attention_machine(device, DType::Bf16, sim::AttentionKernel::Flash2), samples);
  fits.summaries.push_back({id, "attention, " + implementations.front(), listed(fit.values), fit.samples, fit.rms, std::nullopt});
  return fit;
}

// Rows of one kernel: `kernel` is "flash-2.", or "" for all kernels that have no rows of their own.
void add_attention(FactFits& fits, const std::string& id, const std::string& kernel, const AttentionFit& fit,
                   const std::string& implementation) {
  const Origin origin{sim::Evidence::Fitted, implementation + ": attention tables of " + id,
                      std::to_string(fit.samples) + " rates, RMS error " + printed(100.0 * fit.rms) + " %"};
  for (const FittedValue& value : fit.values)
    add(fits, id, "attention." + kernel + value.name, value.value, value.standard_error, origin);
}

AttentionFit fit_kernel(FactFits& fits, const Database& database, const std::string& id, const std::string& kernel,
                        const std::vector<std::string>& implementations) {
  const AttentionFit fit = fit_attention_table(fits, database, id, implementations);
  add_attention(fits, id, kernel, fit, implementations.front());
  return fit;
}

// What nobody measured: a fraction of what the same kernels reach on the nearest device that was.
void add_assumed_attention(FactFits& fits, const std::string& id, const std::string& kernel, const AttentionFit& like,
                           double factor, const std::string& why) {
  const Origin origin{sim::Evidence::Assumed, why, ""};
  for (const FittedValue& value : like.values) {
    const bool rate = value.name == "forward" || value.name == "backward";
    const double scaled = rate ? factor * value.value : value.value;
    add(fits, id, "attention." + kernel + value.name, scaled, std::hypot(value.standard_error, 0.25 * scaled), origin);
  }
}

// --- collectives ---

std::optional<sim::CollectiveKind> collective_named(const std::string& op) {
  if (op == "all_reduce") return sim::CollectiveKind::AllReduce;
  if (op == "all_gather") return sim::CollectiveKind::AllGather;
  if (op == "reduce_scatter") return sim::CollectiveKind::ReduceScatter;
  if (op == "alltoall") return sim::CollectiveKind::AllToAll;
  return std::nullopt;
}

// nccl-tests: bus bandwidth = (n-1)/n S / t, twice that for an all-reduce.
std::optional<sim::Seconds> collective_duration(const MeasuredRow& point, sim::CollectiveKind kind, double ranks) {
  if (const auto time = point.number("time_us")) return sim::Seconds(*time * 1e-6);
  const auto bytes = point.number("bytes"), rate = point.number("busbw_GB_per_s");
  if (!bytes || !rate || *rate <= 0.0) return std::nullopt;
  const double rounds = kind == sim::CollectiveKind::AllReduce ? 2.0 : 1.0;
  return rounds * (ranks - 1.0) / ranks * sim::Bytes(*bytes) / sim::BytesPerSecond(*rate * 1e9);
}

// Messages below this are latency that no step of training notices.
constexpr double kSmallestMessage = 16.0 * 1024.0;

std::vector<CollectiveSample> curve(const Measurement& measurement, sim::CollectiveKind kind, int ranks) {
  std::vector<CollectiveSample> samples;
  for (const MeasuredRow& point : hwdb::rows(measurement)) {
    const double bytes = point.number("bytes").value_or(0.0);
    const auto time = collective_duration(point, kind, ranks);
    if (bytes >= kSmallestMessage && time) samples.push_back({kind, sim::Bytes(bytes), *time, ranks, 1.0});
  }
  for (CollectiveSample& sample : samples) sample.weight = 1.0 / static_cast<double>(samples.size());
  return samples;
}

// Curves of a device on one node, or on several, of a system or of none named.
std::vector<CollectiveSample> collective_curves(const Database& database, const std::string& id, bool one_node,
                                                const std::optional<std::string>& system) {
  std::vector<CollectiveSample> samples;
  for (const Measurement& measurement : database.measurements("collectives", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    const auto kind = collective_named(row.text("op").value_or(""));
    const auto nodes = row.number("nodes"), ranks = row.number("ranks");
    const bool threshold = row.text("kind") == "acceptance threshold";
    if (!kind || !nodes || !ranks || threshold || (*nodes == 1.0) != one_node || row.text("system") != system) continue;
    const std::vector<CollectiveSample> points = curve(measurement, *kind, static_cast<int>(*ranks));
    samples.insert(samples.end(), points.begin(), points.end());
  }
  return samples;
}

void add_collective_summary(FactFits& fits, const std::string& id, const std::string& what, const CollectiveFit& fit) {
  const std::string median = "median error " + printed(100.0 * fit.median_abs_error) + " %";
  const std::string values = fit.values.empty() ? median : listed(fit.values) + "; " + median;
  fits.summaries.push_back({id, what, values, fit.samples, fit.rms, std::nullopt});
}

void fit_fabric_of(FactFits& fits, const Database& database, const std::string& id) {
  const std::vector<CollectiveSample> samples = collective_curves(database, id, true, std::nullopt);
  const CollectiveFit fit = fit_fabric(hwdb::cluster(database, id, 8).cluster, samples);
  const Origin origin{sim::Evidence::Fitted, "collective curves of " + id + " on one node, messages of 16 KiB and more",
                      std::to_string(fit.samples) + " times, median error " + printed(100.0 * fit.median_abs_error) + " %"};
  for (const FittedValue& value : fit.values) add(fits, id, value.name, value.value, value.standard_error, origin);
  add_collective_summary(fits, id, "collectives, one node", fit);
}

// Networks are described, not fitted: two nodes do not tell a latency that holds for hundreds.
void describe_network_of(FactFits& fits, const Database& database, const std::string& id,
                         const std::optional<std::string>& system) {
  const std::vector<CollectiveSample> samples = collective_curves(database, id, false, system);
  const sim::Cluster cluster = hwdb::cluster(database, system.value_or(id), 16).cluster;
  add_collective_summary(fits, system.value_or(id), "collectives, many nodes", describe_collectives(cluster, samples));
}

// Nobody measured GEMMs in fp32.  k_half is the fill and drain of the K loop, a time, in elements of K at the format's rate:
// it shrinks with the peak.
void add_fp32(FactFits& fits, const Database& database, const std::string& id, const GemmMachine& wide) {
  const double share = machine_of(database, id, DType::Fp32).peak / wide.peak;
  const std::string source = "as 16-bit GEMMs: a time, in elements at " + printed(share) + " of their rate";
  const double k_half = share * wide.coefficients.k_half, kernel_time = wide.coefficients.kernel_time.value();
  add_values(fits, id, DType::Fp32, {{"k_half", k_half, 0.5 * k_half}, {"kernel_time_s", kernel_time, 0.3 * kernel_time}},
             {sim::Evidence::Assumed, source, ""});
}

}  // namespace

FactFits fit_gemm_facts(const Database& database) {
  FactFits fits;
  FittedMachines fitted;
  for (const char* id : {"a100_sxm_80", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "l40s"}) {
    fit_grids(fits, database, id, fitted);
  }
  for (const auto& [id, like] : {std::pair{"gb300", "gb200"}, std::pair{"rtx_pro_6000_server", "l40s"}}) {
    for (const DType dtype : {DType::Bf16, DType::Fp8}) fit_best_gemm(fits, database, {id, dtype}, {like, dtype}, fitted);
  }
  for (const char* id : {"b200_sxm", "b300_sxm", "gb200", "gb300", "rtx_pro_6000_server"})
    fit_best_gemm(fits, database, {id, DType::Fp4}, {id, DType::Fp8}, fitted);
  const GemmMachine& a100 = fitted.at({"a100_sxm_80", DType::Bf16});
  fit_training_shapes(fits, database, "a100_pcie_80", a100);
  add(fits, "a100_pcie_80", "sustained_clock", 1.0, 0.03,
      {sim::Evidence::Assumed, "its max_efficiency was measured within a training process", ""});
  fit_weight_gradient(fits, database, "b200_sxm", fitted.at({"b200_sxm", DType::Bf16}));
  add_sustained_clock(fits, database, {"h100_sxm", "h200_sxm"}, fitted);
  add_sustained_clock(fits, database, {"b200_sxm", "b300_sxm", "gb200", "gb300"}, fitted);
  fit_amd(fits, database, fitted);
  add_v100(fits, database, a100.coefficients, fitted);
  for (const char* id : {"a100_sxm_80", "h100_sxm", "b200_sxm", "l40s", "v100_sxm_32", "mi300x"})
    add_fp32(fits, database, id, fitted.at({id, DType::Bf16}));
  add_misalignment(fits);
  return fits;
}

namespace {

void fit_nvidia_attention(FactFits& fits, const Database& database) {
  for (const char* id : {"a100_sxm_80", "h100_sxm"}) {
    const AttentionFit flash2 = fit_kernel(fits, database, id, "", {"FlashAttention-2"});
    add_assumed_attention(
        fits, id, "flash-triton.", flash2, 1.0 / 1.55,
        "FlashAttention-2 is 1.3 to 2.5 times as fast as FlashAttention in Triton (arXiv 2307.08691); 1.55 in MPT "
        "throughput tables of A100-40, A100-80 and H100, 16k tokens and more");
  }
  fit_kernel(fits, database, "a100_sxm_80", "flash-1.", {"FlashAttention-1"});
  fit_kernel(fits, database, "h100_sxm", "flash-1.", {"FlashAttention-1"});
  fit_kernel(fits, database, "h100_sxm", "flash-3.", {"FlashAttention-3"});
  fit_kernel(fits, database, "h100_sxm", "cudnn.", {"cuDNN"});
  // Of kernels whose own rates nobody measured.
  const std::vector<std::string> blackwell{"FlashAttention-4 (CuTe DSL)", "FlashAttention-4, 1-CTA backward"};
  fit_kernel(fits, database, "b200_sxm", "", blackwell);
  fit_kernel(fits, database, "b200_sxm", "flash-2.", {"FlashAttention-2 (2.7.4)"});
  fit_kernel(fits, database, "h200_sxm", "cudnn.", {"cuDNN 9.19"});
  const std::vector<std::pair<const char*, const char*>> same_chips{{"gb200", "b200_sxm"}, {"gb300", "b300_sxm"}};
  for (const auto& [measured, id] : same_chips) {
    const AttentionFit cudnn = fit_kernel(fits, database, measured, "cudnn.", {"cuDNN 9.19"});
    add_assumed_attention(fits, id, "cudnn.", cudnn, 1.0, std::string("as ") + measured + ", which has the same chip");
  }
}

// A backward pass of AOTriton's first kernels: what is known is its rate in one run each.
void add_first_aotriton(FactFits& fits) {
  add(fits, "mi300x", "attention.aotriton-first.backward", 0.0073, 0.002,
      {sim::Evidence::Measured, "9.6 TFLOP/s: pytorch issue 135431 (2024-09)", ""});
  add(fits, "mi250x_gcd", "attention.aotriton-first.backward", 0.0335, 0.004,
      {sim::Evidence::Fitted, "Llama 3 8B on 8 Frontier nodes, 645 tokens/s before and 1250 after pytorch issue 135431 was fixed",
       "the difference of two step times, 6.15 s for 44 TFLOP"});
}

void fit_amd_attention(FactFits& fits, const Database& database) {
  const AttentionFit composable = fit_kernel(fits, database, "mi355x", "", {"Composable Kernel"});
  const AttentionFit aotriton = fit_kernel(fits, database, "mi355x", "aotriton.", {"torch SDPA"});
  fit_attention_table(fits, database, "mi355x", {"AITER (FlashAttention-class, assembly)"});
  add_assumed_attention(fits, "mi300x", "", composable, 1.4,
                        "1.4 of Composable Kernel's fraction of peak on mi355x: 328.6 TFLOP/s of FlashAttention-2, 8192 tokens");
  add_assumed_attention(fits, "mi300x", "aotriton.", aotriton, 1.4,
                        "1.4 of PyTorch's fraction of peak on mi355x, as Composable Kernel");
  add_assumed_attention(fits, "mi250x_gcd", "", composable, 1.0, "Composable Kernel's fraction of peak on mi355x");
  add_first_aotriton(fits);
}

}  // namespace

FactFits fit_attention_facts(const Database& database) {
  FactFits fits;
  fit_nvidia_attention(fits, database);
  fit_amd_attention(fits, database);
  return fits;
}

FactFits fit_collective_facts(const Database& database) {
  FactFits fits;
  for (const char* id : {"a100_sxm_80", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "mi300x"}) {
    fit_fabric_of(fits, database, id);
  }
  describe_network_of(fits, database, "h100_sxm", std::nullopt);
  describe_network_of(fits, database, "mi300x", std::nullopt);
  describe_network_of(fits, database, "a100_sxm_80", "aws_p4d");
  describe_network_of(fits, database, "h100_sxm", "aws_p5");
  return fits;
}

FactFits fit_facts(const Database& database) {
  FactFits fits = fit_gemm_facts(database);
  append(fits, fit_attention_facts(database));
  append(fits, fit_collective_facts(database));
  return fits;
}

}  // namespace llmsim::calibrate
