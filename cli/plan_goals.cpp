#include "cli/plan_goals.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/run_request.h"
#include "sim/base/error.h"
#include "sim/model/parameters.h"

namespace llmsim::cli {
namespace {

using reports::PlanComparison;

// Whether two questions differ in the number of devices only.
bool same_but_devices(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  return std::equal(one.begin(), one.end() - 1, other.begin(), other.end() - 1);
}

PlanComparison comparison_of(const PlanOptions& options, std::vector<std::string> keys) {
  constexpr double kDay = 86400.0;
  PlanComparison comparison{
      .keys = std::move(keys), .plans = {}, .objective = objective_of(options.objective)};
  if (options.deadline) comparison.deadline = sim::Seconds(*options.deadline * kDay);
  return comparison;
}

// False where the search was interrupted.
bool add_answer(PlanComparison& comparison, const PlanOptions& options, const RunOptions& run,
                const std::vector<std::string>& values, const hwdb::Database& database) {
  comparison.plans.push_back({values, planned(options, run, database)});
  if (comparison.plans.back().answer.plan.complete) return true;
  std::cerr << "warning: interrupted: the answers until then\n";
  return false;
}

// Tries values of one key.
class Trial {
 public:
  Trial(const PlanOptions& options, std::string key, const hwdb::Database& database)
      : options_(options),
        database_(database),
        comparison_(comparison_of(options, {std::move(key)})) {
    comparison_.goal = reports::Goal::Largest;
  }

  // Whether something fits with the value, which `run` has.
  bool fits(const RunOptions& run, const std::string& value) {
    if (!add_answer(comparison_, options_, run, {value}, database_)) return false;
    return reports::answers(comparison_, comparison_.plans.back().answer);
  }
  PlanComparison& comparison() { return comparison_; }

 private:
  const PlanOptions& options_;
  const hwdb::Database& database_;
  PlanComparison comparison_;
};

PlanComparison largest_number(const PlanOptions& options, const std::string& key, int least,
                              int most, int parts, const hwdb::Database& database,
                              void (*set)(RunOptions&, const std::string&)) {
  Trial trial(options, key, database);
  const auto fits = [&](int value) {
    RunOptions run = options.run;
    set(run, std::to_string(value));
    return trial.fits(run, std::to_string(value));
  };
  int fitting = 0;
  for (int value = least; value <= most && fits(value); value *= 2) fitting = value;
  const int step = fitting / parts;
  for (int low = fitting, high = 2 * fitting; step > 0 && high - low > step && high <= most;) {
    const int middle = low + (high - low) / (2 * step) * step;
    (fits(middle) ? low : high) = middle;
  }
  std::sort(trial.comparison().plans.begin(), trial.comparison().plans.end(),
            [](const auto& one, const auto& other) {
              return std::stoi(one.values.front()) < std::stoi(other.values.front());
            });
  return std::move(trial.comparison());
}

// The largest that fits, and so many that do not.
constexpr std::size_t kShownModels = 4;

// Weights in 16 bits alone are more than all devices have.
bool is_hopeless(const sim::Transformer& model, const sim::Cluster& cluster) {
  return 2.0 * static_cast<double>(sim::parameters(model).total()) >
         cluster.num_devices * cluster.device.usable_memory.value();
}

PlanComparison largest_model(const PlanOptions& options, const hwdb::Database& database) {
  std::vector<const sim::CatalogueEntry*> entries;
  for (const sim::CatalogueEntry& entry : sim::catalogue()) entries.push_back(&entry);
  std::stable_sort(entries.begin(), entries.end(), [](const auto* one, const auto* other) {
    return sim::parameters(one->model).total() > sim::parameters(other->model).total();
  });
  Trial trial(options, "model", database);
  RunOptions run = options.run;
  run.model = entries.back()->model.name;
  const sim::Cluster cluster = query_of(run, database).base.cluster;
  for (const sim::CatalogueEntry* entry : entries) {
    if (is_hopeless(entry->model, cluster)) continue;
    run.model = entry->model.name;
    if (trial.fits(run, run.model)) break;
  }
  std::vector<reports::ComparedPlan>& plans = trial.comparison().plans;
  std::reverse(plans.begin(), plans.end());
  if (plans.size() > kShownModels) plans.resize(kShownModels);
  return std::move(trial.comparison());
}

}  // namespace

PlanComparison compared(const PlanOptions& options, const PlanQuestions& questions,
                        const hwdb::Database& database) {
  PlanComparison comparison = comparison_of(options, questions.keys);
  if (options.smallest) comparison.goal = reports::Goal::Smallest;
  const std::vector<std::string>* answered = nullptr;
  for (const PlanQuestion& question : questions.list) {
    if (answered && same_but_devices(*answered, question.values)) continue;
    if (!add_answer(comparison, options, question.run, question.values, database)) break;
    if (options.smallest && reports::answers(comparison, comparison.plans.back().answer))
      answered = &question.values;
  }
  return comparison;
}

PlanComparison largest(const PlanOptions& options, const hwdb::Database& database) {
  constexpr int kLongest = 1 << 24, kMostSequences = 1 << 16;
  const std::string& key = *options.largest;
  if (key == "model") return largest_model(options, database);
  if (key == "seq-len")
    return largest_number(options, key, 1024, kLongest, 8, database,
                          [](RunOptions& run, const std::string& text) { run.seq_len = text; });
  if (key == "micro-batch")
    return largest_number(
        options, key, 1, kMostSequences, 1, database,
        [](RunOptions& run, const std::string& text) { run.strategy["micro_batch"] = text; });
  throw Error("--largest = " + key + ": model, seq-len or micro-batch is expected");
}

}  // namespace llmsim::cli
