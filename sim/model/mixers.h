// What mixes tokens in the place of attention and carries states: the sizes of each mixer, and the
// table of what everything that counts asks of one.
//
// A new mixer is its sizes and a row here, a member and the fields of a Transformer, and the
// operators of its layer (operators/block.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/base/quantity.h"

namespace llmsim::sim {

struct LayerTable;
struct Transformer;

// A Mamba-2 mixer (Dao & Gu 2024, arXiv 2405.21060): H = num_heads heads of P = head_dim values,
// whose states are P x N = state_size; the heads of each of G = num_groups groups share B and C.
// A causal convolution of each channel runs before the scan, which works on chunks of Q =
// chunk_size tokens. Megatron-LM scans chunks of 128 (megatron/core/ssm/mamba_mixer.py).
struct Mamba {
  int num_heads = 0;
  int head_dim = 0;
  int num_groups = 1;
  int state_size = 0;
  int conv_kernel = 4;
  int chunk_size = 128;
  bool gated_norm = true;  // false: the output is gated, but not normalised (Falcon-H1)
  bool conv_bias = true;
  bool projection_bias = false;  // of input and output

  int inner_size() const { return num_heads * head_dim; }
  // Channels of the convolution: x, B and C.
  int conv_channels() const { return inner_size() + 2 * num_groups * state_size; }
  bool operator==(const Mamba&) const = default;
};

// A gated delta net (Yang et al. 2024, arXiv 2412.06464; the linear attention of
// Qwen3-Next): each of num_value_heads heads has a state of key_head_dim x
// value_head_dim, keys and queries are shared by num_value_heads / num_key_heads of them.
// A causal convolution of each channel runs before the delta rule, which works on chunks
// of 64 tokens (fla-org/flash-linear-attention fla/ops/gated_delta_rule/chunk.py).
//
// Kimi delta attention (arXiv 2510.26692; fla/layers/kda.py) is one whose decay has a value for
// each channel of a key: gate_rank = r is the width of two bottlenecks, from which the decays and
// the gate of the output are projected.
struct GatedDeltaNet {
  int num_key_heads = 0;
  int key_head_dim = 0;
  int num_value_heads = 0;
  int value_head_dim = 0;
  int conv_kernel = 4;
  int chunk_size = 64;
  std::optional<int> gate_rank = {};  // none: one decay for each head, and no bottlenecks

  int key_size() const { return num_key_heads * key_head_dim; }
  int value_size() const { return num_value_heads * value_head_dim; }
  // Channels of the convolution: queries, keys and values.
  int conv_channels() const { return 2 * key_size() + value_size(); }
  bool operator==(const GatedDeltaNet&) const = default;
};

// A Mamba-1 mixer (Gu & Dao 2023, arXiv 2312.00752) as Jamba has it (Lieber et al. 2024, arXiv
// 2403.19887): each of inner_size channels has a state of state_size values with decays of its own.
// The step of a channel comes from a bottleneck of dt_rank values; these, B and C, which all
// channels share, are projected from the convolved channels and normalised, or as Gu & Dao have it
// not.  A causal convolution of each channel runs before.  Sources: huggingface/transformers
// src/transformers/models/jamba/modeling_jamba.py (JambaMambaMixer), mamba/modeling_mamba.py.
struct Mamba1 {
  int inner_size = 0;
  int state_size = 0;
  int dt_rank = 0;
  int conv_kernel = 4;
  bool norms = true;  // of steps, B and C
  bool conv_bias = true;
  bool projection_bias = false;  // of input and output

  // What is projected from the channels: the steps' bottleneck, B and C.
  int selection_size() const { return dt_rank + 2 * state_size; }
  bool operator==(const Mamba1&) const = default;
};

// Lightning attention (MiniMax-01, arXiv 2501.08313): linear attention of num_heads heads with
// states of head_dim x head_dim, which decay by a constant of each head, on chunks of 64 tokens
// (fla-org/flash-linear-attention fla/ops/simple_gla/chunk.py).  Its weights are an input of
// (h, 4 H d), q, k, v and a gate, a norm of the H d values of all heads, and an output of (H d, h).
struct LightningAttention {
  int num_heads = 0;
  int head_dim = 0;
  int chunk_size = 64;

