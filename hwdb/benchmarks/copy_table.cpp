#include "hwdb/benchmarks/copy_table.h"

#include <algorithm>

#include "hwdb/text/json_reader.h"

namespace llmsim::hwdb {
namespace {

constexpr ValueRange kCopyRate{"a rate", 1e6, 1e15, "bytes/s"};
constexpr ValueRange kCopySize{"a size", 1.0, 1e14, "bytes"};

MeasuredKernel copy_of(const std::string& library, const std::string& label, double bytes,
                       double rate) {
  MeasuredKernel kernel;
  kernel.library = library;
  kernel.label = label;
  kernel.op.moved = sim::Bytes(bytes);
  kernel.median = kernel.op.moved / sim::BytesPerSecond(rate);
  return kernel;
}

// --- BabelStream ---

struct StreamKernel {
  std::string_view name;
  double arrays;
};
constexpr StreamKernel kStreamKernels[] = {
    {"Copy", 2.0}, {"Mul", 2.0}, {"Add", 3.0}, {"Triad", 3.0}};

const StreamKernel* stream_kernel(std::string_view name) {
  for (const StreamKernel& kernel : kStreamKernels)
    if (kernel.name == name) return &kernel;
  return nullptr;
}

struct RateUnit {
  std::string_view name;
  double bytes;
};
constexpr RateUnit kRateUnits[] = {
    {"mi", 0x1p20}, {"gi", 0x1p30}, {"ti", 0x1p40}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12},
};

// Of "MBytes/sec", "GiB/s", "MB"; MB where it is none of them.
double unit_of(std::string_view name) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const RateUnit& unit : kRateUnits)
    if (small.starts_with(std::string(unit.name) + "b")) return unit.bytes;
  return 1e6;
}

// "max_mbytes_per_sec" of the head of CSV.
bool is_rate_column(std::string_view name) {
  return name.starts_with("max_") && name.ends_with("_per_sec");
}

struct StreamTable {
  double unit = 1e6;         // of rates
  double array_bytes = 0.0;  // of one array
  TextWords names{};         // of CSV
};

void add_stream(const BenchmarkText& text, std::size_t line, const StreamKernel& kernel,
                double array_bytes, double rate, BenchmarkFile& result) {
  result.kernels.push_back(copy_of("stream_copy", std::string(kernel.name),
                                   kernel.arrays * checked(text, line, array_bytes, kCopySize),
                                   checked(text, line, rate, kCopyRate)));
}

bool read_stream_csv(const BenchmarkText& text, std::size_t i, StreamTable& table,
                     BenchmarkFile& result) {
  const TextWords fields = comma_fields(text.lines()[i]);
  if (fields.size() < 5) return false;
  if (fields[0] == "function") {
    const auto rate = std::find_if(fields.begin(), fields.end(), is_rate_column);
    if (rate == fields.end()) return false;
    table.names = fields;
    table.unit = unit_of(rate->substr(4));
    return true;
  }
  const StreamKernel* const kernel = stream_kernel(fields[0]);
  if (!kernel || fields.size() != table.names.size()) return false;
  const auto value = [&](auto is_column) {
    const auto at = std::find_if(table.names.begin(), table.names.end(), is_column);
    if (at == table.names.end()) return 0.0;
    return number_in(fields[static_cast<std::size_t>(at - table.names.begin())]).value_or(0.0);
  };
  const double elements = value([](std::string_view name) { return name == "n_elements"; }),
               size = value([](std::string_view name) { return name == "sizeof"; });
  add_stream(text, i, *kernel, elements * size, value(is_rate_column) * table.unit, result);
  return true;
}

// "Using CUDA device NVIDIA H100", "CUDA Device 0: \"NVIDIA H100\"", "Using HIP device MI300X"
std::string device_in(std::string_view line) {
  for (const std::string_view sign : {"Using CUDA device ", "Using HIP device "})
    if (line.starts_with(sign)) return shown_text(line.substr(sign.size()));
  const std::size_t quote = line.find(": \"");
  if (!line.starts_with("CUDA Device ") || quote == line.npos) return "";
  const std::string_view name = line.substr(quote + 3);
  return shown_text(name.substr(0, name.find('"')));
}

void read_stream_line(const BenchmarkText& text, std::size_t i, StreamTable& table,
                      BenchmarkFile& result) {
  const std::string_view line = text.lines()[i];
  const TextWords words = words_of(line);
  if (words.size() < 2) return;
  if (const std::string device = device_in(line); !device.empty()) result.device_name = device;
  if (words[0] == "Version:") result.program = "BabelStream " + shown_text(words[1]);
  if (words[0] == "Array" && words[1] == "size:" && words.size() > 3)
    table.array_bytes = value_of(text, i, words[2], kCopySize) * unit_of(words[3]);
  if (words[0] == "Function") table.unit = unit_of(words[1]);
  const StreamKernel* const kernel = stream_kernel(words[0]);
  if (kernel && words.size() >= 5)
    add_stream(text, i, *kernel, table.array_bytes, number_in(words[1]).value_or(0.0) * table.unit,
               result);
}

