#include "runtime/measure/step_bench.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include <ATen/ATen.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "runtime/kernels/library_attention.h"
#include "runtime/library/clock_log.h"
#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "runtime/measure/agreement.h"
#include "runtime/measure/counted_step.h"
#include "runtime/measure/kernel_bench.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

// Nothing stands in the record where there is no value.
void put_value(json& record, const std::string& key, const std::optional<sim::FieldValue>& value) {
  if (value) std::visit([&](const auto& known) { sim::place_of(record, key) = known; }, *value);
}

json model_record(const sim::Transformer& model) {
  json record{{"name", model.name}, {"architecture", "decoder"}};
  for (const sim::TransformerField& field : sim::transformer_fields())
    put_value(record, field.key, field.get(model));
  return record;
}

// What the runtime executes of a strategy, in the words of its table.
constexpr const char* kExecuted[] = {"precision",
                                     "optimizer",
                                     "micro_batch",
                                     "global_batch",
                                     "dp",
                                     "tp",
                                     "pp",
                                     "cp",
                                     "ep",
                                     "etp",
                                     "virtual_stages",
                                     "pipeline_schedule",
                                     "sharding",
                                     "shard_size",
                                     "sequence_parallel",
                                     "flash_attention",
                                     "cuda_graph",
                                     "fused_cross_entropy",
                                     "recompute.kind",
                                     "recompute.every_n",
                                     "recompute.share",
                                     "recompute.blocks",
                                     "recompute.modules",
                                     "offload.optimizer",
                                     "offload.activations"};

// In the simulator's words, where it has one.
const char* attention_kernel_of(AttentionKernels kernels) {
  switch (kernels) {
    case AttentionKernels::Flash: return "flash-2";
    case AttentionKernels::Cudnn: return "cudnn";
    default: return nullptr;
  }
}

json training_record(const TrainingSetup& setup) {
  const sim::Strategy& strategy = setup.strategy;
  json record{{"framework", setup.autocast ? "libtorch-autocast" : "libtorch"},
              {"framework_version", TORCH_VERSION},
              {"num_microbatches", strategy.num_microbatches()}};
  for (const char* key : kExecuted) {
    const sim::StrategyField& field = *sim::find_strategy_field(key);
    if (is_stated(field, strategy)) put_value(record, field.key, field.get(strategy));
  }
  if (const char* kernel = attention_kernel_of(setup.attention_kernels))
    record["attention_kernel"] = kernel;
  if (setup.optimizer.form == AdamWForm::Fused) record["fused_optimizer"] = true;
  return record;
}

// Medians of the parts, and of the whole.
struct StepTimings {
  std::vector<sim::Seconds> forward, backward, optimizer;

  void add(const StepResult& result) {
    if (result.forward) forward.push_back(*result.forward);
    if (result.backward) backward.push_back(*result.backward);
    optimizer.push_back(result.optimizer);
  }
  // What nothing tells, as of captured passes, is left out.
  void put(json& record) const {
    for (const auto& [key, times] : {std::pair{"forward_s", &forward},
                                     {"backward_s", &backward},
                                     {"optimizer_s", &optimizer}}) {
      if (!times->empty()) record[key] = summary(*times).median.value();
    }
  }
};

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

// What each group has carried since its counts were reset.
json carried_by(const RankGroups& groups) {
  json list = json::array();
  for (const auto& [kind, group] : groups.communicators()) {
    const CollectiveCounts counts = group->counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i].calls == 0) continue;
      list.push_back({{"group", sim::name_of(kind)},
                      {"collective", sim::name_of(static_cast<sim::CollectiveKind>(i))},
                      {"bytes", counts[i].bytes},
                      {"count", counts[i].calls}});
    }
  }
  return list;
}

// Peaks of all ranks; none where this build cannot ask the device.
struct RankPeaks {
  std::vector<double> allocated, reserved, requested;

  RankPeaks(Communicator* world, c10::Device device) {
    const std::optional<PeakMemory> own = peak_memory(device);
    if (!own) return;
    allocated = of_all_ranks(world, static_cast<double>(own->allocated), device);
    if (own->reserved) reserved = of_all_ranks(world, static_cast<double>(*own->reserved), device);
    if (own->requested)
      requested = of_all_ranks(world, static_cast<double>(*own->requested), device);
  }
};

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

