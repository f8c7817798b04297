#include "hwdb/benchmarks/clock_log.h"

#include <algorithm>

namespace llmsim::hwdb {
namespace {

constexpr ValueRange kUnitClock{"the clock", 1.0, 1e4, "MHz"};
constexpr ValueRange kPower{"the power", 0.0, 1e4, "W"};
constexpr ValueRange kBusy{"the utilisation", 0.0, 100.0, "%"};
constexpr double kMHz = 1e6;

enum class ColumnRole {
  None,
  Device,
  Name,
  Clock,
  MostClock,
  Power,
  Limit,
  BusyPercent,
  BusyShare
};

struct NamedColumn {
  std::string_view name;
  ColumnRole role;
  const char* program;
};

// By their beginnings, so that units in brackets may be missing; the first that fits counts.
constexpr NamedColumn kClockColumns[] = {
    {"clocks.current.sm", ColumnRole::Clock, "nvidia-smi"},
    {"clocks.sm", ColumnRole::Clock, "nvidia-smi"},
    {"clocks.max.sm", ColumnRole::MostClock, "nvidia-smi"},
    {"power.draw", ColumnRole::Power, "nvidia-smi"},
    {"enforced.power.limit", ColumnRole::Limit, "nvidia-smi"},
    {"power.limit", ColumnRole::Limit, "nvidia-smi"},
    {"utilization.gpu", ColumnRole::BusyPercent, "nvidia-smi"},
    {"index", ColumnRole::Device, "nvidia-smi"},
    {"name", ColumnRole::Name, "nvidia-smi"},
    {"gpu_name", ColumnRole::Name, "nvidia-smi"},
    {"socket_power", ColumnRole::Power, "amd-smi"},
    {"current_socket_power", ColumnRole::Power, "amd-smi"},
    {"average_socket_power", ColumnRole::Power, "amd-smi"},
    {"power_usage", ColumnRole::Power, "amd-smi"},
    {"gfx_activity", ColumnRole::BusyPercent, "amd-smi"},
    {"gfx_usage", ColumnRole::BusyPercent, "amd-smi"},
    {"gfx_clock", ColumnRole::Clock, "amd-smi"},
    {"gfx_clk", ColumnRole::Clock, "amd-smi"},
    {"gpu", ColumnRole::Device, "amd-smi"},
    {"sclk clock speed", ColumnRole::Clock, "rocm-smi"},
    {"Average Graphics Package Power", ColumnRole::Power, "rocm-smi"},
    {"Current Socket Graphics Package Power", ColumnRole::Power, "rocm-smi"},
    {"GPU use (%)", ColumnRole::BusyPercent, "rocm-smi"},
    {"device", ColumnRole::Device, "rocm-smi"},
};

constexpr NamedColumn kDcgmColumns[] = {
    {"SMCLK", ColumnRole::Clock, "dcgmi dmon"},
    {"POWER", ColumnRole::Power, "dcgmi dmon"},
    {"GPUTL", ColumnRole::BusyPercent, "dcgmi dmon"},
    {"GRACT", ColumnRole::BusyShare, "dcgmi dmon"},
    {"MXSMC", ColumnRole::MostClock, "dcgmi dmon"},
};

// "gfx_0_clk" and "gfx_0_max_clk" of amd-smi: one for each part of a device.
ColumnRole part_of_device(std::string_view name) {
  if (!name.starts_with("gfx_")) return ColumnRole::None;
  if (name.ends_with("_max_clk")) return ColumnRole::MostClock;
  if (name.ends_with("_min_clk")) return ColumnRole::None;
  return name.ends_with("_clk") ? ColumnRole::Clock : ColumnRole::None;
}

struct ClockColumn {
  ColumnRole role = ColumnRole::None;
  std::string program;
};

template <std::size_t N>
ClockColumn column_of(const NamedColumn (&known)[N], std::string_view name) {
  for (const NamedColumn& column : known) {
    if (!name.starts_with(column.name)) continue;
    const std::string_view rest = trimmed(name.substr(column.name.size()));
    // "power.draw.average [W]" is power too, "gpu_memory_usage" no device.
    const bool dotted = rest.starts_with(".average") || rest.starts_with(".instant");
    if (rest.empty() || rest.starts_with('[') || rest.starts_with(':') || rest.starts_with('(') ||
        dotted)
      return {column.role, column.program};
  }
  if (const ColumnRole role = part_of_device(name); role != ColumnRole::None)
    return {role, "amd-smi"};
  return {};
}

// What one line says; of several columns with one role the mean, of power the first.
class ReadingOfLine {
 public:
  ReadingOfLine(const BenchmarkText& text, std::size_t line) : text_(text), line_(line) {}

