#include "calibrate/plan_backtest.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "calibrate/in_parallel.h"
#include "calibrate/statistics.h"
#include "hwdb/runs/plan_query.h"
#include "sim/base/error.h"
#include "sim/plan.h"
#include "sim/search/plan_query.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RunRecord;

constexpr double kSameTime = 1e-9;

// --- problems ---

// What is searched once.
struct SearchTask {
  hwdb::RecordedHardware hardware;
  sim::PlanQuery query;
  std::vector<sim::Run> runs{};  // whose problem it is
  std::string error{};           // why there is no plan
};

struct Problems {
  PlanBacktest& result;
  std::vector<SearchTask> tasks{};                           // those of the result
  std::map<std::string, std::vector<std::size_t>> groups{};  // of the tasks
};

bool same_run(const sim::Run& one, const sim::Run& other) {
  return one.strategy == other.strategy && one.framework == other.framework &&
         one.model == other.model && one.optimizer_step == other.optimizer_step &&
         one.cluster.algorithm == other.cluster.algorithm;
}

bool same_problem(const SearchTask& one, const SearchTask& other) {
  if (!(one.hardware == other.hardware)) return false;
  return std::ranges::all_of(sim::kAllShardings, [&](sim::Sharding sharding) {
    return same_run(sim::run_under(one.query, sharding), sim::run_under(other.query, sharding));
  });
}

// Of many thousands of facts nobody asks here.
sim::Run without_facts(sim::Run run) {
  run.facts.clear();
  return run;
}

SearchTask task_of(const RunRecord& record, const sim::Run& run, hwdb::RunResolver& resolver) {
  SearchTask task{.hardware = record.hardware,
                  .query = hwdb::plan_query(hwdb::without_layout(record, run), resolver)};
  task.query.top = 1;
  // The fastest that fits.
  task.query.prefer = sim::Preference::Fast;
  task.query.tie = 0.0, task.query.headroom = 0.0;
  task.query.pareto = false;
  task.query.base = without_facts(std::move(task.query.base));
  for (auto& [sharding, under] : task.query.under) under = without_facts(std::move(under));
  return task;
}

std::size_t index_of(SearchTask task, const std::string& group, Problems& problems) {
  std::vector<std::size_t>& known = problems.groups[group];
  for (const std::size_t i : known) {
    if (same_problem(problems.tasks[i], task)) return i;
  }
  known.push_back(problems.tasks.size());
  problems.tasks.push_back(std::move(task));
  problems.result.problems.push_back({.group = group});
  return known.back();
}

void add_run(const RunRecord& record, hwdb::RunResolver& resolver, Problems& problems) {
  sim::Run run = without_facts(resolver.resolve(record));
  const sim::Prediction prediction = sim::predict(run);
  PlannedRun planned{.id = record.id,
                     .layout = run.strategy,
                     .measured_time = {},
                     .predicted_time = {},
                     .fits = prediction.feasible()};
  if (record.scored.step_time) planned.measured_time = record.measured->step_time;
  if (prediction.step_time > sim::Seconds(0.0)) planned.predicted_time = prediction.step_time;
  planned.problem = index_of(task_of(record, run, resolver), record.group, problems);
  problems.tasks[planned.problem].runs.push_back(std::move(run));
  problems.result.problems[planned.problem].runs.push_back(problems.result.runs.size());
  problems.result.runs.push_back(std::move(planned));
}

std::vector<SearchTask> tasks_of(std::span<const hwdb::RunFile> files, Scope scope,
                                 hwdb::RunResolver& resolver, PlanBacktest& result) {
  Problems problems{.result = result};
  std::set<std::string> seen;
  for (const hwdb::RunFile& file : files) {
    for (const RunRecord& record : file.runs) {
      if (!record.measured || !in_scope(record, scope) || !seen.insert(record.id).second) continue;
      try {
        add_run(record, resolver, problems);
      } catch (const Error& error) {
        result.skipped.emplace_back(record.id, error.what());
      }
    }
    for (const hwdb::RejectedRun& run : file.rejected)
      result.skipped.emplace_back(run.id, run.reason);
  }
  return std::move(problems.tasks);
}