  int inner_size() const { return num_heads * head_dim; }
  bool operator==(const LightningAttention&) const = default;
};

// A short convolution (LFM2; huggingface/transformers models/lfm2/modeling_lfm2.py,
// Lfm2ShortConv): of three values that a channel gets of a token the product of two is convolved
// over conv_kernel tokens and multiplied with the third.
struct ShortConvolution {
  int channels = 0;
  int conv_kernel = 3;
  bool bias = false;  // of the convolution and of both projections

  bool operator==(const ShortConvolution&) const = default;
};

// Those with attention stand together.
enum class Mixer : std::uint8_t {
  None,
  Attention,
  WindowAttention,      // of a shape of its own
  FollowingAttention,   // to the keys that a layer before it has chosen
  FullAttention,        // to all keys, in a model that chooses them elsewhere
  CompressedAttention,  // to a window and to chosen entries
  HeavilyCompressedAttention,
  SharingWindowAttention,  // with keys and values that a layer before has made
  SharingAttention,
  AttentionAndMamba2,  // side by side: both read one norm, and both are added (Falcon-H1)
  Mamba2,
  GatedDeltaNet,
  Mamba1,
  LightningAttention,
  ShortConvolution
};

// What a mixer with states is for those that count.
struct ScanMixer {
  Mixer mixer;
  char letter;               // in Transformer::layer_pattern
  const char* name;          // "Mamba-2"
  const char* object;        // of a run file, with its sizes: "mamba"
  const char* divided_rule;  // of tensor ranks; ends with the field that they must divide
  void (*add_weights)(LayerTable&);
  // Throws Error where sizes do not go together; null: they always do.
  void (*validate)(const Transformer&) = nullptr;

  bool (*is_given)(const Transformer&) = nullptr;
  void (*give)(Transformer&) = nullptr;  // with no size stated
  Flops (*flops_per_token)(const Transformer&) = nullptr;
  int (*divided)(const Transformer&) = nullptr;

  std::string_view divided_field() const {
    const std::string_view rule = divided_rule;
    return rule.substr(rule.rfind(' ') + 1);
  }
};

std::span<const ScanMixer> scan_mixers();

// Throws Error where the widths of all heads together are more than kMaxHeadWidths.
void require_head_widths(const char* object, std::int64_t width);

// The row of a mixer; null for attention and for none.
const ScanMixer* scan_mixer(Mixer mixer);

bool has_scans(const Transformer& model);

// Forward FLOPs of the scan of one Mamba-2 layer for one token, in chunks of Q tokens, with H heads
// of P values, states of N and G groups:
//
//   within chunks   G Q N + H Q P     C B^T, masked, and the GEMM of that with x: causal halves
//   between them    4 H P N           x into the states of chunks, and these into the output
//
// Its convolution and its gates are no GEMMs.  Source: Dao & Gu, arXiv 2405.21060, section 6.
Flops scan_flops_per_token(const Mamba& mamba);

// The same of a gated delta net in chunks of C tokens, with H_v value heads and states of K x V:
//
//   H_v (6 K V + C (3 K + 2 V) + C^2 / 3)
//
// The first term has new values, new states and outputs from the states (2 K V each); the
// second, of causal halves within a chunk, K K^T, Q K^T and T K, and T V and the scores times
// values; the third is T, the inverse of a triangular matrix.  Source: Yang et al., arXiv
// 2412.06464, section 3.3; fla/ops/gated_delta_rule/chunk.py.
Flops scan_flops_per_token(const GatedDeltaNet& net);

// The same of a Mamba-1 layer with d_i channels and states of N: each token's B into the states and
// these into the output.
//
//   4 d_i N
//
// Decays, steps and gates are elementwise, which is not counted.  Source: Gu & Dao, arXiv
// 2312.00752, algorithm 2.
Flops scan_flops_per_token(const Mamba1& mamba);

// The same of lightning attention with H heads of d values, in chunks of C tokens:
//
//   H (2 C d + 4 d^2)
//
// Within a chunk causal halves of Q K^T and of the scores times values, C d each; between chunks
// k v^T into the states and the states times q, 2 d^2 each.  Source: MiniMax-01, arXiv 2501.08313,
// section 2.2.
Flops scan_flops_per_token(const LightningAttention& attention);

// A short convolution is elementwise: none.
Flops scan_flops_per_token(const ShortConvolution& convolution);

}  // namespace llmsim::sim
