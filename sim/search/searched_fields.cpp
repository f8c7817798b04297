#include "sim/search/searched_fields.h"

#include <algorithm>
#include <type_traits>

namespace llmsim::sim {

std::vector<int> divisors(int number) {
  std::vector<int> list;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) list.push_back(d);
  }
  return list;
}

int expert_tensor_ranks(const SearchBase& base, const SearchLayout& layout) {
  return layout.etp > 0 ? layout.etp : base.strategy.etp.value_or(layout.tp);
}

namespace {

using Values = std::vector<std::int64_t>;

// Micro-batches of more sequences and more tokens only lengthen the bubble and the activations:
// BERT's short sequences still gain 8 % from 128 to 256 of them.
constexpr int kMaxMicroBatch = 64;
constexpr int kMaxMicroBatchTokens = 65536;
// Shorter pieces of a sequence are not worth the messages around attention.
constexpr int kContextTokens = 1024;

Values values_of(const std::vector<int>& counts) { return {counts.begin(), counts.end()}; }

template <class Value>
std::int64_t number(Value value) {
  return static_cast<std::int64_t>(value);
}

// A switch as it usually is, or both ways.
Values both_ways(bool usual, bool offered) {
  return offered ? Values{0, 1} : Values{number(usual)};
}

// Layouts.

Values tensor_ranks(const SearchBase& base, const SearchChoice&) {
  return base.offers.tensor_ranks ? values_of(divisors(base.num_devices)) : Values{1};
}

Values stages(const SearchBase& base, const SearchChoice& so_far) {
  if (!base.offers.pipelines) return {1};
  return values_of(divisors(std::max(1, base.num_devices / so_far.layout.tp)));
}

// Powers of two that leave every rank kContextTokens of a sequence.
Values context_ranks(const SearchBase& base, const SearchChoice& so_far) {
  const long long others = static_cast<long long>(so_far.layout.tp) * so_far.layout.pp;
  Values list{1};
  for (int c = 2; base.offers.context_ranks && base.model.seq_len / c >= kContextTokens &&
                  others * c <= base.num_devices;
       c *= 2)
    list.push_back(c);
  return list;
}

Values data_ranks(const SearchBase& base, const SearchChoice& so_far) {
  const SearchLayout& layout = so_far.layout;
  const long long rest = static_cast<long long>(layout.tp) * layout.pp * layout.cp;
  return {std::max<long long>(1, base.num_devices / rest)};
}

Values micro_batches(const SearchBase& base, const SearchChoice& so_far) {
  const int most = std::max(kMaxMicroBatch, kMaxMicroBatchTokens / base.model.seq_len);
  Values list = values_of(divisors(std::max(1, base.strategy.global_batch / so_far.layout.dp)));
  std::erase_if(list, [&](std::int64_t micro) { return micro > most; });
  return list;
}

// Experts divided as the rest of the model is and, over tensor ranks, whole ones too, unless it is
// asked for.
Values ranks_of_an_expert(const SearchBase& base, const SearchChoice& so_far) {
  return !base.model.moe || so_far.layout.tp == 1 || base.strategy.etp ? Values{0} : Values{0, 1};
}

// Numbers that divide the experts and the ranks that can share them out.
Values expert_ranks(const SearchBase& base, const SearchChoice& so_far) {
  const SearchLayout& layout = so_far.layout;
  const int experts = base.model.moe ? base.model.moe->num_experts : 1;
  const int ranks =
      layout.tp * layout.dp * layout.cp / std::max(1, expert_tensor_ranks(base, layout));
  Values list{1};
  for (int x = 2; x <= std::min(ranks, experts); ++x) {
    if (ranks % x == 0 && experts % x == 0) list.push_back(x);
  }
  return list;
}

// Sequence parallelism saves memory and sends more: neither is always better, so both are tried
// unless it is asked for or experts need it.
Values sequence_parallelism(const SearchBase& base, const SearchChoice& so_far) {
  if (so_far.layout.tp == 1) return {0};
  if (!base.offers.sequence_parallel && !base.strategy.sequence_parallel) return {0};
  const bool needed = base.strategy.sequence_parallel ||
                      expert_tensor_ranks(base, so_far.layout) != so_far.layout.tp;
  return needed ? Values{1} : Values{1, 0};
}

bool has_tensor_ranks(const SearchBase&, const SearchChoice& so_far) {
  return so_far.layout.tp > 1;
}

// Where it is offered it can still lose: GEMMs in pieces are slower.
Values tensor_overlap(const SearchBase& base, const SearchChoice& so_far) {
  const bool usual = base.strategy.tp_overlap;
  const bool has_overlap =
      base.offers.tp_overlap && (base.strategy.compile || !base.offers.tp_overlap_compiled);
  return both_ways(usual, has_overlap && so_far.layout.tp <= base.fabric_devices &&
                              (usual || so_far.layout.sequence_parallel));
}

Values dispatches(const SearchBase& base, const SearchChoice& so_far) {
  const ExpertDispatch usual = base.strategy.moe_dispatch;
  const bool exchanges = so_far.layout.ep * expert_tensor_ranks(base, so_far.layout) > 1;
  const bool offered = base.model.moe && base.offers.deduplicated_dispatch && exchanges &&
                       usual != ExpertDispatch::Deduplicated;
  return offered ? Values{number(usual), number(ExpertDispatch::Deduplicated)}
                 : Values{number(usual)};
}

// Overlapped with another micro-batch, where there is one.
Values expert_overlap(const SearchBase& base, const SearchChoice& so_far) {
  const SearchLayout& layout = so_far.layout;
  const int microbatches = base.strategy.global_batch / (layout.dp * layout.micro_batch);
  return both_ways(base.strategy.moe_overlap, base.model.moe && !is_hybrid(base.model) &&
                                                  base.offers.moe_overlap && layout.ep > 1 &&
                                                  microbatches > 1);
}

Values usual_graphs(const SearchBase& base, const SearchChoice&) {
  return {number(base.strategy.cuda_graph)};
}

// Shardings.

bool has_stages_and_data_ranks(const SearchBase&, const SearchChoice& so_far) {
  return so_far.layout.pp > 1 && so_far.layout.dp > 1;
}

// Where stages and data ranks are both alone in their domains, or all are in one, they are equal.
Values mesh_orders(const SearchBase& base, const SearchChoice& so_far) {
  const SearchLayout& layout = so_far.layout;
  const long long inner = static_cast<long long>(layout.tp) * layout.cp;
  const bool may_matter =
      2 * inner <= base.domain_devices && base.domain_devices < base.num_devices;
  const bool offered = base.offers.mesh_order && may_matter &&
                       expert_tensor_ranks(base, layout) * layout.ep == inner;
  return offered ? Values{number(MeshOrder::PipelineLast), number(MeshOrder::DataLast)}
                 : Values{number(base.strategy.mesh_order)};
}

// Without a data dimension there is nothing to shard.
Values shardings(const SearchBase& base, const SearchChoice& so_far) {
  const SearchLayout& layout = so_far.layout;
  Values list;
  for (const Sharding sharding : kAllShardings) {
    const bool captured = layout.cuda_graph && sharding >= Sharding::Zero3;
    if (sharding == Sharding::None ||
        (layout.dp * layout.cp > 1 && is_offered(base.offers, sharding, layout.pp > 1) &&
         (!captured || base.offers.shards_in_graphs)))
      list.push_back(number(sharding));
  }
  return list;
}

// Of a hybrid sharding true parts of the ranks.
Values shard_sizes(const SearchBase&, const SearchChoice& so_far) {
  if (so_far.sharding.sharding != Sharding::Hsdp) return {0};
  const int ranks = so_far.layout.dp * so_far.layout.cp;
  Values list = values_of(divisors(ranks));
  std::erase_if(list, [&](std::int64_t size) { return size == 1 || size == ranks; });
  return list;
}

// `InChoice` and `InStrategy` give the member of a choice and of a strategy.
template <class InChoice, class InStrategy>
SearchedValue value(InChoice, InStrategy) {
  using Value = std::remove_cvref_t<decltype(InStrategy{}(std::declval<Strategy&>()))>;
  return {
      .of = [](const Strategy& s) { return number(InStrategy{}(s)); },
      .get = [](const SearchChoiceView& choice) { return number(InChoice{}(choice)); },
      .put = [](std::int64_t value,
                SearchChoice& choice) { InChoice{}(choice) = static_cast<Value>(value); },
      .write = [](const SearchChoiceView& choice,
                  Strategy& s) { InStrategy{}(s) = InChoice{}(choice); },
      .read = [](const Strategy& s, SearchChoice& choice) { InChoice{}(choice) = InStrategy{}(s); },
      .parse = [](const FieldValue& given) -> std::optional<std::int64_t> {
        Value value{};
        if (!FieldType<Value>::put(value, given)) return std::nullopt;
        return number(value);
      }};
}

// An expert that is divided as all else is has no number of its own.
SearchedValue value_of_etp() {
  SearchedValue etp = value(
      [](auto& choice) -> auto& { return choice.layout.etp; },
      [](auto& s) -> auto& { return s.tp; });
  etp.of = [](const Strategy& s) { return number(s.expert_tensor_ranks()); };
  etp.write = [](const SearchChoiceView& choice, Strategy& s) {
    if (choice.layout.etp > 0) s.etp = choice.layout.etp;
  };
  etp.read = [](const Strategy& s, SearchChoice& choice) { choice.layout.etp = s.etp.value_or(0); };
  return etp;
}

SearchedValue value_of_stage_layers() {
  return {.of = [](const Strategy& s) { return number(s.stage_layers.size()); },
          .write =
              [](const SearchChoiceView& choice, Strategy& s) {
                if (!choice.pipeline.chunk_layers.empty())
                  s.stage_layers = choice.pipeline.chunk_layers;
              }};
}

// The key, the level and the value of a field whose member of a choice has the name of that of a
// strategy.
#define MEMBER(of_level, member, name)                     \
  .key = #name, .level = SearchLevel::of_level,            \
  .value = value(                                          \
      [](auto& choice) -> auto& { return choice.member; }, \
      [](auto& s) -> auto& { return s.name; })
#define LAYOUT(name) MEMBER(Layout, layout.name, name)
#define PIPELINE(name) MEMBER(Pipeline, pipeline.name, name)
#define SHARDING(name) MEMBER(Sharding, sharding.name, name)

std::vector<SearchedField> mesh_fields() {
  return {
      {LAYOUT(tp), .simplicity = 1, .sensible = tensor_ranks,
       .help = "tensor-parallel ranks; default all divisors of gpus; example: --tp 1,2,4,8"},
      {LAYOUT(pp), .simplicity = 3, .sensible = stages,
       .help = "pipeline stages; default all divisors of gpus; example: --pp 1-16*2"},
      {LAYOUT(cp), .simplicity = 2, .sensible = context_ranks,
       .help = "context-parallel ranks; default all powers of two that leave a rank 1024 tokens; "
               "example: --cp 1,2"},
      {LAYOUT(dp), .simplicity = 21, .sensible = data_ranks,
       .help = "data-parallel ranks; default gpus / (tp * pp * cp); example: --dp 8,16",
       .is_rest = true},
      {.key = "etp",
       .value = value_of_etp(),
       .simplicity = 5,
       .sensible = ranks_of_an_expert,
       .restricted = Restricted::Excluded},
      {LAYOUT(ep), .simplicity = 4, .sensible = expert_ranks,
       .help = "expert-parallel ranks, inside dp * cp; default all that divide the experts; "
               "example: --ep 1,8"},
      {LAYOUT(sequence_parallel), .simplicity = 13, .sensible = sequence_parallelism,
       .restricted = Restricted::Filtered},
      {LAYOUT(micro_batch), .simplicity = 20, .sensible = micro_batches,
       .help = "sequences per forward pass of a replica; default all that divide the batch; "
               "example: --micro-batch 1,2,4"},
  };
}

// SearchSpace::pipelines() chooses them together.
std::vector<SearchedField> pipeline_fields() {
  return {
      {PIPELINE(virtual_stages), .simplicity = 6,
       .help = "model chunks per pipeline stage, interleaved; default all that have layers; "
               "example: --virtual-stages 1,2"},
      {MEMBER(Pipeline, pipeline.schedule, pipeline_schedule), .simplicity = 7,
       .help =
           "pipeline schedules: gpipe, 1f1b, interleaved, zb-h1, zb-v, v-half, v-min, dualpipe; "
           "default 1f1b,interleaved; example: --schedule 1f1b,zb-h1"},
      {PIPELINE(embeddings_as_layers), .simplicity = 8, .restricted = Restricted::Filtered},
      {.key = "stage_layers",
       .level = SearchLevel::Pipeline,
       .value = value_of_stage_layers(),
       .simplicity = 9,
       .restricted = Restricted::Never},
  };
}

// What experts choose of equal ones: of 299 layouts that NVIDIA tunes none has several data ranks
// that each hold all states (NVIDIA-NeMo/Megatron-Bridge scripts/performance @067f987df).
std::int64_t sharding_labour(const Strategy& s) {
  switch (s.sharding) {
    case Sharding::None: return s.dp * s.cp > 1 ? 2 : -1;
    case Sharding::Zero1: return 0;
    case Sharding::Zero2: return 1;
    case Sharding::Zero3: return 3;
    case Sharding::Hsdp: return 4;
  }
  return 5;
}

std::vector<SearchedField> sharding_fields() {
  return {
      {SHARDING(mesh_order), .simplicity = 12, .applies = has_stages_and_data_ranks,
       .sensible = mesh_orders,
       .help = "orders in which ranks are numbered, the fastest dimension first; default "
               "tp-cp-ep-dp-pp, and tp-cp-ep-pp-dp where the framework has it; example: "
               "--mesh-order tp-cp-ep-dp-pp"},
      {SHARDING(sharding), .simplicity = 10, .labour = sharding_labour, .sensible = shardings,
       .help = "none, zero1, zero2, zero3, hsdp; default all that make sense; example: --sharding "
               "zero1,zero3"},
      {SHARDING(shard_size), .simplicity = 11, .sensible = shard_sizes,
       .restricted = Restricted::Filtered},
      {.key = "recompute", .level = SearchLevel::Recompute},
  };
}

std::vector<SearchedField> switch_fields() {
  return {
      {LAYOUT(moe_dispatch), .simplicity = 15, .sensible = dispatches,
       .help = "how tokens reach experts: alltoall, allgather, deepep (once to each rank and "
               "node); default alltoall, and deepep where the framework has it; example: "
               "--moe-dispatch alltoall,deepep",
       .is_switch = true, .of_experts = true, .has_bounds = true},
      {LAYOUT(tp_overlap), .simplicity = 14, .applies = has_tensor_ranks,
       .sensible = tensor_overlap,
       .help =
           "tensor-parallel collectives overlap with their GEMMs; default both on and off where "
           "the framework can; example: --no-tp-overlap",
       .is_switch = true},
      {LAYOUT(moe_overlap), .simplicity = 16, .sensible = expert_overlap,
       .help =
           "dispatch and combine overlap with the other pass of another micro-batch; default both "
           "where the framework can; example: --no-moe-overlap",
       .is_switch = true, .of_experts = true},
      {LAYOUT(cuda_graph), .simplicity = 17, .sensible = usual_graphs,
       .help = "no launch cost per kernel; default that of the framework; both are tried with "
               "--fix cuda_graph=true,false; example: --cuda-graph",
       .opt_in = true, .is_switch = true},
  };
}

#undef SHARDING
#undef PIPELINE
#undef LAYOUT
#undef MEMBER

}  // namespace

