#include "cli/sweep_grid.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "cli/number_list.h"
#include "cli/strategy_options.h"
#include "sim/base/error.h"
#include "sim/search/space.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {

namespace {

constexpr const char* kRecompute = "recompute";

const ListedOption* listed(const std::string& key) {
  for (const ListedOption& option : listed_options()) {
    if (option.key == key) return &option;
  }
  return nullptr;
}

std::vector<std::string> values_of_field(const sim::StrategyField& field, const std::string& text) {
  if (field.kind == sim::FieldKind::Count)
    return number_texts_in(option_name(field), text, range_of(field));
  // The layers of each stage are a list themselves.
  const bool is_one = field.kind == sim::FieldKind::Counts || field.kind == sim::FieldKind::Names;
  return is_one ? std::vector{text} : names_in(option_name(field), text);
}

std::size_t points_of(const std::vector<SweepAxis>& axes) {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes) {
    points *= axis.values.size();
    if (points > kMostSweepPoints)
      throw Error("the lists have more than " + std::to_string(kMostSweepPoints) +
                  " combinations; fewer values are expected");
  }
  return points;
}

void set(RunOptions& run, const std::string& key, const std::string& value) {
  if (const ListedOption* const option = listed(key))
    *option->text(run) = value;
  else if (key == kRecompute)
    run.recompute = value;
  else
    run.strategy[key] = value;
}

constexpr NumberRange kAnyNumber{1, 1 << 24};

std::string* given(std::optional<std::string>& text) { return text ? &*text : nullptr; }

std::string* field(RunOptions& options, const char* key) {
  const auto found = options.strategy.find(key);
  return found == options.strategy.end() ? nullptr : &found->second;
}

// In the order in which questions differ; the last one fastest.
constexpr ListedOption kListed[] = {
    {"model", [](RunOptions& o) { return &o.model; }},
    {"system", [](RunOptions& o) { return given(o.system); }},
    {"hardware", [](RunOptions& o) { return given(o.hardware); }},
    {"framework", [](RunOptions& o) { return given(o.framework); }},
    {"precision", [](RunOptions& o) { return field(o, "precision"); }},
    {"optimizer", [](RunOptions& o) { return field(o, "optimizer"); }},
    {"lora", [](RunOptions& o) { return given(o.lora); }, true},
    {"seq_len", [](RunOptions& o) { return given(o.seq_len); }, true},
    {"document_len", [](RunOptions& o) { return given(o.document_len); }, true},
    {"global_batch", [](RunOptions& o) { return given(o.global_batch); }, true},
    {"gpus", [](RunOptions& o) { return given(o.gpus); }, true},
};

}  // namespace

std::size_t SweepGrid::size() const { return points_of(axes); }

std::vector<std::string> SweepGrid::values(std::size_t point) const {
  std::vector<std::string> values(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    values[i] = axes[i].values[point % axes[i].values.size()];
    point /= axes[i].values.size();
  }
  return values;
}

RunOptions SweepGrid::run(std::size_t point) const {
  RunOptions run = base;
  const std::vector<std::string> chosen = values(point);
  for (std::size_t i = 0; i < axes.size(); ++i) set(run, axes[i].key, chosen[i]);
  return run;
}

SweepGrid grid_of(const RunOptions& options) {
  SweepGrid grid{.base = options, .axes = {}};
  const auto add = [&](const std::string& key, std::vector<std::string> values) {
    set(grid.base, key, values.front());
    if (values.size() > 1) grid.axes.push_back({key, std::move(values)});
  };
  for (const ListedOption& option : listed_options()) {
    if (const std::string* const text = option.text(grid.base))
      add(option.key, values_of(option, *text));
  }
  std::map<std::string, std::string> left = options.strategy;
  const auto add_field = [&](const sim::StrategyField& field) {
    const auto given = left.find(field.key);
    if (given == left.end() || listed(field.key)) return;
    add(field.key, values_of_field(field, given->second));
    left.erase(given);
  };
  for (const sim::SearchedField& searched : sim::searched_fields()) {
    const auto* const field = sim::find_strategy_field(searched.key);
    if (field && sim::is_always_searched(searched)) add_field(*field);
  }
  for (const sim::StrategyField& field : sim::strategy_fields()) add_field(field);
  if (options.recompute) add(kRecompute, names_in("--recompute", *options.recompute));
  points_of(grid.axes);
  return grid;
}

std::span<const ListedOption> listed_options() { return kListed; }

std::string option_of(const ListedOption& listed) { return option_named(listed.key); }

std::vector<std::string> values_of(const ListedOption& listed, const std::string& text) {
  const bool is_list = text.find_first_of(listed.numbers ? ",-*+" : ",") != std::string::npos;
  std::error_code too_long;  // for a name of a file
  if (!is_list || std::filesystem::exists(text, too_long)) return {text};
  return listed.numbers ? number_texts_in(option_of(listed), text, kAnyNumber)
                        : names_in(option_of(listed), text);
}

}  // namespace llmsim::cli
