#include "cli/run_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cli/predict_command.h"
#include "cli/run_request.h"
#include "sim/base/error.h"
#include "sim/hardware/cluster.h"
#include "sim/search/space.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {
namespace {

using sim::Prediction;
using sim::Strategy;

// Some of the fields of RunOptions, those of a change.
RunOptions fields(std::map<std::string, std::string> strategy) {
  RunOptions options;
  options.strategy = std::move(strategy);
  return options;
}

std::string text(int number) { return std::to_string(number); }

void add_recomputes(std::vector<RunOptions>& changes, const sim::Run& run) {
  const sim::SearchBase base{
      run.model, run.cluster.num_devices, run.strategy, {}, run.framework.offers};
  const sim::SearchSpace space(base, {});
  for (const sim::Recompute& recompute : space.recomputes()) {
    if (recompute == run.strategy.recompute) continue;
    changes.emplace_back().recompute = sim::text_of(recompute);
  }
}

// Twice and half a number of parts or sequences.
void add_sizes(std::vector<RunOptions>& changes, const std::string& key, int size) {
  changes.push_back(fields({{key, text(2 * size)}}));
  if (size % 2 == 0) changes.push_back(fields({{key, text(size / 2)}}));
}

// Twice the ranks along one axis of the mesh on half of those along another.
void add_trade(std::vector<RunOptions>& changes, const char* more, int more_ranks,
               const char* fewer, int fewer_ranks) {
  if (fewer_ranks % 2 == 0)
    changes.push_back(fields({{more, text(2 * more_ranks)}, {fewer, text(fewer_ranks / 2)}}));
}

void add_meshes(std::vector<RunOptions>& changes, const Strategy& s) {
  for (const auto& [axis, ranks] :
       {std::pair("tp", s.tp), std::pair("pp", s.pp), std::pair("cp", s.cp)}) {
    add_trade(changes, axis, ranks, "dp", s.dp);
    add_trade(changes, "dp", s.dp, axis, ranks);
  }
  add_trade(changes, "tp", s.tp, "pp", s.pp);
  add_trade(changes, "pp", s.pp, "tp", s.tp);
}

void add_shardings(std::vector<RunOptions>& changes, const sim::Run& run) {
  const Strategy& s = run.strategy;
  for (const sim::Sharding sharding : sim::kAllShardings) {
    if (sharding == s.sharding || s.dp * s.cp == 1) continue;
    RunOptions change = fields({{"sharding", sim::name_of(sharding)}});
    if (sharding == sim::Sharding::Hsdp)
      change.strategy["shard_size"] = text(std::max(2, run.cluster.devices_per_node / s.tp));
    changes.push_back(std::move(change));
  }
}

void add_switches(std::vector<RunOptions>& changes, const Strategy& s) {
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    const auto value = field.get(s);
    if (field.kind != sim::FieldKind::Switch || field.help.empty() || !value) continue;
    const bool on = std::get<bool>(*value);
    changes.push_back(fields({{field.key, on ? "false" : "true"}}));
  }
}

std::vector<RunOptions> changes_of(const sim::Run& run) {
  const Strategy& s = run.strategy;
  std::vector<RunOptions> changes;
  add_recomputes(changes, run);
  add_sizes(changes, "micro_batch", s.micro_batch);
  if (s.pp > 1) add_sizes(changes, "virtual_stages", s.virtual_stages);
  if (run.model.moe) add_sizes(changes, "ep", s.ep);
  add_shardings(changes, run);
  add_meshes(changes, s);
  add_switches(changes, s);
  if (s.precision != sim::Precision::Fp8) changes.push_back(fields({{"precision", "fp8"}}));
  if (!s.offload.optimizer) changes.emplace_back().offload = "optimizer";
  if (!s.offload.activations) changes.emplace_back().offload = "activations";
  return changes;
}

