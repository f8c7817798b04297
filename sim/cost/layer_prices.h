// Prices of everything that repeats: a block without and with recomputation, the
// embedding, the LM head.
//
// They depend on the tensor and context ranks, the micro-batch and the kernels, but on no other
// field of a strategy; a search computes them once for each such combination and shares them among
// all meshes.
//
// A device must be able to multiply in the recipe that is priced.  Scales of a tensor, of rows and
// of 128 values are applied to the result of an 8-bit GEMM, or of a piece of its K loop: every
// device with 8-bit GEMMs can do that.  Scales of 16 or 32 elements are an operand of the matrix
// instruction (`Device::block_scales`).
//
// Sources: NVIDIA PTX ISA, mma with block scaling (sm_100 and later); AMD CDNA4 ISA, V_MFMA_SCALE;
// the means over layers are ours.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/cost/price.h"
#include "sim/hardware/device.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/layer_memory.h"
#include "sim/run.h"
#include "sim/strategy/low_precision_recipe.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// What a layer does to memory in its two passes, and what it would save without recomputation.
struct LayerMemory {
  PassBytes forward;
  PassBytes backward;
  Bytes everything{};
  // The same tensor by tensor, in prices of layers_with_tensors().
  std::shared_ptr<const LayerTensors> tensors{};
};

// The operators of a layer one by one, in prices of layers_with_operators().
struct PricedOperators {
  std::vector<PricedOperator> forward{}, recompute{}, backward{};
};

// A block; where some layers have a window and others see everything, the mean of both by their
// numbers: they differ in attention alone.  Of the embedding and of the head, `saved` and
// `offloaded` are 0.
struct BlockPrice {
  PassPrice forward{};
  PassPrice recompute{};
  PassPrice backward{};
  Bytes saved{};      // from the forward to the backward pass
  Bytes offloaded{};  // of it, inputs of modules that go to the host
  // Inputs of weight-gradient GEMMs, which stay resident where these run later.
  Bytes weight_inputs{};
  LayerMemory memory{};
  std::shared_ptr<PricedOperators> operators{};
};

// Of each kind of layer that the model has, in the order of layer_kinds().
struct BlockPrices {
  // Under the strategy's recompute mode (EveryN: of a recomputed block).
  std::vector<BlockPrice> blocks{};
  // Without recomputation; equal to `blocks` unless the mode mixes both.
  std::vector<BlockPrice> whole_blocks{};
};

struct LayerPrices : BlockPrices {
  // Of blocks that a low-precision recipe leaves in 16 bits, where it leaves any.
  std::optional<BlockPrices> high_precision{};
  BlockPrice embedding;
  BlockPrice head;
};

// The mean block of a model chunk: its blocks together are `blocks` times this one, bytes included.
BlockPrice mean_block(const Run& run, const LayerPrices& prices, const ModelChunk& chunk);
// The same without a copy, where all blocks of the chunk are alike; else null.
const BlockPrice* only_block(const LayerPrices& prices, const ModelChunk& chunk);

// The prices of what a chunk of `block`s runs for a micro-batch, in the order in which they are
// added up: visit(price, times, backward); `recomputed` of its blocks are.
template <class Visit>
void for_each_price(const LayerPrices& prices, const BlockPrice& block, const ModelChunk& chunk,
                    double recomputed, const Visit& visit) {
  visit(block.forward, chunk.blocks, false);
  visit(block.backward, chunk.blocks, true);
  visit(block.recompute, recomputed, true);
  for (const BlockPrice* end :
       {chunk.embedding ? &prices.embedding : nullptr, chunk.head ? &prices.head : nullptr}) {
    if (!end) continue;
    visit(end->forward, 1.0, false);
    visit(end->recompute, 1.0, true);
    visit(end->backward, 1.0, true);
  }
}

// Throws Error where the device cannot multiply in the run's formats.
LayerPrices layer_prices(const Run& run);

// The prices of a run, and its recompute policy.
struct PricedWay {
  Recompute recompute;
  const LayerPrices* prices = nullptr;
};

// The same from the prices of runs that differ only in their recompute policy, if there are any:
// passes are priced once, and so is a block that several policies have (recomputing every second
// block, every fourth, or all: one block that is not recomputed, and one that is).
// `without_experts`: of a run that differs only in where its experts are and how tokens reach them
// (ep, etp, moe_dispatch, moe_overlap, and what no price depends on), where there is one: layers
// without experts, the embedding and the LM head have the same prices.
LayerPrices layer_prices(const Run& run, std::span<const PricedWay> known,
                         const LayerPrices* without_experts = nullptr);

// The same without bytes, and without times, whatever the device.
LayerPrices layer_times(const Run& run, const LayerPrices* without_experts = nullptr);
LayerPrices layer_bytes(const Run& run);
LayerPrices layers_with_tensors(const Run& run);    // bytes, by tensor too
LayerPrices layers_with_operators(const Run& run);  // times, by operator too
// Throws Error that says what the device does multiply in where it cannot in this recipe.
void require_recipe(const Device& device, const LowPrecisionRecipe& recipe, Precision precision);

}  // namespace llmsim::sim
