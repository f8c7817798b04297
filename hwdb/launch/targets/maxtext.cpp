// A configuration of MaxText, on top of its base.yml.
//
// Sources: AI-Hypercomputer/maxtext src/maxtext/configs/base.yml (keys, defaults, mesh axes,
// logical_axis_rules: weights are divided over fsdp, context and expert), configs/models (names),
// layers/decoders.py (get_remat_policy), max_utils.py (initialize_jax_for_gpu).
#include <iterator>
#include <string>
#include <utility>

#include "hwdb/launch/command_line.h"
#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {
namespace {

const Term kNoName{"model.catalogue", kAbsent};

// model_name and the catalogue's model.
Row maxtext_models() {
  Row row{.cases = {}, .defaults = {{"model_name", "default"}}};
  for (const auto& [name, model] : {std::pair{"llama2-7b", "llama-2-7b"},
                                    std::pair{"llama2-13b", "llama-2-13b"},
                                    std::pair{"llama2-70b", "llama-2-70b"},
                                    std::pair{"llama3-8b", "llama-3-8b"},
                                    std::pair{"llama3-70b", "llama-3-70b"},
                                    std::pair{"llama3.1-8b", "llama-3.1-8b"},
                                    std::pair{"llama3.1-70b", "llama-3.1-70b"},
                                    std::pair{"llama3.3-70b", "llama-3.1-70b"},
                                    std::pair{"llama3.1-405b", "llama-3.1-405b"},
                                    std::pair{"mistral-7b", "mistral-7b"},
                                    std::pair{"mixtral-8x7b", "mixtral-8x7b"},
                                    std::pair{"mixtral-8x22b", "mixtral-8x22b"},
                                    std::pair{"gemma-2b", "gemma-2b"},
                                    std::pair{"gemma-7b", "gemma-7b"},
                                    std::pair{"gemma2-2b", "gemma-2-2b"},
                                    std::pair{"gemma2-9b", "gemma-2-9b"},
                                    std::pair{"gemma2-27b", "gemma-2-27b"},
                                    std::pair{"gemma3-4b", "gemma-3-4b"},
                                    std::pair{"gemma3-12b", "gemma-3-12b"},
                                    std::pair{"gemma3-27b", "gemma-3-27b"},
                                    std::pair{"qwen3-0.6b", "qwen3-0.6b"},
                                    std::pair{"qwen3-1.7b", "qwen3-1.7b"},
                                    std::pair{"qwen3-4b", "qwen3-4b"},
                                    std::pair{"qwen3-8b", "qwen3-8b"},
                                    std::pair{"qwen3-14b", "qwen3-14b"},
                                    std::pair{"qwen3-32b", "qwen3-32b"},
                                    std::pair{"qwen3-30b-a3b", "qwen3-30b-a3b"},
                                    std::pair{"qwen3-235b-a22b", "qwen3-235b-a22b"},
                                    std::pair{"gpt-oss-20b", "gpt-oss-20b"},
                                    std::pair{"gpt-oss-120b", "gpt-oss-120b"},
                                    std::pair{"llama4-17b-16e", "llama-4-scout"},
                                    std::pair{"llama4-17b-128e", "llama-4-maverick"},
                                    std::pair{"deepseek2-16b", "deepseek-v2-lite"},
                                    std::pair{"deepseek2-236b", "deepseek-v2"},
                                    std::pair{"deepseek3-671b", "deepseek-v3"},
                                    std::pair{"kimi-k2-1t", "kimi-k2"}})
    row.cases.push_back({.file = {{"model_name", name}}, .run = {{"model.catalogue", model}}});
  row.cases.push_back({.file = {{"model_name", "default"}}, .run = {kNoName}});
  return row;
}

// The shape of a model without a name: layers as Llama's, with sizes of their own.
std::vector<Row> maxtext_shape() {
  const auto size = [](const char* key, const char* field, const char* usual) {
    return Row{
        .cases = {{.file = {{key, kAnything}}, .run = {}, .when = {{"model.catalogue", kPresent}}},
                  {.file = {{key, "$"}}, .run = {{field, "$"}}}},
        .defaults = {{key, usual}}};
  };
  const Term block{"decoder_block", "llama2"}, names{"model.catalogue", kPresent};
  const std::vector<Term> llama{{"model.norm", "rmsnorm"},
                                {"model.gated_mlp", "true"},
                                {"model.position", "rope"},
                                {"model.bias.qkv", "false"},
                                {"model.bias.attention_output", "false"},
                                {"model.bias.mlp", "false"},
                                {"model.bias.norm", "false"}};
  const std::string tied = "logits_via_embedding";
  return {size("base_emb_dim", "model.hidden_size", "2048"),
          size("base_num_query_heads", "model.num_heads", "16"),
          size("base_num_kv_heads", "model.num_kv_heads", "16"),
          size("base_mlp_dim", "model.ffn_size", "7168"),
          size("base_num_decoder_layers", "model.num_layers", "16"),
          size("head_dim", "model.head_dim", "128"),
          size("vocab_size", "model.vocab_size", "32000"),
          {.cases = {{.file = {{block.key, kAnything}}, .run = {}, .when = {names}},
                     {.file = {block}, .run = llama}},
           .defaults = {block}},
          {.cases = {{.file = {{tied, kAnything}}, .run = {}, .when = {names}},
                     {.file = {{tied, "$"}}, .run = {{"model.tied_embeddings", "$"}}}},
           .defaults = {{tied, "false"}}},
          copied("max_target_length", "model.seq_len", "2048")};
}

// Shards and copies, inside of a slice (of a node, on GPUs) and across them.
Row maxtext_data_ranks() {
  const std::string shards = "fsdp_parallelism", copies = "data_parallelism";
  const std::string states = "shard_optimizer_over_data";
  return {.cases = {{.file = {{"ici_" + shards, "$a"},
                              {"dcn_" + shards, "$b"},
                              {"ici_" + copies, "$c"},
                              {"dcn_" + copies, "$d"},
                              {states, "$e"}},
                     .run = {{"fsdp_inside", "$a"},
                             {"fsdp_across", "$b"},
                             {"data_inside", "$c"},
                             {"data_across", "$d"},
                             {"shards_states", "$e"},
                             {"sharding", kAnything},
                             {"tp", kAnything},
                             {"cp", kAnything}}}},
          .defaults = {{"ici_" + shards, "-1"},
                       {"dcn_" + shards, "1"},
                       {"ici_" + copies, "1"},
                       {"dcn_" + copies, "-1"},
                       {states, "false"}}};
}

std::vector<Row> maxtext_mesh() {
  const std::string share = "context_parallel_strategy", even = "context_parallel_load_balance";
  return {copied("ici_tensor_parallelism", "tp", "1"),
          copied("ici_context_parallelism", "cp", "1"),
          copied("ici_expert_parallelism", "ep", "1"),
          {.cases = {{.file = {{share, kAnything}}, .run = {}, .when = {{"cp", "1"}}},
                     {.file = {{share, "all_gather"}}, .run = {{"cp_scheme", "all-gather"}}},
                     {.file = {{share, "ring"}}, .run = {{"cp_scheme", "ring"}}}},
           .defaults = {{share, "all_gather"}}},
          {.cases = {{.file = {{even, kAnything}}, .run = {}, .when = {{"cp", "1"}}},
                     {.file = {{even, "true"}}, .run = {{"cp_balanced", "true"}}},
                     {.file = {{even, "false"}}, .run = {{"cp_balanced", "false"}}}},
           .defaults = {{even, "true"}}},
          maxtext_data_ranks(),
          copied("per_device_batch_size", "device_batch", "12.0"),
          copied("gradient_accumulation_steps", "num_microbatches", "1")};
}

std::vector<Row> maxtext_memory() {
  const auto policy = [](const char* word, const char* kind, const char* saved, const char* host) {
    std::vector<Term> run{{"recompute.kind", kind}, {"offload.activations", host}};
    if (saved) run.push_back({"recompute.saved", saved});
    for (const char* field : {"recompute.every_n", "recompute.blocks", "offload.modules"})
      run.push_back({field, kAbsent});
    return Case{.file = {{"remat_policy", word}}, .run = std::move(run)};
  };
  return {
      {.cases = {policy("full", "full", nullptr, "false"), policy("minimal", "op", "all", "false"),
                 policy("minimal_offloaded", "op", "all", "true"),
                 policy("save_qkv_proj", "op", "qkv", "false"),
                 policy("qkv_proj_offloaded", "op", "qkv", "true"),
                 policy("none", "none", nullptr, "false")},
       .defaults = {{"remat_policy", "full"}}},
      flagged("optimizer_memory_host_offload", "offload.optimizer"),
      flagged("parameter_memory_host_offload", "offload.parameters")};
}

std::vector<Row> maxtext_formats() {
  const std::string dtype = "dtype", low = "quantization", weights = "weight_dtype";
  const auto reads_fp8 = [&](const char* word, const char* recipe) {
    return Case{.file = {{dtype, "bfloat16"}, {low, word}},
                .run = {{"precision", "fp8"}, {"fp8_recipe", recipe}},
                .when = {},
                .direction = Direction::Read};
  };
  return {{.cases = {{.file = {{dtype, "bfloat16"}}, .run = {{"precision", "bf16"}}},
                     {.file = {{dtype, "float32"}}, .run = {{"precision", "fp32"}}},
                     {.file = {{dtype, "bfloat16"}, {low, "fp8"}}, .run = {{"precision", "fp8"}}},
                     {.file = {{dtype, "bfloat16"}, {low, "nanoo_fp8"}},
                      .run = {{"precision", "fp8"}},
                      .direction = Direction::Read},
                     reads_fp8("te_fp8_delayedscaling", "delayed"),
                     reads_fp8("te_fp8_currentscaling", "current"),
                     {.file = {{dtype, "bfloat16"}, {low, "te_mxfp8"}},
                      .run = {{"precision", "mxfp8"}}}},
           .defaults = {{dtype, "bfloat16"}, {low, ""}}},
          {.cases = {{.file = {{weights, "float32"}}, .run = {{"weight_dtype", kAbsent}}},
                     {.file = {{weights, "float32"}},
                      .run = {{"weight_dtype", "fp32"}},
                      .direction = Direction::Write},
                     {.file = {{weights, "bfloat16"}}, .run = {{"weight_dtype", "bf16"}}}},
           .defaults = {{weights, "float32"}}}};
}

std::vector<Row> maxtext_training() {
  const std::string clip = "gradient_clipping_threshold", chunks = "num_vocab_tiling";
  const std::string attention = "attention", capacity = "capacity_factor", drop = "dropout_rate";
  const auto reads_flash = [&](const char* word) {
    return Case{.file = {{attention, word}},
                .run = {{"flash_attention", "true"}},
                .when = {},
                .direction = Direction::Read};
  };
  return {{.cases = {{.file = {{"opt_type", "adamw"}}, .run = {{"optimizer", "adamw"}}},
                     {.file = {{"opt_type", "adam_pax"}}, .run = {{"optimizer", "adam"}}},
                     {.file = {{"opt_type", "sgd"}}, .run = {{"optimizer", "sgd"}}},
                     {.file = {{"opt_type", "muon"}}, .run = {{"optimizer", "muon"}}}},
           .defaults = {{"opt_type", "adamw"}}},
          {.cases = {{.file = {{clip, "0.0"}}, .run = {{"gradient_clip", "false"}}},
                     {.file = {{clip, kAnything}}, .run = {{"gradient_clip", kAbsent}}}},
           .defaults = {{clip, "1.0"}}},
          {.cases = {{.file = {{attention, "dot_product"}}, .run = {{"flash_attention", "false"}}},
                     {.file = {{attention, "autoselected"}}, .run = {{"flash_attention", "true"}}},
                     reads_flash("flash"),
                     reads_flash("cudnn_flash_te")},
           .defaults = {{attention, "autoselected"}}},
          {.cases = {{.file = {{chunks, "1"}}, .run = {{"fused_cross_entropy", "false"}}},
                     {.file = {{chunks, "$"}},
                      .run = {{"fused_cross_entropy", "true"}, {"loss_chunks", "$"}}}},
           .defaults = {{chunks, "1"}}},
          {.cases = {{.file = {{capacity, "-1"}}, .run = {{"moe_capacity", kAbsent}}},
                     {.file = {{capacity, "$"}}, .run = {{"moe_capacity", "$"}}}},
           .defaults = {{capacity, "-1"}}},
          {.cases = {{.file = {{drop, "0.0"}}, .run = {{"dropout", kAbsent}}},
                     {.file = {{drop, "$"}}, .run = {{"dropout", "$"}}}},
           .defaults = {{drop, "0.0"}}}};
}

const std::vector<Row>& maxtext_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows{maxtext_models()};
    for (const auto& part :
         {maxtext_shape, maxtext_mesh, maxtext_memory, maxtext_formats, maxtext_training}) {
      for (Row& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

std::string maxtext_text(const sim::Run& run, const std::vector<LaunchEntry>& entries) {
  const bool tpu = run.cluster.device.vendor == "Google";
  std::vector<LaunchEntry> all = entries;
  all.insert(all.begin(), {{"base_config", "base.yml"}, {"hardware", tpu ? "tpu" : "gpu"}});
  return yaml_text(std::move(all),
                   {"MaxText: " + run.model.name + " on " +
                        std::to_string(run.strategy.num_devices()) + " devices.",
                    "Data, tokenizer, learning rate, steps and checkpoints are yours: give them "
                    "as KEY=VALUE after this file."});
}

constexpr const char* kHarmlessKeys[] = {"run_name",
                                         "hardware",
                                         "steps",
                                         "log_*",
                                         "learning_rate*",
                                         "lr_*",
                                         "warmup_*",
                                         "wsd_*",
                                         "cosine_*",
                                         "adam_*",
                                         "muon_*",
                                         "base_output_directory",
                                         "dataset_*",
                                         "hf_*",
                                         "grain_*",
                                         "tokenizer_*",
                                         "tokenize_*",
                                         "train_*",
                                         "eval_*",
                                         "add_bos",
                                         "add_eos",
                                         "packing",
                                         "max_segments_per_seq",
                                         "max_corpus_chars",
                                         "num_epoch",
                                         "enable_checkpointing",
                                         "async_checkpointing",
                                         "checkpoint_*",
                                         "enable_single_*",
                                         "enable_emergency_checkpoint",
                                         "enable_multi_tier_checkpointing",
                                         "save_checkpoint_on_completion",
                                         "save_config_to_gcs",
                                         "max_num_checkpoints_to_keep",
                                         "load_*",
                                         "local_checkpoint_*",
                                         "metrics_file",
                                         "gcs_metrics",
                                         "profiler*",
                                         "skip_first_n_steps_for_profiler",
                                         "profile_*",
                                         "upload_all_profiler_results",
                                         "enable_goodput_recording",
                                         "monitor_*",
                                         "goodput_*",
                                         "enable_tensorboard",
                                         "use_vertex_tensorboard",
                                         "vertex_*",
                                         "tensorboard_*",
                                         "collect_stack_trace",
                                         "stack_trace_*",
                                         "reuse_example_batch",
                                         "enable_data_shuffling",
                                         "data_shuffle_seed",
                                         "init_weights_seed",
                                         "enable_dropout",
                                         "jax_*",
                                         "skip_jax_distributed_system",
                                         "dump_*",
                                         "compiled_trainstep_file",
                                         "compile_topology*",
                                         "num_slices",
                                         "scan_layers",
                                         "param_scan_axis",
                                         "use_iota_embed",
                                         "normalization_layer_epsilon",
                                         "rope_*",
                                         "normalize_embedding_logits",
                                         "logits_dot_in_fp32",
                                         "cast_logits_to_fp32",
                                         "float32_*",
                                         "activations_in_float32",
                                         "matmul_precision",
                                         "megablox",
                                         "sparse_matmul",
                                         "load_balance_loss_weight",
                                         "use_random_routing",
                                         "norm_topk_prob",
                                         "routed_*",
                                         "sa_*",
                                         "wi_tile_*",
                                         "wo_tile_*",
                                         "sharding_tolerance",
                                         "allow_split_physical_axes",
                                         "override_model_config",
                                         "mtp_loss_scaling_factor",
                                         "model_call_mode",
                                         "gen_*"};

// Axes that are modelled inside of a slice alone, and those that are not.
std::vector<Term> unmodelled_keys() {
  std::vector<Term> terms{{"base_config", "base.yml"},
                          {"global_parameter_scale", "1"},
                          {"ici_pipeline_parallelism", "1"},
                          {"grad_dtype", "float32"},
                          {"mu_dtype", ""},
                          {"expert_shard_attention_option", "fsdp"},
                          {"use_ring_of_experts", "false"},
                          {"shard_exp_on_fsdp", "false"},
                          {"use_2d_fsdp_sharding", "false"},
                          {"use_batch_split_schedule", "false"},
                          {"fused_qkv", "false"},
                          {"fused_mlp", "false"},
                          {"moba", "false"},
                          {"sliding_window_size", "0"},
                          {"attention_type", "global"},
                          {"num_experts", "1"},
                          {"num_experts_per_tok", "1"},
                          {"mtp_num_layers", "0"},
                          {"use_sft", "false"},
                          {"use_dpo", "false"},
                          {"enable_rampup_batch_size", "false"}};
  for (const char* axis : {"fsdp_transpose", "sequence", "context_autoregressive",
                           "tensor_transpose", "tensor_sequence", "autoregressive"}) {
    for (const char* where : {"ici_", "dcn_"})
      terms.push_back({where + std::string(axis) + "_parallelism", "1"});
  }
  for (const char* axis : {"tensor", "context", "expert", "pipeline"})
    terms.push_back({"dcn_" + std::string(axis) + "_parallelism", "1"});
  return terms;
}

}  // namespace

LaunchTarget maxtext_target() {
  return {.name = "maxtext",
          .frameworks = {"maxtext"},
          .file_name = "maxtext.yml",
          .rows = maxtext_rows,
          .harmless = {std::begin(kHarmlessKeys), std::end(kHarmlessKeys)},
          .unmodelled = unmodelled_keys(),
          .parsed = parsed_overrides,
          .written = maxtext_text,
          .beginnings = {"remat_policy", "per_device_batch_size", "ici_fsdp_parallelism",
                         "base_emb_dim"},
          .command = [](const std::string&) -> std::string {
            return "python3 -m MaxText.train maxtext.yml \"$@\"";
          }};
}

}  // namespace llmsim::hwdb