// What a training of one case is seen to do.
void add_measured(json& record, const StepCase& one, Communicator* world, double own_time,
                  double slowest_time) {
  const std::vector<double> times = of_all_ranks(world, own_time, one.setup.device);
  const RankPeaks peaks(world, one.setup.device);
  json& measured = record["run"]["measured"];
  measured = {{"step_time_s", slowest_time}, {"outcome", "ok"}};
  if (!peaks.allocated.empty()) {
    measured.update({{"peak_memory_bytes", whole(largest(peaks.allocated))},
                     {"memory_kind", "allocated"},
                     {"memory_scope", "max-rank"}});
  }
  record["ranks"] = json::array();
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    json entry{{"rank", rank}, {"step_time_s", times[rank]}};
    if (!peaks.allocated.empty()) entry["peak_bytes"] = whole(peaks.allocated[rank]);
    if (!peaks.reserved.empty()) entry["reserved_bytes"] = whole(peaks.reserved[rank]);
    if (!peaks.requested.empty()) entry["requested_bytes"] = whole(peaks.requested[rank]);
    record["ranks"].push_back(std::move(entry));
  }
}

// One more step, which is not timed: what its passes multiply and what it sends.  A replayed graph
// calls no operators.
void add_counted(json& record, const StepCase& one, const RankGroups& groups, Trainer& trainer) {
  for (const auto& [kind, group] : groups.communicators()) group->reset_counts();
  PassFlops flops;
  StepObserver observer;
  observer.pass_done = [&](bool backward) { flops.pass_done(backward); };
  trainer.step(trainer.next_batches(), observer);
  synchronize(one.setup.device);
  const auto all = [](const sim::PassFlopCounts& pass) { return pass.gemms + pass.attention; };
  if (all(flops.forward()) > 0)
    record["flops"] = {{"forward", all(flops.forward())}, {"backward", all(flops.backward())}};
  if (one.setup.strategy.num_devices() > 1) record["communication"] = carried_by(groups);
}

void train(json& record, const StepCase& one, const RankGroups& groups,
           const RepeatOptions& options, Communicator* world) {
  empty_cache(one.setup.device);
  Trainer trainer(one.setup, groups);
  StepTimings parts;
  StepResult last;
  std::vector<sim::Seconds> own;
  const auto step = [&] {
    const std::vector<MicroBatch> batches = trainer.next_batches();
    last = trainer.step(batches);
    synchronize(one.setup.device);
    parts.add(last);
    own.push_back(last.total);
    return slowest(world, last.total, one.setup.device);
  };
  empty_cache(one.setup.device);
  reset_peak_memory(one.setup.device);
  ClockLog clock(one.setup.device);
  const Timing timing = repeated(step, options);
  add_clock(record, clock.stop());
  add_timing(record, timing);
  parts.put(record);
  const std::vector<double> losses = of_all_ranks(world, last.loss, one.setup.device);
  record["loss"] = std::accumulate(losses.begin(), losses.end(), 0.0) / one.setup.strategy.tp;
  add_measured(record, one, world, summary(own).median.value(), timing.median.value());
  add_counted(record, one, groups, trainer);
}

}  // namespace

json run_record(const StepCase& one, const std::string& accelerator) {
  return {{"id", one.key},
          {"group", "llmsim-runtime"},
          {"source", "measured by llmsim-runtime"},
          {"model", model_record(one.setup.model)},
          {"hardware",
           {{"accelerator", accelerator},
            {"num_devices", one.setup.strategy.num_devices()},
            {"devices_per_node", one.setup.strategy.num_devices()}}},
          {"training", training_record(one.setup)},
          {"scored", {{"step_time", true}, {"memory", true}, {"outcome", true}}}};
}

json step_record(const StepCase& one, const std::string& accelerator) {
  return {{"type", "step"}, {"key", one.key}, {"run", run_record(one, accelerator)}};
}

json oom_record(const StepCase& one, const std::string& accelerator) {
  json record = step_record(one, accelerator);
  record["outcome"] = "oom";
  record["run"]["measured"] = {{"outcome", "oom"}};
  return record;
}

json measure_step(const StepCase& one, const RankGroups& groups, const std::string& accelerator,
                  const RepeatOptions& options, Communicator* world) {
  json record = step_record(one, accelerator);
  const bool alone = world == nullptr;
  with_outcome(
      record, one.setup.device, [&] { train(record, one, groups, options, world); }, alone);
  return record["outcome"] == "oom" ? oom_record(one, accelerator) : record;
}

}  // namespace llmsim::runtime
