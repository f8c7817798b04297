// The weights of a layer, from which parameters, FLOPs, shards, partial gradients and the shapes of
// GEMMs are counted; and the exact parameter counts of a model, component by component.
//
// Notation:
//
//   all            h = hidden_size; a, g, d: heads, key/value heads and their size
//   MLP, experts   w = 2 with a gated MLP (gate and up), else 1; f, F, q: the widths of an MLP, of
//                  all shared experts together and of one of E routed experts; these read and write
//                  l = latent_size values, else h
//   MLA            r, c: ranks of the bottlenecks of queries, and of keys and values; heads of e =
//                  qk_nope + qk_rope values, and v for values
//   indexer        of sparse attention: A heads of D values
//   Mamba-2        in the place of attention: H heads of P values, d_i = H P, G groups, states of
//                  N, c = d_i + 2 G N channels under a convolution of k tokens
//   gated delta    an input of (h, 2 K + 2 V), K and V the widths of all key heads and of all H_v
//   net            value heads; c = 2 K + V channels without a bias; no skip; a norm of one value
//                  head, which tensor ranks do not divide; an output of (V, h)
//   Mamba-1        d_i channels with states of N, steps of rank r_t; an input of (h, 2 d_i), a
//                  convolution of d_i channels, a_log of d_i N and a skip of d_i values, no norm of
//                  its output
//
//   weight                     (rows, columns)             tensor ranks divide   bias of
//   attention_norm,
//     post_attention_norm      (h)                         -                     norm
//   qkv                        (h, (a + g) d + g v)        columns               qkv
//   qk_norm                    (2 d) or ((a + g) d)        columns               norm
//   query_down, query_norm     (h, r), (r)                 -                     qkv, none
//   index_query, index_key     (r or h, A D), (h, D)       -                     none
//   index_norm, index_weights  (D), (h, A); without MLA    -                     one, none
//                              (2 D) and none
//   mla_down, mla_norm         (h, c + qk_rope), (c)       -                     qkv, none
//   query_up                   (r, a e) or (h, a e)        columns               none or qkv
//   mla_up                     (c, a (qk_nope + v))        columns               none
//   stream_weights             two (m h, m (2 + m))        -                     one each
//   stream_scales              (6)                         -                     none
//   laurel_down, laurel_up     (h, r_l), (r_l, h)          -                     none
//   laurel_norm                (h)                         -                     norm
//   compressor_input           (h, 2 x d)                  -                     none
//   compressor_bias, _norm     (R x d), (d)                -                     none
//   output_groups              (a d, o)                    rows                  none
//   attention_sinks            (a)                         columns               none
//   attention_output           (a d, h) or (a v, h)        rows                  attention_output
//   mlp_norm, post_mlp_norm    (h)                         -                     norm
//   mlp_up, mlp_down           (h, w f), (f, h)            columns, rows         mlp
//   layer_input_gate, _up      (h, p), (p, h)              -                     none
//   layer_input_norm           (h)                         -                     norm
//   layer_scalars              (layer_scalars)             -                     none
//   branch_norms               (3 h)                       -                     none
//   router, shared_gate        (h, E), (h, 1)              -, partial gradients  router_bias, none
//   router_scales              (h + E)                     -                     none
//   mixer_norm                 (h)                         -                     norm
//   mixer_input                (h, 2 d_i + 2 G N + H)      columns               projection_bias
//   mixer_gates                (h, 2 H_v)                  columns               none
//   gate_down, gate_up         (h, 2 r), (r, K + V)        -, columns            none
//   x_proj                     (d_i, r_t + 2 N)            rows                  none
//   selection_norms            (r_t + 2 N)                 -                     none
//   dt_proj                    (r_t, d_i)                  columns               one
//   conv1d, conv1d_bias        (c k), (c)                  columns               none
//   a_log, skip, dt_bias       (H) each                    columns               none
//   gated_norm                 (d_i)                       columns               none
//   mixer_output               (d_i, h)                    rows                  projection_bias
//   latent_down, latent_up     (h, l), (l, h)              -, partial gradients  none
//   shared_up, shared_down     (h, w F), (F, h)            columns, rows         mlp (shared_down:
//                                                                                one per expert)
//   expert_up, expert_down     E (l, w q), E (q, l)        columns, rows, by etp expert_bias
//
// Compressed attention of DeepSeek-V4 has query_down, query_norm and query_up; a key that is the
// value in mla_down (h, d) and mla_norm (d); where its layers have entries of R tokens, a
// compressor with x = 2 (windows that overlap) where an indexer chooses, else 1; the indexer's key
// is compressed too, index_key (h, 4 D) and index_bias (2 R D), with a norm of D; g output_groups
// of a d / g values to o each, and attention_output (g o, h).  With m residual streams each half of
// a layer has its stream_weights; with alternating_updates a layer has one of (h, m), which
// multiplies twice, and stream_scales of m^2 + m^3 coefficients, and a norm and a scale of h each.
//
// Layers that share keys have no g (d + v) columns in qkv and one d in qk_norm.  p is the width of
// layer_embedding, whose table of V_p L p values, projection (h, L p) and norm (p) are part of the
// model's embedding.
//
// Where queries have a bottleneck, qkv has no a d columns, and r = query_rank in query_down,
// query_norm and query_up (r, a d).
//
// A gate on the output of attention adds a v columns to qkv, one value for each head a; keys that
// are values too take away g v.  v is d unless value_head_dim is given.  A router chooses among E
// routed and the zero experts; these have no weights.  A gated delta net with bottlenecks of r has
// no gate of the output in its input, H_v values in mixer_gates, and K in dt_bias.
//
// The GEMM of t tokens is (t, rows) x (rows, columns): 2 t rows columns FLOP.  A bias is divided
// with the columns.  Under sequence parallelism the gradients of all weights that tensor ranks do
// not divide are partial: each rank sees its own tokens.  A qk_norm of d values is the same on all
// ranks, but counts as divided.
// Sources: Shoeybi et al., "Megatron-LM", 2019 (columns and rows); DeepSeek-V2 (arXiv 2405.04434),
// section 2.1 (MLA); Dao & Gu, arXiv 2405.21060, and Megatron-LM core/ssm/mamba_mixer.py (Mamba-2)
// and core/ssm/gated_delta_net.py; huggingface/transformers models/jamba/modeling_jamba.py and
// vllm-project/vllm model_executor/layers/mamba/mamba_mixer.py (Mamba-1 and its tensor ranks).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/model/layer_kinds.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {

