// What is trained: the shape of a transformer, a decoder or an encoder, in the field's own words.
//
// Every number on which a parameter count, a FLOP or a byte depends is here; nothing is hidden in a
// model's name.  Dense, MoE and MLA decoders are described, hybrids of attention and state spaces,
// and encoders of BERT's kind; `parameters.h` counts them exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/field.h"
#include "sim/model/mixers.h"

namespace llmsim::sim {

enum class Norm { LayerNorm, RmsNorm };
enum class Position { Learned, Rope, Alibi, Relative, None };

// Extra normalisation of queries and keys: none, one weight vector of head_dim for each of
// q and k (Qwen 3), or one over all heads (num_heads * head_dim for q, num_kv_heads *
// head_dim for k; OLMo 2).
enum class QkNorm { None, PerHead, AllHeads };

// Function between the matrices of an MLP; where the MLP is gated, that of the gate (SwiGLU: silu).
enum class Activation { Gelu, GeluTanh, QuickGelu, Silu, Relu, SquaredRelu, Xielu };

// What is done to rotary positions beyond the length that a model was trained with at first.
enum class RopeScaling { None, Linear, Dynamic, Llama3, Yarn, LongRope };

NameTable<Norm> name_table(Norm);          // "layernorm", "rmsnorm"
NameTable<Position> name_table(Position);  // "learned", "rope", "alibi", "relative", "none"
NameTable<QkNorm> name_table(QkNorm);      // "none", "per-head", "all-heads"
// "gelu", "gelu-tanh", "quick-gelu", "silu", "relu", "relu2", "xielu"; Hugging Face's names are
// read too.
NameTable<Activation> name_table(Activation);
NameTable<RopeScaling> name_table(RopeScaling);  // "none", "linear", "dynamic", "llama3", ...

// Rotary positions (Su et al. 2021, arXiv 2104.09864): pair i of a head's d values turns by
// position * base^(-2i/d).
struct Rope {
  double base = 10000.0;                   // theta
  std::optional<double> window_base = {};  // of windowed layers, where it differs (Gemma 3)
  double share = 1.0;                      // of a head's values, those that turn (GPT-NeoX: 0.25)
  RopeScaling scaling = RopeScaling::None;
  double factor = 1.0;                  // by which the scaling makes contexts longer
  std::optional<int> trained_len = {};  // context before it was made longer
  bool operator==(const Rope&) const = default;
};

// Which linear layers and norms carry a bias vector.
struct Biases {
  bool qkv = false;               // q, k and v projections
  bool attention_output = false;  // projection after attention
  bool mlp = false;               // all projections of a dense MLP
  bool norm = false;              // LayerNorm biases
  bool head = false;              // output projection to the vocabulary

