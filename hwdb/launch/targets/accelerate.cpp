// A configuration of Hugging Face Accelerate, with FSDP or DDP.
//
// Sources: huggingface/accelerate src/accelerate/utils/dataclasses.py
// (FullyShardedDataParallelPlugin: keys, defaults), examples and tests with configurations.
#include <string>
#include <utility>

#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {
namespace {

const std::string kFsdp = "fsdp_config.";
const std::string kMesh = "parallelism_config.parallelism_config_";

Row accelerate_sharding() {
  const std::string type = "distributed_type", strategy = kFsdp + "fsdp_sharding_strategy";
  const std::string copies = kMesh + "dp_replicate_size", shards = kMesh + "dp_shard_size";
  const Term whole{"replicate_size", kAbsent};
  const auto fsdp = [&](const char* word, const char* sharding, std::vector<Term> when,
                        Direction direction) {
    return Case{.file = {{type, "FSDP"}, {strategy, word}, {shards, kAnything}},
                .run = {{"sharding", sharding}, whole},
                .when = std::move(when),
                .direction = direction};
  };
  // SHARD_GRAD_OP resolves to sharded weights that are gathered once (regathers = false).
  const auto gathers_once = [&](const char* framework) {
    return fsdp(
        "SHARD_GRAD_OP", "zero3",
        {{"regathers", "false"}, {"reshard_after_forward", kAbsent}, {"framework", framework}},
        Direction::Write);
  };
  return {.cases = {{.file = {{type, "MULTI_GPU"}}, .run = {{"sharding", "none"}}},
                    {.file = {{type, "NO"}},
                     .run = {{"sharding", "none"}},
                     .direction = Direction::Read},
                    {.file = {{type, "FSDP"}, {shards, kAnything}, {strategy, "NO_SHARD"}},
                     .run = {{"sharding", "none"}},
                     .direction = Direction::Read},
                    gathers_once("fsdp1"),
                    gathers_once("hf-trainer-fsdp"),
                    fsdp("FULL_SHARD", "zero3", {}, Direction::Both),
                    fsdp("SHARD_GRAD_OP", "zero2", {}, Direction::Read),
                    fsdp("HYBRID_SHARD", "hsdp", {}, Direction::Read),
                    {.file = {{type, "FSDP"}, {copies, "$"}, {shards, "$2"}, {strategy, kAnything}},
                     .run = {{"sharding", "hsdp"}, {"replicate_size", "$"}, {"dp_shard", "$2"}}}},
          .defaults = {{strategy, "FULL_SHARD"}, {copies, "1"}}};
}

std::vector<Row> accelerate_mesh() {
  const std::string version = kFsdp + "fsdp_version";
  return {
      {.cases = {{.file = {{version, "2"}}, .run = {{"framework", "fsdp2"}}},
                 {.file = {{version, "1"}}, .run = {{"framework", "hf-trainer-fsdp"}}, .when = {}},
                 {.file = {{version, "1"}},
                  .run = {{"framework", "fsdp1"}},
                  .when = {},
                  .direction = Direction::Write}},
       .defaults = {{version, "1"}}},
      copied("num_processes", "num_devices"),
      copied(kMesh + "tp_size", "tp", "1"),
      copied(kMesh + "cp_size", "cp", "1"),
      accelerate_sharding(),
      {.cases = {
           {.file = {{"gradient_accumulation_steps", "$"}}, .run = {{"num_microbatches", "$"}}}}}};
}

std::vector<Row> accelerate_program() {
  const std::string reshard = kFsdp + "fsdp_reshard_after_forward";
  return {{.cases = {{.file = {{"mixed_precision", "bf16"}}, .run = {{"precision", "bf16"}}},
                     {.file = {{"mixed_precision", "fp16"}}, .run = {{"precision", "fp16"}}},
                     {.file = {{"mixed_precision", "no"}}, .run = {{"precision", "fp32"}}}}},
          {.cases = {{.file = {{kFsdp + "fsdp_activation_checkpointing", "true"}},
                      .run = {{"recompute.kind", "full"},
                              {"recompute.every_n", kAbsent},
                              {"recompute.blocks", kAbsent}}},
                     {.file = {}, .run = {{"recompute.kind", "none"}}}},
           .defaults = {{kFsdp + "fsdp_activation_checkpointing", "false"}}},
          {.cases = {{.file = {{kFsdp + "fsdp_offload_params", "true"}},
                      .run = {{"offload.parameters", "true"}, {"offload.optimizer", "true"}}},
                     {.file = {},
                      .run = {{"offload.parameters", "false"}, {"offload.optimizer", "false"}}}},
           .defaults = {{kFsdp + "fsdp_offload_params", "false"}}},
          {.cases = {{.file = {}, .run = {{"reshard_after_forward", kAbsent}}},
                     {.file = {{reshard, "true"}}, .run = {{"reshard_after_forward", "true"}}},
                     {.file = {{reshard, "false"}}, .run = {{"reshard_after_forward", "false"}}}}},
          {.cases = {{.file = {{"dynamo_config.dynamo_backend", "INDUCTOR"}},
                      .run = {{"compile", "true"}}},
                     {.file = {}, .run = {{"compile", "false"}}}},
           .defaults = {{"dynamo_config.dynamo_backend", "NO"}}}};
}

const std::vector<Row>& accelerate_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (const auto& part : {accelerate_mesh, accelerate_program}) {
      for (Row& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

std::string accelerate_text(const sim::Run& run, const std::vector<LaunchEntry>& entries) {
  return yaml_text(entries,
                   {"Accelerate: " + run.model.name + " on " +
                        std::to_string(run.strategy.num_devices()) + " devices.",
                    "The model, its adapters, sequences of a micro-batch, data and learning rate "
                    "are the program's."});
}

}  // namespace

LaunchTarget accelerate_target() {
  return {.name = "accelerate",
          .frameworks = {"hf-trainer-fsdp", "fsdp1", "fsdp2"},
          .file_name = "accelerate.yaml",
          .rows = accelerate_rows,
          .harmless = {"compute_environment",
                       "debug",
                       "downcast_bf16",
                       "enable_cpu_affinity",
                       "machine_rank",
                       "main_training_function",
                       "main_process_ip",
                       "main_process_port",
                       "num_machines",
                       "rdzv_backend",
                       "same_network",
                       "tpu_*",
                       "use_cpu",
                       "gpu_ids",
                       "fsdp_config.fsdp_auto_wrap_policy",
                       "fsdp_config.fsdp_backward_prefetch",
                       "fsdp_config.fsdp_forward_prefetch",
                       "fsdp_config.fsdp_cpu_ram_efficient_loading",
                       "fsdp_config.fsdp_state_dict_type",
                       "fsdp_config.fsdp_sync_module_states",
                       "fsdp_config.fsdp_use_orig_params",
                       "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
                       "fsdp_config.fsdp_backward_prefetch_policy",
                       "dynamo_config.dynamo_mode",
                       "dynamo_config.dynamo_use_*",
                       "commands",
                       "command_file"},
          .unmodelled = {{"fsdp_config.fsdp_min_num_params", "0"},
                         {"dynamo_backend", "NO"},
                         {"fp8_config.backend", ""}},
          .parsed = parsed_yaml,
          .written = accelerate_text,
          .beginnings = {"distributed_type", "fsdp_config.fsdp_version"},
          .names_model = false,
          .left_to_program = {"micro_batch", "global_batch", "optimizer"},
          .command = [](const std::string&) -> std::string {
            return "accelerate launch --config_file accelerate.yaml --num_machines $PET_NNODES "
                   "--machine_rank $NODE_RANK --main_process_ip $HEAD_NODE "
                   "--main_process_port $PORT \"$@\"";
          }};
}

}  // namespace llmsim::hwdb
