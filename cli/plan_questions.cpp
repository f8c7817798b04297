#include "cli/plan_questions.h"

#include <algorithm>

#include "cli/number_list.h"
#include "cli/strategy_options.h"
#include "cli/sweep_grid.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {
namespace {

using Values = std::vector<std::string>;

constexpr std::size_t kMostQuestions = 1000;

// Each question with each of the values, which `set` puts into its options.
template <class Set>
std::vector<PlanQuestion> multiplied(const std::vector<PlanQuestion>& questions,
                                     const Values& values, bool is_key, const Set& set) {
  std::vector<PlanQuestion> all;
  for (const PlanQuestion& question : questions) {
    for (const std::string& value : values) {
      PlanQuestion& one = all.emplace_back(question);
      set(one.run, value);
      if (is_key) one.values.push_back(value);
    }
  }
  return all;
}

// What --allow names, by kind.
struct Allowed {
  Values schedules, precisions, offloads;
};

Allowed allowed_in(const std::string& text) {
  Allowed allowed;
  for (const std::string& name : words_in(text)) {
    if (sim::named<sim::PipelineSchedule>(name))
      allowed.schedules.push_back(name);
    else if (sim::named<sim::Precision>(name))
      allowed.precisions.push_back(name);
    else if (name == "optimizer" || name == "parameters" || name == "activations")
      allowed.offloads.push_back(name);
    else
      throw Error("--allow = " + text + ": schedules, precisions, optimizer, parameters or " +
                  "activations are expected");
  }
  return allowed;
}

std::string strategy_text(const RunOptions& options, const char* key) {
  const auto found = options.strategy.find(key);
  return found == options.strategy.end() ? "" : found->second;
}

// `asked` and then what is allowed beside it; `usual` where nothing is asked for.
Values with_allowed(const std::string& asked, const char* usual, const Values& allowed) {
  Values values = asked.empty() ? Values{usual} : split(asked);
  for (const std::string& value : allowed) {
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

// The question with and without what is allowed.
PlanQuestions allowed_questions(const RunOptions& options) {
  const Allowed allowed = allowed_in(options.allowed);
  PlanQuestions questions{.keys = {}, .list = {PlanQuestion{options, {}}}};
  RunOptions& run = questions.list.front().run;
  run.allowed.clear();
  const std::string schedules = strategy_text(options, "pipeline_schedule");
  if (!allowed.schedules.empty())
    run.strategy["pipeline_schedule"] = (schedules.empty() ? "1f1b,interleaved" : schedules) + "," +
                                        sim::joined(allowed.schedules, ",");
  const auto add = [&](const char* key, const Values& values, const auto& set) {
    questions.keys.emplace_back(key);
    questions.list = multiplied(questions.list, values, true, set);
  };
  if (!allowed.precisions.empty())
    add("precision", with_allowed(strategy_text(options, "precision"), "usual", allowed.precisions),
        [](RunOptions& one, const std::string& precision) {
          if (precision != "usual") one.strategy["precision"] = precision;
        });
  if (!allowed.offloads.empty()) {
    Values offloads{options.offload.value_or("nothing")};
    for (const std::string& part : allowed.offloads)
      offloads.push_back(options.offload ? *options.offload + "," + part : part);
    add("offload", offloads, [](RunOptions& one, const std::string& offload) {
      if (offload != "nothing") one.offload = offload;
    });
  }
  return questions;
}

}  // namespace

PlanQuestions questions_of(const RunOptions& options) {
  PlanQuestions questions = allowed_questions(options);
  for (const ListedOption& listed : listed_options()) {
    const auto& keys = questions.keys;
    if (std::ranges::find(keys, listed.key) != keys.end()) continue;  // allowed ones
    RunOptions asked = options;
    const std::string* const text = listed.text(asked);
    if (!text) continue;
    const Values values = values_of(listed, *text);
    const bool is_key = values.size() > 1 || std::string(listed.key) == "gpus";
    if (is_key) questions.keys.emplace_back(listed.key);
    if (values.size() * questions.list.size() > kMostQuestions)
      throw Error(option_of(listed) + " = " + *text + ": at most " +
                  std::to_string(kMostQuestions) + " questions in all are expected");
    questions.list =
        multiplied(questions.list, values, is_key,
                   [&](RunOptions& one, const std::string& value) { *listed.text(one) = value; });
  }
  return questions;
}

}  // namespace llmsim::cli