  // The classic GPT: every layer but the head.
  static constexpr Biases gpt() {
    return {.qkv = true, .attention_output = true, .mlp = true, .norm = true};
  }
  bool operator==(const Biases&) const = default;
};

// An MoE layer replaces the MLP in the layers l >= num_dense_layers with (l - num_dense_layers) %
// layer_interval == 0 and l < num_layers - num_last_dense_layers; the others keep the dense MLP of
// width ffn_size.  Experts are gated where the model's MLP is gated.
struct Moe {
  int num_experts = 0;             // routed experts
  int top_k = 0;                   // routed experts each token visits
  int expert_ffn_size = 0;         // width of one routed expert
  int num_shared_experts = 0;      // experts every token visits
  int shared_expert_ffn_size = 0;  // width of one shared expert
  int num_dense_layers = 0;        // leading layers with a dense MLP
  int num_last_dense_layers = 0;   // the same before multi-token prediction (Step 3)
  int layer_interval = 1;          // 1: every layer is an MoE layer, 2: every second ...
  // The experts form so many groups of neighbours, and a token visits experts of at most so many of
  // these (DeepSeek-V3: 4 of 8).
  int num_groups = 1;
  int groups_per_token = 1;
  // a bias per expert in the router (GPT-OSS; DeepSeek-V3's correction bias).
  bool router_bias = false;
  bool expert_bias = false;  // biases inside the experts (GPT-OSS)
  // a sigmoid gate of width hidden_size on the shared expert (Qwen 1.5/2 MoE).
  bool shared_expert_gate = false;
  // Routed experts read and write so many values a token: a projection before the dispatch, one
  // after the combination (LatentMoE, Nemotron 3 Super).  None: hidden_size.
  std::optional<int> latent_size = {};
  // Experts that give back what they read (LongCat-Flash): the router chooses them too, and of
  // its top_k a token visits that many fewer.
  int num_zero_experts = 0;
  // Norms of its own behind the shared experts, before and behind the routed ones (Gemma 4).
  bool branch_norms = false;
  bool router_scales = false;  // a factor for each value a router reads and each expert (Gemma 4)
  bool operator==(const Moe&) const = default;
};

// Multi-head latent attention, MLA (DeepSeek-V2): queries and keys/values
// pass through low-rank bottlenecks.
struct Mla {
  std::optional<int> q_lora_rank = {};  // none: queries are projected directly
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;  // dimensions of a query/key head without rotary position
  int qk_rope_head_dim = 0;  // dimensions with it, whose key all heads share
  int v_head_dim = 0;
  bool operator==(const Mla&) const = default;
};

// Attention to chosen keys: an indexer scores all keys before a query with num_heads small heads,
// which share one key, and the query sees the top_k best.  With MLA its queries come from the
// latents, its key has a LayerNorm, and a weight joins each head's score (DeepSeek-V3.2, GLM-5);
// else they come from the residual stream, with norms of both (MiniMax-M3, whose heads choose for a
// key/value head each, whole blocks of keys).  In layers F of a layer_pattern a query sees what a
// layer before has chosen, and there is no indexer (GLM-5.2); in layers A it sees all.  Sources:
// deepseek-ai/DeepSeek-V3.2-Exp inference/model.py; Megatron-LM
// core/transformer/experimental_attention_variant/dsa.py and msa.py.
struct SparseAttention {
  int num_heads = 0;  // of the indexer; 0: none in this layer
  int head_dim = 0;   // of the indexer
  int top_k = 0;      // keys a query sees
  int block = 1;      // that are chosen together
  bool operator==(const SparseAttention&) const = default;
};

// Attention to a window and, beyond it, to entries that each stand for several tokens
// (DeepSeek-V4): one key, which is the value too, for all heads; queries from a bottleneck, an
// output projection in groups.  In layers Z of a layer_pattern an entry stands for `ratio` tokens
// and an indexer chooses top_k of them, in layers H for `heavy_ratio` and all are seen, in layers *
// there are none.  Source: huggingface/transformers
// models/deepseek_v4/modular_deepseek_v4.py; Megatron-LM
// core/transformer/experimental_attention_variant/deepseek_v4_hybrid_attention.py.
struct CompressedAttention {
  int q_lora_rank = 0;
  int output_groups = 0;  // each a projection of its heads to output_rank values
  int output_rank = 0;
  int window = 0;  // tokens that a query sees as they are
  int ratio = 4;
  int heavy_ratio = 128;
  int index_heads = 0;  // of the indexer
  int index_dim = 0;
  int top_k = 0;       // entries
  int entry_size = 0;  // of a layer's entries in tokens, 0: it has none; set by own_shape()
  bool operator==(const CompressedAttention&) const = default;
};

// Windowed layers with a shape of their own, in a model whose other layers see everything (Gemma 4,
// MiMo-V2-Flash, Step 3.5): letter W of a layer_pattern.
struct WindowAttention {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  std::optional<int> value_head_dim = {};  // none: head_dim
  int window = 0;                          // tokens a query can see
  bool sinks = false;                      // one learned logit per head
  bool operator==(const WindowAttention&) const = default;
};

// Embeddings of each layer (Gemma 3n and 4): a table of its own has `width` values of a token for
// every layer, to which a projection of the first layer's input is added.  A layer multiplies them
// with as many values that it makes of its output and adds what it projects of the product.
// Source: ml-explore/mlx-lm mlx_lm/models/gemma4_text.py.
struct LayerEmbedding {
  int vocab_size = 0;
  int width = 0;
  bool operator==(const LayerEmbedding&) const = default;
};

// Embeddings of n-grams (LongCat-Flash-Lite, arXiv 2601.21204): each of num_tables = k (n - 1)
// tables, k of each length from 2 to n, has `width` values for a hash of a token and those before
// it, which a projection of its own adds to the token's embedding.  Table i has vocab_size + 2 i +
// 1 rows.  Source: ml-explore/mlx-lm mlx_lm/models/longcat_flash_ngram.py.
struct NgramEmbedding {
  int num_tables = 0;
  int vocab_size = 0;
  int width = 0;
  bool operator==(const NgramEmbedding&) const = default;
};

// A tower before a decoder: for images (ViT, SigLIP), over the patches of an image, or for audio
// (the encoder of Whisper), over the frames of a clip, which are called patches too.  Layers
// without a mask see those of one image or clip, or of a window of it; GEMMs make the patches of
// pixels, or of a spectrogram where they are its convolutions.  Projectors make tokens of the
// decoder's width of merged_patches neighbours each, joined or averaged, in place of embeddings.
//
// GEMMs stand in a text, one after another with an activation between: "2x384x1280 3840xh" are two
// of a patch (of a projector: of a token), the first of 2 rows.  A GEMM is rows, which are 1 where
// they are left out, values read, values made; h is the width that the layers or the decoder read.
// Sources: huggingface/transformers models/qwen3_vl, gemma3, llava, qwen2_audio (modeling files).
struct Tower {
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int ffn_size = 0;
  bool gated_mlp = false;
  bool bias = true;  // of all linear layers; of norms too where these are LayerNorms
  Norm norm = Norm::LayerNorm;
  int norms_per_layer = 2;  // 4: after both halves too
  QkNorm qk_norm = QkNorm::None;
  bool rotary = false;               // queries and keys are turned by their places
  std::optional<int> window = {};    // patches that see each other in windowed layers; none: all do
  int window_interval = 1;           // of every n layers, n - 1 are windowed; 1: all are
  std::string patch_embedding = {};  // GEMMs of a patch
  int patches = 0;                   // of an image or a clip
  int merged_patches = 1;            // that become one token of the decoder
  std::string projector = {};        // GEMMs of a token
  int projectors = 1;                // Qwen3-VL has four, for several layers of the decoder
  // Positions, biases and norms outside of layers, less what these lack (Whisper's keys: a bias).
  int other_parameters = 0;
  // Of a run: tokens of a sequence that are images or audio (0: none, and the tower is not there),
  // and whether the tower learns.
  int tokens = 0;
  bool frozen = false;
  bool operator==(const Tower&) const = default;
};

// An encoder (BERT): every token sees all others, and the model learns to restore tokens that were
// masked.  Logits are made of these alone, after a dense layer of the hidden size, its activation
// and a norm.  Source: Devlin et al. 2018 (arXiv 1810.04805); BertForPreTraining of transformers
// has the same parameters.
struct Encoder {
  double predicted_share = 1.0;  // of a sequence's tokens, those whose logits are made
  int segment_types = 2;         // rows of the table of segments: which sentence a token is of
  // The first token's state passes a pooler (h, h) and a layer of two classes, or of num_labels.
  bool next_sentence = false;

