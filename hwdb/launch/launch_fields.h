// A run as flat values, by the keys of run files: "tp", "recompute.kind",
// "model.num_layers", settings by their own keys; and the values below, which targets state
// and which follow from these.
//
//   model.catalogue     name of the catalogue's model with the same fields but seq_len
//   model.linear_layers which layers have linear attention, as Megatron writes it: "4"
//   model.moe.shared_width      num_shared_experts * shared_expert_ffn_size
//   model.layer_pattern a letter for each layer
//   model.moe.layers    Megatron's pattern of layers with experts: "1", "2", "([0]*3+[1]*58)"
//   model.lora.rank, model.lora.targets     of adapters: "q+v"
//   num_microbatches    global_batch / (dp * micro_batch)
//   replica_batch       global_batch / dp
//   device_batch        micro_batch * dp / number of devices
//   fsdp_inside, fsdp_across, data_inside, data_across    axes of a JAX program's mesh, inside of a
//                       slice (of a node, on GPUs) and across them: ranks that share one copy,
//                       without context and expert ranks, and copies; in a file -1: what is left
//   shards_states       whether optimizer states are divided over the axis data
//   dp_shard            data ranks that share one copy, without context ranks
//   replicate_size      dp * cp / shard_size
//   devices_per_node, num_devices, num_nodes, framework
//   scaling             of fp8, also where no setting states a recipe (written only)
//   attention_kernel    also where no setting states it: what the framework has of itself
//   transport, collective_algorithm, vendor, accelerator     of the cluster (written only)
//   regathers           whether sharded weights are gathered again in the backward pass
//   layers_per_chunk    num_layers / (pp * virtual_stages)
//   weighted_layers_per_chunk   the same rounded up, with embedding and LM head where they count,
//                       where so many chunks of this number hold all
//   rounds              of as many micro-batches as stages: none, whole (micro-batches divide into
//                       them), parts
//   lone_head           whether the last chunk has fewer layers than multi-token prediction
//   remainder           "first": the first chunks take the layers left over by an even split;
//                       "elsewhere": others do, or layers are divided by hand
//   stage_layout        Megatron's pipeline layout, where the chunks have unequal numbers of layers
//   first_stage_layers, last_stage_layers       layers of the stages at the ends (read only)
//   model.overridden    sizes that stand with the model's name replace its own (read only)
//   remat.q, remat.core_attn, ...     what recomputation by operator does with each output: remat,
//                       device, offload (read only)
//   chunk_group         micro-batches that go through one model chunk before the next (read only)
//   model.gate_and_up   width of a gated MLP's gate and values together (read only)
//   model.vocab_divisor what the vocabulary is padded to a multiple of (read only)
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/launch/launch_table.h"
#include "sim/run.h"

namespace llmsim::hwdb {

// What a run has a value of.
LaunchValues fields_of(const sim::Run& run);

// Of these, what no layout changes (model, settings, adapters, cluster), worked out once for many
// runs that differ in their strategies; and these with those of one run.
LaunchValues fields_without_layout(const sim::Run& run);
LaunchValues fields_with_layout(const sim::Run& run, LaunchValues without_layout);

// What a strategy states.
LaunchValues stated_fields(const sim::Strategy& strategy);

// Whether a search chooses a field, or what it follows from.
bool is_of_layout(const std::string& key);

// Whether a run may have a value of this name, or a file may say one.
bool is_launch_field(const std::string& key);

// The first field in which two runs differ, as "training.tp = 8": model, strategy, behaviour of the
// framework.  Fields with the same meaning are equal: shared experts as one or
// several, an even split of layers stated by hand or not, Adam and AdamW.
// What no cost depends on is no difference.
std::optional<std::string> first_difference(const sim::Run& run, const sim::Run& other);

// Of that, what `run` knows and `other` has otherwise or not, as "model.rope.base = 10000".
std::vector<std::string> unsaid_fields(const sim::Run& run, const sim::Run& other);

}  // namespace llmsim::hwdb
