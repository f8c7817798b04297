#include "calibrate/ablation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "calibrate/setting.h"
#include "calibrate/statistics.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using hwdb::Comparison;
using hwdb::RunRecord;

constexpr double kRepeatNoise = 0.02;

// A measured run with its prediction.
struct Scored {
  const RunRecord* record;
  const BacktestRow* row;
  Settings settings;
};

using ById = std::map<std::string, Scored>;

ById by_id(std::span<const hwdb::RunFile> files, const Backtest& backtest) {
  std::map<std::string, const BacktestRow*> rows;
  for (const BacktestRow& row : backtest.rows) rows.emplace(row.id, &row);
  ById result;
  for (const hwdb::RunFile& file : files) {
    for (const RunRecord& record : file.runs) {
      const auto row = rows.find(record.id);
      if (row != rows.end())
        result.emplace(record.id, Scored{&record, row->second, settings_of(record)});
    }
  }
  return result;
}

// --- one pair ---

double noise_of(const Scored& off, const Scored& on) {
  const double stated =
      2.0 * std::max(off.record->noise.value_or(0.0), on.record->noise.value_or(0.0));
  return std::max(
      {stated, rounding(*off.record->measured) + rounding(*on.record->measured), kRepeatNoise});
}

template <class Quantity>
std::optional<double> ratio(const std::optional<Quantity>& off, const std::optional<Quantity>& on) {
  if (!off || !on) return std::nullopt;
  return *on / *off;
}

// The ratios that both runs have; a pair of runs that printed times must not be refused for a
// missing score, so `stated` lifts that.
AblationPair pair_of(const std::string& setting, const Scored& off, const Scored& on, bool stated) {
  AblationPair pair;
  pair.setting = setting;
  pair.group = on.record->group;
  pair.off_id = off.record->id;
  pair.on_id = on.record->id;
  if (stated || (off.row->scored.step_time && on.row->scored.step_time))
    pair.measured_time = ratio(off.row->measured_time, on.row->measured_time);
  if (pair.measured_time) {
    pair.predicted_time = ratio(off.row->predicted_time, on.row->predicted_time);
    pair.noise = noise_of(off, on);
  }
  if (off.row->scored.memory && on.row->scored.memory &&
      off.record->measured->memory_kind == on.record->measured->memory_kind &&
      off.record->measured->memory_scope == on.record->measured->memory_scope) {
    pair.measured_peak = ratio(off.row->measured_peak, on.row->measured_peak);
    if (pair.measured_peak)
      pair.predicted_peak = ratio(off.row->predicted_peak, on.row->predicted_peak);
  }
  return pair;
}

bool has_figures(const AblationPair& pair) { return pair.measured_time || pair.measured_peak; }

// --- pairs that the records tell apart ---

// Of repeats, the fastest.
bool faster(const Scored& a, const Scored& b) {
  if (a.row->scored.step_time != b.row->scored.step_time) return a.row->scored.step_time;
  if (!a.row->measured_time || !b.row->measured_time) return a.row->measured_time.has_value();
  return *a.row->measured_time < *b.row->measured_time;
}

using ByValue = std::map<SettingValue, Scored>;

void add_pair(const std::string& setting, const ByValue::value_type& off,
              const ByValue::value_type& on, std::vector<AblationPair>& pairs) {
  const bool recipe = setting == "precision" && off.first.rank == on.first.rank;
  AblationPair pair = pair_of(recipe ? "recipe" : setting, off.second, on.second, false);
  pair.off = off.first.text;
  pair.on = on.first.text;
  if (has_figures(pair)) pairs.push_back(std::move(pair));
}

void pair_up(const std::string& setting, const ByValue& values, std::vector<AblationPair>& pairs) {
  for (auto on = values.begin(); on != values.end(); ++on) {
    for (auto off = values.begin(); off != on; ++off) {
      if (std::next(off) == on || !is_scale(setting)) add_pair(setting, *off, *on, pairs);
    }
  }
}

// Runs without figures of the wanted kind would break the chain of neighbours.
void add_pairs(const std::string& setting, const ById& runs, bool (*counts)(const BacktestRow&),
               std::vector<AblationPair>& pairs) {
  std::map<std::string, ByValue> alike;
  for (const auto& [id, run] : runs) {
    const auto value = run.settings.find(setting);
    if (value == run.settings.end() || !value->second.known || !counts(*run.row)) continue;
    const auto [place, added] =
        alike[all_but(setting, *run.record, run.settings)].emplace(value->second, run);
    if (!added && faster(run, place->second)) place->second = run;
  }
  for (const auto& [key, values] : alike) pair_up(setting, values, pairs);
}