  // BERT's own files predict 20 of 128 tokens and 80 of 512 (google-research/bert
  // README, max_predictions_per_seq).
  static constexpr Encoder bert() {
    return {.predicted_share = 20.0 / 128.0, .segment_types = 2, .next_sentence = true};
  }
  bool operator==(const Encoder&) const = default;
};

struct Transformer {
  std::string name;

  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  // = num_heads: multi-head; 1: multi-query; between: grouped-query attention.
  int num_kv_heads = 0;
  int head_dim = 0;                        // independent of hidden_size / num_heads
  std::optional<int> value_head_dim = {};  // of a value, where it is not head_dim (MiMo-V2-Flash)
  int ffn_size = 0;                        // width of the dense MLP
  int vocab_size = 0;                      // rows of the embedding as trained, padding included
  int seq_len = 0;                         // tokens of a training sequence

  bool gated_mlp = false;        // SwiGLU/GeGLU: three matrices instead of two
  bool tied_embeddings = false;  // the head reuses the embedding's weights
  // Attention and MLP read the same norm and add to one residual (PaLM, GPT-J, Falcon).
  bool parallel_block = false;
  Biases bias = {};

  Norm norm = Norm::LayerNorm;
  bool norm_weight = true;  // false: norms have no parameters at all (OLMo 1)
  // 1: parallel block with a shared norm; 4: norms before and after both halves (Gemma 2).
  int norms_per_layer = 2;
  bool final_norm = true;
  bool embedding_norm = false;  // a norm right after the embedding (BLOOM)
  QkNorm qk_norm = QkNorm::None;

  Position position = Position::Rope;
  // Rows of a learned position table (0: seq_len); ignored for other positions.
  int max_positions = 0;

  // What a training program needs to train this model and no other, and no cost depends on; none:
  // not known, and exports leave it to the program.
  std::optional<Rope> rope = {};
  std::optional<double> norm_epsilon = {};
  std::optional<Activation> activation = {};

