#include "sim/search/space.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/model/flops.h"

namespace llmsim::sim {
namespace {

// Micro-batches of more sequences and more tokens only lengthen the bubble and the activations:
// BERT's short sequences still gain 8 % from 128 to 256 of them.
constexpr int kMaxMicroBatch = 64;
constexpr int kMaxMicroBatchTokens = 65536;
// Shorter pieces of a sequence are not worth the messages around attention.
constexpr int kContextTokens = 1024;
constexpr int kMostFirstBlocks = 4;
// A head of more is that of a toy's vocabulary.
constexpr int kMostHeadLayers = 8;

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
    Value value{};
    if (!FieldType<Value>::put(value, given))
      throw Error(std::string(key) + " = " + text_of(given) + ": a search cannot try it");
    values.push_back(value);
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

void add_modules(std::vector<Recompute>& list, const Transformer& model) {
  const auto add = [&](RecomputedModules modules) {
    modules.core_attention = false;
    list.push_back({.kind = RecomputeKind::Selective, .modules = modules});
  };
  add({.norms = true});
  add({.activation = true});
  add({.norms = true, .activation = true});
  if (model.mla) add({.norms = true, .activation = true, .mla_up = true});
}

std::vector<Recompute> sensible_recomputes(const SearchBase& base) {
  std::vector<Recompute> list{{.kind = RecomputeKind::None},
                              {.kind = RecomputeKind::Selective},
                              {.kind = RecomputeKind::EveryN, .every_n = 4},
                              {.kind = RecomputeKind::EveryN, .every_n = 2},
                              {.kind = RecomputeKind::Full}};
  for (int blocks = 1; blocks <= kMostFirstBlocks; ++blocks)
    list.push_back({.kind = RecomputeKind::Full, .blocks = blocks});
  if (base.offers.module_recompute) add_modules(list, base.model);
  if (base.offers.operator_recompute) {
    for (const char* text : {"op", "op=all", "op=qkv"}) list.push_back(*recompute_from(text));
  }
  return list;
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

}  // namespace

SearchSpace::SearchSpace(const SearchBase& base, const Restriction& restriction) : base_(base) {
  const auto counts = [&](const char* key) { return asked<int>(restriction, key); };
  asked_ = {.tp = counts("tp"),
            .pp = counts("pp"),
            .cp = counts("cp"),
            .ep = counts("ep"),
            .dp = counts("dp"),
            .micro_batch = counts("micro_batch"),
            .virtual_stages = counts("virtual_stages"),
            .pipeline_schedule = asked<PipelineSchedule>(restriction, "pipeline_schedule"),
            .sharding = asked<Sharding>(restriction, "sharding"),
            .mesh_order = asked<MeshOrder>(restriction, "mesh_order"),
            .tp_overlap = asked<bool>(restriction, "tp_overlap"),
            .moe_overlap = asked<bool>(restriction, "moe_overlap"),
            .moe_dispatch = asked<ExpertDispatch>(restriction, "moe_dispatch")};
  for (const std::string_view key : kDerivedFields) {
    const auto found = restriction.find(std::string(key));
    if (found != restriction.end()) derived_.insert(*found);
  }
  recomputes_ = choose(asked_recomputes(restriction), sensible_recomputes(base));
  for (const Recompute& excluded : asked_recomputes(base.excluded))
    std::erase(recomputes_, excluded);
  if (recomputes_.empty()) throw Error("recompute: every way to recompute is excluded");
}

bool SearchSpace::is_allowed(const Strategy& strategy,
                             std::span<const std::string_view> keys) const {
  const auto has_one_of = [&](const Restriction& lists, const std::string& key, bool without_list) {
    const auto list = lists.find(key);
    if (list == lists.end()) return without_list;
    const FieldValue value = key == "etp" ? FieldValue(std::int64_t{strategy.expert_tensor_ranks()})
                                          : *find_strategy_field(key)->get(strategy);
    return std::find(list->second.begin(), list->second.end(), value) != list->second.end();
  };
  if (derived_.empty() && base_.excluded.empty()) return true;
  return std::all_of(keys.begin(), keys.end(), [&](const std::string_view name) {
    const std::string key(name);
    return has_one_of(derived_, key, true) && !has_one_of(base_.excluded, key, false);
  });
}

std::vector<SearchLayout> SearchSpace::layouts() const {
  std::vector<SearchLayout> list;
  const int devices = base_.num_devices;
  for (const int tensor : choose(asked_.tp, divisors(devices))) {
    for (const int pipeline : choose(asked_.pp, divisors(std::max(1, devices / tensor)))) {
      for (const int context : choose(asked_.cp, sensible_contexts(base_.model))) {
        const bool too_many = static_cast<long long>(tensor) * pipeline * context > devices;
        if (too_many && asked_.cp.empty() && context > 1) continue;
        add_meshes(list, {.tp = tensor, .pp = pipeline, .cp = context});
      }
    }
  }
  return list;
}

void SearchSpace::add_meshes(std::vector<SearchLayout>& list, SearchLayout layout) const {
  const long long rest = static_cast<long long>(layout.tp) * layout.pp * layout.cp;
  const int fitting = std::max(1, static_cast<int>(base_.num_devices / rest));
  for (const int data : choose(asked_.dp, {fitting})) {
    layout.dp = data;
    const int batch = std::max(1, base_.strategy.global_batch / data);
    const int most = std::max(kMaxMicroBatch, kMaxMicroBatchTokens / base_.model.seq_len);
    for (const int micro : choose(asked_.micro_batch, divisors(batch))) {
      if (asked_.micro_batch.empty() && micro > most) break;
      layout.micro_batch = micro;
      add_experts(list, layout);
    }
  }
}

int SearchSpace::expert_tensor_ranks(const SearchLayout& layout) const {
  return layout.etp > 0 ? layout.etp : base_.strategy.etp.value_or(layout.tp);
}

// Experts divided as the rest of the model is and, over tensor ranks, whole ones too, unless it is
// asked for.
void SearchSpace::add_experts(std::vector<SearchLayout>& list, SearchLayout layout) const {
  add_expert_ranks(list, layout);
  if (!base_.model.moe || layout.tp == 1 || base_.strategy.etp) return;
  layout.etp = 1;
  add_expert_ranks(list, layout);
}

// Over numbers that divide the experts and the ranks that can share them out.
void SearchSpace::add_expert_ranks(std::vector<SearchLayout>& list, SearchLayout layout) const {
  std::vector<int> sensible{1};
  const int experts = base_.model.moe ? base_.model.moe->num_experts : 1;
  const int ranks = layout.tp * layout.dp * layout.cp / std::max(1, expert_tensor_ranks(layout));
  for (int x = 2; x <= std::min(ranks, experts); ++x) {
    if (ranks % x == 0 && experts % x == 0) sensible.push_back(x);
  }
  for (const int expert : choose(asked_.ep, sensible)) {
    layout.ep = expert;
    add_sequence_parallelism(list, layout);
  }
}

// Sequence parallelism saves memory and sends more: neither is always better, so both are tried
// unless it is asked for.
void SearchSpace::add_sequence_parallelism(std::vector<SearchLayout>& list,
                                           SearchLayout layout) const {
  const bool possible = layout.tp > 1;
  const bool needed = base_.strategy.sequence_parallel || expert_tensor_ranks(layout) != layout.tp;
  for (const bool parallel : {true, false}) {
    if (parallel ? !possible : possible && needed) continue;
    layout.sequence_parallel = parallel;
    add_tensor_overlap(list, layout);
  }
}

// Where it is offered it can still lose: GEMMs in pieces are slower.
void SearchSpace::add_tensor_overlap(std::vector<SearchLayout>& list, SearchLayout layout) const {
  if (layout.tp == 1) return add_dispatch(list, layout);
  const bool usual = base_.strategy.tp_overlap;
  std::vector<bool> sensible{usual};
  const bool has_overlap =
      base_.offers.tp_overlap && (base_.strategy.compile || !base_.offers.tp_overlap_compiled);
  if (has_overlap && layout.tp <= base_.fabric_devices && (usual || layout.sequence_parallel))
    sensible = {false, true};
  for (const bool overlap : choose(asked_.tp_overlap, sensible)) {
    layout.tp_overlap = overlap;
    add_dispatch(list, layout);
  }
}

void SearchSpace::add_dispatch(std::vector<SearchLayout>& list, SearchLayout layout) const {
  const ExpertDispatch usual = base_.strategy.moe_dispatch;
  std::vector<ExpertDispatch> sensible{usual};
  const bool exchanges = layout.ep * expert_tensor_ranks(layout) > 1;
  if (base_.model.moe && base_.offers.deduplicated_dispatch && exchanges &&
      usual != ExpertDispatch::Deduplicated)
    sensible.push_back(ExpertDispatch::Deduplicated);
  for (const ExpertDispatch dispatch : choose(asked_.moe_dispatch, sensible)) {
    layout.moe_dispatch = dispatch;
    add_expert_overlap(list, layout);
  }
}

// Beside another micro-batch, where there is one.
void SearchSpace::add_expert_overlap(std::vector<SearchLayout>& list, SearchLayout layout) const {
  constexpr std::array<std::string_view, 11> kKeys{
      "tp",         "pp",           "cp",         "dp",
      "ep",         "micro_batch",  "etp",        "sequence_parallel",
      "tp_overlap", "moe_dispatch", "moe_overlap"};
  std::vector<bool> sensible{base_.strategy.moe_overlap};
  if (base_.model.moe && !is_hybrid(base_.model) && base_.offers.moe_overlap && layout.ep > 1 &&
      strategy(layout, {}, {}, {}).num_microbatches() > 1)
    sensible = {false, true};
  for (const bool overlap : choose(asked_.moe_overlap, sensible)) {
    layout.moe_overlap = overlap;
    if (is_allowed(strategy(layout, {}, {}, {}), kKeys)) list.push_back(layout);
  }
}

bool SearchSpace::go_together(const SearchLayout& layout, const SearchPipeline& pipeline) const {
  return !layout.moe_overlap || !asked_.moe_overlap.empty() || base_.strategy.moe_overlap ||
         layout.pp == 1 || pipeline.schedule == PipelineSchedule::Interleaved;
}

bool SearchSpace::go_together(const SearchLayout& layout, const Recompute& recompute) const {
  return !layout.moe_overlap || !asked_.moe_overlap.empty() || base_.strategy.moe_overlap ||
         !recompute.whole();
}

namespace {

// Layers that are as many FLOPs as the head.
int head_layers(const Transformer& model) {
  const Flops head = head_flops_per_token(model),
              blocks = forward_flops_per_token(model, true) - head;
  return static_cast<int>(
      std::min<double>(kMostHeadLayers, std::round(head / blocks * model.num_layers)));
}

// As evenly as they go, one more in the middle first and after it: earlier stages hold more.
std::vector<int> evenly(int layers, int count) {
  std::vector<int> shares(static_cast<std::size_t>(count), layers / count);
  const int remainder = layers % count;
  const auto first = shares.begin() + (count - remainder + 1) / 2;
  std::for_each(first, first + remainder, [](int& share) { ++share; });
  return shares;
}

// One layer more on all parts but the last, which has what is left.
std::vector<int> dealt_with_rest_last(int layers, int parts) {
  const int others = layers / parts + 1;
  std::vector<int> dealt(static_cast<std::size_t>(parts), others);
  const long long rest = layers - static_cast<long long>(others) * (parts - 1);
  dealt.back() = static_cast<int>(std::max(-1ll, rest));
  return dealt;
}

// Over stages of so many chunks as if the head were `head` layers.  None where the last stage has
// too few for its other chunks.
std::vector<int> dealt_with_head_as(int head, int layers, int stages, int chunks) {
  const int last = (layers + head) / stages - head;
  if (last < chunks - 1) return {};
  const int end = std::max(0, (last + head) / chunks - head);
  const std::vector<int> of_stages = evenly(layers - last, stages - 1);
  std::vector<int> dealt(static_cast<std::size_t>(stages * chunks), end);
  const auto put = [&](int stage, const std::vector<int>& shares) {
    for (std::size_t chunk = 0; chunk < shares.size(); ++chunk)
      dealt[chunk * static_cast<std::size_t>(stages) + static_cast<std::size_t>(stage)] =
          shares[chunk];
  };
  for (int stage = 0; stage + 1 < stages; ++stage)
    put(stage, evenly(of_stages[static_cast<std::size_t>(stage)], chunks));
  if (chunks > 1) put(stages - 1, evenly(last - end, chunks - 1));
  return dealt;
}

}  // namespace

// None where layers of several tokens' prediction move layers off the last part already, and where
// both ends of the model meet on a stage; nor where that is how layers are dealt anyway or leaves a
// part without any, but for the head's.
void SearchSpace::add_short_ends(std::vector<SearchPipeline>& list, const SearchPipeline& even,
                                 int pp) const {
  const int chunks = even.virtual_stages, parts = pp * chunks, layers = base_.model.num_layers;
  const bool ends_meet =
      even.schedule == PipelineSchedule::ZbV || even.schedule == PipelineSchedule::DualPipe;
  if (pp == 1 || parts > layers + 1 || base_.model.mtp_layers > 0 || ends_meet) return;
  const auto add = [&](const std::vector<int>& dealt, int least) {
    if (dealt.empty() || dealt.back() < least) return;
    const bool has_layers = *std::min_element(dealt.begin(), dealt.end() - 1) >= 1;
    const bool is_new = std::none_of(list.begin(), list.end(), [&](const SearchPipeline& known) {
      return known.virtual_stages == chunks && known.part_layers == dealt;
    });
    if (!has_layers || !is_new) return;
    list.push_back(even);
    list.back().part_layers = dealt;
  };
  const std::vector<int> rest_last = dealt_with_rest_last(layers, parts);
  if (rest_last.back() < rest_last.front() - 1) add(rest_last, 1);
  for (int head = 2; head <= head_layers(base_.model); ++head)
    add(dealt_with_head_as(head, layers, pp, chunks), 0);
}

// With layers dealt in each way.
void SearchSpace::add_pipelines(std::vector<SearchPipeline>& list, PipelineSchedule schedule,
                                int pp, int virtual_stages) const {
  constexpr std::array<std::string_view, 3> kKeys{"virtual_stages", "pipeline_schedule",
                                                  "embeddings_as_layers"};
  const bool one_part = static_cast<long long>(pp) * virtual_stages == 1;
  for (const bool ends : {false, true}) {
    if (ends && (one_part || !base_.strategy.stage_layers.empty())) continue;
    const SearchPipeline pipeline{schedule, virtual_stages, ends};
    if (!is_allowed(strategy({.pp = pp}, pipeline, {}, {}), kKeys)) continue;
    list.push_back(pipeline);
    if (ends || one_part || !base_.strategy.stage_layers.empty()) continue;
    add_short_ends(list, pipeline, pp);
  }
}

// Without a list of schedules: 1F1B, interleaved where a stage has several parts, and DualPipe where
// the framework has it.
std::vector<SearchPipeline> SearchSpace::pipelines(int pp) const {
  std::vector<int> sensible{1};
  for (int v = 2; pp > 1 && v <= (base_.model.num_layers + 2) / pp; ++v) sensible.push_back(v);
  const std::vector<PipelineSchedule>& schedules = asked_.pipeline_schedule;
  std::vector<SearchPipeline> list;
  for (const int v : choose(asked_.virtual_stages, sensible)) {
    const PipelineSchedule schedule =
        v > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward;
    if (schedules.empty() ||
        std::find(schedules.begin(), schedules.end(), schedule) != schedules.end())
      add_pipelines(list, schedule, pp, v);
  }
  std::vector<PipelineSchedule> others = schedules;
  if (schedules.empty() && base_.offers.dualpipe) others.push_back(PipelineSchedule::DualPipe);
  for (const PipelineSchedule schedule : others) {
    if (schedule == PipelineSchedule::OneForwardOneBackward ||
        schedule == PipelineSchedule::Interleaved)
      continue;
    for (const int v : choose(asked_.virtual_stages, {schedule == PipelineSchedule::ZbV ? 2 : 1}))
      add_pipelines(list, schedule, pp, v);
  }
  return list;
}

namespace {

bool is_offered(const FrameworkOffers& offers, Sharding sharding, bool pipeline) {
  switch (sharding) {
    case Sharding::Zero2: return offers.zero2 && (!pipeline || offers.zero2_in_pipelines);
    case Sharding::Zero3: return offers.zero3 && (!pipeline || offers.zero3_in_pipelines);
    case Sharding::Hsdp: return offers.hsdp && (!pipeline || offers.zero3_in_pipelines);
    case Sharding::None:
    case Sharding::Zero1: break;
  }
  return true;
}

}  // namespace

// Where stages and data ranks are both alone in their domains, or all are in one, they are equal.
std::vector<MeshOrder> SearchSpace::mesh_orders(const SearchLayout& layout) const {
  if (layout.pp == 1 || layout.dp == 1) return {MeshOrder::PipelineLast};
  std::vector<MeshOrder> sensible{base_.strategy.mesh_order};
  const long long inner = static_cast<long long>(layout.tp) * layout.cp;
  const bool may_matter =
      2 * inner <= base_.domain_devices && base_.domain_devices < base_.num_devices;
  if (base_.offers.mesh_order && may_matter && expert_tensor_ranks(layout) * layout.ep == inner)
    sensible = {MeshOrder::PipelineLast, MeshOrder::DataLast};
  return choose(asked_.mesh_order, sensible);
}

// Without a data dimension there is nothing to shard.
std::vector<SearchSharding> SearchSpace::shardings(const SearchLayout& layout) const {
  constexpr std::array<std::string_view, 3> kKeys{"sharding", "shard_size", "mesh_order"};
  const int ranks = layout.dp * layout.cp;
  std::vector<SearchSharding> list;
  for (const Sharding sharding :
       choose(asked_.sharding, {kAllShardings.begin(), kAllShardings.end()})) {
    if (asked_.sharding.empty() && sharding != Sharding::None &&
        (ranks == 1 || !is_offered(base_.offers, sharding, layout.pp > 1)))
      continue;
    // A framework whose ZeRO-2 is ZeRO-3 with gathered weights that stay has no ZeRO-2 of its own.
    if (sharding == Sharding::Zero2 && base_.under[index_of(sharding)].sharding == Sharding::Zero3)
      continue;
    if (sharding != Sharding::Hsdp) list.push_back({sharding, 0});
    if (sharding != Sharding::Hsdp) continue;
    for (const int size : divisors(ranks)) {
      if (size != 1 && size != ranks) list.push_back({sharding, size});
    }
  }
  const std::vector<SearchSharding> in_one_order = std::exchange(list, {});
  for (const MeshOrder order : mesh_orders(layout)) {
    for (SearchSharding one : in_one_order) {
      one.mesh_order = order;
      list.push_back(one);
    }
  }
  std::erase_if(list, [&](const SearchSharding& one) {
    return !is_allowed(strategy(layout, {}, one, {}), kKeys);
  });
  return list;
}

// With what the framework does under its sharding.
Strategy SearchSpace::strategy(const SearchLayout& layout, const SearchPipeline& pipeline,
                               const SearchSharding& sharding, const Recompute& recompute) const {
  Strategy s = base_.under[index_of(sharding.sharding)];
  s.dp = layout.dp, s.tp = layout.tp, s.pp = layout.pp, s.cp = layout.cp, s.ep = layout.ep;
  s.etp = layout.etp > 0 ? std::optional(layout.etp) : base_.strategy.etp;
  s.sequence_parallel = layout.sequence_parallel;
  s.tp_overlap = layout.tp_overlap;
  s.moe_dispatch = layout.moe_dispatch;
  s.moe_overlap = layout.moe_overlap;
  s.micro_batch = layout.micro_batch;
  s.global_batch = base_.strategy.global_batch;
  s.virtual_stages = pipeline.virtual_stages;
  s.pipeline_schedule = pipeline.schedule;
  s.embeddings_as_layers = pipeline.embeddings_as_layers;
  if (!pipeline.part_layers.empty()) s.stage_layers = pipeline.part_layers;
  s.sharding = sharding.sharding;
  s.shard_size = sharding.shard_size;
  s.mesh_order = sharding.mesh_order;
  s.recompute = recompute;
  return s;
}

void for_each_strategy(const SearchBase& base, const Restriction& restriction,
                       const std::function<void(const Strategy&)>& visit) {
  const SearchSpace space(base, restriction);
  for (const SearchLayout& layout : space.layouts()) {
    for (const SearchPipeline& pipeline : space.pipelines(layout.pp)) {
      if (!space.go_together(layout, pipeline)) continue;
      for (const SearchSharding& sharding : space.shardings(layout)) {
        for (const Recompute& recompute : space.recomputes()) {
          if (space.go_together(layout, recompute))
            visit(space.strategy(layout, pipeline, sharding, recompute));
        }
      }
    }
  }
}

}  // namespace llmsim::sim
