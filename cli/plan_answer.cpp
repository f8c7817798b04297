#include "cli/plan_answer.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>
#include <utility>
#include <vector>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/predict_command.h"
#include "cli/progress.h"
#include "cli/run_changes.h"
#include "cli/run_request.h"
#include "hwdb/frameworks/settings.h"
#include "hwdb/launch/launch_file.h"
#include "hwdb/launch/target_space.h"
#include "reports/prediction.h"
#include "sim/base/error.h"
#include "sim/hardware/cluster.h"
#include "sim/plan.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

// Ideas that are predicted in full, so that the winner can be compared with other kinds than the
// first few; and where only some of them can be written.
constexpr int kCompared = 16;
constexpr int kTriedForExport = 40;

// Ctrl-C ends the search: what it has found so far is the answer.
sim::Plan timed_plan(sim::PlanQuery query, sim::Seconds& duration) {
  const auto start = std::chrono::steady_clock::now();
  const Interruption interruption;
  ProgressLine line("searching group");
  query.progress = [&](std::size_t done, std::size_t all) {
    line.tell(done, all);
    return !interruption.came();
  };
  sim::Plan plan = sim::plan(query);
  duration =
      sim::Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return plan;
}

// The query with a property of all its devices or links improved.
sim::PlanQuery with(sim::PlanQuery query, const sim::HardwareChange& change) {
  change.improve(query.base.cluster, kBetterHardware);
  for (auto& [sharding, run] : query.under) change.improve(run.cluster, kBetterHardware);
  return query;
}

// Changes of the winner; those of the hardware also with the layout that is then the best.
void add_changes(const RunOptions& asked, const hwdb::Database& database,
                 reports::PlanAnswer& answer) {
  const sim::Prediction& winner = answer.plan.plans.front();
  answer.changes = strategy_changes(predict_options(asked, winner.run.strategy), winner, database);
  std::vector<reports::RunChange> hardware = hardware_changes(winner);
  for (std::size_t i = 0; i < hardware.size(); ++i) {
    sim::Seconds duration;
    const sim::Plan plan = timed_plan(with(answer.query, sim::hardware_changes()[i]), duration);
    if (!plan.complete || plan.plans.empty()) break;
    hardware[i].planned_time = plan.plans.front().step_time / winner.step_time;
  }
  answer.changes.insert(answer.changes.end(), hardware.begin(), hardware.end());
}

// Step times of plans where one property of the hardware is `factor` times as good.
std::vector<sim::Seconds> step_times(const std::vector<sim::Prediction>& plans,
                                     const sim::HardwareChange& change, double factor) {
  std::vector<sim::Seconds> times;
  for (const sim::Prediction& plan : plans) {
    sim::Run run = plan.run;
    change.improve(run.cluster, factor);
    times.push_back(sim::predict(run).step_time);
  }
  return times;
}

// Orders plans by their largest regret: minimax, after Savage (1951).
void order_by_risk(reports::PlanAnswer& answer) {
  std::vector<sim::Prediction>& plans = answer.plan.plans;
  std::vector<double> regrets(plans.size(), 1.0);
  for (const sim::HardwareChange& change : sim::hardware_changes()) {
    for (const double factor : {1.0, kBetterHardware, 1.0 / kBetterHardware}) {
      const std::vector<sim::Seconds> times = step_times(plans, change, factor);
      const sim::Seconds best = *std::ranges::min_element(times);
      for (std::size_t i = 0; i < plans.size(); ++i)
        regrets[i] = std::max(regrets[i], times[i] / best);
    }
  }
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return regrets[a] < regrets[b]; });
  std::vector<sim::Prediction> ordered;
  for (const std::size_t i : order) {
    ordered.push_back(std::move(plans[i]));
    answer.regrets.push_back(regrets[i]);
  }
  plans = std::move(ordered);
  answer.plan.ties = 1;
}

std::string target_of(const PlanOptions& options, const sim::Run& run) {
  return options.target ? *options.target : hwdb::usual_target(run);
}