  // Tokens of a document, where a sequence is packed with several that do not see each other: the
  // mean over tokens, sum d^2 / sum d of documents of lengths d; none: a sequence is one document.
  std::optional<int> document_len = {};
  std::optional<int> sliding_window = {};  // tokens a query can see; none: all before it
  // Of every n layers, n - 1 are windowed and one is full; 1: all are windowed.
  int sliding_window_interval = 1;
  bool attention_sinks = false;  // one learned logit per head (GPT-OSS)
  // A sigmoid gate on the output of attention, with as many values as the queries, which the qkv
  // projection makes too (Qwen3-Next).
  bool attention_gate = false;
  bool attention_head_gate = false;  // the same with one value for each head (Step 3.5)
  bool keys_as_values = false;       // values are the keys before their norm (Gemma 4)
  // Queries pass a bottleneck of so many values, which a norm follows (multi-matrix factorization
  // attention, arXiv 2412.19255; Step 3); none: they are projected directly.
  std::optional<int> query_rank = {};
  // Learned numbers of a layer in addition to its matrices and norms: two of an xIELU (Apertus), a
  // factor of the layer's output (Gemma 4).
  int layer_scalars = 0;

  std::optional<Moe> moe = {};
  std::optional<Mla> mla = {};
  std::optional<SparseAttention> sparse_attention = {};
  std::optional<CompressedAttention> compressed_attention = {};
  // Streams of the residual, from which a layer's halves read a weighted sum and into which they
  // write with weights, all made of the streams (DeepSeek-V4); 1: the one residual stream.
  int residual_streams = 1;
  // AltUp (Baykal et al. 2023, arXiv 2301.13310; Gemma 3n): a layer predicts all streams from those
  // before it, works on the first alone, and corrects all by what it has made of that one.
  // Projections (h, h) make the others of the embedding, and bring them together before the head.
  bool alternating_updates = false;
  // Width of a bottleneck that reads what attention does, and joins it (LAuReL, arXiv 2411.07501).
  std::optional<int> laurel_rank = {};
  // Of a hybrid, a letter for each layer, as Megatron-LM writes it, or for each of a period that
  // repeats: M Mamba-2, G a gated delta net, * attention, - an MLP, E experts, and, which
  // Megatron-LM does not have, S Mamba-1, L lightning attention, C a short convolution, P attention
  // and Mamba-2 side by side, W windowed attention of another shape, F attention to the keys that a
  // layer before it has chosen, A to all keys in a model with sparse_attention, Z and H as
  // compressed_attention says, V and U windowed and full attention to keys and values that a layer
  // before has made.  Where none is - or E, every layer has also the MLP or the experts
  // that it has without a pattern, if any.
  // Source: Megatron-LM megatron/core/ssm/mamba_hybrid_layer_allocation.py.
  std::optional<std::string> layer_pattern = {};
  std::optional<Mamba> mamba = {};
  std::optional<GatedDeltaNet> gated_delta_net = {};
  std::optional<Mamba1> mamba1 = {};
  std::optional<LightningAttention> lightning_attention = {};
  std::optional<ShortConvolution> short_convolution = {};
  std::optional<WindowAttention> window_attention = {};
  std::optional<LayerEmbedding> layer_embedding = {};
  std::optional<NgramEmbedding> ngram_embedding = {};
  // Width of the MLP in layers V and U of a layer_pattern; none: ffn_size.
  std::optional<int> sharing_ffn_size = {};
  bool shares_keys = false;  // keys and values are those of a layer before; set by own_shape()
  std::optional<Tower> vision = {};  // of images
  std::optional<Tower> audio = {};
  std::optional<Encoder> encoder = {};  // none: a decoder, whose tokens see those before them
  // Labels of each token, of which a head of its own makes logits in the place of the vocabulary's:
  // 1 of a reward, 0 where there is no head (embeddings of texts); none: the LM head.  Source:
  // huggingface/transformers modeling_layers.py (GenericForSequenceClassification).
  std::optional<int> num_labels = {};
  int mtp_layers = 0;  // multi-token-prediction layers beyond num_layers (DeepSeek-V3)

  // Throws Error naming the field, its value and the rule it breaks (all sizes positive,
  // num_kv_heads divides num_heads, ...).
  void validate() const;

