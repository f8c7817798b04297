#include "calibrate/log_formats.h"

#include <algorithm>
#include <string>
#include <utility>

#include "calibrate/shipped_log_formats.h"
#include "hwdb/text/text_blocks.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

// --- the formats ---

constexpr double kMiB = 1024.0 * 1024.0;

constexpr std::pair<const char*, Logged> kNumbers[] = {
    {"step", Logged::Step},
    {"step_time", Logged::StepTime},
    {"part_time", Logged::PartTime},
    {"micro_step_time", Logged::MicroStepTime},
    {"steps_per_second", Logged::StepsPerSecond},
    {"samples_per_second", Logged::SamplesPerSecond},
    {"tokens_per_second", Logged::TokensPerSecond},
    {"device_tokens_per_second", Logged::DeviceTokensPerSecond},
    {"elapsed_time", Logged::ElapsedTime},
    {"global_batch", Logged::GlobalBatch},
    {"device_flops_per_second", Logged::DeviceFlopsPerSecond},
    {"mfu", Logged::Mfu},
    {"peak_allocated", Logged::PeakAllocated},
    {"peak_reserved", Logged::PeakReserved},
};

constexpr std::pair<const char*, double> kUnits[] = {
    {"", 1.0},     {"ms", 1e-3},   {"hours", 3600.0}, {"MiB", kMiB}, {"GiB", 1024.0 * kMiB},
    {"giga", 1e9}, {"tera", 1e12},
};

constexpr std::pair<const char*, LogLayout> kLayouts[] = {
    {"line", LogLayout::Line},     {"memory", LogLayout::Line},     {"block", LogLayout::Block},
    {"object", LogLayout::Object}, {"columns", LogLayout::Columns},
};

template <class Value, std::size_t N>
Value named(const std::pair<const char*, Value> (&table)[N], const std::string& name) {
  for (const auto& [known, value] : table)
    if (name == known) return value;
  throw Error(name + ": not known of log_formats.h");
}

struct Formats {
  std::vector<LogFormat> steps, memory;
};

// "step_time ms: KEY, KEY", or what holds of the whole format.
void add_line(const std::string& text, const Formats& above, LogFormat& format) {
  if (text == "mean of the run") {
    format.whole_run = true;
  } else if (text.starts_with("keys of ")) {
    const auto other = std::ranges::find(above.steps, text.substr(8), &LogFormat::name);
    if (other == above.steps.end()) throw Error(text + ": no such format stands above");
    format.fields = other->fields;
  } else {
    const auto [words, keys] = hwdb::parted(text, ": ");
    const auto [number, unit] = hwdb::parted(words, " ");
    for (const std::string& key : hwdb::split(keys, ','))
      format.fields.push_back({named(kNumbers, number), key, named(kUnits, unit)});
  }
}

// "LAYOUT NAME: SIGN" and the lines below it.
void add_format(const hwdb::Block& block, const std::string& file, Formats& all) {
  LogFormat format;
  const std::string layout = hwdb::parted(block.head.text, " ").first;
  hwdb::at_line(file, block.head, [&] {
    const auto [name, sign] = hwdb::parted(hwdb::parted(block.head.text, " ").second, ": ");
    format.name = name, format.sign = hwdb::unquoted(sign);
    format.layout = named(kLayouts, layout);
  });
  for (const hwdb::Line& line : block.body)
    hwdb::at_line(file, line, [&] { add_line(line.text, all, format); });
  (layout == "memory" ? all.memory : all.steps).push_back(std::move(format));
}

const Formats& formats() {
  static const Formats all = [] {
    const std::string file = "log_formats.rows";
    Formats read;
    for (const hwdb::Block& block : hwdb::blocks_of(shipped_log_formats(), file))
      add_format(block, file, read);
    return read;
  }();
  return all;
}

// --- keys ---

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether a key may end or begin beside this character.
bool is_border(char c) { return !is_letter(c) && !is_digit(c) && c != '_' && c != '/' && c != '-'; }

// From what stands behind a key to its number.
std::string_view to_number(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t:=\"'"), text.size());
  return text.substr(begin);
}

// The number behind the first place of `key` that has one.
std::optional<Reading> field_reading(const LogField& field, std::string_view line) {
  for (std::size_t at = line.find(field.key); at != std::string_view::npos;
       at = line.find(field.key, at + 1)) {
    const std::string_view rest = line.substr(at + field.key.size());
    if (rest.empty()) return std::nullopt;
    const bool begins = at == 0 || is_border(line[at - 1]) || field.key[0] == '/';
    if (!begins || !is_border(rest[0])) continue;
    if (const auto reading = reading_at(to_number(rest), field.unit)) return reading;
  }
  return std::nullopt;
}

