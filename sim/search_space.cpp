#include "sim/search_space.h"

#include <algorithm>
#include <optional>

#include "sim/base/error.h"

namespace llmsim::sim {
namespace {

using Strategies = std::vector<Strategy>;

// Micro-batches beyond this only lengthen the bubble and the activations.
constexpr int kMaxMicroBatch = 64;
// Shorter pieces of a sequence gain nothing over data parallelism and send more.
constexpr int kContextTokens = 8192;

std::vector<int> divisors(int number) {
  std::vector<int> list;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) list.push_back(d);
  }
  return list;
}

// The values of a field that the search is restricted to; none: it is not.
template <class Value>
std::vector<Value> asked(const Restriction& restriction, const char* key) {
  std::vector<Value> values;
  const auto found = restriction.find(key);
  if (found == restriction.end()) return values;
  for (const FieldValue& given : found->second) {
    if (!FieldType<Value>::put(values.emplace_back(), given))
      throw Error(std::string(key) + " = " + text_of(given) + ": a search cannot try it");
  }
  return values;
}

std::vector<Recompute> asked_recomputes(const Restriction& restriction) {
  std::vector<Recompute> recomputes;
  for (const std::string& text : asked<std::string>(restriction, "recompute")) {
    const std::optional<Recompute> recompute = recompute_from(text);
    if (!recompute) throw Error("recompute = " + text + ": unknown");
    recomputes.push_back(*recompute);
  }
  return recomputes;
}

// What the search is restricted to, by field; none: everything that makes sense.
struct Asked {
  std::vector<int> tp, pp, cp, ep, dp, micro_batch, virtual_stages;
  std::vector<PipelineSchedule> pipeline_schedule;
  std::vector<Sharding> sharding;
  std::vector<Recompute> recompute;
};

Asked asked_of(const Restriction& restriction) {
  const auto counts = [&](const char* key) { return asked<int>(restriction, key); };
  return {.tp = counts("tp"),
          .pp = counts("pp"),
          .cp = counts("cp"),
          .ep = counts("ep"),
          .dp = counts("dp"),
          .micro_batch = counts("micro_batch"),
          .virtual_stages = counts("virtual_stages"),
          .pipeline_schedule = asked<PipelineSchedule>(restriction, "pipeline_schedule"),
          .sharding = asked<Sharding>(restriction, "sharding"),
          .recompute = asked_recomputes(restriction)};
}

template <class Value>
std::vector<Value> choose(const std::vector<Value>& asked, const std::vector<Value>& sensible) {
  return asked.empty() ? sensible : asked;
}

// Powers of two that leave every rank kContextTokens of a sequence.
std::vector<int> sensible_contexts(const Transformer& model) {
  std::vector<int> list;
  for (int c = 1; c == 1 || model.seq_len / c >= kContextTokens; c *= 2) list.push_back(c);
  return list;
}

Strategies meshes(const SearchBase& base, const Asked& asked) {
  Strategies list;
  for (const int tensor : choose(asked.tp, divisors(base.num_devices))) {
    for (const int pipeline : choose(asked.pp, divisors(std::max(1, base.num_devices / tensor)))) {
      for (const int context : choose(asked.cp, sensible_contexts(base.model))) {
        const int rest = tensor * pipeline * context;
        if (rest > base.num_devices && asked.cp.empty() && context > 1) continue;
        Strategy s = base.strategy;
        s.tp = tensor, s.pp = pipeline, s.cp = context;
        for (const int data : choose(asked.dp, {std::max(1, base.num_devices / rest)})) {
          s.dp = data;
          for (const int micro :
               choose(asked.micro_batch, divisors(std::max(1, s.global_batch / data)))) {
            if (asked.micro_batch.empty() && micro > kMaxMicroBatch) break;
            s.micro_batch = micro;
            list.push_back(s);
          }
        }
      }
    }
  }
  return list;
}

// Experts divided as the rest of the model is and, over tensor ranks, whole ones too, unless it is
// asked for; over powers of two that divide the experts and the ranks that can share them out.
Strategies with_experts(const SearchBase& base, const Asked& asked, Strategy s) {
  Strategies list;
  const auto add = [&] {
    std::vector<int> sensible{1};
    const int experts = base.model.moe ? base.model.moe->num_experts : 1;
    const int ranks = s.tp * s.dp * s.cp / s.expert_tensor_ranks();
    for (int x = 2; x <= ranks && ranks % x == 0 && experts % x == 0; x *= 2) sensible.push_back(x);
    for (const int expert : choose(asked.ep, sensible)) s.ep = expert, list.push_back(s);
  };
  add();
  if (!base.model.moe || s.tp == 1 || s.etp) return list;
  s.etp = 1;
  add();
  return list;
}

