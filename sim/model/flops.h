// FLOPs of training: the FLOPs of one token, which follow from the shape of the model
// alone; the conventions by which publications count a step; and the meaning of a
// published rate or utilisation.
//
// A multiply-add is 2 FLOP.  GEMMs count, the two of attention included; norms, activations,
// softmax, biases and the embedding lookup (no GEMM) do not.  The backward pass does twice the
// forward's work, so training needs 3 * forward.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {

// Keys that a query of layer `layer` meets, averaged over a sequence of documents of D tokens (one
// of S = seq_len, where it is not packed); w is the layer's window, at most D:
//
//   causal: w - w^2 / (2 D)     (D / 2 without a window)      otherwise, and of an encoder: w
//
// With sparse_attention w is at most top_k.  With compressed_attention there are also the entries
// before a query, the same formula with D / R of R tokens each, of which an indexer chooses top_k.
//
// Documents of lengths d have sum d^2 / 2 scores of sum d queries: D = sum d^2 / sum d is exact for
// layers without a window.  A window is taken to be shorter than the documents, or longer than all.
//
// The causal area is the continuous one, as every published convention counts it: the diagonal is
// split in half.
double attended_keys(const Transformer& model, int layer, bool causal);

// The same without top_k: keys that an indexer scores; the entries of compressed attention.
double scored_keys(const Transformer& model, int layer, bool causal);

// Forward FLOPs of the two GEMMs of attention in one layer, for one token, with H heads, d_q =
// core_query_dim and d_v = core_value_dim, and the scores of an indexer of A heads of D values with
// all keys s before a query, as attended_keys counts them without top_k:
//
//   2 H (d_q + d_v) attended_keys + 2 A D s
Flops attention_flops_per_token(const Transformer& model, int layer, bool causal);

// FLOPs of the head and of the layers right before it, averaged over the tokens of a sequence: of
// an encoder only predicted_share pass it, and one token passes its classifier of sentences.  A
// head of labels is passed by every token, behind a pooler by one of a sequence.
Flops head_flops_per_token(const Transformer& model);

// 2 W + the attention and the scans of all layers, multi-token-prediction layers included.  W are
// the weights that multiply a token's activations: projections, MLP, the top_k visited and the
// shared experts, router, and the head (tied or not, once more for each multi-token-prediction
// layer; of an encoder its share); neither embedding lookup, norms nor biases.  Without windows,
// experts and MLA three times this is the usual 6 (N - embedding) + 12 L H d S, half the second
// term if causal.
Flops forward_flops_per_token(const Transformer& model, bool causal);

// What training needs for one token: a forward pass and two backward, of causal attention half; of
// the W_d weights of an indexer, whose input gets no gradient, one backward.  Where the weights are
// frozen and adapters of `adapter_parameters` (of the whole model) are trained instead, no
// gradients of frozen weights:
//
//   3 forward - 2 W_d      with adapters:  3 forward - 2 W + 6 adapter_parameters
Flops training_flops_per_token(const Transformer& model, double adapter_parameters = 0.0);

// FLOPs of a training step under the conventions that publications use.  They differ by up to 1.6x
// for the same step.
//
// With T tokens per step, N parameters, L layers, H * Q = num_heads * head_dim, S = seq_len, h =
// hidden_size, V = vocab_size:
//
//   6N                 6 N T                              all parameters, no attention
//                                                         (Kaplan et al. 2020)
//   6N_no_embedding    6 (N - N_embedding) T              without the input embedding
//   palm               6 N T + 12 L H Q S T               attention over the full square (PaLM,
//                                                         nanoGPT, MosaicML)
//   palm_causal        6 N T + 6 L H Q S T                attention's causal half
//   palm_no_embedding  6 (N - N_embedding) T
//                        + 12 L H Q S T                   torchtitan
//   megatron           what Megatron-LM logs              since April 2025, below
//   megatron_2024      what it logged before              from April 2024 on, below
//   megatron_2022      72 T L h^2 (1 + S/(6h)
//                        + V/(12 h L))                    GPT shape, ffn 4 h, full attention
//                                                         (Korthikanti et al. 2022), which
//                                                         Megatron-LM logged at first
//   gemm_causal        every GEMM, attention without      this program's own count
//                        its masked half
//   hardware           all that is executed: recomputed, padded and replicated work too
//
// In palm, L is the number of layers with attention.  Scans of states count in megatron and in the
// last two alone; towers for images and audio in the last two, which count them for their own
// tokens: N is that of the decoder.
// An embedding lookup multiplies nothing: only the last two count it as zero by construction.