bool has_time(const BacktestRow& row) { return row.scored.step_time && row.measured_time; }
bool has_only_peak(const BacktestRow& row) {
  return row.scored.memory && row.measured_peak && !has_time(row);
}

std::set<std::string> setting_names(const ById& runs) {
  std::set<std::string> names;
  for (const auto& [id, run] : runs) {
    for (const auto& [name, value] : run.settings) names.insert(name);
  }
  return names;
}

// --- comparisons ---

const Scored& found(const ById& runs, const Comparison& comparison, const std::string& id) {
  const auto run = runs.find(id);
  if (run == runs.end())
    throw Error("comparison of " + comparison.setting + ": there is no run " + id);
  return run->second;
}

std::string value_text(const std::string& setting, const RunRecord& record, const char* fallback) {
  const Settings settings = settings_of(record);
  const auto value = settings.find(setting);
  return value == settings.end() || !value->second.known ? fallback : value->second.text;
}

void set_values(const Comparison& comparison, const RunRecord& off, const RunRecord& on,
                AblationPair& pair) {
  const bool given = comparison.values.size() == 2;
  pair.off = given ? comparison.values.front() : value_text(comparison.setting, off, "off");
  pair.on = given ? comparison.values.back() : value_text(comparison.setting, on, "on");
  if (pair.off == pair.on)
    std::tie(pair.off, pair.on) = std::pair<std::string, std::string>("off", "on");
}

AblationPair measured_pair(const Comparison& comparison, const ById& runs) {
  const Scored& off = found(runs, comparison, *comparison.off_id);
  const Scored& on = found(runs, comparison, *comparison.on_id);
  AblationPair pair = pair_of(comparison.setting, off, on, true);
  set_values(comparison, *off.record, *on.record, pair);
  return pair;
}

AblationPair stated_pair(const Comparison& comparison, const Predictor& predict) {
  AblationPair pair;
  pair.setting = comparison.setting;
  pair.group = comparison.group;
  set_values(comparison, *comparison.off, *comparison.on, pair);
  pair.off_id = comparison.on->id + " without";
  pair.on_id = comparison.on->id;
  pair.measured_time = 1.0 / (1.0 + *comparison.speedup);
  pair.noise = std::max(2.0 * comparison.noise.value_or(0.0), kRepeatNoise);
  const sim::Seconds off = predict(*comparison.off).step_time,
                     on = predict(*comparison.on).step_time;
  if (off > sim::Seconds(0.0) && on > sim::Seconds(0.0)) pair.predicted_time = on / off;
  return pair;
}

bool same_runs(const AblationPair& a, const AblationPair& b) {
  return (a.off_id == b.off_id && a.on_id == b.on_id) ||
         (a.off_id == b.on_id && a.on_id == b.off_id);
}

void add_comparisons(std::span<const Comparison> comparisons, const ById& runs,
                     const Predictor& predict, std::vector<AblationPair>& pairs) {
  for (const Comparison& comparison : comparisons) {
    AblationPair pair =
        comparison.speedup ? stated_pair(comparison, predict) : measured_pair(comparison, runs);
    std::erase_if(pairs, [&](const AblationPair& found) { return same_runs(found, pair); });
    if (has_figures(pair)) pairs.push_back(std::move(pair));
  }
}

// --- errors ---

template <class Wanted>
AblationErrors errors_of(const std::string& name, const std::vector<AblationPair>& pairs,
                         const Wanted& wanted) {
  AblationErrors errors;
  errors.setting = name;
  std::vector<double> times, peaks;
  for (const AblationPair& pair : pairs) {
    if (!wanted(pair)) continue;
    if (const auto error = pair.time_error()) times.push_back(*error);
    if (const auto error = pair.peak_error()) peaks.push_back(*error);
    errors.decided += pair.decides() ? 1 : 0;
    errors.right += pair.decides() && pair.right() ? 1 : 0;
  }
  errors.pairs = static_cast<int>(times.size());
  errors.memory_pairs = static_cast<int>(peaks.size());
  if (!times.empty()) errors.worst_error = *std::ranges::max_element(times);
  errors.median_error = median_if_any(times);
  errors.memory_median_error = median_if_any(peaks);
  return errors;
}

bool scored_apart(const std::string& setting) {
  return setting == kTopology || setting == kSoftware;
}

