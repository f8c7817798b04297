#include "sim/plan.h"

#include <algorithm>
#include <tuple>

#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "sim/schedule/step.h"
#include "sim/strategy/stage_layout.h"

namespace llmsim::sim {
namespace {

// Micro-batches beyond this only lengthen the bubble and the activations.
constexpr int kMaxMicroBatch = 64;
// Shorter pieces of a sequence gain nothing over data parallelism and send more.
constexpr int kContextTokens = 8192;
constexpr const char* kOutOfMemory = "out of memory";
constexpr const char* kOutOfHostMemory = "out of host memory";

std::vector<int> divisors(int number) {
  std::vector<int> list;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) list.push_back(d);
  }
  return list;
}

std::vector<int> choose(const std::vector<int>& asked, const std::vector<int>& sensible) {
  return asked.empty() ? sensible : asked;
}

// A strategy that fits, as the ranking needs it.
struct Candidate {
  Strategy strategy;
  Seconds time;
  Bytes peak;
};

class Search {
 public:
  explicit Search(const PlanQuery& query) : query_(query), run_(query.base) {}

  Plan run() {
    query_.base.model.validate();
    const int devices = run_.cluster.num_devices;
    for (const int tensor : choose(query_.tensor_parallel, divisors(devices))) {
      for (const int pipeline : choose(query_.pipeline_parallel, divisors(std::max(1, devices / tensor)))) {
        for (const int context : choose(query_.context_parallel, contexts())) try_mesh(tensor, pipeline, context);
      }
    }
    finish();
    return std::move(plan_);
  }

 private:
  // Powers of two that leave every rank kContextTokens of a sequence.
  std::vector<int> contexts() const {
    std::vector<int> list;
    for (int c = 1; c == 1 || run_.model.seq_len / c >= kContextTokens; c *= 2) list.push_back(c);
    return list;
  }

  void try_mesh(int tensor, int pipeline, int context) {
    Strategy s = query_.base.strategy;
    s.tensor_parallel = tensor;
    s.pipeline_parallel = pipeline;
    s.context_parallel = context;
    const int rest = tensor * pipeline * context;
    if (rest > run_.cluster.num_devices && query_.context_parallel.empty() && context > 1) return;
    const int whole = run_.cluster.num_devices / rest;
    for (const int data : choose(query_.data_parallel, {std::max(1, whole)})) {
      s.data_parallel = data;
      const int share = std::max(1, s.global_batch / data);
      for (const int micro : choose(query_.micro_batch, divisors(share))) {
        if (query_.micro_batch.empty() && micro > kMaxMicroBatch) break;
        s.micro_batch = micro;
        try_experts(s);
      }
    }
  }

  // Experts divided as the rest of the model is and, over tensor ranks, whole ones too, unless it is asked for.
  void try_experts(Strategy s) {
    try_expert_ranks(s);
    if (!run_.model.moe || s.tensor_parallel == 1 || s.experts.tensor_parallel) return;
    s.experts.tensor_parallel = 1;
    try_expert_ranks(s);
  }

  // Powers of two that divide the experts and the ranks that can share them out.
  void try_expert_ranks(Strategy s) {
    std::vector<int> sensible{1};
    const int experts = run_.model.moe ? run_.model.moe->num_experts : 1;
    const int ranks = s.tensor_parallel * s.data_parallel * s.context_parallel / s.expert_tensor_ranks();
    for (int x = 2; x <= ranks && ranks % x == 0 && experts % x == 0; x *= 2) sensible.push_back(x);
    for (const int expert : choose(query_.expert_parallel, sensible)) {
      s.expert_parallel = expert;
      try_sequence_parallelism(s);
    }
  }

  // Sequence parallelism saves memory and sends more: neither is always better, so both are tried unless it is asked for.
  void try_sequence_parallelism(Strategy s) {
    const bool possible = s.tensor_parallel > 1;
    const bool asked = query_.base.strategy.sequence_parallel || s.expert_tensor_ranks() != s.tensor_parallel;
    for (const bool parallel : {true, false}) {
      if (parallel ? !possible : possible && asked) continue;
      s.sequence_parallel = parallel;
      try_pipelines(s);
    }
  }

  // Parts of the model per stage that divide its layers, with or without its ends.
  std::vector<int> sensible_virtual_stages(const Strategy& s) const {
    std::vector<int> sensible{1};
    for (int v = 2; s.pipeline_parallel > 1 && s.pipeline_parallel * v <= run_.model.num_layers; ++v) {
      const int chunks = s.pipeline_parallel * v;
      if (run_.model.num_layers % chunks == 0 || (run_.model.num_layers + 2) % chunks == 0) sensible.push_back(v);
    }
    return sensible;
  }

  // Without a list of schedules: 1F1B, and interleaved where a stage has several parts.
  void try_pipelines(Strategy s) {
    const std::vector<int> sensible = choose(query_.virtual_stages, sensible_virtual_stages(s));
    for (const int v : sensible) {
      s.schedule = v > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward;
      const bool asked = std::find(query_.schedule.begin(), query_.schedule.end(), s.schedule) != query_.schedule.end();
      if (query_.schedule.empty() || asked) try_virtual_stages(s, v);
    }
    for (const PipelineSchedule schedule : query_.schedule) {
      if (schedule == PipelineSchedule::OneForwardOneBackward || schedule == PipelineSchedule::Interleaved) continue;
      s.schedule = schedule;
      const std::vector<int> parts{schedule == PipelineSchedule::ZbV ? 2 : 1};
      for (const int v : choose(query_.virtual_stages, parts)) try_virtual_stages(s, v);
    }
  }