// Megatron-LM's num_floating_point_operations (--log-throughput) counts, of a token with p
// multi-token-prediction layers, a heads, g key/value heads, q = a * head_dim, D tokens of a
// document, and m = 3 matrices of a gated MLP, else 2,
//
//   megatron        6 [W + a (d_q + d_v) D / 2 of each layer with attention + scans
//                      + (1 + p) h V + p (3 h + 2 h^2)]
//   megatron_2024   6 [L (2 q h (1 + g / a) + 2 q S + m h (k F + X)) + h V]
//
// W are the projections of attention with a gate, MLPs, and of the experts those that a token
// visits, with the projections around them; the norms of MLA's bottlenecks are taken for matrices,
// and routers, indexers and the gate of shared experts for nothing.  Attention sees the causal
// half of a document whatever its window.  A Mamba-2 layer of H heads, G groups and states of N is
// taken to be 2 h wide, whatever its heads are:
//
//   h (4 h + 2 G N + H) + 7 h N + 2 h^2
//
// A gated delta net has its projections, its convolution and 4 d_v^2 for each value head.  Where
// layers are a mixer or an MLP alone, p (3 h + 2 h^2) is not there.  Mixers that Megatron-LM does
// not have are counted as in gemm_causal.
//
// Until February 2025 every layer was counted with full attention by plain heads, and with an MLP
// of width F = ffn_size for each of k = top_k experts (1 without experts), X the width of shared
// ones: what experts of another width and layers without experts do not have was logged all the
// same.  F is the experts' width where the model has no other.
//
// Source: NVIDIA/Megatron-LM megatron/training/training.py @d98e8a64dd (2026-08-22; MLA and
// multi-token prediction since @d4f9a6f7b4, 2025-04-03), @1fa9464e7c (2024-09-11; shared experts
// since then, the rest since @2bfe9beaae, 2024-04-03; halves of attention from @8873b55d6a,
// 2025-03-06), megatron/training.py @2748e7c7d4 (2023-11-28, the first).

struct Convention {
  std::string name;
  Flops flops_per_step{};             // whole cluster
  FlopsPerSecond flops_per_device{};  // over the step time
  double mfu = 0.0;                   // over the peak of the recipe's format
};

// What the conventions need of a step.
struct StepWork {
  double tokens = 0.0;  // per step, whole cluster
  Flops model{};        // exact, by the shape of the model
  Flops hardware{};     // executed
  Seconds step_time{};
  int num_devices = 1;
  FlopsPerSecond peak{};  // of one device
};

std::vector<Convention> conventions(const Transformer& model, const StepWork& work);

// Reads a published rate or utilisation: which step time it means, and how much of it is work that
// matrix units did.
//
// A study that prints R FLOP/s per device by a convention that counts F_c FLOP a step on D devices
// has measured
//
//   step time = F_c / (D R)      exact rate = R F / F_c
//
// F is this program's own count (gemm_causal: every GEMM, attention's masked half left out).  The
// one-layer proxy of a 70B model that llm-train-bench ran counts 1.56 times its work: 6 N of 2.957
// B parameters, of which 1.051 B are an embedding lookup, and the full square of attention.  Its
// 790 TFLOP/s, "80 %" of 989, are 507 TFLOP/s, 51 %.

struct Reading {
  std::string convention;
  Seconds step_time{};
  FlopsPerSecond exact{};  // per device
  double exact_mfu = 0.0;
};

// `reported` is per device, counted by `convention`.
Reading reading_of(const Convention& convention, FlopsPerSecond reported, const StepWork& work);

// The convention by which a step of `measured` seconds has the reported rate within 3 %: the
// nearest one, or none.
std::optional<Convention> convention_behind(std::span<const Convention> conventions,
                                            FlopsPerSecond reported, Seconds measured,
                                            int num_devices);

}  // namespace llmsim::sim