void set_study_errors(Ablations& result) {
  std::set<std::pair<std::string, std::string>> studies;
  for (const AblationPair& pair : result.pairs) {
    if (!scored_apart(pair.setting)) studies.emplace(pair.setting, pair.group);
  }
  double errors = 0.0, accuracies = 0.0;
  int timed = 0, decided = 0;
  // a lambda cannot capture a structured binding in Clang 14.
  for (const auto& study_of : studies) {
    const AblationErrors study =
        errors_of(study_of.first, result.pairs, [&](const AblationPair& pair) {
          return pair.setting == study_of.first && pair.group == study_of.second;
        });
    if (study.median_error) errors += *study.median_error, ++timed;
    if (const auto accuracy = study.sign_accuracy()) accuracies += *accuracy, ++decided;
  }
  if (timed > 0) result.study_median_error = errors / timed;
  if (decided > 0) result.study_sign_accuracy = accuracies / decided;
}

bool is_number(const std::string& text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, value).ptr == end && !text.empty();
}

bool is_switched(const AblationPair& pair) {
  return !scored_apart(pair.setting) && !(is_number(pair.off) && is_number(pair.on));
}

void set_errors(Ablations& result) {
  std::set<std::string> names;
  for (const AblationPair& pair : result.pairs) names.insert(pair.setting);
  const auto of = [&](const std::string& name) {
    return errors_of(name, result.pairs,
                     [&](const AblationPair& pair) { return pair.setting == name; });
  };
  for (const std::string& name : names) {
    if (!scored_apart(name)) result.settings.push_back(of(name));
  }
  result.topology = of(kTopology);
  result.software = of(kSoftware);
  result.all = errors_of("all settings", result.pairs,
                         [](const AblationPair& pair) { return !scored_apart(pair.setting); });
  result.measured = errors_of(
      "all settings, measured times", result.pairs,
      [](const AblationPair& pair) { return !scored_apart(pair.setting) && !pair.computed; });
  result.switched = errors_of("all settings that are switched", result.pairs, is_switched);
  set_study_errors(result);
}

// Half a unit of the last non-zero digit of `value`, relative; at least two digits are significant.
double half_unit(double value) {
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  const std::string printed(text, end);
  const std::size_t mantissa = printed.find('e');
  const int decimals = std::max(mantissa > 2 ? static_cast<int>(mantissa) - 2 : 0, 1);
  const int exponent = static_cast<int>(std::floor(std::log10(value)));
  return 0.5 * std::pow(10.0, exponent - decimals) / value;
}

}  // namespace

bool AblationPair::decides() const {
  return measured_time && std::abs(std::log(*measured_time)) > noise;
}

bool AblationPair::right() const {
  return measured_time && predicted_time && (*measured_time - 1.0) * (*predicted_time - 1.0) > 0.0;
}

std::optional<double> AblationPair::time_error() const {
  if (!measured_time) return std::nullopt;
  return predicted_time ? std::abs(std::log(*predicted_time / *measured_time)) : kMissedError;
}

std::optional<double> AblationPair::peak_error() const {
  if (!measured_peak) return std::nullopt;
  return predicted_peak ? std::abs(std::log(*predicted_peak / *measured_peak)) : kMissedError;
}

std::optional<double> AblationErrors::sign_accuracy() const {
  if (decided == 0) return std::nullopt;
  return static_cast<double>(right) / decided;
}

double rounding(const hwdb::Measured& measured) {
  const std::string from = measured.step_time_derived_from.value_or("");
  if (from.find("tokens_per_s") != std::string::npos && measured.tokens_per_second_per_device)
    return half_unit(*measured.tokens_per_second_per_device);
  if (from.find("mfu") != std::string::npos && measured.reported_mfu)
    return half_unit(*measured.reported_mfu);
  if (!from.empty() && measured.reported_tflops_per_device)
    return half_unit(*measured.reported_tflops_per_device);
  return measured.step_time ? half_unit(measured.step_time->value()) : 0.0;
}

Ablations ablations(std::span<const hwdb::RunFile> files, std::span<const Comparison> comparisons,
                    const Backtest& backtest, const Predictor& predict) {
  const ById runs = by_id(files, backtest);
  Ablations result;
  for (const std::string& setting : setting_names(runs)) {
    add_pairs(setting, runs, has_time, result.pairs);
    add_pairs(setting, runs, has_only_peak, result.pairs);
  }
  add_comparisons(comparisons, runs, predict, result.pairs);
  const std::set<std::string> computed = computed_groups(files);
  for (AblationPair& pair : result.pairs) pair.computed = computed.contains(pair.group);
  std::ranges::sort(result.pairs, [](const AblationPair& a, const AblationPair& b) {
    return std::tie(a.setting, a.group, a.off_id, a.on_id) <
           std::tie(b.setting, b.group, b.off_id, b.on_id);
  });
  set_errors(result);
  return result;
}

}  // namespace llmsim::calibrate
