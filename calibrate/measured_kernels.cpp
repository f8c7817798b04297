#include "calibrate/measured_kernels.h"

#include <algorithm>
#include <utility>

#include "hwdb/hardware/measured_rows.h"
#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/field_rows.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {

namespace {

using hwdb::Database;
using hwdb::MeasuredRow;
using hwdb::Measurement;
using sim::DType;

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

sim::Operator gemm_of(const MeasuredRow& row, DType dtype) {
  return gemm(row.number("m").value(), row.number("n").value(), row.number("k").value(), dtype,
              dtype == DType::Fp8 ? DType::Bf16 : dtype);
}

// Kinds that say little of what the vendor's library sustains today.
bool is_typical(const std::string& kind) {
  for (const char* other : {"threshold", "MAMF v1", "HipKittens", "AITER", "sample output"}) {
    if (kind.find(other) != std::string::npos) return false;
  }
  return true;
}

// "b=1, m=4096, k=5120, n=1536, layout=TN, ..."
double number_after(const std::string& text, const char* name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos
             ? 0.0
             : std::stod(text.substr(at + std::char_traits<char>::length(name)));
}

const char* collector_name_of(DType dtype) {
  if (dtype == DType::Fp4) return "nvfp4";
  return dtype == DType::Fp8 ? "fp8" : "bfloat16";
}

std::optional<AttentionPass> pass_named(const std::string& direction) {
  if (direction == "fwd") return AttentionPass::Forward;
  if (direction == "bwd") return AttentionPass::Backward;
  if (direction == "fwd+bwd") return AttentionPass::Both;
  return std::nullopt;
}

// Rows that leave something open are left out.  Where neither heads nor hidden are given, the
// benchmark's hidden size is 2048.
std::optional<AttentionSample> attention_sample(const MeasuredRow& row) {
  const auto pass = pass_named(row.text("direction").value_or(""));
  const auto causal = row.flag("causal");
  const auto batch = row.number("batch"), achieved = row.number("achieved_flops"),
             head_dim = row.number("head_dim");
  if (!pass || !causal || !batch || !achieved || !head_dim) return std::nullopt;
  const double heads =
      row.number("heads").value_or(row.number("hidden").value_or(2048.0) / *head_dim);
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  const sim::Operator op = attention_forward(
      whole(*batch), whole(heads), whole(row.number("seq_len").value()), whole(*head_dim), *causal);
  return AttentionSample{op, *pass, attention_flops(op, *pass) / sim::FlopsPerSecond(*achieved)};
}

std::optional<sim::CollectiveKind> collective_named(const std::string& op) {
  if (op == "all_reduce") return sim::CollectiveKind::AllReduce;
  if (op == "all_gather") return sim::CollectiveKind::AllGather;
  if (op == "reduce_scatter") return sim::CollectiveKind::ReduceScatter;
  if (op == "alltoall") return sim::CollectiveKind::AllToAll;
  return std::nullopt;
}

// nccl-tests: bus bandwidth = (n-1)/n S / t, twice that for an all-reduce.
std::optional<sim::Seconds> collective_duration(const MeasuredRow& point, sim::CollectiveKind kind,
                                                double ranks) {
  if (const auto time = point.number("time_us")) return sim::Seconds(*time * 1e-6);
  const auto bytes = point.number("bytes"), rate = point.number("busbw_GB_per_s");
  if (!bytes || !rate || *rate <= 0.0) return std::nullopt;
  const double rounds = kind == sim::CollectiveKind::AllReduce ? 2.0 : 1.0;
  return rounds * (ranks - 1.0) / ranks * sim::Bytes(*bytes) / sim::BytesPerSecond(*rate * 1e9);
}

std::vector<CollectiveSample> curve(const Measurement& measurement, sim::CollectiveKind kind,
                                    int ranks) {
  std::vector<CollectiveSample> samples;
  for (const MeasuredRow& point : hwdb::rows(measurement)) {
    const sim::Bytes bytes(point.number("bytes").value_or(0.0));
    const auto time = collective_duration(point, kind, ranks);
    if (bytes >= kSmallestMessage && time) samples.push_back({kind, bytes, *time, ranks, 1.0});
  }
  for (CollectiveSample& sample : samples)
    sample.weight = 1.0 / static_cast<double>(samples.size());
  return samples;
}

const std::vector<sim::Field<KernelFitLine>>& line_fields() {
  using L = KernelFitLine;
  static const std::vector<sim::Field<L>> all = {
      LLMSIM_FIELD(L, fit),    LLMSIM_FIELD(L, devices),     LLMSIM_FIELD(L, chip),
      LLMSIM_FIELD(L, format), LLMSIM_FIELD(L, like),        LLMSIM_FIELD(L, like_format),
      LLMSIM_FIELD(L, kernel), LLMSIM_FIELD(L, like_kernel), LLMSIM_FIELD(L, implementations),
      LLMSIM_FIELD(L, factor), LLMSIM_FIELD(L, why),         LLMSIM_FIELD(L, system),
      LLMSIM_FIELD(L, alike),  LLMSIM_FIELD(L, kernel_time), LLMSIM_FIELD(L, kernel_time_error),
  };
  return all;
}

}  // namespace

std::vector<GemmGrid> gemm_grids(const Database& database, const std::string& id) {
  std::vector<GemmGrid> grids;
  for (const Measurement& measurement : database.measurements("matmul_grids", id)) {
    GemmGrid grid{dtype_named(hwdb::fields(measurement).text("dtype").value()).value(),
                  measurement.source,
                  {}};
    for (const MeasuredRow& row : hwdb::rows(measurement)) {
      GemmSample sample{gemm_of(row, grid.dtype),
                        sim::Seconds(row.number("time_us").value() * 1e-6)};
      if (grid.dtype == DType::Fp8)
        sample.quantised = row.number("m").value() * row.number("k").value();
      grid.samples.push_back(sample);
    }
    grids.push_back(std::move(grid));
  }
  return grids;
}

