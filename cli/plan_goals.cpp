#include "cli/plan_goals.h"

#include <CLI/Error.hpp>
#include <algorithm>
#include <iostream>
#include <utility>
#include <vector>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/parts.h"
#include "cli/predict_command.h"
#include "cli/progress.h"
#include "cli/run_request.h"
#include "sim/base/error.h"
#include "sim/memory/shards.h"
#include "sim/model/parameters.h"
#include "sim/plan.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

using reports::PlanComparison;

// Whether questions differ in hardware alone, the number of devices apart.
bool compares_hardware(const std::vector<std::string>& keys) {
  const auto is_hardware = [](const std::string& key) {
    return key == "hardware" || key == "system";
  };
  return std::ranges::any_of(keys, is_hardware) &&
         std::ranges::all_of(
             keys, [&](const std::string& key) { return is_hardware(key) || key == "gpus"; });
}

// The best layout of the first question on the hardware of the last one, if that has as many
// devices.
void keep_layout(PlanComparison& comparison, const RunOptions& last,
                 const hwdb::Database& database) {
  const sim::Plan& first = comparison.plans.front().answer.plan;
  reports::ComparedPlan& plan = comparison.plans.back();
  if (first.plans.empty()) return;
  const sim::Run& winner = first.plans.front().run;
  if (winner.cluster.num_devices != plan.answer.query.base.cluster.num_devices) return;
  plan.same_layout = sim::predict(run_of(predict_options(last, winner.strategy), database));
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
    interrupted_ = !add_answer(comparison_, options_, run, {value}, database_);
    return !interrupted_ && reports::answers(comparison_, comparison_.plans.back().answer);
  }
  bool interrupted() const { return interrupted_; }
  PlanComparison& comparison() { return comparison_; }

 private:
  const PlanOptions& options_;
  const hwdb::Database& database_;
  PlanComparison comparison_;
  bool interrupted_ = false;
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
  for (int low = fitting, high = 2 * fitting;
       step > 0 && high - low > step && high <= most && !trial.interrupted();) {
    const int middle = low + (high - low) / (2 * step) * step;
    (fits(middle) ? low : high) = middle;
  }
  std::ranges::sort(trial.comparison().plans, [](const auto& one, const auto& other) {
    return std::stoi(one.values.front()) < std::stoi(other.values.front());
  });
  return std::move(trial.comparison());
}

// The largest that fits, and so many that do not.
constexpr std::size_t kShownModels = 4;

// Weights alone, of 16 bits or fewer where they are packed, are more than all devices have.
bool is_hopeless(const sim::Transformer& model, const sim::Run& run) {
  if (run.strategy.offload.parameters) return false;
  const double each = std::min(2.0, sim::storage_of(run.strategy, run.framework).weight_bytes);
  return each * static_cast<double>(sim::parameters(model).total()) >
         run.cluster.num_devices * run.cluster.device.usable_memory.value();
}

PlanComparison largest_model(const PlanOptions& options, const hwdb::Database& database) {
  std::vector<const sim::NamedModel*> entries;
  for (const sim::NamedModel& entry : hwdb::catalogue()) entries.push_back(&entry);
  std::ranges::stable_sort(entries, [](const auto* one, const auto* other) {
    return sim::parameters(one->model).total() > sim::parameters(other->model).total();
  });
  Trial trial(options, "model", database);
  RunOptions run = options.run;
  run.model = entries.back()->model.name;
  const sim::Run base = query_of(run, database).base;
  for (const sim::NamedModel* entry : entries) {
    if (is_hopeless(entry->model, base)) continue;
    run.model = entry->model.name;
    if (trial.fits(run, run.model) || trial.interrupted()) break;
  }
  std::vector<reports::ComparedPlan>& plans = trial.comparison().plans;
  std::ranges::reverse(plans);
  if (plans.size() > kShownModels) plans.resize(kShownModels);
  return std::move(trial.comparison());
}

// The questions of one part.
std::vector<PlanQuestion> part_of(const std::vector<PlanQuestion>& all,
                                  const PlanOptions& options) {
  if (options.smallest) throw Error("--part: goes with no --fit, whose questions ask each other");
  const PartRange range = range_of(part_in(options.part), all.size());
  const auto at = [&](std::size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
  return {at(range.first), at(range.last)};
}

}  // namespace

