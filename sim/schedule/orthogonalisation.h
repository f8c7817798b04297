// Time of Muon's orthogonalisation in a step: that of the rank with most of it.
//
// n ranks share the optimizer states (1 where nothing is sharded).  Then
//
//   n = 1          every data rank has whole matrices and makes all of them orthogonal
//   ZeRO-1 and 2   whole matrices are shared out (operators/newton_schulz.h), those of every chunk
//                  of the model by themselves, routed experts over their own ranks; their updated
//                  values are gathered as sharded weights are anyway
//   ZeRO-3, HSDP   each rank has a shard of every matrix.  Of V values on a tensor rank, of which
//                  the busiest rank makes v orthogonal, shards go to their owner and come back in
//                  fp32 while others are at work,
//                    t = max(GEMMs, 2 all_to_all(4 max(V / n, v) bytes))
//                  or all ranks gather momentum, update and new momentum in the format of
//                  gradients, and wait for it (UpdateBehaviour::gathers_momentum)
//                    t = GEMMs + 3 all_gather(V values)
//
// GEMMs run at the device's sustained clock and the framework's efficiency; collectives of tensor
// ranks are exposed.
//
// Assumptions: no time for elementwise kernels, norms and launches of small matrices; the busiest
// ranks of all chunks are one rank; ranks of torchtitan's owners do not wait for one another
// between its buckets.  Where the optimizer is offloaded, the device multiplies all the same.
//
// Sources: NVIDIA/Megatron-LM @d98e8a6 megatron/core/optimizer/layer_wise_optimizer.py
// (_compute_per_buffer_param_layout, of each model chunk) and megatron/training/training.py
// (reduce-scatter and all-gather of its buffers); pytorch/torchtitan @b5bcd76
// torchtitan/distributed/flex_shard/dist_muon.py (_assign_balanced_owner_ranks);
// deepspeedai/DeepSpeed @edaa722 deepspeed/runtime/zero/stage3.py, where
// _apply_distributed_muon_update gathers three times.
#pragma once

#include <vector>

#include "sim/memory/shards.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// Of layers of these kinds, all on one stage; 0 for other optimizers, and under adapters.
Seconds orthogonalisation_time(const Run& run, const LayerCounts& of_kind);

// Of each kind of chunk.
std::vector<Seconds> orthogonalisation_times(const Run& run, const EqualStages& stages);

}  // namespace llmsim::sim
