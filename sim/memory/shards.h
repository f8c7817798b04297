// How many parameters of each part of the model one rank holds, and in how many bytes.
#pragma once

#include <vector>

#include "sim/model/parameters.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// Parameters on one tensor rank, before data-parallel sharding.  Matrices are divided by tensor_parallel; norms and positions are
// replicated.
struct RankParameters {
  double block = 0.0;           // one block
  double embedding = 0.0;       // table and positions, or a tied copy of it
  double head = 0.0;            // output projection and final norm; of a tied model the copy that a separate last stage holds
  double block_adapters = 0.0;  // trained values of one block under adapters
};

RankParameters rank_parameters(const Transformer& model, const Strategy& strategy);

// Parameters of one model part.  A tied head on the embedding's own part is no second copy.
double part_parameters(const RankParameters& parameters, const ModelPart& part, bool tied);

// Bytes per parameter of a run: the stack's storage, overridden by recipes that leave no choice (fp32: 4-byte weights and
// gradients, no master copy; frozen 4-bit weights: 0.56 bytes with their block scales).
ParameterStorage storage_of(const Strategy& strategy, const Stack& stack);

// Blocks between two checkpoints of full recomputation.
double checkpoint_spacing(const Strategy& strategy, const Stack& stack);

// Whether the tensor ranks divide stored block inputs that they all have.
bool divides_checkpoints(const Strategy& strategy, const Stack& stack);

// Checkpoints of one micro-batch that a rank stores for each block, in inputs of a block.
double stored_inputs_per_block(const Strategy& strategy, const Stack& stack);

}  // namespace llmsim::sim