// Leaves the plans that can be written for the program they are to be exported for.  Throws Error
// with the reason of the best where none can.
void keep_written(const PlanOptions& options, const hwdb::Database& database,
                  reports::PlanAnswer& answer) {
  hwdb::RunResolver resolver = resolver_of(options.run.site, database);
  std::vector<sim::Prediction> kept;
  std::string reason;
  std::size_t refused = 0, ties = 0;
  for (std::size_t i = 0; i < answer.plan.plans.size(); ++i) {
    if (kept.size() == static_cast<std::size_t>(answer.query.top)) break;
    sim::Prediction& plan = answer.plan.plans[i];
    try {
      hwdb::launch_files(reports::unpadded_run(plan), target_of(options, plan.run), resolver);
      kept.push_back(std::move(plan));
      if (i < answer.plan.ties) ++ties;
    } catch (const Error& error) {
      if (kept.empty() && refused++ == 0) reason = error.what();
    }
  }
  if (kept.empty())
    throw Error("none of the " + std::to_string(answer.plan.plans.size()) +
                " best plans can be written; of the first " + reason);
  if (refused > 0)
    std::cerr << "warning: " << refused << " faster plans cannot be written; of the first "
              << reason << "\n";
  answer.plan.plans = std::move(kept);
  answer.plan.ties = ties;
}

}  // namespace

std::optional<sim::NearestMiss> too_large(const reports::PlanAnswer& answer) {
  std::optional<sim::NearestMiss> nearest;
  for (const sim::NearestMiss& miss : answer.plan.nearest)
    if (miss.needed > sim::Bytes(0.0) && (!nearest || miss.needed < nearest->needed))
      nearest = miss;
  return nearest;
}

sim::Run run_of(const reports::PlanAnswer& answer, const sim::NearestMiss& miss) {
  sim::Run run = sim::run_under(answer.query, miss.strategy.sharding);
  run.strategy = miss.strategy;
  return run;
}