  // "N/A", "[Not Supported]" and the like say nothing.
  void add(ColumnRole role, std::string_view field) {
    if (role == ColumnRole::Device) reading_.device = shown_text(field);
    const auto number = number_with_unit(field);
    if (!number || role == ColumnRole::None || role == ColumnRole::Device ||
        role == ColumnRole::Name)
      return;
    switch (role) {
      case ColumnRole::Clock:
        clocks_ += checked(text_, line_, *number, kUnitClock), ++parts_;
        break;
      case ColumnRole::MostClock:
        reading_.most_hz = checked(text_, line_, *number, kUnitClock) * kMHz;
        break;
      case ColumnRole::Power: set_once(reading_.watts, *number, kPower, 1.0); break;
      case ColumnRole::Limit: set_once(reading_.limit_watts, *number, kPower, 1.0); break;
      case ColumnRole::BusyPercent: set_once(reading_.busy, *number, kBusy, 100.0); break;
      case ColumnRole::BusyShare: set_once(reading_.busy, *number * 100.0, kBusy, 100.0); break;
      default: break;
    }
  }

  std::optional<ClockReading> reading() {
    if (parts_ == 0) return std::nullopt;
    reading_.clock_hz = clocks_ / parts_ * kMHz;
    return reading_;
  }

 private:
  void set_once(std::optional<double>& value, double number, const ValueRange& range, double unit) {
    if (!value) value = checked(text_, line_, number, range) / unit;
  }

  const BenchmarkText& text_;
  std::size_t line_;
  ClockReading reading_;
  double clocks_ = 0.0;
  int parts_ = 0;
};

// The columns of a line of names; empty of another line.
std::vector<ClockColumn> columns_in(std::string_view line) {
  std::vector<ClockColumn> columns;
  bool any = false;
  if (line.find(',') == line.npos) return columns;
  for (const std::string_view name : comma_fields(line)) {
    columns.push_back(column_of(kClockColumns, name));
    const ColumnRole role = columns.back().role;
    any = any || role == ColumnRole::Clock || role == ColumnRole::Power;
  }
  if (!any) columns.clear();
  return columns;
}

bool has_clock(const std::vector<ClockColumn>& columns) {
  return std::any_of(columns.begin(), columns.end(),
                     [](const ClockColumn& column) { return column.role == ColumnRole::Clock; });
}

std::string program_of(const std::vector<ClockColumn>& columns) {
  const auto clock = std::find_if(columns.begin(), columns.end(), [](const ClockColumn& column) {
    return column.role == ColumnRole::Clock;
  });
  return clock->program;
}

void read_csv_line(const BenchmarkText& text, std::size_t i,
                   const std::vector<ClockColumn>& columns, BenchmarkFile& result) {
  const TextWords fields = comma_fields(text.lines()[i]);
  if (fields.size() != columns.size()) {
    // The last line of a log that was stopped may be cut off.
    if (i + 1 < text.lines().size())
      text.refuse(i, std::to_string(fields.size()) + " values under " +
                         std::to_string(columns.size()) + " columns");
    return;
  }
  ReadingOfLine line(text, i);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    line.add(columns[c].role, fields[c]);
    if (columns[c].role == ColumnRole::Name && result.device_name.empty())
      result.device_name = shown_text(fields[c]);
  }
  if (const auto reading = line.reading()) result.clocks.push_back(*reading);
}

}  // namespace

bool is_clock_csv(const BenchmarkText& text) {
  const std::size_t first = std::min<std::size_t>(text.lines().size(), 50);
  return std::any_of(text.lines().begin(),
                     text.lines().begin() + static_cast<std::ptrdiff_t>(first),
                     [](std::string_view line) { return !columns_in(line).empty(); });
}

void read_clock_csv(const BenchmarkText& text, const BenchmarkDefaults&, BenchmarkFile& result) {
  std::vector<ClockColumn> columns;
  for (std::size_t i = 0; i < text.lines().size(); ++i) {
    const std::string_view line = text.lines()[i];
    if (trimmed(line).empty()) continue;
    if (auto names = columns_in(line); !names.empty()) {
      columns = std::move(names);
      if (!has_clock(columns))
        text.refuse(i,
                    "no column has the clock of the compute units; query it too, with nvidia-smi "
                    "as clocks.sm");
      result.format = result.program = program_of(columns);
      continue;
    }
    if (!columns.empty()) read_csv_line(text, i, columns, result);
  }
}

bool is_dcgmi_log(const BenchmarkText& text) { return text.begins_with("#Entity"); }

void read_dcgmi_log(const BenchmarkText& text, const BenchmarkDefaults&, BenchmarkFile& result) {
  std::vector<ClockColumn> columns;
  result.program = "dcgmi dmon";
  for (std::size_t i = 0; i < text.lines().size(); ++i) {
    const TextWords words = words_of(text.lines()[i]);
    if (words.size() < 2) continue;
    if (words[0] == "#Entity") {
      columns.clear();
      for (const std::string_view name : TextWords(words.begin() + 1, words.end()))
        columns.push_back(column_of(kDcgmColumns, name));
      if (!has_clock(columns))
        text.refuse(i,
                    "no column has the clock (SMCLK); watch field 100 too: dcgmi dmon -e 100,155");
    }
    if (words[0] != "GPU" || !number_in(words[1]) || words.size() != columns.size() + 2) continue;
    ReadingOfLine line(text, i);
    line.add(ColumnRole::Device, words[1]);
    for (std::size_t c = 0; c < columns.size(); ++c) line.add(columns[c].role, words[c + 2]);
    if (const auto reading = line.reading()) result.clocks.push_back(*reading);
  }
}

}  // namespace llmsim::hwdb
