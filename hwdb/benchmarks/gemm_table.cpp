#include "hwdb/benchmarks/gemm_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace llmsim::hwdb {
namespace {

using sim::DType;

constexpr ValueRange kGemmSize{"a size", 1.0, 1 << 24, ""};
constexpr ValueRange kGemmBatch{"batch_count", 1.0, 1 << 20, ""};
constexpr ValueRange kGemmTime{"us", 0.1, 1e9, "us"};
constexpr ValueRange kTflops{"TFLOPS", 1e-3, 1e5, "TFLOPS"};
constexpr ValueRange kGemmClock{"the clock", 1.0, 1e4, "MHz"};
constexpr double kGflopsTolerance = 0.1;

struct GemmShape {
  std::int64_t m = 1, n = 1, k = 1;
};

MeasuredKernel gemm_of(const GemmShape& shape, std::int64_t batch, DType dtype, DType out,
                       sim::Seconds time) {
  MeasuredKernel kernel;
  kernel.library = "library_gemm";
  kernel.label = fmt::format("{} x {} x {}", shape.m, shape.n, shape.k);
  kernel.op = sim::gemm("", batch, shape.m, shape.n, shape.k, dtype, out);
  kernel.median = time;
  return kernel;
}

// --- hipblaslt-bench and rocblas-bench ---

struct GemmType {
  std::string_view beginning;
  DType dtype;
};
constexpr GemmType kGemmTypes[] = {{"bf16", DType::Bf16}, {"f16", DType::Fp16},
                                   {"f32", DType::Fp32},  {"f8", DType::Fp8},
                                   {"bf8", DType::Fp8},   {"f4", DType::Fp4}};

// None of a format that no training step multiplies in; complex ones end in "_c".
std::optional<DType> type_of(std::string_view name) {
  for (const GemmType& known : kGemmTypes)
    if (name.starts_with(known.beginning) && !name.ends_with("_c")) return known.dtype;
  return std::nullopt;
}

// A line of values under the names of its columns.
struct GemmRow {
  const BenchmarkText& text;
  std::size_t line;
  const TextWords& names;
  const TextWords& values;

