// Overrides of a NeMo Megatron-Bridge recipe.
//
// A recipe names the model; the file says what differs from it.  As nothing is known of the recipe,
// what is written states every setting, those that are off too.
//
// Sources: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/recipes/common.py (_pretrain_common:
// defaults), training/config.py (ConfigContainer), training/mixed_precision.py (names of recipes),
// training/comm_overlap.py, peft/canonical_lora.py; NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py.
#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "hwdb/launch/command_line.h"
#include "hwdb/launch/config_text.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {

std::vector<Row> nemo_program_rows();

namespace {

const std::string kNemoModel = "model.", kDdp = "ddp.", kOverlap = "comm_overlap.";

std::string nemo_list(const std::string& names) {
  if (std::all_of(names.begin(), names.end(), [](unsigned char c) { return std::isdigit(c); }))
    return names;
  std::string text = "[";
  for (const char c : names) text += c == '+' ? std::string(", ") : std::string(1, c);
  return text + "]";
}

std::string nemo_names(const std::string& list) {
  std::string text;
  for (const char c : list) {
    if (c != ' ') text += c == ',' ? '+' : c;
  }
  return text;
}

// Shapes that a recipe's model is changed to; what is written leaves it as it is.
std::vector<Row> nemo_shape() {
  std::vector<Row> rows;
  for (const auto& [key, field] :
       {std::pair{"num_layers", "num_layers"}, std::pair{"hidden_size", "hidden_size"},
        std::pair{"ffn_hidden_size", "ffn_size"}, std::pair{"num_attention_heads", "num_heads"},
        std::pair{"num_query_groups", "num_kv_heads"}, std::pair{"kv_channels", "head_dim"},
        std::pair{"vocab_size", "vocab_size"}, std::pair{"mtp_num_layers", "mtp_layers"},
        std::pair{"num_moe_experts", "moe.num_experts"}, std::pair{"moe_router_topk", "moe.top_k"},
        std::pair{"moe_ffn_hidden_size", "moe.expert_ffn_size"}})
    rows.push_back({.cases = {{.file = {{kNemoModel + key, "$"}},
                               .run = {{std::string("model.") + field, "$"}},
                               .when = {},
                               .direction = Direction::Read}}});
  const std::string length = "model.seq_length", data = "dataset.sequence_length";
  const std::string newer = "dataset.seq_length";
  const auto read = [](std::vector<Term> file) {
    return Case{.file = std::move(file),
                .run = {{"model.seq_len", "$"}},
                .when = {},
                .direction = Direction::Read};
  };
  rows.push_back({.cases = {{.file = {{length, "$"}, {data, "$"}}, .run = {{"model.seq_len", "$"}}},
                            read({{length, "$"}, {newer, "$"}}),
                            read({{length, "$"}}),
                            read({{data, "$"}}),
                            read({{newer, "$"}})}});
  return rows;
}

std::vector<Row> nemo_mesh() {
  const std::string layout = kNemoModel + "pipeline_model_parallel_layout";
  const std::string embedding = kNemoModel + "account_for_embedding_in_pipeline_split";
  const std::string loss = kNemoModel + "account_for_loss_in_pipeline_split";
  const std::string chunks = kNemoModel + "virtual_pipeline_model_parallel_size";
  const std::string exchange = kNemoModel + "cp_comm_type";
  const std::string sequence = kNemoModel + "sequence_parallel";
  return {copied(kNemoModel + "tensor_model_parallel_size", "tp", "1"),
          copied(kNemoModel + "pipeline_model_parallel_size", "pp", "1"),
          copied(kNemoModel + "context_parallel_size", "cp", "1"),
          {.cases = {{.file = {{layout, "$"}}, .run = {{"stage_layout", "$"}}},
                     {.file = {{embedding, "true"}, {loss, "true"}},
                      .run = {{"embeddings_as_layers", "true"}}},
                     {.file = {}, .run = {{"embeddings_as_layers", "false"}}}},
           .defaults = {{embedding, "false"}, {loss, "false"}},
           .overrides = true},
          {.cases = {{.file = {}, .run = {}, .when = {{"stage_layout", kPresent}}},
                     {.file = {}, .run = {{"virtual_stages", "1"}}},
                     {.file = {{chunks, "$"}}, .run = {{"virtual_stages", "$"}}}},
           .overrides = true},
          {.cases = {{.file = {{sequence, "false"}},
                      .run = {{"sequence_parallel", "false"}},
                      .when = {{"tp", "1"}}},
                     {.file = {{sequence, kAnything}}, .run = {}, .when = {{"tp", "1"}}},
                     {.file = {{sequence, "true"}}, .run = {{"sequence_parallel", "true"}}},
                     {.file = {{sequence, "false"}}, .run = {{"sequence_parallel", "false"}}}},
           .defaults = {{sequence, "false"}}},
          {.cases = {{.file = {{exchange, kAnything}}, .run = {}, .when = {{"cp", "1"}}},
                     {.file = {{exchange, "p2p"}}, .run = {{"cp_scheme", "ring"}}},
                     {.file = {{exchange, "all_gather"}}, .run = {{"cp_scheme", "all-gather"}}},
                     {.file = {{exchange, "a2a"}}, .run = {{"cp_scheme", "all-to-all"}}}},
           .defaults = {{exchange, "p2p"}}},
          copied("train.micro_batch_size", "micro_batch"),
          copied("train.global_batch_size", "global_batch"),
          stated_flag("dist.use_tp_pp_dp_mapping", "mesh_order", "tp-cp-ep-pp-dp")};
}

// As in Megatron-LM: the distributed optimizer is ZeRO-1, its instances copies of the shards.
Row nemo_sharding() {
  const std::string states = kDdp + "use_distributed_optimizer", fsdp = kDdp + "use_megatron_fsdp";
  const std::string also = "dist.use_megatron_fsdp",
                    what = kDdp + "data_parallel_sharding_strategy";
  const std::string copies = kDdp + "num_distributed_optimizer_instances";
  const Term off{fsdp, "false"}, off_too{also, "false"}, unused{what, kAnything};
  Row row{
      .cases = {{.file = {{states, "false"}, off, off_too, unused}, .run = {{"sharding", "none"}}},
                {.file = {{states, "true"}, {copies, "1"}, off, off_too, unused},
                 .run = {{"sharding", "zero1"}, {"replicate_size", kAbsent}}},
                {.file = {{states, "true"}, {copies, "$"}, off, off_too, unused},
                 .run = {{"sharding", "zero1"}, {"replicate_size", "$"}}}},
      .defaults = {{states, "true"}, {copies, "1"}, off, off_too, {what, "no_shard"}}};
  for (const auto& [word, sharding] :
       {std::pair{"optim", "zero1"}, std::pair{"optim_grads", "zero2"},
        std::pair{"optim_grads_params", "zero3"}}) {
    const Term shards{what, word}, any{states, kAnything};
    const std::vector<Term> run{{"sharding", sharding}, {"replicate_size", kAbsent}};
    row.cases.push_back(
        {.file = {{fsdp, "true"}, {also, "true"}, shards, {states, "true"}}, .run = run});
    for (const auto& [key, other] : {std::pair{fsdp, also}, std::pair{also, fsdp}})
      row.cases.push_back({.file = {{key, "true"}, {other, kAnything}, shards, any},
                           .run = run,
                           .when = {},
                           .direction = Direction::Read});
  }
  return row;
}

std::vector<Row> nemo_overlap() {
  const std::string config = "megatron.bridge.training.comm_overlap.CommOverlapConfig";
  const Term target{kOverlap + "_target_", config};
  const auto of_gradients = [](const std::string& name, const std::string& field) {
    const std::string key = kDdp + name, wins = kOverlap + name;
    const auto read = [&](const char* value) {
      return Case{.file = {{wins, value}, {key, kAnything}},
                  .run = {{field, value}},
                  .when = {},
                  .direction = Direction::Read};
    };
    Row row = switched(key, field, "true");
    row.cases.push_back(read("true")), row.cases.push_back(read("false"));
    return row;
  };
  const std::string tensor = kOverlap + "tp_comm_overlap", of_model = "model.tp_comm_overlap";
  const std::string experts = kOverlap + "overlap_moe_expert_parallel_comm";
  Row gathers = of_gradients("overlap_param_gather", "gather_overlap");
  gathers.cases.insert(gathers.cases.begin(), {.file = {{kDdp + "overlap_param_gather", kAnything}},
                                               .run = {},
                                               .when = {{"sharding", "none"}}});
  return {nemo_sharding(),
          of_gradients("overlap_grad_reduce", "gradient_overlap"),
          gathers,
          {.cases = {{.file = {target, {tensor, "true"}}, .run = {{"tp_overlap", "true"}}},
                     {.file = {target, {tensor, "false"}}, .run = {{"tp_overlap", "false"}}},
                     {.file = {target, {of_model, "true"}, {tensor, kAnything}},
                      .run = {{"tp_overlap", "true"}},
                      .when = {},
                      .direction = Direction::Read}},
           .defaults = {target, {tensor, "false"}, {of_model, "false"}}},
          {.cases = {{.file = {{experts, "true"}}, .run = {{"moe_overlap", "true"}}},
                     {.file = {}, .run = {{"moe_overlap", kAbsent}}},
                     {.file = {},
                      .run = {{"moe_overlap", "false"}},
                      .when = {},
                      .direction = Direction::Write}},
           .defaults = {{experts, "false"}}}};
}

std::vector<Row> nemo_memory() {
  const std::string kind = kNemoModel + "recompute_granularity";
  const std::string method = kNemoModel + "recompute_method";
  const std::string count = kNemoModel + "recompute_num_layers";
  const std::string modules = kNemoModel + "recompute_modules";
  const std::string fine = kNemoModel + "fine_grained_activation_offloading";
  const std::string offloaded = kNemoModel + "offload_modules";
  const std::string blocks = kNemoModel + "cpu_offloading_num_layers";
  const std::string on_host = kNemoModel + "cpu_offloading";
  const std::vector<Term> all_blocks{
      {"recompute.kind", "full"}, {"recompute.every_n", kAbsent}, {"recompute.blocks", kAbsent}};
  return {
      {.cases = {{.file = {{method, kAnything}, {count, kAnything}, {modules, kAnything}},
                  .run = {{"recompute.kind", "none"}},
                  .when = {},
                  .direction = Direction::Read},
                 {.file = {}, .run = {{"recompute.kind", "none"}}},
                 {.file = {{kind, "selective"}, {modules, "$"}},
                  .run = {{"recompute.kind", "selective"}, {"recompute.modules", "$"}}},
                 {.file = {{kind, "selective"}},
                  .run = {{"recompute.kind", "selective"}, {"recompute.modules", "core_attn"}},
                  .when = {},
                  .direction = Direction::Read},
                 {.file = {{kind, "full"}, {method, "block"}, {count, "$"}},
                  .run = {{"recompute.kind", "full"}, {"recompute.blocks", "$"}}},
                 {.file = {{kind, "full"}, {method, "uniform"}, {count, "1"}}, .run = all_blocks},
                 {.file = {{kind, "full"}, {method, "uniform"}, {count, "$"}},
                  .run = {{"recompute.kind", "full"},
                          {"recompute.every_n", "$"},
                          {"recompute.blocks", kAbsent}}}},
       .spelled = nemo_list,
       .meant = nemo_names,
       .overrides = true},
      switched("optimizer.optimizer_cpu_offload", "offload.optimizer", "false"),
      {.cases = {{.file = {{fine, "true"}, {offloaded, "$"}},
                  .run = {{"offload.activations", "true"}, {"offload.modules", "$"}}},
                 {.file = {{on_host, "true"}, {blocks, "$"}},
                  .run = {{"offload.activations", "true"}, {"offload.blocks", "$"}}},
                 {.file = {}, .run = {{"offload.activations", "false"}}}},
       .defaults = {{fine, "false"}, {on_host, "false"}, {blocks, "0"}},
       .spelled = nemo_list,
       .meant = nemo_names,
       .overrides = true}};
}

const std::vector<Row>& nemo_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (const auto& part : {nemo_shape, nemo_mesh, nemo_overlap, nemo_memory, nemo_program_rows}) {
      for (Row& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

std::string nemo_text(const sim::Run& run, const std::vector<LaunchEntry>& entries) {
  return yaml_text(entries, {"Megatron-Bridge: overrides of the recipe of " + run.model.name +
                                 " for " + std::to_string(run.strategy.num_devices()) + " devices.",
                             "The model, data, learning rate and checkpoints are the "
                             "recipe's: PROGRAM --config-file nemo.yaml"});
}

std::vector<std::string> harmless_overrides() {
  return {"_target_", "checkpoint.*", "dataset.*", "ddp._target_", "ddp.average_in_collective",
          "ddp.align_param_gather", "ddp.bucket_size", "ddp.check_for_*", "ddp.fsdp_*",
          // A configuration of mixed precision puts its own value in the place of this one.
          "ddp.grad_reduce_in_fp32", "ddp.gradient_reduce_div_fusion", "ddp.nccl_ub",
          "ddp.pad_buckets_for_high_nccl_busbw", "ddp.suggested_communication_unit_size",
          "dist._target_", "dist.align_grad_reduce", "dist.distributed_*",
          "dist.enable_megatron_core_experimental", "dist.external_gpu_device_mapping",
          "dist.flight_recorder_*", "dist.lazy_*", "dist.local_rank", "dist.use_decentralized_pg",
          "dist.use_gloo_process_groups", "logger.*", "mixed_precision.autocast_*",
          "mixed_precision.fp8_amax_*", "mixed_precision.fp8_margin", "mixed_precision.fp8_wgrad",
          "mixed_precision.hysteresis", "mixed_precision.initial_loss_scale",
          "mixed_precision.loss_scale*", "mixed_precision.min_loss_scale",
          "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag", "model._target_",
          "model.apply_rope_fusion", "model.attention_softmax_in_fp32", "model.autocast_dtype*",
          "model.barrier_with_L1_time", "model.bf16", "model.bias_activation_fusion",
          "model.bias_dropout_fusion", "model.calculate_per_token_loss",
          "model.cross_entropy_fusion_impl", "model.cuda_graph_warmup_steps",
          "model.cuda_graph_retain_backward_graph", "model.cuda_graph_use_single_mempool",
          "model.deallocate_pipeline_outputs", "model.generation_config", "model.hf_model_id",
          "model.init_*", "model.layernorm_epsilon", "model.make_vocab_size_divisible_by",
          "model.masked_softmax_fusion", "model.moe_aux_loss_coeff", "model.moe_deepep_num_sms",
          "model.moe_hybridep_num_sms", "model.moe_input_jitter_eps", "model.moe_per_layer_logging",
          "model.moe_permute_fusion", "model.moe_router_*", "model.moe_shared_expert_overlap",
          "model.moe_token_drop_policy", "model.moe_z_loss_coeff", "model.mtp_loss_scaling_factor",
          "model.params_dtype*", "model.perform_initialization", "model.persist_layer_norm",
          "model.pipeline_dtype*", "model.rotary_*", "model.rope_*", "model.should_pad_vocab",
          "model.use_te_rng_tracker", "optimizer._target_", "optimizer.adam_*", "optimizer.lr",
          "optimizer.min_lr", "optimizer.loss_scale*", "optimizer.muon_*",
          "optimizer.optimizer_offload_fraction", "optimizer.overlap_cpu_optimizer_d2h_h2d",
          "optimizer.use_distributed_optimizer", "optimizer.weight_decay*",
          "optimizer.sgd_momentum", "peft.alpha", "peft.dropout_position", "peft.lora_*",
          "peft.normalize_moe_lora", "profiling.*", "rerun_state_machine.*", "rng.*", "scheduler.*",
          "straggler.*", "nvrx_straggler.*", "inprocess_restart.*", "ft.*", "tensor_inspect.*",
          "tokenizer.*", "train._target_", "train.check_*", "train.decrease_batch_size_if_needed",
          "train.empty_unused_memory_level", "train.eval_*", "train.exit_*", "train.manual_gc*",
          "train.skip_train", "train.train_iters", "train.train_samples",
          "train.train_sync_interval", "validation.*"};
}

}  // namespace

LaunchTarget nemo_target() {
  return {.name = "nemo",
          .frameworks = {"megatron-bridge", "nemo"},
          .file_name = "nemo.yaml",
          .rows = nemo_rows,
          .harmless = harmless_overrides(),
          .unmodelled = {{"base_config", ""},
                         {"model.hierarchical_context_parallel_sizes", ""},
                         {"model.num_layers_in_first_pipeline_stage", ""},
                         {"model.num_layers_in_last_pipeline_stage", ""},
                         {"model.moe_layer_freq", ""},
                         {"model.qk_clip", "false"},
                         {"model.softmax_type", "vanilla"},
                         {"model.window_size", ""},
                         {"model.defer_embedding_wgrad_compute", "false"},
                         {"model.distribute_saved_activations", "false"},
                         {"comm_overlap.defer_embedding_wgrad_compute", "false"},
                         {"comm_overlap.tp_comm_overlap_cfg", ""},
                         {"dist.use_torch_fsdp2", "false"},
                         {"dist.use_sharp", "false"},
                         {"mixed_precision.fp8_dot_product_attention", "false"},
                         {"mixed_precision.fp8_multi_head_attention", "false"},
                         {"mixed_precision.fp8_param", "false"},
                         {"ddp.delay_wgrad_compute", "false"},
                         {"comm_overlap.delay_wgrad_compute", "false"},
                         {"peft.dropout", "0"},
                         {"peft.exclude_modules", ""},
                         {"peft.a2a_experimental", "false"}},
          .parsed = parsed_overrides,
          .written = nemo_text,
          .beginnings = {"model.tensor_model_parallel_size", "train.micro_batch_size",
                         "train.global_batch_size", "model.seq_length"},
          .names_model = false,
          .names_adapters = true,
          .command = [](const std::string&) -> std::string {
            return "torchrun \"$@\" --config-file nemo.yaml";
          }};
}

}  // namespace llmsim::hwdb