  bool operator==(const Transformer&) const = default;
};

// What became of a key of a model's file.
struct ModelKey {
  std::string key;
  std::string value;    // shortened
  std::string outcome;  // "read", "assumed" (the file has it not) or "ignored"
  std::string why;      // which fields it gives, what was taken instead, why it does not matter
};

// A model as it was published.
struct NamedModel {
  Transformer model;                 // model.name is the canonical name, such as "llama-3-70b"
  std::vector<std::string> aliases;  // what people type: "llama-70b", "llama3-70b"
  std::optional<std::int64_t> published_parameters;  // exact integer where one is published
  std::string source;                                // where the shape and the count were read
  std::vector<std::string> notes = {};               // what its file has that the shape has not
  std::vector<ModelKey> keys = {};                   // of its file, where it was read from one
};

// The letters before the first digit or hyphen of a model's name: "llama" of "llama-3-70b", "gpt"
// of "gpt2-xl".
std::string family_of(const std::string& name);

// Whether some layers have no attention, or no MLP.
inline bool is_hybrid(const Transformer& model) {
  return model.layer_pattern && !model.layer_pattern->empty();
}

// Values of a row that an expert reads and writes: latent_size or hidden_size.  Requires model.moe.
int expert_row_size(const Transformer& model);

// Routed experts that a token visits on average: top_k, or the share of it that is no zero expert
// where all are chosen alike, rounded.
int visited_experts(const Moe& moe);

// Width of all query heads together, num_heads * head_dim (with MLA: of the value heads, which feed
// the output projection).
int attention_output_width(const Transformer& model);

// Values of a token with which the output of attention is multiplied: 0 without a gate.
int attention_gate_width(const Transformer& model);

// Logits of a token: its labels, or those of the vocabulary.
int num_logits(const Transformer& model);

// Whether the first token's state passes a pooler, after which are the labels, where it has any.
bool has_pooler(const Transformer& model);

// Share of the tokens that have logits of the vocabulary: 1, or that of an encoder.
double predicted_share(const Transformer& model);

// Length of one query or key vector, over which a score is summed (with MLA: both parts together).
int query_head_dim(const Transformer& model);

// The same in the core of attention, and of a value there.  Kernels of chosen keys work on latents,
// which all heads share: with sparse_attention kv_lora_rank + qk_rope_head_dim, and kv_lora_rank.
int core_query_dim(const Transformer& model);
int core_value_dim(const Transformer& model);

// Entries of a sequence's documents on average, in a layer with compressed attention: 0 without.
double compressed_entries(const Transformer& model);

// Values of a token that stay from layer to layer.
int stream_size(const Transformer& model);

// Whether the halves of a layer read and write weighted sums of all streams.
inline bool weighs_streams(const Transformer& model) {
  return model.residual_streams > 1 && !model.alternating_updates;
}

// Weights that make the streams of an embedding, or one of them before the head: (m - 1) h^2 with
// alternating_updates, else 0.
std::int64_t stream_projection_weights(const Transformer& model);

// Tokens that a query of layer `layer` (from 0) can see: the sliding window where the layer
// has one, else none.  With an interval n, the layers n - 1, 2n - 1, ... see everything
// (Gemma 2 and 3, GPT-OSS).
std::optional<int> window_of_layer(const Transformer& model, int layer);

// Tokens of a document of a sequence, at most all of them.
int document_len(const Transformer& model);

// Share of the layers that see everything although the model has a window: 0 without a window or
// where all layers have it.
double full_attention_share(const Transformer& model);

// Vocabulary rounded up so that every tensor-parallel rank holds a multiple of `multiple` rows
// (Megatron-LM: 128).
int padded_vocab_size(int vocab_size, int multiple, int tensor_parallel);

// The widths of all heads together, at most.
inline constexpr int kMaxHeadWidths = 1 << 22;

// The fields of a transformer by name: one table for run files, JSON and checks of ranges.
//
// A key is that of the model section of a run file; a dot stands for an object in it
// ("moe.top_k").  A new field of a Transformer is a member, a row of the table and a formula.  The
// name is no field: it picks a model of the catalogue.

// A size may be 0 only where a model can do without it.
struct TransformerField : Field<Transformer> {
  // Whether a model has the object in which the field stands; null: every model has it.
  bool (*present)(const Transformer&) = nullptr;
  bool needed = false;    // a run file that describes the object states the field
  bool rare = false;      // written only where a model has it, or has it on
  bool costless = false;  // no FLOP, byte or second depends on it
};

const std::vector<TransformerField>& transformer_fields();

// Fields of a transformer by key.
using PartialTransformer = PartialRecord;

// All that a model has a value of.
PartialTransformer fields_of(const Transformer& model);

// Whether a field of an object is stated: of "moe", one whose key begins with "moe.".
bool states_object(const PartialTransformer& partial, const std::string& object);

}  // namespace llmsim::sim
