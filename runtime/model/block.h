// A transformer block that executes: the operators of sim/operators/block.h, in the same order and
// under the same names, with an explicit backward pass.
//
// There is no autograd: the forward pass returns a tape of the tensors that it saves, and the
// backward pass frees each of them when it has been used.  The memory at every moment is therefore
// a property of this file, which sim/operators/layer_memory.h states and tests hold to the byte.
//
//   forward   norm, [gather], qkv, rotary (or model/mla_inputs.h), attention, projection, [reduce],
//             residual, norm, [gather], up, activation, down, [reduce], residual
//   backward  the same in reverse; gradients of weights are added in place
//
// The residual stream x (t, h), or t / n tokens of it, is consumed; additions to it are in place.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/attention.h"
#include "runtime/kernels/library_attention.h"
#include "runtime/kernels/linear.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/rotary.h"
#include "runtime/model/experts.h"
#include "runtime/model/mla_inputs.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/model/rank_shape.h"
#include "runtime/parallel/tensor_parallel.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

// The settings that all blocks of a model share.
struct BlockContext {
  sim::Transformer model;
  RankShape shape;
  TensorParallel tensor;
  ExpertParallel experts;
  bool balanced_experts = false;  // tokens go to experts evenly, whatever the router chooses
  bool blockwise_attention = true;
  AttentionKernels attention_kernels = AttentionKernels::Blockwise;  // where it is not unfused
  GemmFormat gemms = GemmFormat::Operands;  // of the linear layers in blocks
  at::Tensor mask;                          // of scores
  RotaryTable rotary;                       // empty: no rotation
};

// The tensors that a block saves for backward.  Undefined members have been
// dropped and are recomputed.
struct BlockTape {
  at::Tensor x;
  NormOutput attention_norm;
  MlaTape mla;
  Heads heads;
  AttentionOutput attention;
  at::Tensor residual;
  NormOutput mlp_norm;
  at::Tensor up;
  at::Tensor silu;
  at::Tensor activation;
  ExpertsTape experts;  // in the place of these three
};

// Where the parameters of a layer's routed experts are, if it has any: a unit and the first of them
// in it.
struct ExpertPlace {
  ParameterUnit* unit = nullptr;
  std::size_t first = 0;
};

class Block {
 public:
  // All must outlive the block.
  Block(const BlockContext& context, ParameterUnit& unit, ExpertPlace experts = {});

  // Fills `tape` with the tensors that are saved under `recompute`: Full saves x alone, Selective
  // drops those inside its modules.
  at::Tensor forward(at::Tensor x, BlockTape& tape, const sim::Recompute& recompute) const;

  // Gradient of x; adds to the gradients of the unit.  Tensors that the tape does not have are
  // recomputed when they are needed.
  at::Tensor backward(at::Tensor dy, BlockTape tape) const;

 private:
  struct Linear {
    Parameter weight, bias;
  };

  using Keep = Experts::Keep;

  void attention_half(BlockTape& tape, Keep keep) const;
  at::Tensor mlp_half(BlockTape& tape, Keep keep) const;
  void mlp_inner(BlockTape& tape) const;
  void make_heads(BlockTape& tape, Keep keep) const;
  void attend(BlockTape& tape) const;
  at::Tensor moe_half(BlockTape& tape, Keep keep) const;
  at::Tensor moe_backward(const at::Tensor& dy, BlockTape& tape) const;
  static void drop(BlockTape& tape, const sim::RecomputedModules& modules);
  void restore_mlp(BlockTape& tape) const;
  void restore_attention(BlockTape& tape) const;
  at::Tensor column(const at::Tensor& x, const Linear& linear) const;
  at::Tensor row(const at::Tensor& x, const Linear& linear) const;
  at::Tensor column_backward(at::Tensor dy, at::Tensor x, const Linear& linear) const;
  at::Tensor row_backward(const at::Tensor& dy, at::Tensor x, const Linear& linear) const;
  NormOutput norm_of(const at::Tensor& x, const Linear& norm) const;
  at::Tensor norm_gradient(at::Tensor dy, at::Tensor x, NormOutput forward,
                           const Linear& norm) const;
  at::Tensor mlp_backward(const at::Tensor& dy, BlockTape& tape) const;
  at::Tensor attention_backward(const at::Tensor& dy, BlockTape& tape) const;
  Heads attention_gradient(at::Tensor dout, BlockTape& tape) const;

  const BlockContext& context_;
  Linear attention_norm_, qkv_, projection_, mlp_norm_, up_, down_;
  std::optional<MlaInputs> mla_;
  std::optional<Experts> experts_;
};

}  // namespace llmsim::runtime