RunOptions merged(RunOptions options, const RunOptions& change) {
  for (const auto& [key, value] : change.strategy) options.strategy[key] = value;
  if (change.strategy.contains("sharding") && !change.strategy.contains("shard_size"))
    options.strategy.erase("shard_size");
  if (change.recompute) options.recompute = change.recompute;
  if (change.offload)
    options.offload = options.offload ? *options.offload + "," + *change.offload : change.offload;
  return options;
}

// None where it cannot be asked for.
std::optional<Prediction> predicted(const RunOptions& options, RunRequests& requests) {
  try {
    return sim::predict_without_terms(requests.request_of(options).run);
  } catch (const Error&) {
    return std::nullopt;
  }
}

reports::RunChange outcome(const Prediction& before, const Prediction& after, std::string change) {
  const double batches =
      static_cast<double>(before.run.strategy.global_batch) / after.run.strategy.global_batch;
  return {.change = std::move(change),
          .fits = after.feasible(),
          .fit_probability = after.memory.fit_probability(),
          .relative_time = after.step_time / before.step_time * batches,
          .step_time = after.step_time,
          .needed = after.memory.needed()};
}

// A run some changes away from the one that was asked for.
struct Step {
  RunOptions changes;
  Prediction prediction;
};

std::string text_of(const Step& step) { return options_text(step.changes).substr(1); }

// One more change; what breaks a rule is left out.
std::vector<Step> steps_from(const Step& before, const RunOptions& options, RunRequests& requests) {
  std::vector<Step> steps;
  for (const RunOptions& change : changes_of(before.prediction.run)) {
    RunOptions changes = merged(before.changes, change);
    std::optional<Prediction> after = predicted(merged(options, changes), requests);
    if (after && !after->memory.stages.empty())
      steps.push_back({std::move(changes), std::move(*after)});
  }
  return steps;
}

}  // namespace

std::vector<reports::RunChange> strategy_changes(const RunOptions& options,
                                                 const Prediction& prediction,
                                                 const hwdb::Database& database) {
  std::vector<reports::RunChange> outcomes;
  RunRequests requests(database);
  for (const Step& step : steps_from({{}, prediction}, options, requests))
    outcomes.push_back(outcome(prediction, step.prediction, text_of(step)));
  return outcomes;
}

std::vector<reports::RunChange> fitting_changes(const RunOptions& options,
                                                const Prediction& prediction,
                                                const hwdb::Database& database) {
  constexpr int kMostChanges = 3;
  constexpr std::size_t kGoneOnFrom = 6;
  RunRequests requests(database);
  std::vector<Step> from{{{}, prediction}};
  std::vector<reports::RunChange> fitting;
  const auto add = [&](const Step& step) {
    reports::RunChange one = outcome(prediction, step.prediction, text_of(step));
    const auto same = [&](const reports::RunChange& known) { return known.change == one.change; };
    if (std::ranges::none_of(fitting, same)) fitting.push_back(std::move(one));
  };
  for (int changes = 1; changes <= kMostChanges && fitting.empty(); ++changes) {
    std::vector<Step> next;
    for (const Step& before : from) {
      for (Step& step : steps_from(before, options, requests)) {
        if (step.prediction.feasible()) add(step);
        next.push_back(std::move(step));
      }
    }
    std::ranges::sort(next, [](const Step& one, const Step& other) {
      return one.prediction.memory.needed() < other.prediction.memory.needed();
    });
    if (next.size() > kGoneOnFrom) next.resize(kGoneOnFrom);
    from = std::move(next);
  }
  return fitting;
}

std::vector<reports::RunChange> hardware_changes(const Prediction& prediction) {
  std::vector<reports::RunChange> outcomes;
  for (const sim::HardwareChange& change : sim::hardware_changes()) {
    sim::Run run = prediction.run;
    change.improve(run.cluster, kBetterHardware);
    outcomes.push_back(
        outcome(prediction, sim::predict_without_terms(run), std::string(change.name) + " x 1.25"));
    outcomes.back().of_hardware = true;
  }
  return outcomes;
}

}  // namespace llmsim::cli