std::vector<GemmSample> gemm_table(const Database& database, const std::string& id,
                                   const std::string& kind, DType dtype) {
  std::vector<GemmSample> samples;
  for (const Measurement& measurement : database.measurements("matmul", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    const std::string measured_as = row.text("kind").value_or("");
    if (measured_as.find(kind) == std::string::npos || !is_typical(measured_as) || !row.number("m"))
      continue;
    if (dtype_named(row.text("dtype").value_or("")) != dtype) continue;
    const sim::Operator op = gemm_of(row, dtype);
    samples.push_back({op, op.flops / sim::FlopsPerSecond(row.number("achieved_flops").value())});
  }
  return samples;
}

std::vector<GemmSample> large_gemms(std::vector<GemmSample> samples) {
  std::erase_if(samples, [](const GemmSample& s) {
    return s.gemm.flops < 0.13 * sim::TFLOP || s.gemm.n % 8 != 0;
  });
  return samples;
}

std::vector<GemmSample> training_shapes(const Database& database, const std::string& id) {
  std::vector<GemmSample> samples;
  for (const Measurement& measurement :
       database.measurements("matmul_training_shape_efficiency", id)) {
    const double peak = hwdb::fields(measurement).number("peak_flops").value();
    for (const MeasuredRow& row : hwdb::rows(measurement)) {
      if (row.text("op") != "matmul") continue;
      const std::string shape = row.text("shape").value();
      const bool weight_gradient = shape.find("layout=NT") != std::string::npos;
      sim::Operator op =
          gemm(number_after(shape, " m="), number_after(shape, " n="), number_after(shape, " k="),
               DType::Bf16, weight_gradient ? DType::Fp32 : DType::Bf16);
      op.weight_gradient = weight_gradient;
      // An fp32 gradient is read where it is added to.
      if (weight_gradient) op.moved += static_cast<double>(op.m * op.n) * sim::size_of(DType::Fp32);
      samples.push_back(
          {op, op.flops / sim::FlopsPerSecond(peak * row.number("efficiency").value())});
    }
  }
  return samples;
}

std::string training_shapes_source(const Database& database, const std::string& id) {
  return database.measurements("matmul_training_shape_efficiency", id).front().source;
}

std::map<std::string, double> best_gemms(const Database& database, const GemmsOf& gemms) {
  std::map<std::string, double> best;
  for (const Measurement& measurement :
       database.measurements("matmul_best_by_collector", gemms.id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    if (row.text("dtype") == collector_name_of(gemms.dtype)) {
      best[row.text("framework").value()] = row.number("best_flops").value();
    }
  }
  return best;
}

std::vector<double> chart_rates(const Database& database, const std::string& id) {
  std::vector<double> rates;
  for (const Measurement& measurement : database.measurements("matmul", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    if (row.text("kind").value_or("").find("'max-achievable FLOPs' estimate") == std::string::npos)
      continue;
    rates.push_back(row.number("achieved_flops").value());
  }
  return rates;
}

std::vector<AttentionSample> attention_table(const Database& database, const std::string& id,
                                             const std::vector<std::string>& implementations) {
  std::vector<AttentionSample> samples;
  for (const Measurement& measurement : database.measurements("attention", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    const std::string implementation = row.text("implementation").value_or("");
    if (std::ranges::find(implementations, implementation) == implementations.end()) continue;
    if (const auto sample = attention_sample(row)) samples.push_back(*sample);
  }
  return samples;
}

std::vector<CollectiveSample> collective_curves(const Database& database, const std::string& id,
                                                bool one_node,
                                                const std::optional<std::string>& system) {
  std::vector<CollectiveSample> samples;
  for (const Measurement& measurement : database.measurements("collectives", id)) {
    const MeasuredRow row = hwdb::fields(measurement);
    const auto kind = collective_named(row.text("op").value_or(""));
    const auto nodes = row.number("nodes"), ranks = row.number("ranks");
    const bool threshold = row.text("kind") == "acceptance threshold";
    if (!kind || !nodes || !ranks || threshold || (*nodes == 1.0) != one_node ||
        row.text("system") != system)
      continue;
    const std::vector<CollectiveSample> points =
        curve(measurement, *kind, static_cast<int>(*ranks));
    samples.insert(samples.end(), points.begin(), points.end());
  }
  return samples;
}

std::vector<KernelFitLine> parse_kernel_fits(const std::string& text, const std::string& file) {
  std::vector<KernelFitLine> lines;
  for (const sim::PartialRecord& row : hwdb::field_rows(text, "fits", file)) {
    const std::string place = file + ": fits[" + std::to_string(lines.size()) + "]: ";
    try {
      put(line_fields(), row, lines.emplace_back());
    } catch (const Error& error) {
      throw Error(place + error.what());
    }
  }
  return lines;
}

std::vector<KernelFitLine> kernel_fit_table() {
  return parse_kernel_fits(std::string(hwdb::shipped_kernel_fits_json()), "facts/kernel_fits.json");
}

GemmsOf gemms_of(const std::string& device, const std::string& format) {
  for (int i = 0; i < sim::kNumDTypes; ++i) {
    const auto dtype = static_cast<sim::DType>(i);
    if (format == name_of(dtype)) return {device, dtype};
  }
  throw Error("format = " + format + ": no such number format");
}

}  // namespace llmsim::calibrate
