#include "sim/model/transformer_fields.h"

namespace llmsim::sim {
namespace {

using T = Transformer;

// Largest values that are taken seriously; they keep every parameter count of one layer far inside
// 64 bits.
constexpr double kLayers = 1 << 12;
constexpr double kWidth = 1 << 20;
constexpr double kHead = 1 << 14;
constexpr double kFfn = 1 << 22;
constexpr double kVocab = 1 << 24;
constexpr double kTokens = 1 << 27;
constexpr double kExperts = 1 << 14;
constexpr double kLeastShare = 1e-6;

template <class Object, class Member>
TransformerField make_object_field(const char* key, Object, Member) {
  using Type =
      FieldType<std::remove_cvref_t<decltype(Member{}(*Object{}(std::declval<Transformer&>())))>>;
  TransformerField field;
  field.key = key, field.kind = Type::kind, field.words = Type::words();
  field.get = [](const T& model) -> std::optional<FieldValue> {
    const auto& object = Object{}(model);
    return object ? Type::value(Member{}(*object)) : std::nullopt;
  };
  field.put = [](T& model, const FieldValue& value) {
    auto& object = Object{}(model);
    if (!object) object.emplace();
    return Type::put(Member{}(*object), value);
  };
  field.present = [](const T& model) { return Object{}(model).has_value(); };
  return field;
}

// A row of an object that a model may lack, and one that whoever describes the object states.
#define OF(object, member)                                                    \
  make_object_field(                                                          \
      #object "." #member, [](auto& model) -> auto& { return model.object; }, \
      [](auto& part) -> auto& { return part.member; })
#define RANGED(member, least, most) \
  { ranged(LLMSIM_FIELD(T, member), least, most) }
#define RANGED_OF(object, member, least, most) ranged(OF(object, member), least, most)

TransformerField needed(TransformerField field) {
  field.needed = true;
  return field;
}

std::vector<TransformerField> layer_fields() {
  return {
      RANGED(num_layers, 1, kLayers),
      RANGED(hidden_size, 1, kWidth),
      RANGED(num_heads, 1, kWidth),
      RANGED(num_kv_heads, 1, kWidth),
      RANGED(head_dim, 1, kWidth),
      RANGED(ffn_size, 0, kFfn),
      RANGED(vocab_size, 1, kVocab),
      RANGED(seq_len, 1, kTokens),
      {LLMSIM_FIELD(T, gated_mlp)},
      {LLMSIM_FIELD(T, tied_embeddings)},
      {LLMSIM_FIELD(T, bias.qkv)},
      {LLMSIM_FIELD(T, bias.attention_output)},
      {LLMSIM_FIELD(T, bias.mlp)},
      {LLMSIM_FIELD(T, bias.norm)},
      {LLMSIM_FIELD(T, bias.head)},
      {LLMSIM_FIELD(T, parallel_block)},
      {LLMSIM_FIELD(T, norm)},
      {LLMSIM_FIELD(T, norm_weight)},
      RANGED(norms_per_layer, 1, 4),
      {LLMSIM_FIELD(T, final_norm)},
      {LLMSIM_FIELD(T, embedding_norm)},
      {LLMSIM_FIELD(T, qk_norm)},
      {LLMSIM_FIELD(T, position)},
      RANGED(max_positions, 0, kTokens),
      RANGED(sliding_window, 1, kTokens),
      RANGED(sliding_window_interval, 1, kLayers),
      {LLMSIM_FIELD(T, attention_sinks)},
  };
}

std::vector<TransformerField> object_fields() {
  return {
      needed(RANGED_OF(moe, num_experts, 1, kExperts)),
      needed(RANGED_OF(moe, top_k, 1, kExperts)),
      needed(RANGED_OF(moe, expert_ffn_size, 1, kFfn)),
      RANGED_OF(moe, num_shared_experts, 0, kExperts),
      RANGED_OF(moe, shared_expert_ffn_size, 0, kFfn),
      RANGED_OF(moe, num_dense_layers, 0, kLayers),
      RANGED_OF(moe, num_groups, 1, kExperts),
      RANGED_OF(moe, groups_per_token, 1, kExperts),
      RANGED_OF(moe, layer_interval, 1, kLayers),
      OF(moe, router_bias),
      OF(moe, expert_bias),
      OF(moe, shared_expert_gate),
      RANGED_OF(mla, q_lora_rank, 1, kWidth),
      needed(RANGED_OF(mla, kv_lora_rank, 1, kWidth)),
      needed(RANGED_OF(mla, qk_nope_head_dim, 0, kHead)),
      needed(RANGED_OF(mla, qk_rope_head_dim, 0, kHead)),
      needed(RANGED_OF(mla, v_head_dim, 1, kHead)),
      needed(RANGED_OF(encoder, predicted_share, kLeastShare, 1)),
      RANGED_OF(encoder, segment_types, 0, kWidth),
      OF(encoder, next_sentence),
      RANGED(mtp_layers, 0, 64),
  };
}

#undef RANGED_OF
#undef RANGED
#undef OF

}  // namespace

const std::vector<TransformerField>& transformer_fields() {
  static const std::vector<TransformerField> all = [] {
    std::vector<TransformerField> fields = layer_fields();
    for (TransformerField& field : object_fields()) fields.push_back(std::move(field));
    return fields;
  }();
  return all;
}

PartialTransformer fields_of(const Transformer& model) {
  PartialTransformer fields;
  for (const TransformerField& field : transformer_fields()) {
    if (const std::optional<FieldValue> value = field.get(model)) fields[field.key] = *value;
  }
  return fields;
}

bool states_object(const PartialTransformer& partial, const std::string& object) {
  const auto first = partial.lower_bound(object + ".");
  return first != partial.end() && first->first.starts_with(object + ".");
}

}  // namespace llmsim::sim
