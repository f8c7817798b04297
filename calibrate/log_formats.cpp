#include "calibrate/log_formats.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

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
    {"wall_time", Logged::WallTime},
    {"update", Logged::Update},
    {"global_batch", Logged::GlobalBatch},
    {"device_flops_per_second", Logged::DeviceFlopsPerSecond},
    {"mfu", Logged::Mfu},
    {"peak_allocated", Logged::PeakAllocated},
    {"peak_reserved", Logged::PeakReserved},
};

constexpr std::pair<const char*, double> kUnits[] = {
    {"", 1.0},     {"ms", 1e-3},  {"us", 1e-6},   {"hours", 3600.0}, {"MiB", kMiB},
    {"mega", 1e6}, {"giga", 1e9}, {"tera", 1e12}, {"percent", 0.01}, {"GiB", 1024.0 * kMiB},
};

constexpr std::pair<const char*, LogLayout> kLayouts[] = {
    {"line", LogLayout::Line},     {"memory", LogLayout::Line},     {"block", LogLayout::Block},
    {"object", LogLayout::Object}, {"columns", LogLayout::Columns}, {"bar", LogLayout::Bar},
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

// "KEY", "KEY{}UNIT" and "NAME ... KEY" (log_formats.h).
LogField field_of(Logged what, const std::string& text, double unit) {
  LogField field{.what = what, .key = text, .unit = unit};
  if (text.find(" ... ") != std::string::npos)
    std::tie(field.below, field.key) = hwdb::parted(text, " ... ");
  if (field.key.find("{}") != std::string::npos)
    std::tie(field.key, field.after) = hwdb::parted(field.key, "{}");
  return field;
}

// "step_time ms: KEY, KEY", or what holds of the whole format.
void add_line(const std::string& text, const Formats& above, LogFormat& format) {
  if (text == "mean of the run") {
    format.whole_run = true;
  } else if (text == "within steps") {
    format.within_steps = true;
  } else if (text.starts_with("needs ")) {
    format.needed_key = text.substr(6);
  } else if (text.starts_with("with ")) {
    format.other_work = text.substr(5);
  } else if (text.starts_with("names: ")) {
    format.names = hwdb::split(text.substr(7), ',');
  } else if (text.starts_with("keys of ")) {
    const auto other = std::ranges::find(above.steps, text.substr(8), &LogFormat::name);
    if (other == above.steps.end()) throw Error(text + ": no such format stands above");
    format.fields.insert(format.fields.end(), other->fields.begin(), other->fields.end());
  } else {
    const auto [words, keys] = hwdb::parted(text, ": ");
    const auto [number, unit] = hwdb::parted(words, " ");
    for (const std::string& key : hwdb::split(keys, ','))
      format.fields.push_back(field_of(named(kNumbers, number), key, named(kUnits, unit)));
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

// --- numbers ---

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether a comma at `at` of a number separates thousands: three digits follow it, and no fourth.
bool separates_thousands(std::string_view text, std::size_t at) {
  if (at == 0 || at + 3 >= text.size()) return false;
  const bool three = is_digit(text[at + 1]) && is_digit(text[at + 2]) && is_digit(text[at + 3]);
  return three && (at + 4 == text.size() || !is_digit(text[at + 4]));
}

constexpr std::size_t kLongestNumber = 48;

// Digits, point and exponent, without separators of thousands; `length` is that in `text`.
struct Digits {
  std::string text;
  std::size_t length = 0;
  int decimals = 0;
};

Digits digits_at(std::string_view text) {
  Digits digits;
  bool point = false;
  for (std::size_t i = 0; i < std::min(text.size(), kLongestNumber); ++i) {
    const char c = text[i];
    if (c == ',' && !point && separates_thousands(text, i)) continue;
    if (c == '.' && point) break;
    if (c != '.' && !is_digit(c)) break;
    if (point) ++digits.decimals;
    point = point || c == '.';
    digits.text += c;
    digits.length = i + 1;
  }
  return digits;
}

// "e-05": appends it and counts its decimals.
void add_exponent(std::string_view text, Digits& digits) {
  std::string_view rest = text.substr(digits.length);
  if (rest.empty() || (rest[0] != 'e' && rest[0] != 'E')) return;
  std::size_t i = 1;
  const bool negative = i < rest.size() && rest[i] == '-';
  if (i < rest.size() && (rest[i] == '-' || rest[i] == '+')) ++i;
  const std::size_t begin = i;
  while (i < rest.size() && i < begin + 3 && is_digit(rest[i])) ++i;
  if (i == begin) return;
  const int exponent = std::stoi(std::string(rest.substr(begin, i - begin)));
  digits.text += (negative ? "e-" : "e+") + std::to_string(exponent);
  digits.decimals += negative ? exponent : -exponent;
  digits.length += i;
}

// What stands behind a number.
std::string_view behind_number(std::string_view text) {
  Digits digits = digits_at(text);
  add_exponent(text, digits);
  return text.substr(digits.length);
}

// What the letters behind a number multiply it by; the unit of the field where they say nothing.
double unit_behind(std::string_view text, double unit) {
  const bool blank = text.starts_with(' ');
  const std::string_view suffix = text.substr(blank ? 1 : 0);
  if (suffix.empty()) return unit;
  if (suffix[0] == '%') return 0.01;
  constexpr std::string_view kBinary = "KMGT";
  const std::size_t power = kBinary.find(suffix[0]);
  if (power != std::string_view::npos && suffix.substr(1).starts_with("iB"))
    return std::pow(1024.0, static_cast<double>(power) + 1.0);
  if (blank || (suffix.size() > 1 && (is_letter(suffix[1]) || is_digit(suffix[1])))) return unit;
  switch (suffix[0]) {
    case 'K': return unit * 1e3;
    case 'M': return unit * 1e6;
    case 'B':
    case 'G': return unit * 1e9;
    case 'T': return unit * 1e12;
    default: return unit;
  }
}

// --- keys ---

// Whether a key may end or begin beside this character.
bool is_border(char c) { return !is_letter(c) && !is_digit(c) && c != '_' && c != '/' && c != '-'; }

// From what stands behind a key to its number, which may be numpy's: "np.float64(1.5)".
std::string_view to_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t:=\"'"), text.size()));
  for (const std::string_view type : {"np.float64(", "np.float32("})
    if (text.starts_with(type)) text.remove_prefix(type.size());
  return text;
}

