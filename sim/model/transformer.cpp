#include "sim/model/transformer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/model/layer_kinds.h"
#include "sim/model/tower.h"

namespace llmsim::sim {
namespace {

constexpr auto kNorms = in_order<Norm>({"layernorm", "rmsnorm"});

constexpr auto kPositions = in_order<Position>({"learned", "rope", "alibi", "relative", "none"});

constexpr auto kQkNorms = in_order<QkNorm>({"none", "per-head", "all-heads"});

// The first name of each is written; the others are those of transformers and of nn.Module.
constexpr std::array<Named<Activation>, 19> kActivations = {{
    {Activation::Gelu, "gelu"},
    {Activation::Gelu, "geglu"},
    {Activation::GeluTanh, "gelu-tanh"},
    {Activation::GeluTanh, "gelu_new"},
    {Activation::GeluTanh, "gelu_fast"},
    {Activation::GeluTanh, "gelu_tanh"},
    {Activation::GeluTanh, "gelu_pytorch_tanh"},
    {Activation::GeluTanh, "gelu_python_tanh"},
    {Activation::QuickGelu, "quick-gelu"},
    {Activation::QuickGelu, "quick_gelu"},
    {Activation::Silu, "silu"},
    {Activation::Silu, "swish"},
    {Activation::Silu, "swiglu"},
    {Activation::Relu, "relu"},
    {Activation::SquaredRelu, "relu2"},
    {Activation::SquaredRelu, "squared_relu"},
    {Activation::SquaredRelu, "relu_squared"},
    {Activation::Xielu, "xielu"},
    {Activation::Xielu, "xIELU"},
}};

constexpr auto kRopeScalings =
    in_order<RopeScaling>({"none", "linear", "dynamic", "llama3", "yarn", "longrope"});

constexpr double kMaxParameters = 1e16;

void require_between(const char* field, int value, int low, int high) {
  if (value >= low && value <= high) return;
  throw Error(std::string(field) + " = " + std::to_string(value) +
              " is out of range: " + std::to_string(low) + " to " + std::to_string(high));
}

void validate_fields(const Transformer& m) {
  for (const TransformerField& field : transformer_fields()) {
    const std::optional<FieldValue> value = field.get(m);
    if (value && !in_range(*value, field.least, field.most))
      throw Error(field.key + " = " + text_of(*value) +
                  " is out of range: " + text_of(field.least) + " to " + text_of(field.most));
  }
  const LayerKinds kinds = layer_kinds(m);
  const bool has_dense_layer = std::any_of(
      kinds.begin(), kinds.end(), [](LayerKind kind) { return kind.mlp == LayerMlp::Dense; });
  if (has_dense_layer && m.ffn_size == 0) throw Error("ffn_size = 0: dense layers need a width");
}

// Letters and their sizes go together.
void require_object(const std::string& pattern, const std::string& letters,
                    const std::string& object, bool given) {
  const std::size_t place = pattern.find_first_of(letters);
  if ((place != std::string::npos) == given) return;
  throw Error("layer_pattern = " + pattern +
              (given ? ": no layer has the " + object + " that is given"
                     : std::string(": ") + pattern[place] + " needs the sizes of " + object));
}

// Of mixers with the same sizes.
std::string letters_of(const std::string& object) {
  std::string letters;
  for (const ScanMixer& mixer : scan_mixers())
    if (object == mixer.object) letters += mixer.letter;
  return letters;
}

void require_letters(const std::string& field, const std::string& pattern) {
  std::string letters = "*-EWFAZHVU",
              names =
                  "attention, MLP, experts, windowed attention, attention to "
                  "keys that another layer has chosen, "
                  "attention to all keys, compressed attention, heavily compressed attention, "
                  "windowed attention to keys of another layer, attention to keys of another layer";
  for (const ScanMixer& mixer : scan_mixers())
    letters += mixer.letter, names += std::string(", ") + mixer.name;
  const std::size_t unknown = pattern.find_first_not_of(letters);
  if (unknown != std::string::npos)
    throw Error(field + ": " + pattern[unknown] + " is no kind of layer (" + letters + ": " +
                names + ")");
}

void validate_pattern(const Transformer& m) {
  if (!m.layer_pattern) {
    for (const ScanMixer& mixer : scan_mixers()) {
      if (mixer.is_given(m))
        throw Error(std::string(mixer.object) +
                    " is given, but layer_pattern says of no layer that it has one");
    }
    if (m.window_attention)
      throw Error("window_attention is given, but layer_pattern says of no layer that it has one");
    return;
  }
  const std::string& pattern = *m.layer_pattern;
  const std::string field = "layer_pattern = " + pattern;
  require_letters(field, pattern);
  if (pattern.empty() || m.num_layers % static_cast<int>(pattern.size()) != 0)
    throw Error(field + " has " + std::to_string(pattern.size()) +
                " letters, which do not divide " + equals("num_layers", m.num_layers));
  for (const ScanMixer& mixer : scan_mixers())
    require_object(pattern, letters_of(mixer.object), mixer.object, mixer.is_given(m));
  require_object(pattern, "WV", "window_attention", m.window_attention.has_value());
  if (pattern.find('E') != std::string::npos && !m.moe)
    throw Error(field + ": E needs the sizes of moe");
  if (pattern.find_first_of("FA") != std::string::npos && !m.sparse_attention)
    throw Error(field + ": F and A need the sizes of sparse_attention");
  if (pattern.find_first_of("ZH") != std::string::npos && !m.compressed_attention)
    throw Error(field + ": Z and H need the sizes of compressed_attention");
  const LayerKinds kinds = layer_kinds(m);
  for (int layer = 0; layer < m.num_layers + m.mtp_layers; ++layer) {
    if (kinds.slot(kind_of_layer(m, layer)) == kinds.size())
      throw Error(field + ": more than " + std::to_string(kMostLayerKinds) +
                  " kinds of layer, with those of multi-token prediction");
  }
  if (m.sliding_window || m.parallel_block || m.encoder ||
      (m.norms_per_layer != 2 && (m.norms_per_layer != 4 || has_scans(m))))
    throw Error(field +
                ": hybrids with sliding windows, parallel blocks or encoders are not modelled");
}

void validate_compressed_attention(const Transformer& m) {
  const CompressedAttention& compressed = *m.compressed_attention;
  if (!is_hybrid(m))
    throw Error("compressed_attention is given, but layer_pattern says of no layer that it has it");
  if (m.mla || m.sparse_attention || m.num_kv_heads != 1 || m.value_head_dim ||
      attention_gate_width(m) > 0 || m.keys_as_values || m.bias.qkv || m.bias.attention_output)
    throw Error(
        "compressed_attention has one key for all heads (num_kv_heads = 1) and no mla, "
        "sparse_attention, value_head_dim, gates or biases");
  require_divides("compressed_attention.output_groups", compressed.output_groups, "num_heads",
                  m.num_heads);
}

void validate_attention(const Transformer& m) {
  require_divides("num_kv_heads", m.num_kv_heads, "num_heads", m.num_heads);
  if (static_cast<std::int64_t>(m.num_heads) * m.head_dim > kMaxHeadWidths) {
    throw Error(equals("num_heads * head_dim", m.num_heads) + " * " + std::to_string(m.head_dim) +
                " is out of range: 1 to " + std::to_string(kMaxHeadWidths));
  }
  if (m.document_len && *m.document_len > m.seq_len)
    throw Error(equals("document_len", *m.document_len) +
                ": a document is part of a sequence, of " + equals("seq_len", m.seq_len));
  if (m.window_attention) {
    const WindowAttention& window = *m.window_attention;
    require_divides("window_attention.num_kv_heads", window.num_kv_heads,
                    "window_attention.num_heads", window.num_heads);
    require_head_widths("window_attention", std::int64_t{window.num_heads} * window.head_dim);
  }
  if (m.attention_gate && m.attention_head_gate)
    throw Error("attention_gate and attention_head_gate exclude each other");
  if (m.query_rank && (m.mla || m.compressed_attention || m.parallel_block || m.bias.qkv ||
                       m.sparse_attention || attention_gate_width(m) > 0))
    throw Error(
        equals("query_rank", *m.query_rank) +
        " is of plain heads: no mla, chosen or compressed keys, gates, biases or parallel blocks");
  if (m.mla && (m.value_head_dim || m.attention_gate || m.attention_head_gate || m.keys_as_values))
    throw Error("value_head_dim, keys_as_values and gates of attention are not those of MLA");
  if (m.keys_as_values && m.value_head_dim.value_or(m.head_dim) != m.head_dim)
    throw Error(equals("value_head_dim", *m.value_head_dim) +
                ": values that are keys have the size of one, " + equals("head_dim", m.head_dim));
  if (m.compressed_attention) validate_compressed_attention(m);
  if (m.mla && m.layer_pattern && m.layer_pattern->find_first_of("VU") != std::string::npos)
    throw Error("layer_pattern: layers that take keys of another have no mla");
  if (m.residual_streams > 1 && m.parallel_block)
    throw Error(equals("residual_streams", m.residual_streams) + ": parallel blocks have one");
  if (m.alternating_updates && (m.residual_streams == 1 || has_scans(m) || m.mtp_layers > 0))
    throw Error(
        "alternating_updates = true: residual_streams = 2 or more, no scans and no mtp_layers are "
        "expected");
  if (m.laurel_rank && (m.parallel_block || has_scans(m)))
    throw Error(equals("laurel_rank", *m.laurel_rank) +
                ": it goes with attention, and neither with parallel blocks nor with scans");
  if (m.sparse_attention && m.mla && !m.mla->q_lora_rank)
    throw Error("sparse_attention with mla needs mla.q_lora_rank: its indexer reads those latents");
  if (m.mla && query_head_dim(m) < 1)
    throw Error("mla.qk_nope_head_dim + qk_rope_head_dim = 0: a query needs a width");
  if (m.position == Position::Learned && m.max_positions != 0 && m.max_positions < m.seq_len) {
    throw Error(equals("seq_len", m.seq_len) + " is longer than the learned position table, " +
                equals("max_positions", m.max_positions));
  }
}

void validate_experts(const Moe& moe, int num_layers) {
  require_between("moe.top_k", moe.top_k, 1, moe.num_experts);
  require_between("moe.shared_expert_ffn_size", moe.shared_expert_ffn_size,
                  moe.num_shared_experts > 0 ? 1 : 0, std::numeric_limits<int>::max());
  require_between("moe.num_dense_layers", moe.num_dense_layers, 0, num_layers);
  require_between("moe.num_last_dense_layers", moe.num_last_dense_layers, 0, num_layers);
  require_between("moe.num_groups", moe.num_groups, 1, moe.num_experts);
  require_between("moe.groups_per_token", moe.groups_per_token, 1, moe.num_groups);
}

// Every field may be plausible alone and the model still beyond counting; the estimate takes the
// largest GEMM.
void validate_total(const Transformer& m) {
  double mlp = m.ffn_size;
  if (m.moe) {
    mlp += real(m.moe->num_experts) * m.moe->expert_ffn_size;
    mlp += real(m.moe->num_shared_experts) * m.moe->shared_expert_ffn_size;
  }
  const double attention =
      real(m.num_heads) * std::max(query_head_dim(m), attention_output_width(m) / m.num_heads);
  const double total = 4.0 * (m.num_layers + m.mtp_layers) * m.hidden_size * (mlp + attention);
  if (total > kMaxParameters) {
    throw Error(
        equals("num_layers", m.num_layers) + ", " + equals("hidden_size", m.hidden_size) +
        " and the MLP's width give more than 10^16 parameters; is a size in the wrong unit?");
  }
}

// GEMMs whose last makes `width` values.
void require_gemms(const std::string& key, const std::string& text, int width) {
  const std::vector<TowerGemm> gemms = tower_gemms(text, width);
  if (!gemms.empty() && gemms.back().out == width) return;
  throw Error(key + " = " + text + ": GEMMs are expected, such as 1024x4096 4096x" +
              std::to_string(width) + ", of which the last makes " + std::to_string(width) +
              " values");
}

// `name`: "vision", "audio".
void validate_tower(const std::string& name, const Tower& tower, const Transformer& model) {
  if (tower.hidden_size % tower.num_heads != 0)
    throw Error(equals(name + ".num_heads", tower.num_heads) + " does not divide " +
                equals(name + ".hidden_size", tower.hidden_size));
  require_gemms(name + ".patch_embedding", tower.patch_embedding, tower.hidden_size);
  require_gemms(name + ".projector", tower.projector, model.hidden_size);
}

void validate_towers(const Transformer& m) {
  std::string tokens;
  std::int64_t sum = 0;
  for_each_tower(m, [&](const char* name, const Tower& tower) {
    validate_tower(name, tower, m);
    if (tower.tokens == 0) return;
    tokens += (tokens.empty() ? "" : " + ") + equals(std::string(name) + ".tokens", tower.tokens);
    sum += tower.tokens;
  });
  if (sum > m.seq_len)
    throw Error(tokens + " is more than " + equals("seq_len", m.seq_len) +
                ": a sequence has them among its tokens");
}

}  // namespace

void Transformer::validate() const {
  validate_fields(*this);
  validate_towers(*this);
  validate_pattern(*this);
  for (const ScanMixer& mixer : scan_mixers())
    if (mixer.validate && mixer.is_given(*this)) mixer.validate(*this);
  validate_attention(*this);
  if (moe) validate_experts(*moe, num_layers);
  if (encoder && mtp_layers > 0)
    throw Error(equals("mtp_layers", mtp_layers) + ": an encoder predicts no next tokens (0)");
  if (num_labels && mtp_layers > 0)
    throw Error(equals("mtp_layers", mtp_layers) + ": labels are of this token alone (0)");
  if (num_labels && tied_embeddings)
    throw Error("tied_embeddings = true: a head of labels has no table to share (false)");
  validate_total(*this);
}

std::string family_of(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return std::string(name.begin(), std::find_if_not(name.begin(), name.end(), is_letter));
}

int expert_row_size(const Transformer& model) {
  return model.moe->latent_size.value_or(model.hidden_size);
}

int visited_experts(const Moe& moe) {
  const double share = real(moe.num_experts) / (moe.num_experts + moe.num_zero_experts);
  return std::max(1, static_cast<int>(std::lround(moe.top_k * share)));
}

int attention_output_width(const Transformer& model) {
  const int head = model.value_head_dim.value_or(model.head_dim);
  return model.num_heads * (model.mla ? model.mla->v_head_dim : head);
}

int attention_gate_width(const Transformer& model) {
  if (model.attention_head_gate) return model.num_heads;
  return model.attention_gate ? attention_output_width(model) : 0;
}

int num_logits(const Transformer& model) { return model.num_labels.value_or(model.vocab_size); }

bool has_pooler(const Transformer& model) { return model.encoder && model.encoder->next_sentence; }

double predicted_share(const Transformer& model) {
  return model.encoder ? model.encoder->predicted_share : 1.0;
}

int document_len(const Transformer& model) { return model.document_len.value_or(model.seq_len); }

int query_head_dim(const Transformer& model) {
  return model.mla ? model.mla->qk_nope_head_dim + model.mla->qk_rope_head_dim : model.head_dim;
}

int core_query_dim(const Transformer& model) {
  if (model.sparse_attention && model.mla)
    return model.mla->kv_lora_rank + model.mla->qk_rope_head_dim;
  return query_head_dim(model);
}

int core_value_dim(const Transformer& model) {
  if (model.sparse_attention && model.mla) return model.mla->kv_lora_rank;
  return attention_output_width(model) / model.num_heads;
}

double compressed_entries(const Transformer& model) {
  const bool none = !model.compressed_attention || model.compressed_attention->entry_size == 0;
  return none ? 0.0 : real(document_len(model)) / model.compressed_attention->entry_size;
}

int stream_size(const Transformer& model) { return model.residual_streams * model.hidden_size; }

std::int64_t stream_projection_weights(const Transformer& model) {
  const std::int64_t h = model.hidden_size;
  return model.alternating_updates ? (model.residual_streams - 1) * h * h : 0;
}

std::optional<int> window_of_layer(const Transformer& model, int layer) {
  const int interval = model.sliding_window_interval;
  if (interval > 1 && layer % interval == interval - 1) return std::nullopt;
  return model.sliding_window;
}

double full_attention_share(const Transformer& model) {
  if (!model.sliding_window) return 0.0;
  int whole = 0;
  for (int layer = 0; layer < model.num_layers; ++layer)
    whole += window_of_layer(model, layer) ? 0 : 1;
  return real(whole) / model.num_layers;
}

int padded_vocab_size(int vocab_size, int multiple, int tensor_parallel) {
  const int unit = multiple * tensor_parallel;
  return (vocab_size + unit - 1) / unit * unit;
}

NameTable<Norm> name_table(Norm) { return kNorms; }
NameTable<Position> name_table(Position) { return kPositions; }
NameTable<QkNorm> name_table(QkNorm) { return kQkNorms; }
NameTable<Activation> name_table(Activation) { return kActivations; }
NameTable<RopeScaling> name_table(RopeScaling) { return kRopeScalings; }

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
constexpr double kRopeBase = 1e12;

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
#define FIELD(member) \
  TransformerField { LLMSIM_FIELD(T, member) }
#define RANGED(member, least, most) \
  TransformerField { ranged(LLMSIM_FIELD(T, member), least, most) }
#define RANGED_OF(object, member, least, most) ranged(OF(object, member), least, most)
#define TOWER(tower)                                                                               \
  rare(needed(RANGED_OF(tower, num_layers, 1, kLayers))),                                          \
      rare(needed(RANGED_OF(tower, hidden_size, 1, kWidth))),                                      \
      rare(needed(RANGED_OF(tower, num_heads, 1, kWidth))),                                        \
      rare(needed(RANGED_OF(tower, ffn_size, 1, kFfn))), rare(OF(tower, gated_mlp)),               \
      rare(OF(tower, bias)), rare(OF(tower, norm)), rare(RANGED_OF(tower, norms_per_layer, 2, 4)), \
      rare(OF(tower, qk_norm)), rare(OF(tower, rotary)),                                           \
      rare(RANGED_OF(tower, window, 1, kTokens)),                                                  \
      rare(RANGED_OF(tower, window_interval, 1, kLayers)),                                         \
      rare(needed(OF(tower, patch_embedding))),                                                    \
      rare(needed(RANGED_OF(tower, patches, 1, kTokens))),                                         \
      rare(RANGED_OF(tower, merged_patches, 1, kHead)), rare(needed(OF(tower, projector))),        \
      rare(RANGED_OF(tower, projectors, 1, 64)),                                                   \
      rare(RANGED_OF(tower, other_parameters, -(1 << 30), 1 << 30)),                               \
      rare(RANGED_OF(tower, tokens, 0, kTokens)), rare(OF(tower, frozen))

TransformerField needed(TransformerField field) {
  field.needed = true;
  return field;
}

TransformerField rare(TransformerField field) {
  field.rare = true;
  return field;
}

TransformerField costless(TransformerField field) {
  field.costless = field.rare = true;
  return field;
}

}  // namespace

