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

// The first broken rule, or none.  It checks, in this order, that
//
//   - sizes are in range, and dp * tp * pp * cp = devices;
//   - tp divides the heads, ffn_size and (with sequence parallelism) the tokens of a micro-batch;
//   - pp * virtual_stages <= layers, and stage_layers, where given, has a number for each stage or
//     chunk and adds up to the layers;
//   - interleaving has at least pp micro-batches and two model chunks a stage, gpipe and 1f1b one;
//   - schedules that split backward passes have pp > 1, zb-v, v-half and v-min two model chunks a
//     stage, zb-h1 and dualpipe one; dualpipe has an even pp and an even number of at least 2 pp
//     micro-batches;
//   - dp * micro_batch divides the global batch, and shard_size divides dp * cp;
//   - cp divides the sequence (2 cp does in the balanced order), cp * tp divides the heads under
//     Ulysses' all-to-all, and context parallelism has flash attention; under all-to-all+ring
//     cp_inner divides cp, and cp_inner * tp the heads and the key/value heads (TransformerEngine's
//     all-to-all sends no key to several ranks: flash_attn_a2a_communicate of pytorch/attention/
//     dot_product_attention/context_parallel.py @d0067d0da);
//   - in an MoE model tp divides the width of an expert, and ep divides the experts, dp * cp and
//     (Hsdp) shard_size; with stages between data ranks (MeshOrder::DataLast) etp * ep = tp * cp,
//     because experts have the same stages as everything else.
std::optional<Infeasible> broken_rule(const Transformer& model, const Strategy& strategy,
                                      const Cluster& cluster);

// What would make dp * tp * pp * cp equal `devices`: "; dp = 4 would fit", or the nearest values of
// tp * pp * cp that divide them, and which frameworks change such a mesh by themselves.  All sizes
// must be positive.
std::string mesh_advice(const Strategy& strategy, int devices);

// Same verdict without building messages: for searches that meet millions.  Returns the rule's
// name, or null.
const char* broken_rule_name(const Transformer& model, const Strategy& strategy, int num_devices);

}  // namespace llmsim::sim
