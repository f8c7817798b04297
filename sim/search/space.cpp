#include "sim/search/space.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/model/flops.h"

namespace llmsim::sim {
namespace {

constexpr int kMostFirstBlocks = 4;
// A head of more is that of a toy's vocabulary.
constexpr int kMostHeadLayers = 8;

[[noreturn]] void refuse(const std::string& key, const FieldValue& value) {
  throw Error(key + " = " + text_of(value) + ": a search cannot try it");
}

// The values of a field that a list names, as numbers.
std::vector<std::int64_t> listed(const Restriction& lists, const SearchedField& field) {
  std::vector<std::int64_t> values;
  const auto found = lists.find(field.key);
  if (found == lists.end() || !field.value.parse) return values;
  for (const FieldValue& given : found->second) {
    const std::optional<std::int64_t> value = field.value.parse(given);
    if (!value) refuse(field.key, given);
    values.push_back(*value);
  }
  return values;
}

std::size_t row_of(std::string_view key) {
  return static_cast<std::size_t>(find_searched_field(key) - searched_fields().data());
}

bool has(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::vector<Recompute> asked_recomputes(const Restriction& restriction) {
  std::vector<Recompute> recomputes;
  const auto found = restriction.find("recompute");
  if (found == restriction.end()) return recomputes;
  for (const FieldValue& given : found->second) {
    const std::string* const text = std::get_if<std::string>(&given);
    if (!text) refuse("recompute", given);
    const std::optional<Recompute> recompute = recompute_from(*text);
    if (!recompute) throw Error("recompute = " + *text + ": unknown");
    recomputes.push_back(*recompute);
  }
  return recomputes;
}

// Norms, activation functions, both, and with them what MLA makes of its latents.
void add_modules(std::vector<Recompute>& list, const SearchBase& base) {
  const bool any = base.offers.activation_recompute, experts = base.model.moe.has_value();
  const auto add = [&](RecomputedModules modules) {
    modules.core_attention = false;
    if (!any) modules.expert_activation = std::exchange(modules.activation, false) && experts;
    const Recompute recompute{.kind = RecomputeKind::Selective, .modules = modules};
    const bool is_none = text_of(modules).empty();
    if (!is_none && std::find(list.begin(), list.end(), recompute) == list.end())
      list.push_back(recompute);
  };
  add({.norms = true});
  add({.activation = true});
  add({.norms = true, .activation = true});
  if (base.model.mla) add({.norms = true, .activation = true, .mla_up = true});
}

// The policies of a compiler that checkpoints each block, from most to least that is saved.
std::vector<Recompute> named_policies() {
  std::vector<Recompute> list;
  for (const char* text :
       {"op=qkv+core_attn+attn_proj+mlp_up+mlp_down", "op=all", "op=qkv+core_attn+attn_proj",
        "op=qkv+attn_proj+mlp_down", "op=qkv+attn_proj", "op=qkv", "op=attn_proj", "full"})
    list.push_back(*recompute_from(text));
  return list;
}

std::vector<Recompute> sensible_recomputes(const SearchBase& base) {
  if (!base.offers.plain_recompute) return named_policies();
  std::vector<Recompute> list{{.kind = RecomputeKind::None},
                              {.kind = RecomputeKind::Selective},
                              {.kind = RecomputeKind::EveryN, .every_n = 4},
                              {.kind = RecomputeKind::EveryN, .every_n = 2},
                              {.kind = RecomputeKind::Full}};
  for (int blocks = 1; blocks <= kMostFirstBlocks; ++blocks)
    list.push_back({.kind = RecomputeKind::Full, .blocks = blocks});
  if (base.offers.module_recompute) add_modules(list, base);
  if (base.offers.operator_recompute) list.push_back({.kind = RecomputeKind::Op});
  return list;
}

}  // namespace

SearchSpace::SearchSpace(const SearchBase& base, const Restriction& restriction) : base_(base) {
  for (const SearchedField& field : searched_fields()) {
    requested_.push_back(listed(restriction, field));
    excluded_.push_back(listed(base.excluded, field));
    filters_ = filters_ || !excluded_.back().empty() ||
               (field.restricted == Restricted::Filtered && !requested_.back().empty());
  }
  recomputes_ = asked_recomputes(restriction);
  if (recomputes_.empty()) recomputes_ = sensible_recomputes(base);
  for (const Recompute& excluded : asked_recomputes(base.excluded))
    std::erase(recomputes_, excluded);
  if (recomputes_.empty()) throw Error("recompute: every recompute policy is excluded");
}

const std::vector<std::int64_t>& SearchSpace::requested(std::string_view key) const {
  return requested_[row_of(key)];
}

bool SearchSpace::is_allowed(SearchLevel level, const Strategy& strategy) const {
  if (!filters_) return true;
  const std::vector<SearchedField>& fields = searched_fields();
  for (std::size_t row = 0; row < fields.size(); ++row) {
    const SearchedField& field = fields[row];
    if (field.level != level || !field.value.of) continue;
    const std::int64_t value = field.value.of(strategy);
    const bool filtered = field.restricted == Restricted::Filtered && !requested_[row].empty();
    if (has(excluded_[row], value) || (filtered && !has(requested_[row], value))) return false;
  }
  return true;
}

std::vector<std::int64_t> SearchSpace::values(std::size_t row, const SearchChoice& so_far) const {
  const SearchedField& field = searched_fields()[row];
  if (field.applies && !field.applies(base_, so_far)) return {0};
  if (field.restricted == Restricted::Replaced && !requested_[row].empty()) return requested_[row];
  return field.sensible(base_, so_far);
}

template <class Visit>
void SearchSpace::choose(SearchLevel level, std::size_t row, SearchChoice& choice,
                         const Visit& visit) const {
  const std::vector<SearchedField>& fields = searched_fields();
  while (row < fields.size() && fields[row].level != level) ++row;
  if (row == fields.size()) return visit(choice);
  for (const std::int64_t value : values(row, choice)) {
    fields[row].value.put(value, choice);
    choose(level, row + 1, choice, visit);
  }
}

std::vector<SearchLayout> SearchSpace::layouts() const {
  std::vector<SearchLayout> list;
  SearchChoice choice;
  choose(SearchLevel::Layout, 0, choice, [&](const SearchChoice& chosen) {
    if (!filters_ || is_allowed(SearchLevel::Layout, strategy(chosen.layout, {}, {}, {})))
      list.push_back(chosen.layout);
  });
  return list;
}

namespace {

// Whether a search is asked to overlap passes of experts' tokens, or its base does.
bool asks_for_overlap(const SearchBase& base, const std::vector<std::vector<std::int64_t>>& asked) {
  static const std::size_t row = row_of("moe_overlap");
  return base.strategy.moe_overlap || !asked[row].empty();
}

}  // namespace

bool SearchSpace::go_together(const SearchLayout& layout, const SearchPipeline& pipeline) const {
  return !layout.moe_overlap || layout.pp == 1 ||
         pipeline.schedule == PipelineSchedule::Interleaved || asks_for_overlap(base_, requested_);
}

bool SearchSpace::go_together(const SearchLayout& layout, const Recompute& recompute) const {
  if (layout.cuda_graph && recompute.whole() && !base_.offers.recompute_in_graphs) return false;
  return !layout.moe_overlap || !recompute.whole() || asks_for_overlap(base_, requested_);
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

// One layer more in all chunks but the last, which has what is left.
std::vector<int> layers_with_rest_last(int layers, int chunks) {
  const int others = layers / chunks + 1;
  std::vector<int> divided(static_cast<std::size_t>(chunks), others);
  const long long rest = layers - static_cast<long long>(others) * (chunks - 1);
  divided.back() = static_cast<int>(std::max(-1ll, rest));
  return divided;
}

// Over stages of so many chunks as if the head were `head` layers.  None where the last stage has
// too few for its other chunks.
std::vector<int> layers_with_head_as(int head, int layers, int stages, int chunks) {
  const int last = (layers + head) / stages - head;
  if (last < chunks - 1) return {};
  const int end = std::max(0, (last + head) / chunks - head);
  const std::vector<int> of_stages = evenly(layers - last, stages - 1);
  std::vector<int> divided(static_cast<std::size_t>(stages * chunks), end);
  const auto put = [&](int stage, const std::vector<int>& shares) {
    for (std::size_t chunk = 0; chunk < shares.size(); ++chunk)
      divided[chunk * static_cast<std::size_t>(stages) + static_cast<std::size_t>(stage)] =
          shares[chunk];
  };
  for (int stage = 0; stage + 1 < stages; ++stage)
    put(stage, evenly(of_stages[static_cast<std::size_t>(stage)], chunks));
  if (chunks > 1) put(stages - 1, evenly(last - end, chunks - 1));
  return divided;
}

}  // namespace

// None where layers of several tokens' prediction move layers off the last chunk already, and where
// embedding and head meet on a stage; nor where that is how layers are divided anyway or leaves a
// chunk without any, but for the head's.
void SearchSpace::add_short_last_chunks(std::vector<SearchPipeline>& list,
                                        const SearchPipeline& even, int pp) const {
  const int virtual_stages = even.virtual_stages, chunks = pp * virtual_stages,
            layers = base_.model.num_layers;
  const bool embedding_meets_head =
      is_v_shaped(even.schedule) || even.schedule == PipelineSchedule::DualPipe;
  if (pp == 1 || chunks > layers + 1 || base_.model.mtp_layers > 0 || embedding_meets_head) return;
  const auto add = [&](const std::vector<int>& divided, int least) {
    if (divided.empty() || divided.back() < least) return;
    const bool has_layers = *std::min_element(divided.begin(), divided.end() - 1) >= 1;
    const bool is_new = std::none_of(list.begin(), list.end(), [&](const SearchPipeline& known) {
      return known.virtual_stages == virtual_stages && known.chunk_layers == divided;
    });
    if (!has_layers || !is_new) return;
    list.push_back(even);
    list.back().chunk_layers = divided;
  };
  const std::vector<int> rest_last = layers_with_rest_last(layers, chunks);
  if (rest_last.back() < rest_last.front() - 1) add(rest_last, 1);
  for (int head = 2; head <= head_layers(base_.model); ++head)
    add(layers_with_head_as(head, layers, pp, virtual_stages), 0);
}

// With layers divided in each way.
void SearchSpace::add_pipelines(std::vector<SearchPipeline>& list, PipelineSchedule schedule,
                                int pp, int virtual_stages) const {
  const long long chunks = static_cast<long long>(pp) * virtual_stages;
  const bool one_chunk = chunks == 1, even = !base_.offers.uneven_stages;
  if (even && base_.model.num_layers % chunks != 0) return;
  for (const bool embeddings_as_layers : {false, true}) {
    if (embeddings_as_layers && (one_chunk || even || !base_.strategy.stage_layers.empty()))
      continue;
    const SearchPipeline pipeline{schedule, virtual_stages, embeddings_as_layers};
    if (!is_allowed(SearchLevel::Pipeline, strategy({.pp = pp}, pipeline, {}, {}))) continue;
    list.push_back(pipeline);
    if (embeddings_as_layers || one_chunk || even || !base_.strategy.stage_layers.empty()) continue;
    add_short_last_chunks(list, pipeline, pp);
  }
}

// Without a list of schedules: 1F1B, interleaved where a stage has several chunks, and DualPipe
// where the framework has it.
std::vector<SearchPipeline> SearchSpace::pipelines(int pp) const {
  std::vector<std::int64_t> sensible{1};
  const int most = base_.offers.interleaving ? (base_.model.num_layers + 2) / pp : 1;
  for (int v = 2; pp > 1 && v <= most; ++v) sensible.push_back(v);
  const std::vector<std::int64_t>&schedules = requested("pipeline_schedule"),
        &chunks = requested("virtual_stages");
  std::vector<SearchPipeline> list;
  for (const std::int64_t v : chunks.empty() ? sensible : chunks) {
    const PipelineSchedule schedule =
        v > 1 ? PipelineSchedule::Interleaved : PipelineSchedule::OneForwardOneBackward;
    if (schedules.empty() || has(schedules, static_cast<std::int64_t>(schedule)))
      add_pipelines(list, schedule, pp, static_cast<int>(v));
  }
  std::vector<std::int64_t> others = schedules;
  if (schedules.empty() && base_.offers.dualpipe)
    others.push_back(static_cast<std::int64_t>(PipelineSchedule::DualPipe));
  for (const std::int64_t other : others) {
    const auto schedule = static_cast<PipelineSchedule>(other);
    if (schedule == PipelineSchedule::OneForwardOneBackward ||
        schedule == PipelineSchedule::Interleaved)
      continue;
    const std::vector<std::int64_t> of_schedule{is_v_shaped(schedule) ? 2 : 1};
    for (const std::int64_t v : chunks.empty() ? of_schedule : chunks)
      add_pipelines(list, schedule, pp, static_cast<int>(v));
  }
  return list;
}

// A framework whose ZeRO-2 is ZeRO-3 with gathered weights that stay has no ZeRO-2 of its own.
std::vector<SearchSharding> SearchSpace::shardings(const SearchLayout& layout) const {
  std::vector<SearchSharding> list;
  SearchChoice choice{.layout = layout};
  choose(SearchLevel::Sharding, 0, choice, [&](const SearchChoice& chosen) {
    const SearchSharding& own = chosen.sharding;
    if (own.sharding == Sharding::Zero2 &&
        base_.under[index_of(own.sharding)].sharding == Sharding::Zero3)
      return;
    if (!filters_ || is_allowed(SearchLevel::Sharding, strategy(layout, {}, own, {})))
      list.push_back(own);
  });
  return list;
}

// With what the framework does under its sharding.
Strategy SearchSpace::strategy(const SearchLayout& layout, const SearchPipeline& pipeline,
                               const SearchSharding& sharding, const Recompute& recompute) const {
  Strategy s = base_.under[index_of(sharding.sharding)];
  const SearchChoiceView choice{layout, pipeline, sharding};
  for (const SearchedField& field : searched_fields()) {
    if (field.value.write) field.value.write(choice, s);
  }
  s.global_batch = base_.strategy.global_batch;
  s.recompute = recompute;
  if (s.cp_scheme == ContextScheme::AllToAllRing && s.cp > 1 && !s.cp_inner)
    s.cp_inner = usual_context_inner(base_.model, s, base_.domain_devices);
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