const std::vector<TransformerField>& transformer_fields() {
  static const std::vector<TransformerField> all = {
      RANGED(num_layers, 1, kLayers), RANGED(hidden_size, 1, kWidth), RANGED(num_heads, 1, kWidth),
      RANGED(num_kv_heads, 1, kWidth), RANGED(head_dim, 1, kWidth),
      rare(RANGED(value_head_dim, 1, kWidth)), RANGED(ffn_size, 0, kFfn),
      // Tokens and what blocks are made of.
      RANGED(vocab_size, 1, kVocab), RANGED(seq_len, 1, kTokens), FIELD(gated_mlp),
      FIELD(tied_embeddings), FIELD(bias.qkv), FIELD(bias.attention_output), FIELD(bias.mlp),
      FIELD(bias.norm), FIELD(bias.head), FIELD(parallel_block), FIELD(norm), FIELD(norm_weight),
      RANGED(norms_per_layer, 1, 4), FIELD(final_norm), FIELD(embedding_norm), FIELD(qk_norm),
      FIELD(position), RANGED(max_positions, 0, kTokens),
      // What no cost depends on.
      costless(needed(RANGED_OF(rope, base, 1, kRopeBase))),
      costless(RANGED_OF(rope, window_base, 1, kRopeBase)),
      costless(RANGED_OF(rope, share, kLeastShare, 1)), costless(OF(rope, scaling)),
      costless(RANGED_OF(rope, factor, 1, kTokens)),
      costless(RANGED_OF(rope, trained_len, 1, kTokens)), costless(RANGED(norm_epsilon, 0, 1)),
      costless(FIELD(activation)),
      // Who sees whom.
      RANGED(document_len, 1, kTokens), RANGED(sliding_window, 1, kTokens),
      RANGED(sliding_window_interval, 1, kLayers), FIELD(attention_sinks),
      rare(FIELD(attention_gate)), rare(FIELD(attention_head_gate)), rare(FIELD(keys_as_values)),
      rare(RANGED(query_rank, 1, kWidth)), rare(RANGED(layer_scalars, 0, 16)),
      rare(FIELD(layer_pattern)),
      // Experts.
      needed(RANGED_OF(moe, num_experts, 1, kExperts)), needed(RANGED_OF(moe, top_k, 1, kExperts)),
      needed(RANGED_OF(moe, expert_ffn_size, 1, kFfn)),
      RANGED_OF(moe, num_shared_experts, 0, kExperts),
      RANGED_OF(moe, shared_expert_ffn_size, 0, kFfn), RANGED_OF(moe, num_dense_layers, 0, kLayers),
      RANGED_OF(moe, num_groups, 1, kExperts), RANGED_OF(moe, groups_per_token, 1, kExperts),
      rare(RANGED_OF(moe, num_last_dense_layers, 0, kLayers)),
      RANGED_OF(moe, layer_interval, 1, kLayers), OF(moe, router_bias), OF(moe, expert_bias),
      OF(moe, shared_expert_gate), rare(RANGED_OF(moe, latent_size, 1, kWidth)),
      rare(RANGED_OF(moe, num_zero_experts, 0, kExperts)), rare(OF(moe, branch_norms)),
      rare(OF(moe, router_scales)),
      // MLA.
      RANGED_OF(mla, q_lora_rank, 1, kWidth), needed(RANGED_OF(mla, kv_lora_rank, 1, kWidth)),
      needed(RANGED_OF(mla, qk_nope_head_dim, 0, kHead)),
      needed(RANGED_OF(mla, qk_rope_head_dim, 0, kHead)),
      needed(RANGED_OF(mla, v_head_dim, 1, kHead)),
      rare(needed(RANGED_OF(sparse_attention, num_heads, 1, kWidth))),
      rare(needed(RANGED_OF(sparse_attention, head_dim, 1, kHead))),
      rare(needed(RANGED_OF(sparse_attention, top_k, 1, kTokens))),
      rare(RANGED_OF(sparse_attention, block, 1, kTokens)),
      rare(needed(RANGED_OF(compressed_attention, q_lora_rank, 1, kWidth))),
      rare(needed(RANGED_OF(compressed_attention, output_groups, 1, kWidth))),
      rare(needed(RANGED_OF(compressed_attention, output_rank, 1, kWidth))),
      rare(needed(RANGED_OF(compressed_attention, window, 1, kTokens))),
      rare(RANGED_OF(compressed_attention, ratio, 1, kTokens)),
      rare(RANGED_OF(compressed_attention, heavy_ratio, 1, kTokens)),
      rare(needed(RANGED_OF(compressed_attention, index_heads, 1, kWidth))),
      rare(needed(RANGED_OF(compressed_attention, index_dim, 1, kHead))),
      rare(needed(RANGED_OF(compressed_attention, top_k, 1, kTokens))),
      rare(RANGED(residual_streams, 1, 64)), rare(FIELD(alternating_updates)),
      rare(RANGED(laurel_rank, 1, kWidth)),
      rare(needed(RANGED_OF(layer_embedding, vocab_size, 1, kVocab))),
      rare(needed(RANGED_OF(layer_embedding, width, 1, kWidth))),
      rare(RANGED(sharing_ffn_size, 1, kFfn)),
      rare(needed(RANGED_OF(ngram_embedding, num_tables, 1, 256))),
      rare(needed(RANGED_OF(ngram_embedding, vocab_size, 1, kVocab))),
      rare(needed(RANGED_OF(ngram_embedding, width, 1, kWidth))),
      // Windowed layers of their own shape.
      rare(needed(RANGED_OF(window_attention, num_heads, 1, kWidth))),
      rare(needed(RANGED_OF(window_attention, num_kv_heads, 1, kWidth))),
      rare(needed(RANGED_OF(window_attention, head_dim, 1, kWidth))),
      rare(RANGED_OF(window_attention, value_head_dim, 1, kWidth)),
      rare(needed(RANGED_OF(window_attention, window, 1, kTokens))),
      rare(OF(window_attention, sinks)),
      // Scans.
      rare(needed(RANGED_OF(mamba, num_heads, 1, kWidth))),
      rare(needed(RANGED_OF(mamba, head_dim, 1, kHead))),
      rare(RANGED_OF(mamba, num_groups, 1, kWidth)),
      rare(needed(RANGED_OF(mamba, state_size, 1, kHead))),
      rare(RANGED_OF(mamba, conv_kernel, 1, kHead)), rare(RANGED_OF(mamba, chunk_size, 1, kTokens)),
      rare(OF(mamba, gated_norm)), rare(OF(mamba, conv_bias)), rare(OF(mamba, projection_bias)),
      rare(needed(RANGED_OF(gated_delta_net, num_key_heads, 1, kWidth))),
      rare(needed(RANGED_OF(gated_delta_net, key_head_dim, 1, kHead))),
      rare(needed(RANGED_OF(gated_delta_net, num_value_heads, 1, kWidth))),
      rare(needed(RANGED_OF(gated_delta_net, value_head_dim, 1, kHead))),
      rare(RANGED_OF(gated_delta_net, conv_kernel, 1, kHead)),
      rare(RANGED_OF(gated_delta_net, chunk_size, 1, kTokens)),
      rare(RANGED_OF(gated_delta_net, gate_rank, 1, kWidth)),
      rare(needed(RANGED_OF(mamba1, inner_size, 1, kFfn))),
      rare(needed(RANGED_OF(mamba1, state_size, 1, kHead))),
      rare(needed(RANGED_OF(mamba1, dt_rank, 1, kWidth))),
      rare(RANGED_OF(mamba1, conv_kernel, 1, kHead)), rare(OF(mamba1, norms)),
      rare(OF(mamba1, conv_bias)), rare(OF(mamba1, projection_bias)),
      rare(needed(RANGED_OF(lightning_attention, num_heads, 1, kWidth))),
      rare(needed(RANGED_OF(lightning_attention, head_dim, 1, kHead))),
      rare(RANGED_OF(lightning_attention, chunk_size, 1, kTokens)),
      rare(needed(RANGED_OF(short_convolution, channels, 1, kWidth))),
      rare(needed(RANGED_OF(short_convolution, conv_kernel, 1, kHead))),
      rare(OF(short_convolution, bias)),
      // Images and audio.
      TOWER(vision), TOWER(audio),
      // Encoders, and multi-token prediction.
      needed(RANGED_OF(encoder, predicted_share, kLeastShare, 1)),
      RANGED_OF(encoder, segment_types, 0, kWidth), OF(encoder, next_sentence),
      RANGED(mtp_layers, 0, 64), rare(RANGED(num_labels, 0, kVocab))};
  return all;
}

#undef TOWER
#undef RANGED_OF
#undef RANGED
#undef FIELD
#undef OF

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