// What stands behind a key at `at`, from its number on: of lines and blocks, where a key may begin
// and end anywhere between borders, and of objects, where it is in quotes and before a colon.
std::string_view value_of_line(std::string_view line, std::size_t at, const std::string& key) {
  const std::string_view rest = line.substr(at + key.size());
  const bool begins = at == 0 || is_border(line[at - 1]) || key[0] == '/';
  return begins && !rest.empty() && is_border(rest[0]) ? rest : std::string_view();
}

std::string_view value_of_object(std::string_view line, std::size_t at, const std::string& key) {
  const std::string_view rest = line.substr(at + key.size());
  if (at == 0 || rest.size() < 2) return {};
  const char quote = line[at - 1];
  if ((quote != '"' && quote != '\'') || rest[0] != quote) return {};
  const std::size_t colon = rest.find_first_not_of(" \t", 1);
  return colon != std::string_view::npos && rest[colon] == ':' ? rest.substr(colon)
                                                               : std::string_view();
}

// The number before the first place of a unit: "2.01it/s".
std::optional<Reading> reading_before(const LogField& field, std::string_view line) {
  const std::size_t end = line.find(field.after);
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t before = line.substr(0, end).find_last_not_of("0123456789.,");
  return reading_at(line.substr(before == std::string_view::npos ? 0 : before + 1), field.unit);
}

// The number behind the first place of the key that has one.
std::optional<Reading> field_reading(const LogField& field, std::string_view line,
                                     decltype(value_of_line)& value_of) {
  if (field.key.empty()) return reading_before(field, line);
  if (!field.below.empty()) {
    const std::size_t at = line.find(field.below);
    if (at == std::string_view::npos) return std::nullopt;
    line.remove_prefix(at + field.below.size());
    line = line.substr(0, line.find("\"name\""));
  }
  for (std::size_t at = line.find(field.key); at != std::string_view::npos;
       at = line.find(field.key, at + 1)) {
    const std::string_view number = to_number(value_of(line, at, field.key));
    const auto reading = reading_at(number, field.unit);
    if (reading && behind_number(number).starts_with(field.after)) return reading;
  }
  return std::nullopt;
}

bool is_sum(Logged what) { return what == Logged::PartTime || what == Logged::MicroStepTime; }

// Of several spellings the first counts; parts add.
void add_once(Logged what, const std::optional<Reading>& reading, Readings& readings) {
  if (reading && (is_sum(what) || !readings[what])) readings.add(what, *reading);
}