// --- the search ---

void judge(const PlannedProblem& problem, PlannedRun& run) {
  if (!run.fits || !run.predicted_time) return;
  run.beats_plan = !problem.time || *problem.time / *run.predicted_time - 1.0 > kSameTime;
  if (run.beats_plan && problem.time) run.regret = *problem.time / *run.predicted_time - 1.0;
}

// Touches the problem and its runs only.
void search(SearchTask& task, PlannedProblem& problem, std::vector<PlannedRun>& runs) {
  try {
    const sim::Plan plan = sim::plan(task.query);
    if (!plan.plans.empty()) {
      problem.layout = plan.plans.front().run.strategy;
      problem.time = plan.plans.front().step_time;
    }
    for (std::size_t i = 0; i < task.runs.size(); ++i) {
      PlannedRun& run = runs[problem.runs[i]];
      if (run.predicted_time) run.outside = sim::fields_outside(task.query, task.runs[i]);
      judge(problem, run);
    }
  } catch (const Error& error) {
    task.error = error.what();
  }
}

void search_all(std::vector<SearchTask>& tasks, unsigned threads, const Progress& progress,
                PlanBacktest& result) {
  std::mutex telling;
  std::size_t done = 0;
  in_parallel(tasks.size(), threads, [&](std::size_t i) {
    search(tasks[i], result.problems[i], result.runs);
    const std::lock_guard lock(telling);
    ++done;
    if (progress) progress(done, tasks.size());
  });
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::size_t run : result.problems[i].runs)
      if (!tasks[i].error.empty()) result.skipped.emplace_back(result.runs[run].id, tasks[i].error);
  }
}

// --- the order ---

struct MeasuredLayout {
  const sim::Strategy* layout;
  double measured, predicted;  // s
};

// Each once, with the fastest of its repeated runs.
std::vector<MeasuredLayout> measured_layouts(const PlannedProblem& problem,
                                             const std::vector<PlannedRun>& runs) {
  std::vector<MeasuredLayout> list;
  for (const std::size_t i : problem.runs) {
    const PlannedRun& run = runs[i];
    if (!run.measured_time || !run.predicted_time) continue;
    const auto same = std::ranges::find_if(
        list, [&](const MeasuredLayout& one) { return *one.layout == run.layout; });
    if (same == list.end())
      list.push_back({&run.layout, run.measured_time->value(), run.predicted_time->value()});
    else
      same->measured = std::min(same->measured, run.measured_time->value());
  }
  return list;
}

void set_order(const std::vector<MeasuredLayout>& layouts, double best, PlannedProblem& problem) {
  std::vector<double> measured, predicted;
  for (const MeasuredLayout& one : layouts) {
    measured.push_back(one.measured);
    predicted.push_back(one.predicted);
  }
  problem.rank_correlation = rank_correlation(predicted, measured);
  problem.loss =
      std::ranges::min_element(layouts, {}, &MeasuredLayout::predicted)->measured / best - 1.0;
}

bool alike(const sim::Strategy& one, const sim::Strategy& other) {
  return one.tp == other.tp && one.pp == other.pp && one.cp == other.cp && one.ep == other.ep;
}

void compare(const std::vector<PlannedRun>& runs, PlannedProblem& problem) {
  const std::vector<MeasuredLayout> layouts = measured_layouts(problem, runs);
  problem.layouts = layouts.size();
  if (layouts.empty()) return;
  const auto best = std::ranges::min_element(layouts, {}, &MeasuredLayout::measured);
  if (layouts.size() >= kRankedLayouts) set_order(layouts, best->measured, problem);
  if (!problem.time) return;
  problem.speedup = best->predicted / problem.time->value();
  problem.alike = alike(*best->layout, *problem.layout);
}

// --- sums ---