  void try_virtual_stages(Strategy s, int v) {
    s.virtual_stages = v;
    const int chunks = s.pipeline_parallel * v;
    s.embeddings_as_layers = chunks > 1 && run_.model.num_layers % chunks != 0 && (run_.model.num_layers + 2) % chunks == 0;
    try_shardings(s);
  }

  void try_shardings(Strategy s) {
    for (const Sharding sharding : shardings(s)) {
      s.sharding = sharding;
      s.shard_size = 0;
      if (sharding != Sharding::Hsdp) {
        try_recomputes(s);
        continue;
      }
      const int ranks = s.data_parallel * s.context_parallel;
      for (const int size : divisors(ranks)) {
        if (size == 1 || size == ranks) continue;
        s.shard_size = size;
        try_recomputes(s);
      }
    }
  }

  // Without a data dimension there is nothing to shard.  Sharded gradients and weights are exchanged for every micro-batch;
  // pipelines make many small ones, so these modes are tried without pipelining only.
  std::vector<Sharding> shardings(const Strategy& s) const {
    if (!query_.sharding.empty()) return query_.sharding;
    if (s.data_parallel * s.context_parallel == 1) return {Sharding::None};
    if (s.pipeline_parallel > 1) return {Sharding::None, Sharding::Zero1};
    return {Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3, Sharding::Hsdp};
  }

  void try_recomputes(Strategy s) {
    static const std::vector<Recompute> sensible{{.kind = RecomputeKind::None},
                                                 {.kind = RecomputeKind::Selective},
                                                 {.kind = RecomputeKind::EveryN, .every_n = 4},
                                                 {.kind = RecomputeKind::EveryN, .every_n = 2},
                                                 {.kind = RecomputeKind::Full}};
    for (const Recompute& recompute : query_.recompute.empty() ? sensible : query_.recompute) {
      s.recompute = recompute;
      evaluate(s);
    }
  }

  void evaluate(const Strategy& strategy) {
    ++plan_.evaluated;
    if (const char* rule = broken_rule_name(run_.model, strategy, run_.cluster.num_devices)) {
      reject(rule, strategy, Bytes(0.0), Bytes(0.0));
      return;
    }
    run_.strategy = strategy;
    run_.model.vocab_size = query_.base.model.vocab_size;
    run_.model.vocab_size = trained_vocab_size(run_);
    const LayerPrices& prices = prices_for(strategy);
    const Memory memory = memory_footprint(run_, prices);
    if (!memory.fits()) {
      reject(kOutOfMemory, strategy, memory.needed(), memory.capacity);
      return;
    }
    if (!memory.host.fits()) {
      reject(kOutOfHostMemory, strategy, memory.host.node, memory.host.capacity);
      return;
    }
    ++plan_.feasible;
    candidates_.push_back({.strategy = strategy, .time = step_time(run_, prices), .peak = memory.peak});
  }

  // Layer prices depend on these dimensions of a strategy alone.
  const LayerPrices& prices_for(const Strategy& s) {
    const int passes = splits_backward(s.schedule) ? 1 : s.schedule == PipelineSchedule::DualPipe ? 2 : 0;
    const auto key = std::tuple(s.tensor_parallel, s.context_parallel, s.expert_parallel, s.expert_tensor_ranks(),
                                s.sequence_parallel, s.micro_batch, passes, s.recompute);
    auto found = prices_.find(key);
    if (found == prices_.end()) found = prices_.emplace(key, layer_prices(run_)).first;
    return found->second;
  }

  void reject(const char* rule, const Strategy& strategy, Bytes needed, Bytes available) {
    const std::size_t seen = plan_.rejected[rule]++;
    const NearestMiss miss{.rule = rule, .strategy = strategy, .needed = needed, .available = available};
    if (seen == 0) {
      plan_.nearest.push_back(miss);
      return;
    }
    if (needed <= Bytes(0.0)) return;
    for (NearestMiss& known : plan_.nearest) {
      if (known.rule == rule && needed < known.needed) known = miss;
    }
  }

  void finish() {
    const bool by_memory = query_.objective == Objective::Memory;
    const auto better = [by_memory](const Candidate& a, const Candidate& b) {
      return by_memory ? std::tie(a.peak, a.time) < std::tie(b.peak, b.time)
                       : std::tie(a.time, a.peak) < std::tie(b.time, b.peak);
    };
    std::sort(candidates_.begin(), candidates_.end(), better);
    const std::size_t count = std::min(candidates_.size(), static_cast<std::size_t>(std::max(1, query_.top)));
    for (std::size_t i = 0; i < count; ++i) plan_.plans.push_back(prediction_of(candidates_[i]));
    add_pareto();
  }

  // From the fastest on, every candidate that is smaller than all faster ones.
  void add_pareto() {
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return std::tie(a.time, a.peak) < std::tie(b.time, b.peak); });
    Bytes smallest{1e300};
    for (const Candidate& candidate : candidates_) {
      if (candidate.peak >= smallest) continue;
      smallest = candidate.peak;
      plan_.pareto.push_back(prediction_of(candidate));
    }
  }

  Prediction prediction_of(const Candidate& candidate) {
    run_.strategy = candidate.strategy;
    run_.model.vocab_size = query_.base.model.vocab_size;
    return predict(run_);
  }

  const PlanQuery& query_;
  Run run_;
  Plan plan_;
  std::map<std::tuple<int, int, int, int, bool, int, int, Recompute>, LayerPrices> prices_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Plan plan(const PlanQuery& query) { return Search(query).run(); }

}  // namespace llmsim::sim