void add_goals(CLI::App& c, PlanOptions& o) {
  c.add_flag("--fit", o.smallest,
             "find the smallest number of devices on which the model fits (with --deadline: on "
             "which the job ends in time), of --gpus or of 1, 2, 4 to 65536; example: --fit");
  add_option(c, "--largest", o.largest, "WHAT",
             "find the largest model of the catalogue, seq-len or micro-batch that fits; default "
             "none; example: --largest seq-len")
      ->excludes("--fit");
  add_option(c, "--deadline", o.deadline, "DAYS",
             "days within which the job of --tokens must end; default none; example: --tokens 2T "
             "--deadline 30")
      ->check(finite_range(0.0, 1e6));
  set_group(c, "Search", {"--fit", "--largest", "--deadline"});
}

void check_goals(const PlanOptions& options) {
  objective_of(options.objective);
  if (options.deadline && !options.job.tokens)
    throw Error("--deadline: --tokens is missing, how many tokens are to be trained on until then");
}

void require_question(const PlanOptions& options) {
  if (options.run.model.empty() && options.largest != "model") throw CLI::RequiredError("--model");
  if (!options.run.gpus && !options.smallest) throw CLI::RequiredError("--gpus or --fit");
}

PlanComparison compared(const PlanOptions& options, const PlanQuestions& questions,
                        const hwdb::Database& database) {
  PlanComparison comparison = comparison_of(options, questions.keys);
  if (options.smallest) comparison.goal = reports::Goal::Smallest;
  const std::vector<std::string>* answered = nullptr;
  for (const PlanQuestion& question : questions.list) {
    const auto& values = question.values;  // of which the last is the number of devices
    if (answered && std::equal(values.begin(), values.end() - 1, answered->begin())) continue;
    if (!add_answer(comparison, options, question.run, question.values, database)) break;
    if (compares_hardware(questions.keys)) keep_layout(comparison, question.run, database);
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

std::optional<PlanComparison> several_answers(PlanOptions options, const hwdb::Database& database) {
  if (options.largest) {
    if (questions_of(options.run).list.size() != 1)
      throw Error("--largest = " + *options.largest +
                  ": one question, with one value for each option, is expected");
    return largest(one_question(options), database);
  }
  if (options.smallest && !options.run.gpus) options.run.gpus = kEveryPowerOfTwo;
  PlanQuestions questions = questions_of(options.run);
  const bool one = !options.smallest && !options.deadline && questions.list.size() == 1;
  if (!one && options.part) questions.list = part_of(questions.list, options);
  return one ? std::nullopt : std::optional(compared(options, questions, database));
}

PlanOptions one_question(PlanOptions options) {
  options.run = questions_of(options.run).list.front().run;
  return options;
}

std::string what_would_fit(const PlanOptions& options, const hwdb::Database& database) {
  constexpr int kMostDevices = 1 << 20;
  bool interrupted = false;
  const Interruption pressed;
  const auto fits = [&](const RunOptions& run) {
    try {
      sim::PlanQuery query = plan_query(options, run, database);
      query.progress = [&](std::size_t, std::size_t) { return !(interrupted = pressed.came()); };
      return sim::fits_anywhere(query);
    } catch (const Error&) {
      return false;  // a program for which files are to be written cannot do it
    }
  };
  std::vector<std::string> ways;
  if (!options.run.offload) {
    RunOptions offloaded = options.run;
    offloaded.offload = "optimizer";
    if (fits(offloaded)) ways.push_back("with --offload optimizer");
  }
  const int devices = query_of(options.run, database).base.cluster.num_devices;
  for (int times = 2; !interrupted && times <= 64 && devices <= kMostDevices / times; times *= 2) {
    RunOptions larger = options.run;
    larger.gpus = std::to_string(times * devices);
    if (!fits(larger)) continue;
    ways.push_back("on " + *larger.gpus + " devices (--gpus " + *larger.gpus + ")");
    break;
  }
  return sim::joined(ways, ", ");
}

}  // namespace llmsim::cli
