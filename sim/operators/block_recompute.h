// What a recomputed block replays before its backward pass, and what it keeps instead of everything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/operators/block.h"
#include "sim/operators/module_inputs.h"

namespace llmsim::sim {

// One GEMM of a block: its place among the forward operators, and the widths of the matrices that stand side by side in it.
struct BlockGemm {
  using Widths = std::array<std::int64_t, 5>;  // 0: none
  std::size_t gemm = 0;
  Widths parts{};
  bool row_parallel = false;
};

// An activation function of a block: its place among the forward operators, and what is kept of what it gives.
struct BlockActivation {
  std::size_t place = 0;
  bool of_experts = false;  // routed ones
  Bytes saved{};
};

Bytes total_saved(const std::vector<BlockActivation>& activations);

// Where the parts of a block stand among its forward operators, and the bytes that recomputing them makes superfluous.
struct BlockParts {
  std::vector<BlockGemm> gemms;
  OperatorRange core;
  OperatorRange mlp;  // or the MoE layer in its place
  bool moe = false;
  OperatorRange gathered;                // the gather of an MoE model's tokens
  OperatorRange shared_up, shared_down;  // ExpertOperators
  OperatorRange mla_up;                  // from the latents to queries, keys and values
  std::vector<BlockActivation> activations;
  std::size_t needed = 0;  // nothing from this operator on is needed again, but for norms and dropout masks
  ModuleInputs inputs;
  Bytes norms_saved{};
  Bytes mlp_inner_saved{};
  Bytes mla_saved{};
  Bytes shared_saved{};
};

// Fills `recompute`, `saved` and `restored` of a block whose forward operators are complete.
//
//   Full       replays all, keeps the block's input
//   Selective  replays the modules that the strategy names, keeps what is not theirs
//   Op         replays all but the GEMMs (or some of their parts) whose outputs a policy keeps
//
// A replay that stops early ends where nothing that follows is needed again: where the block's last GEMM has its input.
void recompute_block(BlockOperators& block, const BlockParts& parts, const Transformer& model, const Strategy& strategy,
                     const Framework& framework, RecomputeKind recompute);

}  // namespace llmsim::sim
