// The vocabulary: one kind of work that a device does in a training step.
//
// A pass, forward or backward, is a list of operators in execution order, each with its module.
// FLOPs, bytes moved, kernels and communication are fields of the same record; the tensors that
// they read, write and save for the backward pass are those of their node (layer_graph.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "sim/base/dtype.h"
#include "sim/base/quantity.h"
#include "sim/strategy/mesh.h"

namespace llmsim::sim {

// The modules of a layer, in which its operators and its tensors stand: what recomputation and
// offload choose by.
enum class Module : std::uint8_t {
  Norm,           // and what it writes
  Qkv,            // queries, keys and values, or the latents they come from
  MlaUp,          // from the latents to queries, keys and values
  CoreAttention,  // scores, softmax, weighted sum
  AttentionOutput,
  MixerInput,  // of a mixer of states: what its convolution and its scan read
  Scan,
  MixerNorm,
  MixerOutput,
  Residual,
  MlpUp,
  Activation,
  MlpDown,
  MoeInput,  // the tokens of all tensor ranks, where each has a shard of the sequence
  Router,
  Dispatch,  // rows to their experts and back
  ExpertUp,
  ExpertActivation,
  ExpertDown,
  SharedUp,
  SharedActivation,
  SharedDown,
  Combine,  // the weighted sum of each token's rows
  Embedding,
  Head,
  Loss,
  Update  // of the optimizer
};

// A set of modules.
class ModuleSet {
 public:
  ModuleSet() = default;
  ModuleSet(std::initializer_list<Module> modules) { add(modules); }
  void add(std::initializer_list<Module> modules) {
    for (const Module module : modules) bits_ |= bit(module);
  }
  bool has(Module module) const { return (bits_ & bit(module)) != 0; }

 private:
  static std::uint32_t bit(Module module) {
    return std::uint32_t{1} << static_cast<unsigned>(module);
  }
  std::uint32_t bits_ = 0;
};

enum class OperatorKind {
  Gemm,       // batch GEMMs of (m, k) by (k, n)
  Attention,  // flash attention: batch heads, m queries, n keys, head size k
  Norm,
  Softmax,     // unfused attention scores: scale, mask, softmax, dropout
  Activation,  // GELU, SwiGLU
  Rotary,
  Residual,       // bias, dropout and residual add
  BiasGradient,   // the sum of an output's gradient over the tokens
  Copy,           // transposes and contiguous copies
  Convolution,    // of each channel, over some tokens
  Scan,           // of states over the tokens, chunk by chunk
  SelectiveScan,  // the same of channels that have decays of their own, without GEMMs
  Embedding,
  CrossEntropy,
  Cast,       // to another number format, quantisation included
  Optimizer,  // update of parameters
  GradientNorm,
  GradientScale,  // in place
  Collective,
  HostCopy  // over the host link
};

enum class CollectiveKind { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv };

const char* name_of(Module module);  // "core attention", "MLP up"; to be printed
const char* name_of(OperatorKind kind);
const char* name_of(CollectiveKind kind);  // "all_reduce", "all_gather", ...

// The GEMMs of the same pass with which a tensor-parallel collective can overlap.
//   Feeds           those after it work on what has arrived
//   Follows         those before it send what is ready
//   DataGradient    those after it that make data gradients, or weight gradients, need nothing of
//   WeightGradient  it
enum class TensorOverlap { None, Feeds, Follows, DataGradient, WeightGradient };

struct Operator {
  OperatorKind kind = OperatorKind::Gemm;
  Module module = Module::Norm;
  const char* label = "";     // "qkv", "attention", "mlp_down"; a string literal, to be printed
  DType dtype = DType::Bf16;  // arithmetic format
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool causal = false;           // Attention: half of the scores are masked
  bool weight_gradient = false;  // Gemm: k runs over tokens, and the result may be accumulated
  // Gemm: rows of both operands are multiplied with each other, x W^T, as in forward passes.
  bool transposed = false;
  // Works on the rows that a router sends, as many as come: a graph that is captured for one shape
  // cannot hold it.
  bool ragged = false;
  Flops flops{};  // useful work (causal attention counts its half)
  // Work the kernel executes over `flops`: flash backward recomputes the scores.
  double repeats = 1.0;
  Bytes moved{};      // device memory read and written
  double rate = 1.0;  // memory-bound: bandwidth relative to what the device achieves
  int kernels = 1;    // launches
  // Attention, Collective: equal kernels or messages one after the other; flops, moved are of all.
  int launches = 1;

  CollectiveKind collective = CollectiveKind::AllReduce;
  GroupKind group = GroupKind::Tensor;
  TensorOverlap tensor_overlap = TensorOverlap::None;
  // Each message travels while one launch of the attention operator before it computes.
  bool overlaps_attention = false;
  // Of one launch; nccl-tests' size: the whole buffer of an all-gather,
  // reduce-scatter or all-reduce.
  Bytes message{};
};

using OperatorList = std::vector<Operator>;

// Operators of a list from `first` on, before `last`.
struct OperatorRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

// The GEMM (m, k) x (k, n), `batch` times: 2 m n k FLOPs each; both operands are read once and the
// result, in format `out`, is written once.
Operator gemm(const char* label, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
              DType dtype, DType out);
// The same GEMM with its second operand stored as (n, k).
Operator transposed(Operator gemm);

// Whether a run of GEMMs goes on with it: casts between them belong to them.
bool in_gemms(const Operator& op);

// A memory-bound operator on `elements` values that moves `bytes_per_element` for each, in
// `kernels` launches.
Operator memory_bound(OperatorKind kind, const char* label, double elements,
                      double bytes_per_element, int kernels);
// One that counts as arithmetic too, though memory bounds it.
Operator memory_bound(OperatorKind kind, const char* label, double elements,
                      double bytes_per_element, int kernels, Flops flops);

Operator collective(const char* label, CollectiveKind kind, GroupKind group, Bytes message,
                    TensorOverlap overlap = TensorOverlap::None);

// The kernels of a memory-bound operator in one pass.
struct PassTraffic {
  double bytes = 0.0;  // per element
  int kernels = 0;
};

// Of both passes, by how a framework fuses the operator (traffic.h).
struct Traffic {
  PassTraffic forward{}, backward{};
  double rate = 1.0;  // bandwidth of the forward kernels relative to other memory-bound ones
};

// The operators of a layer, or of a node of one, on one rank for one micro-batch.
struct LayerOperators {
  OperatorList forward{}, backward{};
  OperatorList recompute{};  // repeated before the backward pass

  void set_module(Module module);
  // What runs next: after these in the forward pass, before them in the backward pass.
  LayerOperators& append(const LayerOperators& next);
};

// Forward and backward kernels of a memory-bound operator; none where the framework has
// fused them away.
LayerOperators elementwise(OperatorKind kind, const char* label, double elements,
                           const Traffic& traffic);

}  // namespace llmsim::sim