// --- progress bars ---

// Whether what stands before the per cent of a bar says that it is of training: "", "Epoch 0: ".
bool is_of_training(std::string_view before, const LogFormat& format) {
  const std::size_t digits = before.find_last_not_of("0123456789 ");
  before = before.substr(0, digits == std::string_view::npos ? 0 : digits + 1);
  return std::ranges::any_of(format.names, [&](const std::string& name) {
    if (name.empty()) return before.find_first_not_of(" \t") == std::string_view::npos;
    const std::size_t at = before.find(name);
    return at != std::string_view::npos && (at == 0 || is_border(before[at - 1]));
  });
}

// "  2%|x     | 2/100 [00:10<08:00,  5.02s/it]": the step and its seconds, or steps a second.
Readings bar_readings(const LogFormat& format, std::string_view line) {
  Readings readings;
  const std::size_t begin = line.find("%|"), open = line.find(" [", begin);
  if (begin == std::string_view::npos || open == std::string_view::npos ||
      !is_of_training(line.substr(0, begin), format))
    return readings;
  const std::string_view counts = line.substr(line.rfind('|', open) + 1),
                         rates = line.substr(open + 2);
  const std::size_t left = rates.find('<'), comma = rates.find(", ", left);
  const std::size_t close = rates.find(']');
  if (left == std::string_view::npos || comma >= close) return readings;
  const std::string_view rate = rates.substr(comma + 2, close - comma - 2);
  const auto step = reading_at(to_number(counts)), value = reading_at(to_number(rate));
  if (!step || !value || step->value < 1.0) return readings;
  if (rate.find("s/it") != std::string_view::npos || rate.find("s/step") != std::string_view::npos)
    readings.add(Logged::StepTime, *value);
  else if (rate.find("it/s") != std::string_view::npos)
    readings.add(Logged::StepsPerSecond, *value);
  if (readings.has_time()) readings.add(Logged::Step, *step);
  return readings;
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

constexpr std::size_t kShownColumns = 6, kLongestName = 60;

// Of a column or a run, in messages.
std::string shown_name(std::string_view name) {
  return std::string(name.substr(0, kLongestName)) + (name.size() > kLongestName ? "..." : "");
}

// "RUN - KEY" of an export of Weights & Biases; no run where there is none.
std::pair<std::string_view, std::string_view> run_and_key(std::string_view cell) {
  constexpr std::string_view kBetween = " - ";
  const std::size_t at = cell.rfind(kBetween);
  if (at == std::string_view::npos) return {{}, cell};
  return {cell.substr(0, at), cell.substr(at + kBetween.size())};
}

std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text)
    if (is_letter(c) || is_digit(c)) letters += c;
  return letters;
}

// Of "run-NAME-tag-KEY.csv", in which TensorBoard replaces what names of files can't have.
std::string tag_of(std::string_view file) {
  file.remove_prefix(file.rfind('/') + 1);
  file = file.substr(0, file.rfind('.'));
  const std::size_t at = file.rfind("tag-");
  return letters_of(at == std::string_view::npos ? file : file.substr(at + 4));
}

// Exports of one scalar call its column "Value", and the file by its key.
const LogField* field_of_column(const LogFormat& format, std::string_view key,
                                std::string_view file) {
  const bool by_file = key == "Value";
  const std::string tag = by_file ? tag_of(file) : std::string();
  const auto found = std::ranges::find_if(format.fields, [&](const LogField& field) {
    return by_file ? letters_of(field.key) == tag : field.key == key;
  });
  return found != format.fields.end() ? &*found : nullptr;
}

}  // namespace

std::optional<Reading> Readings::operator[](Logged what) const {
  return (there_ & bit(what)) != 0 ? std::optional(values_[place(what)]) : std::nullopt;
}

void Readings::set(Logged what, const std::optional<Reading>& reading) {
  const auto at = values_.begin() + static_cast<std::ptrdiff_t>(place(what));
  const bool is_there = (there_ & bit(what)) != 0;
  if (reading && is_there)
    *at = *reading;
  else if (reading)
    values_.insert(at, *reading);
  else if (is_there)
    values_.erase(at);
  there_ = reading ? there_ | bit(what) : there_ & ~bit(what);
}

void Readings::add(Logged what, const Reading& reading) {
  const std::optional<Reading> value = (*this)[what];
  if (value && is_sum(what))
    set(what, Reading{value->value + reading.value, value->rounding + reading.rounding});
  else
    set(what, reading);
}

