// Megatron-LM's arguments.
//
// Sources: NVIDIA/Megatron-LM megatron/training/arguments.py (keys, defaults; hybrids:
// @000c4ac24f61159c138b0975def722c65245983c), pretrain_mamba.py, pretrain_gpt.py
// (tokenizer_type defaults to GPT2BPETokenizer), examples/ (scripts).
#include <algorithm>
#include <string>
#include <utility>

#include "hwdb/launch/command_line.h"
#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {

std::vector<Row> megatron_model_rows();
std::vector<Row> megatron_program_rows();

namespace {

std::string with_blanks(const std::string& names) {
  std::string text = names;
  std::replace(text.begin(), text.end(), '+', ' ');
  return text;
}

std::string with_plus(const std::string& names) {
  std::string text = names;
  std::replace(text.begin(), text.end(), ' ', '+');
  return text;
}

std::vector<Row> megatron_mesh() {
  const std::string layout = "--pipeline-model-parallel-layout";
  const std::string embedding = "--account-for-embedding-in-pipeline-split";
  const std::string loss = "--account-for-loss-in-pipeline-split";
  const std::string first = "--decoder-first-pipeline-num-layers";
  const std::string last = "--decoder-last-pipeline-num-layers";
  const std::string chunks = "--num-virtual-stages-per-pipeline-rank";
  const std::string per_chunk = "--num-layers-per-virtual-pipeline-stage";
  return {
      copied("--tensor-model-parallel-size", "tp", "1"),
      copied("--pipeline-model-parallel-size", "pp", "1"),
      copied("--context-parallel-size", "cp", "1"),
      {.cases = {{.file = {{layout, "$"}}, .run = {{"stage_layout", "$"}}},
                 {.file = {{embedding, "true"}, {loss, "true"}},
                  .run = {{"embeddings_as_layers", "true"}}},
                 {.file = {{first, "$"}, {last, "$2"}},
                  .run = {{"first_stage_layers", "$"}, {"last_stage_layers", "$2"}}},
                 {.file = {{first, "$"}}, .run = {{"first_stage_layers", "$"}}},
                 {.file = {{last, "$"}}, .run = {{"last_stage_layers", "$"}}},
                 {.file = {}, .run = {{"embeddings_as_layers", "false"}}}},
       .defaults = {{embedding, "false"}, {loss, "false"}}},
      {.cases = {{.file = {}, .run = {}, .when = {{"stage_layout", kPresent}}},
                 {.file = {}, .run = {{"virtual_stages", "1"}}},
                 {.file = {{chunks, "$"}}, .run = {{"virtual_stages", "$"}}},
                 {.file = {{per_chunk, "$"}},
                  .run = {{"layers_per_chunk", "$"}},
                  .direction = Direction::Read}}},
      {.cases = {{.file = {}, .run = {{"sequence_parallel", "false"}}, .when = {{"tp", "1"}}},
                 {.file = {{"--sequence-parallel", "true"}},
                  .run = {{"sequence_parallel", "true"}}},
                 {.file = {}, .run = {{"sequence_parallel", "false"}}}},
       .defaults = {{"--sequence-parallel", "false"}}},
      {.cases = {{.file = {{"--cp-comm-type", kAnything}}, .run = {}, .when = {{"cp", "1"}}},
                 {.file = {{"--cp-comm-type", "p2p"}}, .run = {{"cp_scheme", "ring"}}},
                 {.file = {{"--cp-comm-type", "all_gather"}}, .run = {{"cp_scheme", "all-gather"}}},
                 {.file = {{"--cp-comm-type", "a2a"}}, .run = {{"cp_scheme", "all-to-all"}}}},
       .defaults = {{"--cp-comm-type", "p2p"}}},
      copied("--micro-batch-size", "micro_batch"),
      copied("--global-batch-size", "global_batch")};
}

// The distributed optimizer is ZeRO-1, its instances copies of the shards; Megatron-FSDP shards the
// rest.
std::vector<Row> megatron_sharding() {
  const std::string optimizer = "--use-distributed-optimizer";
  const std::string copies = "--num-distributed-optimizer-instances";
  const std::string fsdp = "--use-megatron-fsdp", old = "--use-custom-fsdp";
  const std::string torch = "--use-torch-fsdp2", what = "--data-parallel-sharding-strategy";
  Row row{.cases = {{.file = {}, .run = {{"sharding", "none"}}},
                    {.file = {{optimizer, "true"}, {copies, "$"}},
                     .run = {{"sharding", "zero1"}, {"replicate_size", "$"}}},
                    {.file = {{optimizer, "true"}},
                     .run = {{"sharding", "zero1"}, {"replicate_size", kAbsent}}}},
          .defaults = {{optimizer, "false"}, {fsdp, "false"}, {old, "false"}, {torch, "false"}}};
  for (const std::string& key : {fsdp, old}) {
    for (const auto& [word, sharding] :
         {std::pair{"optim", "zero1"}, std::pair{"optim_grads", "zero2"},
          std::pair{"optim_grads_params", "zero3"}})
      row.cases.push_back({.file = {{key, "true"}, {what, word}, {optimizer, kAnything}},
                           .run = {{"sharding", sharding}, {"replicate_size", kAbsent}},
                           .when = {},
                           .direction = key == fsdp ? Direction::Both : Direction::Read});
  }
  row.cases.push_back({.file = {{torch, "true"}, {optimizer, kAnything}},
                       .run = {{"sharding", "zero3"}},
                       .when = {},
                       .direction = Direction::Read});
  return {row,
          flagged("--overlap-grad-reduce", "gradient_overlap"),
          {.cases = {{.file = {}, .run = {}, .when = {{"sharding", "none"}}},
                     {.file = {{"--overlap-param-gather", "true"}},
                      .run = {{"gather_overlap", "true"}}},
                     {.file = {}, .run = {{"gather_overlap", "false"}}}},
           .defaults = {{"--overlap-param-gather", "false"}}}};
}

std::vector<Row> megatron_recompute() {
  const std::string kind = "--recompute-granularity", method = "--recompute-method";
  const std::string count = "--recompute-num-layers", modules = "--recompute-modules";
  const std::string old = "--recompute-activations";
  const Term core{"recompute.modules", "core_attn"};
  return {{.cases = {{.file = {}, .run = {{"recompute.kind", "none"}}},
                     {.file = {{kind, "selective"}, {modules, "$"}},
                      .run = {{"recompute.kind", "selective"}, {"recompute.modules", "$"}}},
                     {.file = {{old, "true"}, {modules, kAnything}},
                      .run = {{"recompute.kind", "selective"}, core},
                      .direction = Direction::Read},
                     {.file = {{kind, "full"}, {method, "block"}, {count, "$"}},
                      .run = {{"recompute.kind", "full"}, {"recompute.blocks", "$"}}},
                     {.file = {{kind, "full"}, {method, "uniform"}, {count, "$"}},
                      .run = {{"recompute.kind", "full"},
                              {"recompute.every_n", "$"},
                              {"recompute.blocks", kAbsent}}},
                     {.file = {{kind, "full"}, {method, "uniform"}, {count, "1"}},
                      .run = {{"recompute.kind", "full"},
                              {"recompute.every_n", kAbsent},
                              {"recompute.blocks", kAbsent}}}},
           .defaults = {{modules, "core_attn"}, {old, "false"}},
           .spelled = with_blanks,
           .meant = with_plus},
          stated_flag("--distribute-saved-activations", "partition_activations", "true"),
          flagged("--optimizer-cpu-offload", "offload.optimizer"),
          {.cases = {{.file = {{"--fine-grained-activation-offloading", "true"},
                               {"--offload-modules", "$"}},
                      .run = {{"offload.activations", "true"}, {"offload.modules", "$"}}},
                     {.file = {{"--cpu-offloading-num-layers", "$"}},
                      .run = {{"offload.activations", "true"}, {"offload.blocks", "$"}}},
                     {.file = {}, .run = {{"offload.activations", "false"}}}},
           .defaults = {{"--fine-grained-activation-offloading", "false"}},
           .spelled = with_blanks,
           .meant = with_plus}};
}

const std::vector<Row>& megatron_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (const auto& part : {megatron_model_rows, megatron_mesh, megatron_sharding,
                             megatron_recompute, megatron_program_rows}) {
      for (Row& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

std::string megatron_text(const sim::Run& run, const std::vector<LaunchEntry>& entries) {
  const int devices = run.strategy.num_devices();
  const int node = std::min(run.cluster.devices_per_node, devices);
  std::string text = "#!/bin/bash\n# Megatron-LM: " + run.model.name + " on " +
                     std::to_string(devices) +
                     " devices.\n# Data, tokenizer, learning rate, iterations and checkpoints are "
                     "yours: give them to this script.\nargs=(\n";
  for (const LaunchEntry& entry : entries) {
    text += "  " + entry.key;
    if (entry.value != "true") text += " " + shell_quoted(entry.value);
    text += "\n";
  }
  return text + ")\ntorchrun --nnodes " + std::to_string((devices + node - 1) / node) +
         " --nproc_per_node " + std::to_string(node) +
         (is_hybrid(run.model) ? " pretrain_mamba.py" : " pretrain_gpt.py") +
         " \"${args[@]}\" \"$@\"\n";
}

std::vector<std::string> harmless_arguments() {
  return {"--data-*",
          "--mock-data",
          "--split",
          "--tokenizer-*",
          "--vocab-file",
          "--merge-file",
          "--vocab-extra-ids",
          "--tiktoken-*",
          "--num-workers",
          "--dataloader-type",
          "--reset-*",
          "--eod-mask-loss",
          "--no-create-attention-mask-in-dataloader",
          "--no-mmap-bin-files",
          "--s3-cache-path",
          "--num-dataset-builder-threads",
          "--train-data-path",
          "--valid-data-path",
          "--test-data-path",
          "--per-split-data-args-path",
          "--train-iters",
          "--train-samples",
          "--lr",
          "--lr-*",
          "--min-lr",
          "--decoupled-lr",
          "--decoupled-min-lr",
          "--override-opt_param-scheduler",
          "--use-checkpoint-*",
          "--weight-decay",
          "--weight-decay-*",
          "--start-weight-decay",
          "--end-weight-decay",
          "--adam-*",
          "--sgd-momentum",
          "--muon-*",
          "--no-decay-*",
          "--rampup-batch-size",
          "--loss-scale",
          "--initial-loss-scale",
          "--min-loss-scale",
          "--loss-scale-window",
          "--hysteresis",
          "--init-method-*",
          "--seed",
          "--norm-epsilon",
          "--layernorm-epsilon",
          "--apply-layernorm-1p",
          "--rotary-*",
          "--use-rope-scaling",
          "--rope-*",
          "--mscale",
          "--mscale-all-dim",
          "--no-rope-fusion",
          "--no-position-embedding",
          "--mtp-loss-*",
          "--no-masked-softmax-fusion",
          "--no-bias-*-fusion",
          "--no-bias-gelu-fusion",
          "--no-bias-swiglu-fusion",
          "--no-bias-dropout-fusion",
          "--attention-softmax-in-fp32",
          "--accumulate-allreduce-grads-in-fp32",
          "--no-query-key-layer-scaling",
          "--save",
          "--save-*",
          "--load",
          "--load-*",
          "--no-load-*",
          "--no-save-*",
          "--ckpt-*",
          "--async-save",
          "--use-dist-ckpt",
          "--dist-ckpt-*",
          "--auto-detect-ckpt-format",
          "--finetune",
          "--exit-*",
          "--log-*",
          "--logging-level",
          "--tensorboard-*",
          "--wandb-*",
          "--timing-log-*",
          "--no-log-*",
          "--one-logger-*",
          "--enable-one-logger",
          "--no-one-logger",
          "--eval-*",
          "--full-validation",
          "--skip-train",
          "--profile",
          "--profile-*",
          "--use-pytorch-profiler",
          "--record-memory-history",
          "--memory-*",
          "--distributed-backend",
          "--distributed-timeout-minutes",
          "--local-rank",
          "--local_rank",
          "--nccl-communicator-config-path",
          "--use-mcore-models",
          "--use-legacy-models",
          "--no-async-tensor-model-parallel-allreduce",
          "--manual-gc",
          "--manual-gc-interval",
          "--empty-unused-memory-level",
          "--check-for-*",
          "--no-check-for-*",
          "--rerun-*",
          "--error-injection-*",
          "--inprocess-*",
          "--enable-ft-package",
          "--calc-ft-timeouts",
          "--calculate-per-token-loss",
          "--enable-experimental",
          "--disable-straggler-*",
          "--fp8-amax-*",
          "--fp8-margin",
          "--fp8-interval",
          "--no-fp8-wgrad",
          "--tp-comm-*",
          "--tp-comm-bootstrap-backend",
          "--use-nccl-ub",
          "--fsdp-double-buffer",
          "--init-model-with-meta-device",
          "--high-priority-stream-groups",
          "--use-sharp",
          "--moe-router-load-balancing-type",
          "--moe-aux-loss-coeff",
          "--moe-z-loss-coeff",
          "--moe-router-topk-scaling-factor",
          "--moe-router-score-function",
          "--moe-router-pre-softmax",
          "--moe-router-bias-update-rate",
          "--moe-router-dtype",
          "--moe-router-force-load-balancing",
          "--moe-permute-fusion",
          "--moe-router-fusion",
          "--moe-per-layer-logging",
          "--moe-input-jitter-eps",
          "--moe-router-padding-for-fp8",
          "--moe-deepep-num-sms",
          "--moe-hybridep-*",
          "--moe-shared-expert-overlap",
          "--moe-token-drop-policy",
          "--ddp-bucket-size",
          "--ddp-num-buckets",
          "--ddp-average-*",
          "--no-align-param-gather",
          "--align-grad-reduce",
          "--no-align-grad-reduce",
          "--delay-wgrad-compute",
          "--no-overlap-p2p-communication",
          "--overlap-p2p-*",
          "--no-barrier-with-level-1-timing",
          "--cuda-graph-warmup-steps",
          "--te-rng-tracker",
          "--optimizer-offload-fraction",
          "--use-torch-optimizer-for-cpu-offload",
          "--overlap-cpu-optimizer-d2h-h2d",
          "--microbatch-group-size-per-virtual-pipeline-stage"};
}

}  // namespace

LaunchTarget megatron_target() {
  return {.name = "megatron",
          .frameworks = {"megatron-lm"},
          .file_name = "megatron.sh",
          .rows = megatron_rows,
          .harmless = harmless_arguments(),
          .unmodelled = {{"--window-size", ""},
                         {"--window-attn-skip-freq", ""},
                         {"--main-grads-dtype", "fp32"},
                         {"--main-params-dtype", "fp32"},
                         {"--rotary-interleaved", "false"},
                         {"--hierarchical-context-parallel-sizes", ""},
                         {"--tp-comm-overlap-disable-qkv", "false"},
                         {"--encoder-num-layers", ""},
                         {"--decoder-num-layers", ""},
                         {"--hybrid-attention-ratio", "0"},
                         {"--hybrid-mlp-ratio", "0"},
                         {"--disable-mamba-mem-eff-path", "false"},
                         {"--softmax-type", "vanilla"},
                         {"--fp8-multi-head-attention", "false"},
                         {"--fp8-dot-product-attention", "false"},
                         {"--defer-embedding-wgrad-compute", "false"},
                         {"--no-initialization", "false"}},
          .parsed = parsed_command_line,
          .written = megatron_text,
          .beginnings = {"--tensor-model-parallel-size", "--num-layers"},
          .command = [](const std::string&) -> std::string { return "bash megatron.sh \"$@\""; }};
}

}  // namespace llmsim::hwdb