enum class WeightName : std::uint8_t {
  StreamWeights,
  StreamScales,
  AttentionNorm,
  Qkv,
  QueryDown,
  QueryNorm,
  IndexQuery,
  IndexKey,
  IndexNorm,
  IndexWeights,
  IndexBias,
  CompressorInput,
  CompressorBias,
  CompressorNorm,
  OutputGroups,
  MlaDown,
  MlaNorm,
  QueryUp,
  MlaUp,
  QkNorm,
  AttentionSinks,
  AttentionOutput,
  LaurelDown,
  LaurelUp,
  LaurelNorm,
  PostAttentionNorm,
  MixerNorm,
  MixerInput,
  MixerGates,
  GateDown,
  GateUp,
  SelectionProjection,
  SelectionNorms,
  StepProjection,
  Convolution,
  ConvolutionBias,
  DecayLog,
  Skip,
  StepBias,
  GatedNorm,
  MixerOutput,
  MlpNorm,
  MlpUp,
  MlpDown,
  LayerScalars,
  BranchNorms,
  Router,
  RouterScales,
  LatentDown,
  LatentUp,
  SharedUp,
  SharedDown,
  SharedGate,
  ExpertUp,
  ExpertDown,
  PostMlpNorm,
  LayerInputGate,
  LayerInputUp,
  LayerInputNorm
};

inline constexpr std::size_t kWeightNames =
    static_cast<std::size_t>(WeightName::LayerInputNorm) + 1;

// Weights that one layer has at most.
inline constexpr std::size_t kMostLayerWeights = 32;

const char* name_of(WeightName name);  // "attention_norm", "qkv", ...

// Shared experts and their gate, and projections around routed experts: Mlp.
enum class LayerPart : std::uint8_t { Norms, Attention, Mixer, Mlp, Experts, Router };
enum class TensorAxis : std::uint8_t { None, Columns, Rows };

// A matrix or a vector, with its bias.
struct LayerWeight {
  WeightName name = WeightName::Qkv;
  LayerPart part = LayerPart::Attention;
  std::int64_t rows = 0;     // inputs; 0: a vector, which no GEMM multiplies
  std::int64_t columns = 0;  // outputs
  TensorAxis divided = TensorAxis::None;
  bool partial = false;  // each tensor rank has one addend of the gradient, whatever its tokens
  int biases = 0;        // of `columns` values each
  int side_by_side = 1;  // matrices whose columns these are: q, k and v; gate and up
  std::int64_t first_columns = 0;  // of the first of several; the others share the rest
  int count = 1;                   // routed experts, each with such a weight
  int visited = 1;                 // of which a token multiplies with so many
  bool detached = false;           // what it multiplies gets no gradient