  std::string_view find(std::string_view name) const {
    const auto at = std::find(names.begin(), names.end(), name);
    return at == names.end() ? std::string_view()
                             : values[static_cast<std::size_t>(at - names.begin())];
  }
  // hipBLASLt has small letters, rocBLAS capital ones.
  std::int64_t size(std::string_view name, std::string_view capital) const {
    const std::string_view small = find(name);
    return static_cast<std::int64_t>(
        value_of(text, line, small.empty() ? find(capital) : small, kGemmSize));
  }
};

// Without types in the table, that of the command line.
std::optional<DType> dtype_of(const GemmRow& row, const BenchmarkDefaults& defaults) {
  const std::string_view name = row.find("a_type");
  if (name.empty()) {
    if (!defaults.dtype)
      row.text.refuse(row.line,
                      "the table does not say the number format (rocblas-bench does with "
                      "--log_datatype); pass --dtype, for example --dtype bf16");
    return defaults.dtype;
  }
  const std::optional<DType> dtype = type_of(name);
  const std::string_view compute = row.find("compute_type");
  return dtype == DType::Fp32 && compute.starts_with("xf32") ? DType::Tf32 : dtype;
}

// The format of the result; of rocBLAS without types that of the factors.
DType result_of(const GemmRow& row, DType dtype) {
  const std::string_view name =
      row.find("d_type").empty() ? row.find("c_type") : row.find("d_type");
  if (const auto type = type_of(name)) return *type;
  return sim::is_low_precision(dtype) ? DType::Bf16 : dtype;
}

// Both print the rate that follows from shape and time.
void check_rate(const GemmRow& row, const MeasuredKernel& kernel) {
  for (const std::string_view name : {"hipblaslt-Gflops", "rocblas-Gflops"}) {
    const auto printed = number_in(row.find(name));
    const double rate = (kernel.op.flops / kernel.median).value() * 1e-9;
    if (printed && *printed > 0.0 && std::abs(rate / *printed - 1.0) > kGflopsTolerance)
      row.text.refuse(row.line,
                      fmt::format("{} in {:g} us are {:.4g} GFLOPS, but {} = {:g}", kernel.label,
                                  kernel.median.value() * 1e6, rate, name, *printed));
  }
}

std::optional<double> clock_of(const GemmRow& row) {
  const std::string_view clock = row.find("lowest-median-freq");
  if (clock.empty() || number_in(clock).value_or(0.0) <= 0.0) return std::nullopt;
  return value_of(row.text, row.line, clock, kGemmClock) * 1e6;
}

void read_gemm(const GemmRow& row, const BenchmarkDefaults& defaults, BenchmarkFile& result) {
  const auto leave_out = [&](const std::string& why) {
    result.left_out.push_back("line " + std::to_string(row.line + 1) + ": " + why);
  };
  if (number_in(row.find("grouped_gemm")).value_or(0.0) > 0.0)
    return leave_out("a grouped GEMM, of which one shape alone is printed");
  const std::optional<DType> dtype = dtype_of(row, defaults);
  if (!dtype)
    return leave_out("GEMMs in " + shown_text(row.find("a_type")) + " are no part of the model");
  if (row.find("us").empty()) row.text.refuse(row.line, "the column us is missing");
  const GemmShape shape{row.size("n", "N"), row.size("m", "M"), row.size("k", "K")};
  const std::string_view batch = row.find("batch_count");
  MeasuredKernel kernel = gemm_of(
      shape,
      batch.empty() ? 1
                    : static_cast<std::int64_t>(value_of(row.text, row.line, batch, kGemmBatch)),
      *dtype, result_of(row, *dtype),
      sim::Seconds(value_of(row.text, row.line, row.find("us"), kGemmTime) * 1e-6));
  check_rate(row, kernel);
  kernel.clock_hz = clock_of(row);
  result.kernels.push_back(kernel);
}

// The names of the columns, behind the number of the problem ("[0]:"); none of another line.
std::optional<TextWords> names_in(std::string_view line) {
  if (line.find("transA,transB,") == line.npos) return std::nullopt;
  const std::size_t number = line.find("]:");
  return comma_fields(number == line.npos ? line : line.substr(number + 2));
}

// --- mamf-finder ---

// "bfloat16" of "** Dtype: torch.bfloat16".
std::optional<DType> torch_type(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "bfloat16") return DType::Bf16;
  if (name == "float16" || name == "half") return DType::Fp16;
  if (name == "float32" || name == "float") return DType::Fp32;
  if (name.starts_with("float8_")) return DType::Fp8;
  return std::nullopt;
}

std::string_view after(std::string_view line, std::string_view sign) {
  const std::size_t at = line.find(sign);
  return at == line.npos ? std::string_view() : line.substr(at + sign.size());
}

// "8192x4096x4096 ..."
std::optional<GemmShape> shape_at(std::string_view text) {
  text = trimmed(text);
  const std::string_view word = text.substr(0, text.find_first_of(" |"));
  std::int64_t sizes[3] = {};
  const char* at = word.data();
  const char* const end = at + word.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, sizes[i]);
    if (error != std::errc() || (i < 2 && (next == end || *next != 'x'))) return std::nullopt;
    at = next + 1;
  }
  return GemmShape{sizes[0], sizes[1], sizes[2]};
}

// What stands in front of a sign: "613.0" of "613.0(median)", "741.0" of "741.0 TFLOPS @".
std::string_view word_before(std::string_view line, std::string_view sign) {
  const std::string_view before = trimmed(line.substr(0, line.find(sign)));
  return before.substr(before.find_last_of(" \t:") + 1);  // npos + 1 = 0
}

void add_mamf(const BenchmarkText& text, std::size_t line, std::string_view tflops,
              const GemmShape& shape, DType dtype, BenchmarkFile& result) {
  for (const std::int64_t size : {shape.m, shape.n, shape.k})
    checked(text, line, static_cast<double>(size), kGemmSize);
  const double rate = value_of(text, line, tflops, kTflops) * 1e12;
  const DType out = sim::is_low_precision(dtype) ? DType::Bf16 : dtype;
  MeasuredKernel kernel = gemm_of(shape, 1, dtype, out, sim::Seconds(1.0));
  kernel.median = kernel.op.flops / sim::FlopsPerSecond(rate);
  result.kernels.push_back(kernel);
}