// The number behind `key` in quotes and a colon.
std::optional<Reading> member_reading(const LogField& field, std::string_view line) {
  for (std::size_t at = line.find(field.key); at != std::string_view::npos;
       at = line.find(field.key, at + 1)) {
    const std::string_view rest = line.substr(at + field.key.size());
    if (at == 0 || rest.size() < 2) continue;
    const char quote = line[at - 1];
    if ((quote != '"' && quote != '\'') || rest[0] != quote) continue;
    const std::size_t colon = rest.find_first_not_of(" \t", 1);
    if (colon == std::string_view::npos || rest[colon] != ':') continue;
    if (const auto reading = reading_at(to_number(rest.substr(colon)), field.unit)) return reading;
  }
  return std::nullopt;
}

bool is_sum(Logged what) { return what == Logged::PartTime || what == Logged::MicroStepTime; }

// Of several spellings the first counts; parts add.
void add_once(Logged what, const std::optional<Reading>& reading, Readings& readings) {
  if (reading && (is_sum(what) || !readings[what])) readings.add(what, *reading);
}

// --- tables ---

char delimiter_of(std::string_view line) {
  for (const char c : {'\t', ';', ','})
    if (line.find(c) != std::string_view::npos) return c;
  return ',';
}

std::string_view trimmed(std::string_view cell) {
  const std::size_t begin = cell.find_first_not_of(" \"\t");
  if (begin == std::string_view::npos) return {};
  return cell.substr(begin, cell.find_last_not_of(" \"\t") - begin + 1);
}

// Cells in quotes may hold the delimiter.
std::vector<std::string_view> cells_of(std::string_view line, char delimiter) {
  std::vector<std::string_view> cells;
  std::size_t begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (quoted || line[i] != delimiter)) continue;
    cells.push_back(trimmed(line.substr(begin, i - begin)));
    begin = i + 1;
  }
  return cells;
}

}  // namespace

void Readings::add(Logged what, const Reading& reading) {
  std::optional<Reading>& value = values_[index(what)];
  if (value && is_sum(what))
    value = Reading{value->value + reading.value, value->rounding + reading.rounding};
  else
    value = reading;
}

bool Readings::has_time() const {
  for (const Logged what :
       {Logged::StepTime, Logged::PartTime, Logged::MicroStepTime, Logged::StepsPerSecond,
        Logged::SamplesPerSecond, Logged::TokensPerSecond, Logged::DeviceTokensPerSecond,
        Logged::ElapsedTime}) {
    if ((*this)[what] && (*this)[what]->value > 0.0) return true;
  }
  return false;
}

std::span<const LogFormat> log_formats() { return formats().steps; }
std::span<const LogFormat> memory_formats() { return formats().memory; }

Readings readings_of(const LogFormat& format, std::string_view line) {
  Readings readings;
  if (format.layout == LogLayout::Object) {
    if (line.find('{') == std::string_view::npos) return readings;
    for (const LogField& field : format.fields)
      add_once(field.what, member_reading(field, line), readings);
    return readings;
  }
  if (format.layout == LogLayout::Line && line.find(format.sign) == std::string_view::npos)
    return readings;
  for (const LogField& field : format.fields)
    add_once(field.what, field_reading(field, line), readings);
  return readings;
}

std::vector<const LogField*> columns_of(const LogFormat& format, std::string_view line) {
  std::vector<const LogField*> columns;
  Readings found;
  for (const std::string_view cell : cells_of(line, delimiter_of(line))) {
    const auto field = std::ranges::find(format.fields, cell, &LogField::key);
    const bool known = field != format.fields.end() && !found[field->what];
    columns.push_back(known ? &*field : nullptr);
    if (known) found.add(field->what, {.value = 1.0});
  }
  if (!found.has_time()) columns.clear();
  return columns;
}

Readings readings_of(const std::vector<const LogField*>& columns, std::string_view line) {
  Readings readings;
  const std::vector<std::string_view> cells = cells_of(line, delimiter_of(line));
  if (cells.size() < columns.size()) return readings;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == nullptr) continue;
    if (const auto reading = reading_at(cells[i], columns[i]->unit))
      readings.add(columns[i]->what, *reading);
  }
  return readings;
}

}  // namespace llmsim::calibrate
