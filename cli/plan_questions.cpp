#include "cli/plan_questions.h"

#include <filesystem>
#include <sstream>
#include <utility>

#include "cli/number_list.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {
namespace {

using Values = std::vector<std::string>;

constexpr NumberRange kAnyNumber{1, 1 << 24};
constexpr std::size_t kMostQuestions = 1000;

// An option that may have a list.
struct Listed {
  const char* key;
  std::string* (*text)(RunOptions&);  // null where it is not given
  bool numbers = false;
};

std::string* given(std::optional<std::string>& text) { return text ? &*text : nullptr; }

std::string* field(RunOptions& options, const char* key) {
  const auto found = options.strategy.find(key);
  return found == options.strategy.end() ? nullptr : &found->second;
}

// In the order in which questions differ; the last one fastest.
constexpr Listed kListed[] = {
    {"model", [](RunOptions& o) { return &o.model; }},
    {"system", [](RunOptions& o) { return given(o.system); }},
    {"hardware", [](RunOptions& o) { return given(o.hardware); }},
    {"framework", [](RunOptions& o) { return given(o.framework); }},
    {"precision", [](RunOptions& o) { return field(o, "precision"); }},
    {"optimizer", [](RunOptions& o) { return field(o, "optimizer"); }},
    {"seq_len", [](RunOptions& o) { return given(o.seq_len); }, true},
    {"global_batch", [](RunOptions& o) { return given(o.global_batch); }, true},
    {"gpus", [](RunOptions& o) { return given(o.gpus); }, true},
};

std::string option_of(const Listed& listed) {
  std::string option = std::string("--") + listed.key;
  for (char& c : option) c = c == '_' ? '-' : c;
  return option;
}

// What a number is wrong by is said where it is read alone.
Values values_of(const Listed& listed, const std::string& text) {
  const bool is_list = text.find_first_of(listed.numbers ? ",-*+" : ",") != std::string::npos;
  if (!is_list || std::filesystem::exists(text)) return {text};
  Values values;
  if (listed.numbers) {
    for (const int number : numbers_in(option_of(listed), text, kAnyNumber))
      values.push_back(std::to_string(number));
    return values;
  }
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (part.empty()) throw Error(option_of(listed) + " = " + text + ": an empty name in the list");
    values.push_back(part);
  }
  return values;
}

// Each question with each of the values.
std::vector<PlanQuestion> multiplied(const std::vector<PlanQuestion>& questions,
                                     const Listed& listed, const Values& values, bool is_key) {
  std::vector<PlanQuestion> all;
  for (const PlanQuestion& question : questions) {
    for (const std::string& value : values) {
      PlanQuestion& one = all.emplace_back(question);
      *listed.text(one.run) = value;
      if (is_key) one.values.push_back(value);
    }
  }
  return all;
}

// What --allow names, by kind.
struct Allowed {
  std::string schedules;  // "1f1b,interleaved,zb-h1"; empty: none
  Values precisions{"usual"}, offloads{"nothing"};
};

Allowed allowed_in(const std::string& text) {
  Allowed allowed;
  std::stringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) {
    if (sim::named<sim::PipelineSchedule>(name))
      allowed.schedules += (allowed.schedules.empty() ? "1f1b,interleaved," : ",") + name;
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

// The question with and without what is allowed.
PlanQuestions allowed_questions(const RunOptions& options) {
  const Allowed allowed = allowed_in(options.allowed);
  PlanQuestions questions;
  if (allowed.precisions.size() > 1) questions.keys.emplace_back("precision");
  if (allowed.offloads.size() > 1) questions.keys.emplace_back("offload");
  for (const std::string& precision : allowed.precisions) {
    for (const std::string& offload : allowed.offloads) {
      PlanQuestion& question = questions.list.emplace_back(PlanQuestion{options, {}});
      question.run.allowed.clear();
      if (!allowed.schedules.empty())
        question.run.strategy["pipeline_schedule"] = allowed.schedules;
      if (precision != "usual") question.run.strategy["precision"] = precision;
      if (offload != "nothing") question.run.offload = offload;
      if (allowed.precisions.size() > 1) question.values.push_back(precision);
      if (allowed.offloads.size() > 1) question.values.push_back(offload);
    }
  }
  return questions;
}

}  // namespace

PlanQuestions questions_of(const RunOptions& options) {
  PlanQuestions questions = allowed_questions(options);
  for (const Listed& listed : kListed) {
    if (!options.allowed.empty() && std::string(listed.key) == "precision") continue;
    RunOptions asked = options;
    const std::string* const text = listed.text(asked);
    if (!text) continue;
    const Values values = values_of(listed, *text);
    const bool is_key = values.size() > 1 || std::string(listed.key) == "gpus";
    if (is_key) questions.keys.emplace_back(listed.key);
    if (values.size() * questions.list.size() > kMostQuestions)
      throw Error(option_of(listed) + " = " + *text + ": at most " +
                  std::to_string(kMostQuestions) + " questions in all are expected");
    questions.list = multiplied(questions.list, listed, values, is_key);
  }
  return questions;
}

}  // namespace llmsim::cli