// --- nvbandwidth ---

constexpr double kBuffer = 512.0 * 1024.0 * 1024.0;

void add_copies(const BenchmarkText& text, std::size_t line, std::string_view test, double rate,
                BenchmarkFile& result) {
  const double bytes_per_s = checked(text, line, rate * 1e9, kCopyRate);
  if (test == "host_to_device_memcpy_ce" || test == "device_to_host_memcpy_ce")
    result.kernels.push_back(copy_of("host_copy", std::string(test), kBuffer, bytes_per_s));
  if (test == "device_local_copy")
    result.kernels.push_back(
        copy_of("stream_copy", std::string(test), 2.0 * kBuffer, 2.0 * bytes_per_s));
}

bool is_used(std::string_view test) {
  return test == "host_to_device_memcpy_ce" || test == "device_to_host_memcpy_ce" ||
         test == "device_local_copy";
}

// "0: NVIDIA H100 80GB HBM3 (00000000:19:00): (host)"
std::string listed_device(std::string_view entry) {
  const std::size_t colon = entry.find(": ");
  if (colon == entry.npos) return "";
  const std::string_view name = entry.substr(colon + 2);
  return shown_text(trimmed(name.substr(0, name.find(" ("))));
}

void read_nvbandwidth_text(const BenchmarkText& text, BenchmarkFile& result) {
  std::string_view test;
  for (std::size_t i = 0; i < text.lines().size(); ++i) {
    const TextWords words = words_of(text.lines()[i]);
    if (words.empty()) continue;
    if (words[0] == "Running" && words.size() > 1) {
      test = words[1];
      if (test.ends_with('.')) test.remove_suffix(1);
    }
    if (words[0] == "nvbandwidth" && words.size() > 2)
      result.program = "nvbandwidth " + shown_text(words[2]);
    if (words[0] == "Device" && result.device_name.empty())
      result.device_name = listed_device(text.lines()[i]);
    const bool row = is_used(test) && words.size() > 1 && words[0] == "0" &&
                     words[1].find('.') != std::string_view::npos;
    for (std::size_t w = 1; row && w < words.size(); ++w)
      if (const auto rate = number_in(words[w])) add_copies(text, i, test, *rate, result);
  }
}

void read_nvbandwidth_json(const BenchmarkText& text, BenchmarkFile& result) {
  const nlohmann::json document = parse_json(text.text(), text.file());
  ObjectReader whole(document, text.file());
  std::optional<ObjectReader> report = whole.object("nvbandwidth");
  if (!report) whole.refuse("nvbandwidth", "the report is expected");
  result.program = "nvbandwidth " + shown_text(report->text("version").value_or(""));
  const std::vector<std::string> devices = report->texts("GPU Device list");
  if (!devices.empty()) result.device_name = listed_device(devices.front());
  for (const nlohmann::json& one : report->list("testcases")) {
    ObjectReader testcase(one, text.file(), "testcases");
    const std::string test = testcase.text("name").value_or("");
    if (!is_used(test)) continue;
    for (const nlohmann::json& row : testcase.list("bandwidth_matrix")) {
      for (const nlohmann::json& cell : row) {
        const auto rate =
            cell.is_string() ? number_in(cell.get_ref<const std::string&>()) : std::nullopt;
        if (rate) add_copies(text, 0, test, *rate, result);
      }
    }
  }
}

bool is_nvbandwidth_json(const BenchmarkText& text) {
  const std::string_view begin = std::string_view(text.text()).substr(0, 400);
  return begin.find('{') != begin.npos && begin.find("\"nvbandwidth\"") != begin.npos;
}

}  // namespace

bool is_babelstream(const BenchmarkText& text) {
  const bool csv = text.begins_with("function,num_times,n_elements,sizeof");
  return csv || text.begins_with("BabelStream");
}

void read_babelstream(const BenchmarkText& text, const BenchmarkDefaults&, BenchmarkFile& result) {
  StreamTable table;
  result.program = "BabelStream";
  for (std::size_t i = 0; i < text.lines().size(); ++i)
    if (!read_stream_csv(text, i, table, result)) read_stream_line(text, i, table, result);
}

bool is_nvbandwidth(const BenchmarkText& text) {
  return is_nvbandwidth_json(text) || text.begins_with("nvbandwidth Version");
}

void read_nvbandwidth(const BenchmarkText& text, const BenchmarkDefaults&, BenchmarkFile& result) {
  if (is_nvbandwidth_json(text)) return read_nvbandwidth_json(text, result);
  read_nvbandwidth_text(text, result);
}

}  // namespace llmsim::hwdb