// Sequence parallelism saves memory and sends more: neither is always better, so both are tried
// unless it is asked for.
Strategies with_sequence_parallelism(const SearchBase& base, Strategy s) {
  Strategies list;
  const bool possible = s.tp > 1;
  const bool asked = base.strategy.sequence_parallel || s.expert_tensor_ranks() != s.tp;
  for (const bool parallel : {true, false}) {
    if (parallel ? !possible : possible && asked) continue;
    s.sequence_parallel = parallel;
    list.push_back(s);
  }
  return list;
}

// Parts of the model per stage that divide its layers, with or without its ends.
std::vector<int> sensible_virtual_stages(int num_layers, const Strategy& s) {
  std::vector<int> sensible{1};
  for (int v = 2; s.pp > 1 && s.pp * v <= num_layers + 2; ++v) {
    const int chunks = s.pp * v;
    if (num_layers % chunks == 0 || (num_layers + 2) % chunks == 0) sensible.push_back(v);
  }
  return sensible;
}

// Without a list of schedules: 1F1B, and interleaved where a stage has several parts.
Strategies with_pipelines(const SearchBase& base, const Asked& asked, Strategy s) {
  Strategies list;
  const int layers = base.model.num_layers;
  const auto add = [&](PipelineSchedule schedule, int v) {
    const int chunks = s.pp * v;
    s.pipeline_schedule = schedule;
    s.virtual_stages = v;
    s.embeddings_as_layers = chunks > 1 && layers % chunks != 0 && (layers + 2) % chunks == 0;
    list.push_back(s);
  };
  const std::vector<PipelineSchedule>& schedules = asked.pipeline_schedule;
  for (const int v : choose(asked.virtual_stages, sensible_virtual_stages(layers, s))) {
    const PipelineSchedule schedule =
        v > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward;
    if (schedules.empty() ||
        std::find(schedules.begin(), schedules.end(), schedule) != schedules.end())
      add(schedule, v);
  }
  for (const PipelineSchedule schedule : schedules) {
    if (schedule == PipelineSchedule::OneForwardOneBackward ||
        schedule == PipelineSchedule::Interleaved)
      continue;
    for (const int v : choose(asked.virtual_stages, {schedule == PipelineSchedule::ZbV ? 2 : 1}))
      add(schedule, v);
  }
  return list;
}

// What was chosen so far, with what the framework does under a sharding.
Strategy under(const SearchBase& base, Sharding sharding, const Strategy& chosen) {
  Strategy s = base.under[static_cast<std::size_t>(sharding)];
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

// Without a data dimension there is nothing to shard.  Sharded gradients and weights are exchanged
// for every micro-batch; pipelines make many small ones, so these modes are tried without
// pipelining only.
std::vector<Sharding> sensible_shardings(const Strategy& s) {
  if (s.dp * s.cp == 1) return {Sharding::None};
  if (s.pp > 1) return {Sharding::None, Sharding::Zero1};
  return {kAllShardings.begin(), kAllShardings.end()};
}

Strategies with_shardings(const SearchBase& base, const Asked& asked, const Strategy& chosen) {
  Strategies list;
  for (const Sharding sharding : choose(asked.sharding, sensible_shardings(chosen))) {
    // A framework whose ZeRO-2 is ZeRO-3 with gathered weights that stay has no ZeRO-2 of its own.
    if (base.under[static_cast<std::size_t>(sharding)].sharding == Sharding::Zero3 &&
        sharding == Sharding::Zero2)
      continue;
    Strategy s = under(base, sharding, chosen);
    if (sharding != Sharding::Hsdp) {
      list.push_back(s);
      continue;
    }
    const int ranks = s.dp * s.cp;
    for (const int size : divisors(ranks)) {
      if (size == 1 || size == ranks) continue;
      s.shard_size = size;
      list.push_back(s);
    }
  }
  return list;
}

}  // namespace

void for_each_strategy(const SearchBase& base, const Restriction& restriction,
                       const std::function<void(const Strategy&)>& visit) {
  const Asked asked = asked_of(restriction);
  const std::vector<Recompute> recomputes =
      choose(asked.recompute, {{.kind = RecomputeKind::None},
                               {.kind = RecomputeKind::Selective},
                               {.kind = RecomputeKind::EveryN, .every_n = 4},
                               {.kind = RecomputeKind::EveryN, .every_n = 2},
                               {.kind = RecomputeKind::Full}});
  for (const Strategy& mesh : meshes(base, asked)) {
    for (const Strategy& experts : with_experts(base, asked, mesh)) {
      for (const Strategy& tokens : with_sequence_parallelism(base, experts)) {
        for (const Strategy& pipeline : with_pipelines(base, asked, tokens)) {
          for (Strategy& s : with_shardings(base, asked, pipeline)) {
            for (const Recompute& recompute : recomputes) s.recompute = recompute, visit(s);
          }
        }
      }
    }
  }
}

}  // namespace llmsim::sim
