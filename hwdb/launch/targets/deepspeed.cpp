// DeepSpeed's configuration.
//
// Sources: deepspeedai/DeepSpeed docs/_pages/config-json.md and deepspeed/runtime/zero/config.py
// (keys, defaults: overlap_comm is on under stage 3), huggingface/transformers (the value "auto").
#include <string>
#include <utility>

#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {
namespace {

const std::string kZero = "zero_optimization.";

// A key that may leave its value to the trainer ("auto") or be absent.
Row or_auto(const std::string& key, const std::string& field) {
  return {.cases = {{.file = {{key, "auto"}}, .run = {}, .when = {}, .direction = Direction::Read},
                    {.file = {{key, "$"}}, .run = {{field, "$"}}},
                    {.file = {}, .run = {{field, kAbsent}}}}};
}

std::vector<Row> deepspeed_layout() {
  const std::string stage = kZero + "stage", group = kZero + "mics_shard_size";
  return {
      or_auto("train_micro_batch_size_per_gpu", "micro_batch"),
      or_auto("gradient_accumulation_steps", "num_microbatches"),
      or_auto("train_batch_size", "global_batch"),
      copied("tensor_parallel.autotp_size", "tp", "1"),
      copied("sequence_parallel_size", "cp", "1"),
      {.cases = {{.file = {{stage, "0"}}, .run = {{"sharding", "none"}}},
                 {.file = {{stage, "1"}}, .run = {{"sharding", "zero1"}, {"shard_size", kAbsent}}},
                 {.file = {{stage, "2"}}, .run = {{"sharding", "zero2"}, {"shard_size", kAbsent}}},
                 {.file = {{stage, "3"}}, .run = {{"sharding", "zero3"}, {"shard_size", kAbsent}}},
                 {.file = {{stage, "3"}, {group, "$"}},
                  .run = {{"sharding", "hsdp"}, {"shard_size", "$"}}}},
       .defaults = {{stage, "0"}, {group, "-1"}}}};
}

std::vector<Row> deepspeed_overlap() {
  const std::string overlap = kZero + "overlap_comm";
  const auto both = [&](const char* on, Direction direction) {
    return Case{.file = {{overlap, on}},
                .run = {{"gradient_overlap", on}, {"gather_overlap", on}},
                .when = {{"sharding", "zero3"}},
                .direction = direction};
  };
  Case silent = both("true", Direction::Read);
  silent.file.clear();
  return {
      {.cases = {both("true", Direction::Both),
                 both("false", Direction::Both),
                 silent,
                 {.file = {{overlap, "auto"}}, .run = {}, .when = {}, .direction = Direction::Read},
                 {.file = {{overlap, "$"}}, .run = {{"gradient_overlap", "$"}}},
                 {.file = {},
                  .run = {{"gradient_overlap", "false"}},
                  .when = {},
                  .direction = Direction::Read}}}};
}

std::vector<Row> deepspeed_precision() {
  const std::string bf16 = "bf16.enabled", fp16 = "fp16.enabled",
                    reduce = "communication_data_type";
  return {
      {.cases = {{.file = {{bf16, "true"}, {fp16, kAnything}}, .run = {{"precision", "bf16"}}},
                 {.file = {{fp16, "true"}, {bf16, kAnything}}, .run = {{"precision", "fp16"}}},
                 {.file = {{bf16, "auto"}, {fp16, kAnything}},
                  .run = {},
                  .direction = Direction::Read},
                 {.file = {{fp16, "auto"}}, .run = {}, .when = {}, .direction = Direction::Read},
                 {.file = {}, .run = {{"precision", "fp32"}}}},
       .defaults = {{bf16, "false"}, {fp16, "false"}}},
      or_auto(reduce, "gradient_reduce_dtype"),
      {.cases = {{.file = {{"optimizer.type", "AdamW"}}, .run = {{"optimizer", "adamw"}}},
                 {.file = {{"optimizer.type", "Adam"}}, .run = {{"optimizer", "adam"}}},
                 {.file = {{"optimizer.type", "Lion"}}, .run = {{"optimizer", "lion"}}},
                 {.file = {{"optimizer.type", "Lamb"}}, .run = {{"optimizer", "lamb"}}},
                 {.file = {{"optimizer.type", "SGD"}}, .run = {{"optimizer", "sgd"}}},
                 {.file = {{"optimizer.type", "Muon"}}, .run = {{"optimizer", "muon"}}}}},
      {.cases = {{.file = {{"gradient_clipping", "0.0"}}, .run = {{"gradient_clip", "false"}}},
                 {.file = {{"gradient_clipping", "1.0"}},
                  .run = {{"gradient_clip", kAbsent}},
                  .direction = Direction::Write},
                 {.file = {{"gradient_clipping", kAnything}},
                  .run = {},
                  .when = {},
                  .direction = Direction::Read}}}};
}

std::vector<Row> deepspeed_memory() {
  const auto on_host = [](const std::string& key, const std::string& field) {
    return Row{.cases = {{.file = {{key, "cpu"}}, .run = {{field, "true"}}},
                         {.file = {}, .run = {{field, "false"}}}},
               .defaults = {{key, "none"}}};
  };
  return {on_host(kZero + "offload_optimizer.device", "offload.optimizer"),
          on_host(kZero + "offload_param.device", "offload.parameters"),
          or_auto(kZero + "reduce_bucket_size", "reduce_bucket_size"),
          or_auto(kZero + "stage3_max_live_parameters", "max_live_parameters"),
          stated_flag("activation_checkpointing.partition_activations", "partition_activations",
                      "true"),
          flagged("activation_checkpointing.cpu_checkpointing", "offload.activations")};
}

const std::vector<Row>& deepspeed_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (const auto& part :
         {deepspeed_layout, deepspeed_overlap, deepspeed_precision, deepspeed_memory}) {
      for (Row& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

std::string deepspeed_text(const sim::Run&, const std::vector<LaunchEntry>& entries) {
  return json_text(entries);
}

}  // namespace

LaunchTarget deepspeed_target() {
  return {.name = "deepspeed",
          .frameworks = {"deepspeed", "hf-trainer-deepspeed"},
          .file_name = "deepspeed.json",
          .rows = deepspeed_rows,
          .harmless = {"optimizer.params.*",
                       "scheduler.*",
                       "steps_per_print",
                       "wall_clock_breakdown",
                       "dump_state",
                       "tensorboard.*",
                       "wandb.*",
                       "csv_monitor.*",
                       "comet.*",
                       "flops_profiler.*",
                       "comms_logger.*",
                       "checkpoint.*",
                       "data_types.checkpoint",
                       "fp16.*",
                       "bf16.*",
                       "seed",
                       "zero_allow_untested_optimizer",
                       "zero_force_ds_cpu_optimizer",
                       "prescale_gradients",
                       "zero_optimization.contiguous_gradients",
                       "zero_optimization.reduce_scatter",
                       "zero_optimization.allgather_partitions",
                       "zero_optimization.allgather_bucket_size",
                       "zero_optimization.sub_group_size",
                       "zero_optimization.stage3_prefetch_bucket_size",
                       "zero_optimization.stage3_param_persistence_threshold",
                       "zero_optimization.stage3_max_reuse_distance",
                       "zero_optimization.stage3_gather_16bit_weights_on_model_save",
                       "zero_optimization.gather_16bit_weights_on_model_save",
                       "zero_optimization.round_robin_gradients",
                       "zero_optimization.ignore_unused_parameters",
                       "zero_optimization.memory_efficient_linear",
                       "zero_optimization.offload_optimizer.*",
                       "zero_optimization.offload_param.*",
                       "zero_optimization.load_from_fp32_weights",
                       "zero_optimization.elastic_checkpoint",
                       "activation_checkpointing.*",
                       "expert_parallel.preset_model",
                       "expert_parallel.load_balance_coeff",
                       "data_efficiency.*",
                       "autotuning.*"},
          .unmodelled = {{"zero_optimization.zero_hpz_partition_size", "1"},
                         {"zero_optimization.zero_quantized_weights", "false"},
                         {"zero_optimization.zero_quantized_gradients", "false"},
                         {"zero_optimization.cpu_offload", "false"},
                         {"expert_parallel.enabled", "false"},
                         {"expert_parallel.autoep_size", "1"},
                         {"amp.enabled", "false"},
                         {"compile.deepcompile", "false"},
                         {"data_types.grad_accum_dtype", "auto"},
                         {"hybrid_engine.enabled", "false"},
                         {"sparse_attention.mode", "dense"}},
          .parsed = parsed_json,
          .written = deepspeed_text,
          .beginnings = {"zero_optimization.stage", "train_micro_batch_size_per_gpu",
                         "train_batch_size"},
          .names_model = false,
          .command = [](const std::string& framework) -> std::string {
            return framework == "deepspeed"
                       ? "torchrun \"$@\" --deepspeed --deepspeed_config deepspeed.json"
                       : "torchrun \"$@\" --deepspeed deepspeed.json";
          }};
}

}  // namespace llmsim::hwdb
