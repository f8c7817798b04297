#include "calibrate/step_proxy.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::calibrate {
namespace {

using sim::Run;
using sim::Strategy;

constexpr int kLayersOfAChunk = 2;

int largest_divisor(int number, int most) {
  int divisor = std::clamp(most, 1, number);
  while (number % divisor != 0) --divisor;
  return divisor;
}

// Of the counts of a run, those that a proxy may have fewer of.
std::vector<std::pair<const char*, int>> counts_of(const Run& run) {
  const Strategy& strategy = run.strategy;
  return {{"dp", strategy.dp},
          {"pp", strategy.pp},
          {"ep", strategy.ep},
          {"virtual_stages", strategy.virtual_stages},
          {"micro-batches", strategy.num_microbatches()},
          {"layers", run.model.num_layers},
          {"experts", run.model.moe ? run.model.moe->num_experts : 0}};
}

void set_microbatches(Strategy& strategy, int count) {
  strategy.global_batch = count * strategy.micro_batch * strategy.dp;
}

// A mesh of fewer ranks has fewer expert ranks, each of which keeps its experts.
void fit_experts(Run& run) {
  Strategy& strategy = run.strategy;
  const int ranks = strategy.num_devices() / strategy.pp / strategy.expert_tensor_ranks();
  const int ep = std::gcd(strategy.ep, std::max(1, ranks));
  if (run.model.moe) {
    sim::Moe& moe = *run.model.moe;
    moe.num_experts = std::max(moe.top_k, moe.num_experts / strategy.ep * ep);
    if (ep < strategy.ep) moe.num_groups = moe.groups_per_token = 1;
  }
  strategy.ep = ep;
}

void fit_sharding(Strategy& strategy) {
  const int ranks = strategy.dp * strategy.cp;
  if (ranks == 1) strategy.sharding = sim::Sharding::None;
  strategy.shard_size = std::min(strategy.shard_size, ranks);
  if (strategy.sharding != sim::Sharding::Hsdp) return;
  if (strategy.shard_size == 0 || strategy.shard_size == ranks)
    strategy.sharding = sim::Sharding::Zero3, strategy.shard_size = 0;
}

void fit_ranks(Run& run, int ranks) {
  Strategy& strategy = run.strategy;
  const int fixed = strategy.tp * strategy.cp, microbatches = strategy.num_microbatches();
  if (fixed > ranks)
    throw Error("tp = " + std::to_string(strategy.tp) + ", cp = " + std::to_string(strategy.cp) +
                ": needs " + std::to_string(fixed) + " ranks, and there are " +
                std::to_string(ranks) + "; --ranks " + std::to_string(fixed) + " or more");
  if (strategy.num_devices() <= ranks) return;
  const int stages = largest_divisor(strategy.pp, ranks / fixed);
  strategy.dp = largest_divisor(strategy.dp, ranks / (fixed * stages));
  if (stages < strategy.pp) {
    run.model.num_layers = std::max(1, run.model.num_layers / strategy.pp * stages);
    strategy.stage_layers.clear();
    strategy.pp = stages;
  }
  if (stages == 1) {
    strategy.virtual_stages = 1;
    strategy.pipeline_schedule = sim::PipelineSchedule::OneForwardOneBackward;
  }
  set_microbatches(strategy, microbatches);
  fit_experts(run);
  fit_sharding(strategy);
}

void keep_two_layers(Run& run) {
  const int chunks = run.strategy.pp * run.strategy.virtual_stages;
  run.model.num_layers = std::min(run.model.num_layers, kLayersOfAChunk * chunks);
  run.strategy.stage_layers.clear();
  if (!run.model.moe) return;
  sim::Moe& moe = *run.model.moe;
  moe.num_dense_layers = std::min(moe.num_dense_layers, 1);
  moe.num_last_dense_layers = 0;
}

bool fits(const Run& run) {
  const sim::Prediction prediction = sim::predict_without_terms(run);
  return prediction.memory.needed() <= run.cluster.device.memory;
}

sim::Seconds time_of(const Run& run) { return sim::predict_without_terms(run).step_time; }

}  // namespace

StepProxy step_proxy(Run run, const ProxyLimits& limits) {
  const auto before = counts_of(run);
  fit_ranks(run, limits.ranks);
  run.cluster.num_devices = run.strategy.num_devices();
  if (!fits(run)) keep_two_layers(run);
  const int least = std::min(run.strategy.num_microbatches(), run.strategy.pp);
  if (time_of(run) > limits.step) set_microbatches(run.strategy, least);
  if (time_of(run) > limits.step) keep_two_layers(run);
  StepProxy proxy{.run = std::move(run), .changes = {}};
  const auto after = counts_of(proxy.run);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i].second != after[i].second)
      proxy.changes.push_back(std::string(before[i].first) + " " +
                              std::to_string(before[i].second) + " -> " +
                              std::to_string(after[i].second));
  return proxy;
}

}  // namespace llmsim::calibrate
