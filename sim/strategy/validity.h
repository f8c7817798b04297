// Which strategies can run at all: the rules of the mesh, the model and the batch.
//
// A request that breaks a rule is an answer, not an exception: it names the rule, the numbers, and
// the nearest values that work.
#pragma once

#include <optional>
#include <string>

#include "sim/hardware/cluster.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// A request that cannot run, with the rule it breaks.
struct Infeasible {
  std::string rule;     // short and stable: "out of memory", "tp does not divide num_heads"
  std::string message;  // with the numbers: needed, available, nearest values that work
};

// The first broken rule, or none.  Checks, in this order: sizes in range; dp * tp * pp * cp =
// devices; tp divides heads, ffn_size and (with sequence parallelism) tokens; pp * virtual stages
// <= layers; interleaving needs at least pp micro-batches and two chunks a stage, gpipe and 1f1b
// have one; stage_layers has pp numbers that add up to the layers; zb-h1, zb-v and dualpipe need pp
// > 1, and two parts of the model a stage (zb-v) or one; dualpipe an even pp and an even number of
// at least 2 pp micro-batches; dp * micro_batch divides the global batch; shard_size divides dp *
// cp; cp divides the sequence (2 cp in the balanced order), and with all-to-all cp * tp divides the
// heads; context parallelism has flash attention; of an MoE model tp divides the width of an
// expert, and ep the experts, dp * cp and (Hsdp) shard_size; with stages between data ranks
// (MeshOrder::DataLast) etp * ep = tp * cp, because the stages of experts are those of all else.
std::optional<Infeasible> broken_rule(const Transformer& model, const Strategy& strategy,
                                      const Cluster& cluster);

// What would make the mesh multiply to `devices`: "; dp = 4 would fit", or the nearest GEMMs, and
// the frameworks that would change the mesh by themselves.  All sizes must be positive.
std::string mesh_advice(const Strategy& strategy, int devices);

// Same verdict without building messages: for searches that meet millions.  Returns the rule's
// name, or null.
const char* broken_rule_name(const Transformer& model, const Strategy& strategy, int num_devices);

}  // namespace llmsim::sim
