#include "sim/plan.h"

#include <algorithm>
#include <tuple>

#include "sim/base/error.h"
#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "sim/schedule/step.h"
#include "sim/strategy/stages.h"

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

// The values of a field that the search is restricted to; none: it is not.
template <class Value>
std::vector<Value> asked(const PlanQuery& query, const char* key) {
  std::vector<Value> values;
  const auto found = query.restriction.find(key);
  if (found == query.restriction.end()) return values;
  for (const FieldValue& given : found->second) {
    if (!FieldType<Value>::put(values.emplace_back(), given))
      throw Error(std::string(key) + " = " + text_of(given) + ": a search cannot try it");
  }
  return values;
}

std::vector<Recompute> asked_recomputes(const PlanQuery& query) {
  std::vector<Recompute> recomputes;
  for (const std::string& text : asked<std::string>(query, "recompute")) {
    const std::optional<Recompute> recompute = recompute_from(text);
    if (!recompute) throw Error("recompute = " + text + ": unknown");
    recomputes.push_back(*recompute);
  }
  return recomputes;
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

// What the query restricts the search to, by field; none: everything that makes sense.
struct Asked {
  std::vector<int> tp, pp, cp, ep, dp, micro_batch, virtual_stages;
  std::vector<PipelineSchedule> pipeline_schedule;
  std::vector<Sharding> sharding;
  std::vector<Recompute> recompute;
};

Asked asked_of(const PlanQuery& query) {
  const auto counts = [&](const char* key) { return asked<int>(query, key); };
  return {.tp = counts("tp"),
          .pp = counts("pp"),
          .cp = counts("cp"),
          .ep = counts("ep"),
          .dp = counts("dp"),
          .micro_batch = counts("micro_batch"),
          .virtual_stages = counts("virtual_stages"),
          .pipeline_schedule = asked<PipelineSchedule>(query, "pipeline_schedule"),
          .sharding = asked<Sharding>(query, "sharding"),
          .recompute = asked_recomputes(query)};
}

// The run under one sharding, and the first sharding whose layer prices it shares.
struct Base {
  Run run;
  std::size_t prices;
};

class Search {
 public:
  explicit Search(const PlanQuery& query) : query_(query), asked_(asked_of(query)), devices_(query.base.cluster.num_devices) {
    for (const Sharding sharding : {Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3, Sharding::Hsdp}) {
      const auto found = query.under.find(sharding);
      bases_.push_back({.run = found == query.under.end() ? query.base : found->second, .prices = 0});
      // Prices depend on how the framework behaves: those of equal frameworks are shared.
      Base& base = bases_.back();
      while (!(bases_[base.prices].run.framework == base.run.framework)) ++base.prices;
    }
  }

  Plan run() {
    query_.base.model.validate();
    for (const int tensor : choose(asked_.tp, divisors(devices_))) {
      for (const int pipeline : choose(asked_.pp, divisors(std::max(1, devices_ / tensor)))) {
        for (const int context : choose(asked_.cp, contexts())) try_mesh(tensor, pipeline, context);
      }
    }
    finish();
    return std::move(plan_);
  }

 private:
  // Powers of two that leave every rank kContextTokens of a sequence.
  std::vector<int> contexts() const {
    std::vector<int> list;
    for (int c = 1; c == 1 || query_.base.model.seq_len / c >= kContextTokens; c *= 2) list.push_back(c);
    return list;
  }

  void try_mesh(int tensor, int pipeline, int context) {
    Strategy s = query_.base.strategy;
    s.tp = tensor;
    s.pp = pipeline;
    s.cp = context;
    const int rest = tensor * pipeline * context;
    if (rest > devices_ && asked_.cp.empty() && context > 1) return;
    const int whole = devices_ / rest;
    for (const int data : choose(asked_.dp, {std::max(1, whole)})) {
      s.dp = data;
      const int share = std::max(1, s.global_batch / data);
      for (const int micro : choose(asked_.micro_batch, divisors(share))) {
        if (asked_.micro_batch.empty() && micro > kMaxMicroBatch) break;
        s.micro_batch = micro;
        try_experts(s);
      }
    }
  }

  // Experts divided as the rest of the model is and, over tensor ranks, whole ones too, unless it is asked for.
  void try_experts(Strategy s) {
    try_expert_ranks(s);
    if (!query_.base.model.moe || s.tp == 1 || s.etp) return;
    s.etp = 1;
    try_expert_ranks(s);
  }

  // Powers of two that divide the experts and the ranks that can share them out.
  void try_expert_ranks(Strategy s) {
    std::vector<int> sensible{1};
    const int experts = query_.base.model.moe ? query_.base.model.moe->num_experts : 1;
    const int ranks = s.tp * s.dp * s.cp / s.expert_tensor_ranks();
    for (int x = 2; x <= ranks && ranks % x == 0 && experts % x == 0; x *= 2) sensible.push_back(x);
    for (const int expert : choose(asked_.ep, sensible)) {
      s.ep = expert;
      try_sequence_parallelism(s);
    }
  }

  // Sequence parallelism saves memory and sends more: neither is always better, so both are tried unless it is asked for.
  void try_sequence_parallelism(Strategy s) {
    const bool possible = s.tp > 1;
    const bool asked = query_.base.strategy.sequence_parallel || s.expert_tensor_ranks() != s.tp;
    for (const bool parallel : {true, false}) {
      if (parallel ? !possible : possible && asked) continue;
      s.sequence_parallel = parallel;
      try_pipelines(s);
    }
  }

  // Parts of the model per stage that divide its layers, with or without its ends.
  std::vector<int> sensible_virtual_stages(const Strategy& s) const {
    std::vector<int> sensible{1};
    for (int v = 2; s.pp > 1 && s.pp * v <= query_.base.model.num_layers + 2; ++v) {
      const int chunks = s.pp * v;
      if (query_.base.model.num_layers % chunks == 0 || (query_.base.model.num_layers + 2) % chunks == 0) sensible.push_back(v);
    }
    return sensible;
  }

  // Without a list of schedules: 1F1B, and interleaved where a stage has several parts.
  void try_pipelines(Strategy s) {
    const std::vector<int> sensible = choose(asked_.virtual_stages, sensible_virtual_stages(s));
    for (const int v : sensible) {
      s.pipeline_schedule = v > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward;
      const bool asked = std::find(asked_.pipeline_schedule.begin(), asked_.pipeline_schedule.end(), s.pipeline_schedule) !=
                         asked_.pipeline_schedule.end();
      if (asked_.pipeline_schedule.empty() || asked) try_virtual_stages(s, v);
    }
    for (const PipelineSchedule schedule : asked_.pipeline_schedule) {
      if (schedule == PipelineSchedule::OneForwardOneBackward || schedule == PipelineSchedule::Interleaved) continue;
      s.pipeline_schedule = schedule;
      const std::vector<int> parts{schedule == PipelineSchedule::ZbV ? 2 : 1};
      for (const int v : choose(asked_.virtual_stages, parts)) try_virtual_stages(s, v);
    }
  }

  void try_virtual_stages(Strategy s, int v) {
    s.virtual_stages = v;
    const int chunks = s.pp * v;
    s.embeddings_as_layers =
        chunks > 1 && query_.base.model.num_layers % chunks != 0 && (query_.base.model.num_layers + 2) % chunks == 0;
    try_shardings(s);
  }

  // What was chosen so far, with what the framework does under a sharding.
  Strategy under(Sharding sharding, const Strategy& chosen) const {
    Strategy s = base_of(sharding).run.strategy;
    s.dp = chosen.dp;
    s.tp = chosen.tp;
    s.pp = chosen.pp;
    s.cp = chosen.cp;
    s.ep = chosen.ep;
    s.etp = chosen.etp;
    s.sequence_parallel = chosen.sequence_parallel;
    s.micro_batch = chosen.micro_batch;
    s.global_batch = chosen.global_batch;
    s.virtual_stages = chosen.virtual_stages;
    s.pipeline_schedule = chosen.pipeline_schedule;
    s.embeddings_as_layers = chosen.embeddings_as_layers;
    s.sharding = sharding;
    s.shard_size = 0;
    return s;
  }

  void try_shardings(Strategy s) {
    for (const Sharding sharding : shardings(s)) {
      s = under(sharding, s);
      if (sharding != Sharding::Hsdp) {
        try_recomputes(s);
        continue;
      }
      const int ranks = s.dp * s.cp;
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
    if (!asked_.sharding.empty()) return asked_.sharding;
    if (s.dp * s.cp == 1) return {Sharding::None};
    if (s.pp > 1) return {Sharding::None, Sharding::Zero1};
    return {Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3, Sharding::Hsdp};
  }

  void try_recomputes(Strategy s) {
    static const std::vector<Recompute> sensible{{.kind = RecomputeKind::None},
                                                 {.kind = RecomputeKind::Selective},
                                                 {.kind = RecomputeKind::EveryN, .every_n = 4},
                                                 {.kind = RecomputeKind::EveryN, .every_n = 2},
                                                 {.kind = RecomputeKind::Full}};
    for (const Recompute& recompute : asked_.recompute.empty() ? sensible : asked_.recompute) {
      s.recompute = recompute;
      evaluate(s);
    }
  }

  void evaluate(const Strategy& strategy) {
    ++plan_.evaluated;
    if (const char* rule = broken_rule_name(query_.base.model, strategy, devices_)) {
      reject(rule, strategy, Bytes(0.0), Bytes(0.0));
      return;
    }
    Base& base = base_of(strategy.sharding);
    Run& run = base.run;
    run.strategy = strategy;
    run.model.vocab_size = query_.base.model.vocab_size;
    run.model.vocab_size = trained_vocab_size(run);
    const LayerPrices& prices = prices_for(base);
    const Memory memory = memory_footprint(run, prices, MemoryStages::Fullest);
    if (!memory.fits()) {
      reject(kOutOfMemory, strategy, memory.needed(), memory.capacity);
      return;
    }
    if (!memory.host.fits()) {
      reject(kOutOfHostMemory, strategy, memory.host.node, memory.host.capacity);
      return;
    }
    ++plan_.feasible;
    candidates_.push_back({.strategy = strategy, .time = step_time(run, prices), .peak = memory.peak});
  }

  // Layer prices depend on these dimensions of a strategy and on the framework's behaviour alone.
  const LayerPrices& prices_for(const Base& base) {
    const Strategy& s = base.run.strategy;
    const int passes = splits_backward(s.pipeline_schedule) ? 1 : s.pipeline_schedule == PipelineSchedule::DualPipe ? 2 : 0;
    const auto key = std::tuple(base.prices, s.tp, s.cp, s.ep, s.expert_tensor_ranks(), s.sequence_parallel, s.micro_batch,
                                passes, s.recompute);
    auto found = prices_.find(key);
    if (found == prices_.end()) found = prices_.emplace(key, layer_prices(base.run)).first;
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
    Run& run = base_of(candidate.strategy.sharding).run;
    run.strategy = candidate.strategy;
    run.model.vocab_size = query_.base.model.vocab_size;
    return predict(run);
  }

  Base& base_of(Sharding sharding) { return bases_[static_cast<std::size_t>(sharding)]; }
  const Base& base_of(Sharding sharding) const { return bases_[static_cast<std::size_t>(sharding)]; }

  const PlanQuery& query_;
  const Asked asked_;
  const int devices_;
  std::vector<Base> bases_;  // by Sharding; their strategies and vocabularies change as the search goes on
  Plan plan_;
  std::map<std::tuple<std::size_t, int, int, int, int, bool, int, int, Recompute>, LayerPrices> prices_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Plan plan(const PlanQuery& query) { return Search(query).run(); }

}  // namespace llmsim::sim