  std::int64_t bias_parameters() const { return count * biases * columns; }
  std::int64_t parameters() const {
    return count * std::max<std::int64_t>(rows, 1) * columns + bias_parameters();
  }
  // With one token: a multiply-add each.
  std::int64_t multiplied() const { return visited * rows * columns; }
  std::int64_t replicated() const;       // parameters of which every tensor rank has the same
  LayerWeight on_rank(int ranks) const;  // what one of `ranks` multiplies with
};

// In the order of execution, but that shared experts stand before routed ones; without allocation.
class LayerWeights {
 public:
  void add(const LayerWeight& weight) { weights_[size_++] = weight; }
  const LayerWeight* begin() const { return weights_.data(); }
  const LayerWeight* end() const { return weights_.data() + size_; }
  // Without rows and columns where the layer has none of the name.
  LayerWeight operator[](WeightName name) const {
    const LayerWeight* found = std::find_if(
        begin(), end(), [&](const LayerWeight& weight) { return weight.name == name; });
    return found == end() ? LayerWeight{} : *found;
  }

 private:
  std::array<LayerWeight, kMostLayerWeights> weights_;
  std::size_t size_ = 0;
};

// Of a layer of this kind; one with experts needs model.moe.  `kv_ranks`: tensor ranks that have a
// key/value head each, if there are more of them than heads (then several have the same).
LayerWeights layer_weights(const Transformer& model, LayerKind kind, int kv_ranks = 1);

// Parameter tensors of a layer: one for each weight, and one for its biases.
int weight_tensors(const Transformer& model, LayerKind kind);

// Parameters of one block (one transformer layer).
struct BlockParameters {
  std::int64_t attention = 0;  // q, k, v and output projections, their biases, qk-norm, sinks
  std::int64_t mixers = 0;     // Mamba-2, gated delta nets, Mamba-1
  std::int64_t mlp = 0;        // dense MLP, or shared experts (with their gate) of an MoE model
  std::int64_t experts = 0;    // routed experts of an MoE model, all of them
  std::int64_t router = 0;
  std::int64_t norms = 0;

  std::int64_t total() const { return attention + mixers + mlp + experts + router + norms; }
  void add(const BlockParameters& other, std::int64_t times);
};

// Parameters of the whole model: of its blocks, whose norms have the embedding norm and the final
// norm among them, and of all else.  Tied embeddings count once, in `embedding`.
struct Parameters : BlockParameters {
  std::int64_t embedding = 0;  // vocab_size * hidden_size
  // Learned position table, an encoder's table of segments, embeddings of layers and of n-grams.
  std::int64_t positions = 0;
  std::int64_t head = 0;      // of a tied one the layers of an encoder's head
  std::int64_t towers = 0;    // for images and audio, where a run has any
  std::int64_t mtp = 0;       // multi-token-prediction layers with their projection and norms
  std::int64_t inactive = 0;  // routed-expert parameters that a token does not visit

  std::int64_t total() const {
    return BlockParameters::total() + embedding + positions + head + towers + mtp;
  }
  std::int64_t active() const { return total() - inactive; }
  std::int64_t without_embedding() const { return total() - embedding - positions; }
};

// Parameters of layer `layer` (from 0): the sums of layer_weights().
BlockParameters block_parameters(const Transformer& model, int layer);

// What of the head tensor ranks do not divide.  An encoder has layers between its last and the
// projection to the vocabulary, and a classifier of sentences:
//
//   (h^2 + h) + norm      and with next_sentence   (h^2 + h) + (2 h + 2)
//
// Of n = num_labels labels: h n, with bias.head n more, and with next_sentence (h^2 + h).  Part of
// `head` also where the projection is tied.
std::int64_t undivided_head_parameters(const Transformer& model);

// Of embeddings of n-grams, with E tables of d values for V rows and more: tables (E V + E^2) d,
// and projections E d h.
std::int64_t ngram_tables(const Transformer& model);
std::int64_t ngram_projections(const Transformer& model);

// Weight and bias of one norm over the hidden size.
std::int64_t norm_parameters(const Transformer& model);

// What stands before the first and after the last layer: embedding, positions, norms and head.
Parameters embedding_and_head_parameters(const Transformer& model);

// Parameters of the model.  Equals the published integer for every model of the catalogue.
Parameters parameters(const Transformer& model);

}  // namespace llmsim::sim
