// torchtitan's job configuration.
//
// Sources: pytorch/torchtitan torchtitan/config/job_config.py of 2025-08 to 2025-12 (keys, defaults),
// torchtitan/distributed/pipeline_parallel.py (pipeline_llm: layers of stages).
#include <string>
#include <utility>

#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"
#include "sim/base/number_text.h"

namespace llmsim::hwdb {
namespace {

// model.name, model.flavor and the catalogue's model.
Row titan_models() {
  Row row;
  const auto add = [&](const char* name, const char* flavor, const char* model) {
    row.cases.push_back({.file = {{"model.name", name}, {"model.flavor", flavor}},
                         .run = {{"model.catalogue", model}}});
  };
  add("llama3", "1B", "llama-3.2-1b"), add("llama3", "3B", "llama-3.2-3b");
  add("llama3", "8B", "llama-3.1-8b"), add("llama3", "8B", "llama-3-8b");
  add("llama3", "70B", "llama-3.1-70b"), add("llama3", "70B", "llama-3-70b");
  add("llama3", "405B", "llama-3.1-405b");
  add("llama4", "17bx16e", "llama-4-scout"), add("llama4", "17bx128e", "llama-4-maverick");
  add("deepseek_v3", "16B", "deepseek-v2-lite"), add("deepseek_v3", "671B", "deepseek-v3");
  for (const char* size : {"0.6B", "1.7B", "4B", "8B", "14B", "32B"}) {
    std::string name = std::string("qwen3-") + size;
    name.back() = 'b';
    row.cases.push_back({.file = {{"model.name", "qwen3"}, {"model.flavor", size}},
                         .run = {{"model.catalogue", name}}});
  }
  add("qwen3", "30B-A3B", "qwen3-30b-a3b"), add("qwen3", "235B-A22B", "qwen3-235b-a22b");
  return row;
}

const std::string kParallel = "parallelism.";

// DDP, FSDP and HSDP; the shards of FSDP are those of data and context ranks together.
Row titan_data_ranks() {
  const std::string copies = kParallel + "data_parallel_replicate_degree";
  const std::string shards = kParallel + "data_parallel_shard_degree";
  return {
      .cases = {{.file = {{copies, "$"}, {shards, "1"}},
                 .run = {{"sharding", "none"}, {"dp", "$"}},
                 .when = {{"cp", "1"}}},
                {.file = {{copies, "1"}, {shards, "-1"}},
                 .run = {{"sharding", "zero3"}},
                 .direction = Direction::Read},
                {.file = {{copies, "1"}, {shards, "$"}},
                 .run = {{"sharding", "zero3"}, {"dp_shard", "$"}, {"replicate_size", kAbsent}}},
                {.file = {{copies, "$"}, {shards, "-1"}},
                 .run = {{"sharding", "hsdp"}, {"replicate_size", "$"}},
                 .direction = Direction::Read},
                {.file = {{copies, "$"}, {shards, "$2"}},
                 .run = {{"sharding", "hsdp"}, {"replicate_size", "$"}, {"dp_shard", "$2"}}}},
      .defaults = {{copies, "1"}, {shards, "-1"}}};
}

// With pipelines the local batch is all micro-batches of a step.
std::vector<Row> titan_batch() {
  const std::string local = "training.local_batch_size", old = "training.batch_size";
  const std::string global = "training.global_batch_size";
  const std::string size = kParallel + "pipeline_parallel_microbatch_size";
  const std::vector<Term> defaults{{local, "8"}, {global, "-1"}, {size, "1"}};
  return {
      {.cases = {{.file = {{size, "$"}, {local, "$2"}, {global, "$3"}},
                  .run = {{"micro_batch", "$"}, {"replica_batch", "$2"}, {"global_batch", "$3"}},
                  .when = {{"pp", kPresent}, {"pipeline_schedule", kPresent}},
                  .direction = Direction::Write},
                 {.file = {{size, "$"}, {local, "$2"}, {global, kAnything}},
                  .run = {{"micro_batch", "$"}, {"replica_batch", "$2"}},
                  .when = {{"pipeline_schedule", kPresent}},
                  .direction = Direction::Read},
                 {.file = {{old, "$2"}, {size, "$"}, {local, kAnything}},
                  .run = {{"micro_batch", "$"}, {"replica_batch", "$2"}},
                  .when = {{"pipeline_schedule", kPresent}},
                  .direction = Direction::Read},
                 {.file = {{old, "$"}, {local, kAnything}, {size, kAnything}},
                  .run = {{"micro_batch", "$"}, {"num_microbatches", "1"}},
                  .direction = Direction::Read},
                 {.file = {{local, "$"}, {global, "-1"}, {size, kAnything}},
                  .run = {{"micro_batch", "$"}, {"num_microbatches", "1"}},
                  .direction = Direction::Read},
                 {.file = {{local, "$"}, {global, "$2"}, {size, kAnything}},
                  .run = {{"micro_batch", "$"}, {"global_batch", "$2"}}}},
       .defaults = defaults}};
}

std::vector<Row> titan_mesh() {
  const std::string degree = "_parallel_degree";
  const std::string schedule = kParallel + "pipeline_parallel_schedule";
  const std::string per_stage = kParallel + "pipeline_parallel_layers_per_stage";
  const std::string first = kParallel + "pipeline_parallel_first_stage_less_layers";
  const std::string last = kParallel + "pipeline_parallel_last_stage_less_layers";
  const auto alone = [&](const char* name, const char* word) {
    return Case{.file = {{schedule, word}},
                .run = {{"pipeline_schedule", name}, {"virtual_stages", "1"}},
                .when = {{"pp", kPresent}}};
  };
  const auto looped = [&](const char* name, const char* word) {
    return Case{.file = {{schedule, word}},
                .run = {{"pipeline_schedule", name}, {"virtual_stages", "2"}}};
  };
  return {copied(kParallel + "tensor" + degree, "tp", "1"),
          copied(kParallel + "pipeline" + degree, "pp", "1"),
          copied(kParallel + "context" + degree, "cp", "1"),
          {.cases = {{.file = {{schedule, kAnything}, {per_stage, kAnything}},
                      .run = {},
                      .when = {{"pp", "1"}}},
                     alone("1f1b", "1F1B"),
                     alone("gpipe", "GPipe"),
                     looped("interleaved", "Interleaved1F1B"),
                     looped("zb-v", "ZBVZeroBubble"),
                     {.file = {{schedule, "Interleaved1F1B"}, {per_stage, "$"}},
                      .run = {{"pipeline_schedule", "interleaved"},
                              {"weighted_layers_per_chunk", "$"}}}},
           .defaults = {{schedule, "1F1B"}}},
          {.cases = {{.file = {{first, kAnything}, {last, kAnything}},
                      .run = {},
                      .when = {{"pp", "1"}}},
                     {.file = {{first, "1"}, {last, "1"}},
                      .run = {{"embeddings_as_layers", "true"}, {"remainder", "first"}}},
                     {.file = {{first, "0"}, {last, "0"}},
                      .run = {{"embeddings_as_layers", "false"}, {"remainder", "first"}}}},
           .defaults = {{first, "1"}, {last, "1"}}},
          titan_data_ranks(),
          {.cases = {{.file = {{kParallel + "context_parallel_rotate_method", kAnything}},
                      .run = {},
                      .when = {{"cp", "1"}}},
                     {.file = {{kParallel + "context_parallel_rotate_method", "allgather"}},
                      .run = {{"cp_scheme", "all-gather"}}},
                     {.file = {{kParallel + "context_parallel_rotate_method", "alltoall"}},
                      .run = {{"cp_scheme", "ring"}}}},
           .defaults = {{kParallel + "context_parallel_rotate_method", "allgather"}}},
          flagged(kParallel + "enable_async_tensor_parallel", "tp_overlap")};
}

std::vector<Row> titan_experts() {
  const std::string tensor = kParallel + "expert_tensor_parallel_degree";
  const std::string backend = kParallel + "expert_parallel_comm_backend";
  return {
      copied(kParallel + "expert_parallel_degree", "ep", "1"),
      {.cases = {{.file = {{tensor, kAnything}}, .run = {{"etp", kAbsent}}, .when = {{"ep", "1"}}},
                 {.file = {{tensor, "1"}}, .run = {{"etp", kAbsent}}, .when = {{"tp", "1"}}},
                 {.file = {{tensor, "$"}}, .run = {{"etp", "$"}}},
                 {.file = {{tensor, "$"}}, .run = {{"tp", "$"}}, .direction = Direction::Write}},
       .defaults = {{tensor, "1"}}},
      {.cases = {{.file = {{backend, "standard"}}, .run = {{"moe_dispatch", kAbsent}}},
                 {.file = {{backend, "deepep"}}, .run = {{"moe_dispatch", "deepep"}}},
                 {.file = {{backend, "hybridep"}},
                  .run = {{"moe_dispatch", "deepep"}},
                  .direction = Direction::Read}},
       .defaults = {{backend, "standard"}}}};
}

// Number formats: converters of linear layers, and FSDP's mixed precision.
Row titan_precision() {
  const std::string converters = "model.converters", format = "training.mixed_precision_param";
  Row row{
      .cases = {{.file = {{converters, ""}, {format, "bfloat16"}}, .run = {{"precision", "bf16"}}},
                {.file = {{converters, ""}, {format, "float32"}}, .run = {{"precision", "fp32"}}}},
      .defaults = {{converters, ""}, {format, "bfloat16"}}};
  // The names of 2025-10 on are written.
  for (const auto& [word, section, direction] :
       {std::tuple{"quantize.linear.float8", "quantize.linear.float8", Direction::Both},
        std::tuple{"quantize.dense.float8", "quantize.dense.float8", Direction::Read},
        std::tuple{"float8", "float8", Direction::Read}}) {
    const std::string recipe = std::string(section) + ".recipe_name";
    for (const auto& [name, value] :
         {std::pair{"tensorwise", "current"}, std::pair{"rowwise", "rowwise"},
          std::pair{"rowwise_with_gw_hp", "rowwise-gw-hp"}})
      row.cases.push_back({.file = {{converters, word}, {recipe, name}},
                           .run = {{"precision", "fp8"}, {"fp8_recipe", value}},
                           .when = {},
                           .direction = direction});
    row.cases.push_back({.file = {{converters, word}, {recipe, "tensorwise"}},
                         .run = {{"precision", "fp8"}, {"fp8_recipe", kAbsent}},
                         .when = {},
                         .direction = direction == Direction::Both ? Direction::Write : direction});
    row.defaults.push_back({recipe, "tensorwise"});
  }
  for (const auto& [word, direction] :
       {std::pair{"quantize.linear.mx", Direction::Both},
        std::pair{"quantize.dense.mx", Direction::Read}, std::pair{"mx", Direction::Read}})
    row.cases.push_back({.file = {{converters, word}},
                         .run = {{"precision", "mxfp8"}},
                         .when = {},
                         .direction = direction});
  return row;
}

std::vector<Row> titan_number_formats() {
  const std::string gather = ".enable_fsdp_float8_all_gather";
  std::vector<Row> rows{titan_precision()};
  rows.push_back(
      {.cases = {{.file = {{"quantize.linear.float8" + gather, "true"}},
                  .run = {{"fp8_all_gather", "true"}}},
                 {.file = {{"quantize.dense.float8" + gather, "true"}},
                  .run = {{"fp8_all_gather", "true"}},
                  .direction = Direction::Read},
                 {.file = {{"float8" + gather, "true"}},
                  .run = {{"fp8_all_gather", "true"}},
                  .direction = Direction::Read},
                 {.file = {}, .run = {{"fp8_all_gather", kAbsent}}},
                 {.file = {}, .run = {{"fp8_all_gather", "false"}}, .direction = Direction::Write}},
       .defaults = {{"quantize.linear.float8" + gather, "false"},
                    {"quantize.dense.float8" + gather, "false"},
                    {"float8" + gather, "false"}}});
  rows.push_back({.cases = {{.file = {{"training.dtype", "float32"}},
                             .run = {{"weight_dtype", kAbsent}, {"state_dtype", kAbsent}}},
                            {.file = {{"training.dtype", "bfloat16"}},
                             .run = {{"weight_dtype", "bf16"},
                                     {"gradient_dtype", "bf16"},
                                     {"state_dtype", "bf16"}}}},
                  .defaults = {{"training.dtype", "float32"}}});
  rows.push_back({.cases = {{.file = {{"training.mixed_precision_reduce", "float32"}},
                             .run = {{"gradient_reduce_dtype", kAbsent}}},
                            {.file = {{"training.mixed_precision_reduce", "bfloat16"}},
                             .run = {{"gradient_reduce_dtype", "bf16"}}}},
                  .defaults = {{"training.mixed_precision_reduce", "float32"}}});
  return rows;
}

// With a budget of 0.7 or more the compiler keeps the outputs of GEMMs and of attention, which are
// 0.60 to 0.69 of what it keeps without one in dense models, and makes those of norms and of the
// activation function again.  With less it recomputes GEMMs too, which has no model here.
// Source: PyTorch torch/_functorch/partitioners.py, choose_saved_values_set.
Row titan_recompute() {
  const std::string scope = "activation_checkpoint.";
  const std::string mode = scope + "mode", option = scope + "selective_ac_option",
                    budget = scope + "memory_budget";
  Row row{.cases = {{.file = {{mode, "none"}, {option, kAnything}, {budget, kAnything}},
                     .run = {{"recompute.kind", "none"}}},
                    {.file = {{mode, "full"}, {option, kAnything}, {budget, kAnything}},
                     .run = {{"recompute.kind", "full"},
                             {"recompute.every_n", kAbsent},
                             {"recompute.blocks", kAbsent}}},
                    {.file = {{mode, "selective"}, {option, "op"}, {budget, kAnything}},
                     .run = {{"recompute.kind", "op"}}},
                    {.file = {{mode, "selective"}, {option, "$"}, {budget, kAnything}},
                     .run = {{"recompute.kind", "every_n"},
                             {"recompute.every_n", "$"},
                             {"recompute.share", kAbsent}}}},
          .defaults = {{mode, "selective"}, {option, "2"}, {budget, "0.5"}},
          .is_text = true};
  const auto add = [&](int hundredths, std::vector<Term> when, Direction direction) {
    row.cases.push_back(
        {.file = {{mode, "memory_budget"},
                  {budget, sim::shortest_text(hundredths / 100.0)},
                  {option, kAnything}},
         .run = {{"recompute.kind", "selective"}, {"recompute.modules", "layernorm+activation"}},
         .when = when,
         .direction = direction});
  };
  add(80, {{"compile", "true"}}, Direction::Write);
  for (int hundredths = 70; hundredths < 100; ++hundredths) add(hundredths, {}, Direction::Read);
  return row;
}

std::vector<Row> titan_memory() {
  return {titan_recompute(),
          {.cases = {{.file = {{"training.enable_cpu_offload", "true"}},
                      .run = {{"offload.parameters", "true"}, {"offload.optimizer", "true"}}},
                     {.file = {},
                      .run = {{"offload.parameters", "false"}, {"offload.optimizer", "false"}}}},
           .defaults = {{"training.enable_cpu_offload", "false"}}},
          {.cases = {{.file = {{kParallel + "fsdp_reshard_after_forward", "default"}},
                      .run = {{"reshard_after_forward", kAbsent}}},
                     {.file = {{kParallel + "fsdp_reshard_after_forward", "always"}},
                      .run = {{"reshard_after_forward", "true"}}},
                     {.file = {{kParallel + "fsdp_reshard_after_forward", "never"}},
                      .run = {{"reshard_after_forward", "false"}}}},
           .defaults = {{kParallel + "fsdp_reshard_after_forward", "default"}}}};
}

std::vector<Row> titan_program() {
  const std::string implementation = "optimizer.implementation";
  return {
      {.cases = {{.file = {{"compile.enable", "true"}, {"training.compile", kAnything}},
                  .run = {{"compile", "true"}}},
                 {.file = {{"training.compile", "true"}, {"compile.enable", kAnything}},
                  .run = {{"compile", "true"}},
                  .direction = Direction::Read},
                 {.file = {}, .run = {{"compile", "false"}}}},
       .defaults = {{"compile.enable", "false"}, {"training.compile", "false"}}},
      {.cases = {{.file = {{"optimizer.name", "AdamW"}}, .run = {{"optimizer", "adamw"}}},
                 {.file = {{"optimizer.name", "Adam"}}, .run = {{"optimizer", "adam"}}},
                 {.file = {{"optimizer.name", "Muon"}}, .run = {{"optimizer", "muon"}}}},
       .defaults = {{"optimizer.name", "AdamW"}}},
      {.cases = {{.file = {{implementation, "fused"}}, .run = {{"fused_optimizer", kAbsent}}},
                 {.file = {{implementation, "fused"}}, .run = {{"fused_optimizer", "true"}}},
                 {.file = {{implementation, "foreach"}}, .run = {{"fused_optimizer", "false"}}},
                 {.file = {{implementation, "for-loop"}},
                  .run = {{"fused_optimizer", "false"}},
                  .direction = Direction::Read}},
       .defaults = {{implementation, "fused"}}},
      stated_flag("optimizer.early_step_in_backward", "optimizer_in_backward", "true"),
      {.cases = {{.file = {{"debug.deterministic", "true"}}, .run = {{"deterministic", "true"}}},
                 {.file = {{"training.deterministic", "true"}},
                  .run = {{"deterministic", "true"}},
                  .direction = Direction::Read},
                 {.file = {}, .run = {{"deterministic", kAbsent}}}},
       .defaults = {{"debug.deterministic", "false"}, {"training.deterministic", "false"}}}};
}

const std::vector<Row>& titan_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows{titan_models(), copied("training.seq_len", "model.seq_len", "2048")};
    for (const auto& part : {titan_mesh, titan_experts, titan_batch, titan_number_formats,
                             titan_memory, titan_program}) {
      for (Row& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

std::string titan_text(const sim::Run& run, const std::vector<LaunchEntry>& entries) {
  std::vector<LaunchEntry> all = entries;
  for (LaunchEntry& entry : all) {
    if (entry.key == "model.converters")
      entry.value = entry.value.empty() ? "[]" : "[\"" + entry.value + "\"]";
  }
  return toml_text(all, {"torchtitan: " + run.model.name + " on " +
                             std::to_string(run.strategy.num_devices()) + " devices.",
                         "Data, tokenizer, learning rate, steps and checkpoints are yours."});
}

}  // namespace

LaunchTarget torchtitan_target() {
  return {.name = "torchtitan",
          .frameworks = {"torchtitan"},
          .file_name = "torchtitan.toml",
          .rows = titan_rows,
          .harmless = {"job.*",
                       "profiling.*",
                       "metrics.*",
                       "checkpoint.*",
                       "lr_scheduler.*",
                       "validation.*",
                       "comm.*",
                       "memory_estimation.*",
                       "experimental.*",
                       "fault_tolerance.*",
                       "model.tokenizer_path",
                       "model.hf_assets_path",
                       "model.print_after_conversion",
                       "optimizer.lr",
                       "optimizer.eps",
                       "optimizer.beta1",
                       "optimizer.beta2",
                       "optimizer.weight_decay",
                       "training.max_norm",
                       "training.steps",
                       "training.dataset",
                       "training.dataset_path",
                       "training.seed",
                       "training.gc_freq",
                       "training.gc_debug",
                       "debug.seed",
                       "compile.components",
                       "compile.backend",
                       "activation_checkpoint.per_op_sac_*",
                       "activation_checkpoint.early_stop",
                       "float8.filter_fqns",
                       "float8.precompute_float8_dynamic_scale_for_fsdp",
                       "float8.force_recompute_fp8_weight_in_bwd",
                       "quantize.linear.*.filter_fqns",
                       "quantize.*",
                       "mx.*",
                       "float8.moe_fqns_prototype"},
          .unmodelled = {{"parallelism.enable_compiled_autograd", "false"},
                         {"parallelism.disable_loss_parallel", "false"},
                         {"parallelism.pipeline_parallel_split_points", ""},
                         {"parallelism.module_fqns_per_model_part", ""},
                         {"parallelism.pipeline_parallel_schedule_csv", ""},
                         {"float8.emulate", "false"}},
          .parsed = parsed_toml,
          .written = titan_text,
          .beginnings = {"model.flavor", "parallelism.data_parallel_shard_degree"},
          .command = [](const std::string&) -> std::string {
            return "torchrun -m torchtitan.train --job.config_file torchtitan.toml \"$@\"";
          }};
}

}  // namespace llmsim::hwdb