const std::vector<SearchedField>& searched_fields() {
  static const std::vector<SearchedField> all = [] {
    std::vector<SearchedField> fields;
    for (const auto part : {mesh_fields, pipeline_fields, sharding_fields, switch_fields}) {
      const std::vector<SearchedField> own = part();
      fields.insert(fields.end(), own.begin(), own.end());
    }
    return fields;
  }();
  return all;
}

const SearchedField* find_searched_field(std::string_view key) {
  const std::vector<SearchedField>& all = searched_fields();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const SearchedField& field) { return key == field.key; });
  return found == all.end() ? nullptr : &*found;
}

bool is_searched(std::string_view key) {
  const SearchedField* const field = find_searched_field(key);
  return field && field->restricted <= Restricted::Filtered;
}

bool is_always_searched(const SearchedField& field) {
  return field.restricted == Restricted::Replaced && !field.opt_in;
}

std::int64_t switch_value(const SearchedField& field, const SearchLayout& layout) {
  return field.value.get({layout, {}, {}});
}

std::vector<std::string> searched_keys() {
  std::vector<std::string> keys;
  for (const SearchedField& field : searched_fields()) {
    if (field.restricted != Restricted::Never) keys.emplace_back(field.key);
  }
  return keys;
}

}  // namespace llmsim::sim