struct StudySample {
  PlannedStudy study;
  std::vector<double> rank_correlations, losses, speedups;
};

void add_if_any(const std::optional<double>& value, std::vector<double>& to) {
  if (value) to.push_back(*value);
}

void count(const PlannedRun& run, PlannedStudy& study) {
  ++study.runs;
  study.outside += run.outside.empty() ? 0 : 1;
  study.beats_plan += run.beats_plan && !run.missed() ? 1 : 0;
  study.missed += run.missed() ? 1 : 0;
}

void count(const PlannedProblem& problem, StudySample& sample) {
  ++sample.study.problems;
  sample.study.ranked += problem.loss ? 1 : 0;
  sample.study.compared += problem.speedup ? 1 : 0;
  sample.study.alike += problem.alike.value_or(false) ? 1 : 0;
  add_if_any(problem.rank_correlation, sample.rank_correlations);
  add_if_any(problem.loss, sample.losses);
  add_if_any(problem.speedup, sample.speedups);
}

std::vector<PlannedStudy> studies_of(const PlanBacktest& result) {
  std::map<std::string, StudySample> samples;
  for (const PlannedProblem& problem : result.problems) {
    StudySample& sample = samples[problem.group];
    count(problem, sample);
    for (const std::size_t i : problem.runs) count(result.runs[i], sample.study);
  }
  std::vector<PlannedStudy> studies;
  for (auto& [group, sample] : samples) {
    sample.study.group = group;
    sample.study.rank_correlation = median_if_any(sample.rank_correlations);
    sample.study.loss = median_if_any(sample.losses);
    sample.study.speedup = median_if_any(sample.speedups);
    studies.push_back(std::move(sample.study));
  }
  return studies;
}

PlannedStudy all_studies(const std::vector<PlannedStudy>& studies) {
  StudySample all;
  all.study.group = "all, each study once";
  for (const PlannedStudy& study : studies) {
    for (int PlannedStudy::*number :
         {&PlannedStudy::runs, &PlannedStudy::problems, &PlannedStudy::outside,
          &PlannedStudy::beats_plan, &PlannedStudy::missed, &PlannedStudy::ranked,
          &PlannedStudy::compared, &PlannedStudy::alike})
      all.study.*number += study.*number;
    add_if_any(study.rank_correlation, all.rank_correlations);
    add_if_any(study.loss, all.losses);
    add_if_any(study.speedup, all.speedups);
  }
  all.study.rank_correlation = mean_if_any(all.rank_correlations);
  all.study.loss = mean_if_any(all.losses);
  all.study.speedup = mean_if_any(all.speedups);
  return all.study;
}

void add(const PlannedRun& run, OutsideField& field) {
  ++field.runs;
  if (!run.beats_plan) return;
  ++field.beats_plan;
  if (!field.run.empty() && run.regret <= field.regret) return;
  field.regret = run.regret;
  field.run = run.id;
}

std::vector<OutsideField> outside_fields(const std::vector<PlannedRun>& runs) {
  std::map<std::string, OutsideField> fields;
  for (const PlannedRun& run : runs) {
    for (const std::string& key : run.outside) add(run, fields[key]);
  }
  std::vector<OutsideField> list;
  for (auto& [key, field] : fields) {
    field.field = key;
    list.push_back(std::move(field));
  }
  return list;
}

}  // namespace

PlanBacktest plan_backtest(std::span<const hwdb::RunFile> files, Scope scope,
                           hwdb::RunResolver& resolver, unsigned threads,
                           const Progress& progress) {
  PlanBacktest result;
  std::vector<SearchTask> tasks = tasks_of(files, scope, resolver, result);
  search_all(tasks, threads, progress, result);
  for (PlannedProblem& problem : result.problems) compare(result.runs, problem);
  result.studies = studies_of(result);
  result.overall = all_studies(result.studies);
  result.outside = outside_fields(result.runs);
  return result;
}

}  // namespace llmsim::calibrate