bool Readings::has_time() const {
  for (const Logged what :
       {Logged::StepTime, Logged::PartTime, Logged::MicroStepTime, Logged::StepsPerSecond,
        Logged::SamplesPerSecond, Logged::TokensPerSecond, Logged::DeviceTokensPerSecond,
        Logged::ElapsedTime, Logged::WallTime}) {
    if ((*this)[what] && (*this)[what]->value > 0.0) return true;
  }
  return false;
}

std::span<const LogFormat> log_formats() { return formats().steps; }
std::span<const LogFormat> memory_formats() { return formats().memory; }

Readings readings_of(const LogFormat& format, std::string_view line) {
  if (format.layout == LogLayout::Bar) return bar_readings(format, line);
  Readings readings;
  const bool object = format.layout == LogLayout::Object;
  if (object && line.find('{') == std::string_view::npos) return readings;
  if (object && line.find('"' + format.needed_key + '"') == std::string_view::npos &&
      !format.needed_key.empty())
    return readings;
  if (format.layout == LogLayout::Line && line.find(format.sign) == std::string_view::npos)
    return readings;
  for (const LogField& field : format.fields)
    add_once(field.what, field_reading(field, line, object ? value_of_object : value_of_line),
             readings);
  return readings;
}

std::vector<const LogField*> columns_of(const LogFormat& format, std::string_view line,
                                        std::string_view file) {
  std::vector<const LogField*> columns;
  Readings found;
  std::vector<std::string_view> runs;
  for (const std::string_view cell : cells_of(line, delimiter_of(line))) {
    const auto [run, key] = run_and_key(cell);
    const LogField* const field = field_of_column(format, key, file);
    const bool known = field != nullptr && !found[field->what];
    columns.push_back(known ? field : nullptr);
    if (known) found.add(field->what, {.value = 1.0});
    if (field != nullptr && !run.empty()) runs.push_back(run);
  }
  const bool of_one_run = std::ranges::all_of(runs, [&](auto run) { return run == runs.front(); });
  if (!found.has_time() || !of_one_run) columns.clear();
  return columns;
}

std::optional<std::string> why_no_columns(const LogFormat& format, std::string_view header,
                                          std::string_view row) {
  const auto names = cells_of(header, delimiter_of(header));
  const auto cells = cells_of(row, delimiter_of(header));
  const bool named = std::ranges::all_of(names, [](std::string_view name) {
    return name.empty() || std::ranges::any_of(name, is_letter);
  });
  if (names.size() < 2 || !named || cells.size() != names.size() || header.find('{') == 0 ||
      std::ranges::none_of(cells,
                           [](std::string_view cell) { return reading_at(cell).has_value(); }))
    return std::nullopt;
  std::vector<std::string> runs, shown;
  for (const std::string_view name : names) {
    const auto [run, key] = run_and_key(name);
    if (shown.size() < kShownColumns) shown.push_back(shown_name(name));
    if (run.empty() || field_of_column(format, key, {}) == nullptr) continue;
    const std::string shown_run = shown_name(run);
    if (runs.size() < kShownColumns && std::ranges::find(runs, shown_run) == runs.end())
      runs.push_back(shown_run);
  }
  if (runs.size() > 1)
    return "its columns are of several runs (" + sim::joined(runs, ", ") + "); export one of them";
  return "none of its columns (" + sim::joined(shown, ", ") +
         (names.size() > shown.size() ? ", ..." : "") +
         ") is a step time or a rate that is known, as step_time_s, tokens_per_s_per_device, " +
         "tokens_per_s or samples_per_s; rename the one that is";
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

std::optional<Reading> reading_at(std::string_view text, double unit) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  Digits digits = digits_at(text);
  add_exponent(text, digits);
  double value = 0.0;
  const char* const end = digits.text.data() + digits.text.size();
  const auto [stop, error] = std::from_chars(digits.text.data(), end, value);
  if (digits.text.empty() || error != std::errc() || stop != end) return std::nullopt;
  const double size = unit_behind(text.substr(digits.length), unit);
  const Reading reading{.value = (negative ? -value : value) * size,
                        .rounding = 0.5 * std::pow(10.0, -digits.decimals) * size};
  if (!std::isfinite(reading.value) || !std::isfinite(reading.rounding)) return std::nullopt;
  return reading;
}

}  // namespace llmsim::calibrate