// A shape while they are tried.
bool read_tried(const BenchmarkText& text, std::size_t i, DType dtype, BenchmarkFile& result) {
  const std::string_view line = text.lines()[i];
  const std::string_view tried = line.substr(0, line.find("| best"));
  if (tried.find('|') == tried.npos) return false;
  const std::string_view sign = tried.find("(median)") != tried.npos ? "(median)" : " TFLOPS";
  const auto shape = shape_at(after(tried, "@"));
  if (tried.find(sign) == tried.npos || !shape) return false;
  add_mamf(text, i, word_before(tried, sign), *shape, dtype, result);
  return true;
}

// "median: 741.0 TFLOPS @ ...", before version 2 "The best outcome was 741.0TFLOPS @ ...".
bool is_best(std::string_view line) {
  return line.starts_with("median:") || line.starts_with("The best outcome was");
}

DType dtype_of_log(const BenchmarkText& text, const BenchmarkDefaults& defaults) {
  for (std::size_t i = 0; i < text.lines().size(); ++i) {
    const std::string_view name = trimmed(after(text.lines()[i], "** Dtype:"));
    if (name.empty()) continue;
    const auto dtype = torch_type(name);
    if (!dtype) text.refuse(i, "Dtype: " + shown_text(name) + " is no format of the model");
    return *dtype;
  }
  if (!defaults.dtype)
    text.refuse(0,
                "the log does not say its number format (a line \"** Dtype: ...\"); pass --dtype, "
                "for example --dtype bf16");
  return *defaults.dtype;
}

// "- _CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, ...", "- torch=2.7.0+cu128"
void read_machine(const BenchmarkText& text, BenchmarkFile& result) {
  result.program = "mamf-finder";
  for (const std::string_view line : text.lines()) {
    const std::string_view name = after(line, "DeviceProperties(name='");
    if (result.device_name.empty() && !name.empty())
      result.device_name = shown_text(name.substr(0, name.find('\'')));
    if (line.starts_with("- torch=") && result.program == "mamf-finder")
      result.program += ", torch " + shown_text(trimmed(line.substr(8)));
  }
}

}  // namespace

bool is_gemm_table(const BenchmarkText& text) {
  return std::any_of(text.lines().begin(), text.lines().end(),
                     [](std::string_view line) { return names_in(line).has_value(); });
}

void read_gemm_table(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                     BenchmarkFile& result) {
  TextWords names;
  const bool hipblaslt = text.text().find("hipblaslt-") != std::string::npos;
  result.format = result.program = hipblaslt ? "hipblaslt-bench" : "rocblas-bench";
  bool follows = false;  // values follow their names at once
  for (std::size_t i = 0; i < text.lines().size(); ++i) {
    const std::string_view line = text.lines()[i];
    if (auto head = names_in(line)) {
      names = *std::move(head);
      follows = true;
      continue;
    }
    const TextWords values = comma_fields(line);
    if (!names.empty() && values.size() == names.size()) {
      read_gemm({text, i, names, values}, defaults, result);
    } else if (follows) {
      text.refuse(i, fmt::format("{} values under {} columns", values.size(), names.size()));
    }
    follows = false;
  }
}

bool is_mamf_log(const BenchmarkText& text) {
  return text.begins_with("(median)") || text.begins_with("mamf-finder") ||
         text.begins_with("** Dtype:") ||
         std::any_of(text.lines().begin(), text.lines().end(), is_best);
}

void read_mamf_log(const BenchmarkText& text, const BenchmarkDefaults& defaults,
                   BenchmarkFile& result) {
  const DType dtype = dtype_of_log(text, defaults);
  read_machine(text, result);
  for (std::size_t i = 0; i < text.lines().size(); ++i) {
    if (read_tried(text, i, dtype, result)) continue;
    const std::string_view line = text.lines()[i];
    const auto shape = shape_at(after(line, "@"));
    if (is_best(line) && shape && result.kernels.empty())
      add_mamf(text, i, word_before(line, "TFLOPS"), *shape, dtype, result);
  }
}

}  // namespace llmsim::hwdb
