#include "cli/plan_questions.h"

#include <sstream>

#include "cli/listed_options.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {
namespace {

using Values = std::vector<std::string>;

constexpr std::size_t kMostQuestions = 1000;

// Each question with each of the values.
std::vector<PlanQuestion> multiplied(const std::vector<PlanQuestion>& questions,
                                     const ListedOption& listed, const Values& values,
                                     bool is_key) {
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
  for (const ListedOption& listed : listed_options()) {
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