std::string why_not_written(const PlanOptions& options, const reports::PlanAnswer& answer,
                            const hwdb::Database& database) {
  for (const sim::NearestMiss& miss : answer.plan.nearest) {
    if (!options.export_folder || miss.rule != answer.query.rule) continue;
    const sim::Run run = run_of(answer, miss);
    hwdb::RunResolver resolver = resolver_of(options.run.site, database);
    try {
      hwdb::launch_files(run, target_of(options, run), resolver);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return "";
}

sim::Objective objective_of(const std::string& name) {
  if (name == "throughput") return sim::Objective::Throughput;
  if (name == "memory") return sim::Objective::Memory;
  if (name == "time") return sim::Objective::Time;
  if (name == "cost") return sim::Objective::Cost;
  throw Error("--objective = " + name + ": throughput, memory, time or cost is expected");
}

namespace {

sim::Preference preference_of(const std::string& name) {
  if (name == "simple") return sim::Preference::Simple;
  if (name == "fast") return sim::Preference::Fast;
  throw Error("--prefer = " + name + ": simple or fast is expected");
}

}  // namespace

void add_ranking_options(CLI::App& c, PlanOptions& o) {
  add_option(c, "--objective", o.objective, "NAME",
             "what the best plan has the best of: throughput, memory, time (of the whole job, with "
             "--tokens) or cost; default throughput; example: --objective memory");
  add_option(c, "--prefer", o.prefer, "NAME",
             "what goes first of plans that are nearly as fast: simple, what takes less labour "
             "(pipelines, uneven stages, expert ranks beyond a fast domain ...), or fast, what is "
             "predicted to be the fastest; default simple; example: --prefer fast");
  add_option(c, "--top", o.top, "N", "plans to show, 1 to 1000; default 10; example: --top 20");
  add_option(c, "--headroom", o.headroom, "PERCENT",
             "memory to leave free on each device, in percent (0-90); default as much as makes 3 "
             "of 4 such runs fit; example: --headroom 5")
      ->check(finite_range(0.0, 90.0));
  c.add_flag("--sensitivity", o.sensitivity,
             "also a sensitivity analysis: one switch or number of the best plan changed at a "
             "time, and each property of the hardware 1.25 times as good, with a new search");
  c.add_flag(
      "--risk", o.risk,
      "order the plans by their largest regret: the most that one can lose against the best of "
      "them if any one property of the hardware is 1.25 times better or worse than assumed");
  add_option(
      c, "--jobs", o.jobs, "N",
      "threads of the search, 0 to 1024; default 1; 0: one for each core; example: --jobs 8");
  set_group(
      c, "Search",
      {"--objective", "--prefer", "--top", "--headroom", "--sensitivity", "--risk", "--jobs"});
}

namespace {

int shown_plans(const PlanOptions& options) {
  return static_cast<int>(number_in("--top", options.top, {.least = 1, .most = 1000}));
}

int predicted_plans(const PlanOptions& options) {
  return std::max(shown_plans(options), kCompared);
}

}  // namespace

sim::PlanQuery plan_query(const PlanOptions& options, const RunOptions& run,
                          const hwdb::Database& database) {
  sim::PlanQuery query = query_of(run, database);
  query.objective = objective_of(options.objective);
  query.prefer = preference_of(options.prefer);
  query.threads = static_cast<int>(number_in("--jobs", options.jobs, {.least = 0, .most = 1024}));
  query.top = predicted_plans(options);
  query.pareto = options.pareto;
  if (options.headroom) query.headroom = *options.headroom / 100.0;
  if (!options.export_folder) return query;
  const std::string target = target_of(options, query.base);
  query = hwdb::written_by(std::move(query), target);
  query.top = std::max(query.top, kTriedForExport);
  return query;
}

namespace {

// Frameworks that leave gradients of sharded weights whole until the last micro-batch reduce them
// after each where they are told to: slower, and a whole gradient smaller.
bool may_reduce_each(const sim::PlanQuery& query, const RunOptions& run) {
  const auto defers = [&](sim::Sharding sharding) {
    return sim::run_under(query, sharding)
               .framework.gradients.reduced_every_microbatch.value_or(true) == false;
  };
  return !run.settings.contains(hwdb::kSyncsEachMicrobatch) &&
         (defers(sim::Sharding::Zero3) || defers(sim::Sharding::Hsdp));
}

// Whether what came nearest to fitting needs less memory.
bool misses_by_less(const reports::PlanAnswer& one, const reports::PlanAnswer& other) {
  const std::optional<sim::NearestMiss> a = too_large(one), b = too_large(other);
  return a && (!b || a->needed < b->needed);
}

// Whether the plans of `one` are those to have: what leaves the headroom before what does not, then
// the better first plan, if by more than a plan of one idea may cost for the room that it leaves.
// Of two answers without plans, that which missed by less.
bool better(const reports::PlanAnswer& one, const reports::PlanAnswer& other) {
  const sim::Plan &a = one.plan, &b = other.plan;
  if (a.plans.empty() && b.plans.empty()) return misses_by_less(one, other);
  if (a.plans.empty() || b.plans.empty()) return b.plans.empty();
  if ((a.headroom > 0.0) != (b.headroom > 0.0)) return a.headroom > 0.0;
  const sim::Prediction &first = a.plans.front(), &second = b.plans.front();
  if (one.query.objective == sim::Objective::Memory)
    return first.memory.needed() < second.memory.needed();
  return first.step_time < (1.0 - sim::kRoomWorth) * second.step_time;
}

reports::PlanAnswer searched(const PlanOptions& options, const RunOptions& run,
                             const hwdb::Database& database) {
  reports::PlanAnswer answer{.query = plan_query(options, run, database),
                             .plan = {},
                             .shown = static_cast<std::size_t>(shown_plans(options)),
                             .verbose = options.verbose,
                             .duration = {},
                             .provenance = {.database = name_of(database)}};
  answer.price = device_hour_price(options.job, answer.query.base.cluster, database);
  if (answer.query.objective == sim::Objective::Cost && !answer.price)
    throw Error("--objective = cost: no price of " + answer.query.base.cluster.device.id +
                " is known; --price USD is expected");
  answer.plan = timed_plan(answer.query, answer.duration);
  answer.query.top = predicted_plans(options);
  return answer;
}

// What is said of the plans that were found for the question of `run`.
void tell(const PlanOptions& options, const RunOptions& run, const hwdb::Database& database,
          reports::PlanAnswer& answer) {
  if (options.export_folder) keep_written(options, database, answer);
  if (options.risk) order_by_risk(answer);
  const sim::Run& winner = answer.plan.plans.front().run;
  answer.command = options.for_others ? predict_command(without_folders(run), winner.strategy,
                                                        without_folder(options.database))
                                      : predict_command(run, winner.strategy, options.database);
  answer.assumed_switches = sim::switch_worths(winner, reports::assumed_strategy_fields(winner));
  if (options.sensitivity) add_changes(run, database, answer);
  answer.job = job_of(options.job, answer.plan.plans.front(), database);
}

}  // namespace

reports::PlanAnswer planned(const PlanOptions& options, const RunOptions& asked,
                            const hwdb::Database& database) {
  RunOptions run = asked;
  reports::PlanAnswer answer = searched(options, run, database);
  if (answer.plan.complete && may_reduce_each(answer.query, run)) {
    run.settings[hwdb::kSyncsEachMicrobatch] = true;
    reports::PlanAnswer each = searched(options, run, database);
    each.duration += answer.duration;
    if (better(each, answer))
      answer = std::move(each);
    else
      run = asked;
  }
  if (!answer.plan.plans.empty()) tell(options, run, database, answer);
  return answer;
}

}  // namespace llmsim::cli
