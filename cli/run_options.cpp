#include "cli/run_options.h"

#include <algorithm>

#include "cli/number_list.h"
#include "hwdb/settings.h"

namespace llmsim::cli {
namespace {

void add(CLI::App& command, const char* name, std::optional<std::string>& value, const char* type, const char* help) {
  command.add_option(name, value, help)->type_name(type);
}

// On, off by the second name, or as nothing was said: CLI11 would set an optional that is given to add_flag.
void add_switch(CLI::App& command, const char* names, std::optional<bool>& value, const char* help) {
  command.add_flag_function(
      names, [&value](std::int64_t count) { value = count > 0; }, help);
}

std::string option_name(const std::string& key) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// One row of the table of settings.
void add_setting(CLI::App& c, const hwdb::Setting& setting, RunOptions& o) {
  const std::string name = option_name(setting.key), option = "--" + name;
  const bool told = setting.kind == hwdb::SettingKind::Switch;  // by the option itself
  const std::string help =
      setting.help + (told ? "" : ": " + hwdb::values_of(setting)) + "; default that of the framework; example: ";
  if (told) {
    const std::string example = setting.example == std::string("false") ? "--no-" + name : option;
    c.add_flag_function(
         option + ",!--no-" + name, [&setting, &o](std::int64_t count) { o.settings[setting.key] = count > 0; }, help + example)
        ->group("Training program");
    return;
  }
  const auto set = [&setting, &o, option](const std::string& text) {
    o.settings[setting.key] = hwdb::setting_from(setting, option, text);
  };
  c.add_option_function<std::string>(option, set, help + option + " " + setting.example)
      ->type_name(setting.kind == hwdb::SettingKind::Word ? "NAME" : "N")
      ->group("Training program");
}

void add_model(CLI::App& c, RunOptions& o) {
  c.add_option("--model", o.model, "model of the catalogue or a Hugging Face config.json; no default; example: --model llama-70b")
      ->type_name("NAME");
}

void add_work(CLI::App& c, RunOptions& o) {
  add(c, "--hardware", o.hardware, "ID", "accelerator, id or alias; default h100 in DGX nodes; example: --hardware mi300x");
  add(c, "--system", o.system, "ID",
      "system or node type; default the usual nodes of the accelerator; example: --system frontier");
  add(c, "--transport", o.transport, "NAME",
      "how collectives reach the network: rdma or sockets (no plugin); default rdma; example: --transport sockets");
  add(c, "--collective-algorithm", o.algorithm, "NAME",
      "auto, ring, tree or hierarchical; default auto, the fastest of ring and tree; example: --collective-algorithm tree");
  add(c, "--seq-len", o.seq_len, "TOKENS",
      "tokens of a sequence, 1 to 16777216; default that of the model; example: --seq-len 8192");
  add(c, "--global-batch", o.global_batch, "SEQS",
      "sequences per optimizer step; default 4 Mi tokens, or 1024 tokens a device where that is more; example: --global-batch "
      "1024");
  add(c, "--global-batch-tokens", o.global_batch_tokens, "TOKENS",
      "the same in tokens, rounded to whole sequences; default as for --global-batch; example: --global-batch-tokens 4000000");
}

void add_experts(CLI::App& c, RunOptions& o) {
  add(c, "--etp", o.etp, "N",
      "ranks that divide each expert; default as tp; 1: whole experts, ep inside tp * dp * cp; example: --tp 4 --ep 8 --etp 1");
  add(c, "--moe-dispatch", o.moe_dispatch, "NAME",
      "how tokens reach experts: alltoall, allgather or deepep (once to each rank and node); default alltoall; example: "
      "--moe-dispatch deepep");
  add_switch(c, "--moe-overlap,!--no-moe-overlap", o.moe_overlap,
             "dispatch and combine beside the other pass of another micro-batch; default exposed; example: --moe-overlap");
  add_switch(c, "--moe-captured,!--no-moe-captured", o.moe_captured,
             "captured graphs (--cuda-graph) hold the experts too; default on; example: --cuda-graph --no-moe-captured");
  c.add_option("--moe-imbalance", o.moe_imbalance,
               "rows of the busiest expert rank relative to the mean; default 1; example: --moe-imbalance 1.3")
      ->type_name("RATIO")
      ->check(finite_range(1.0, 1024.0));
  c.add_option("--moe-capacity", o.moe_capacity,
               "rows of an expert, dropped or padded to this many times the mean; default dropless; example: --moe-capacity 1.25")
      ->type_name("RATIO")
      ->check(finite_range(1.0, 1024.0));
}

void add_recipe(CLI::App& c, RunOptions& o) {
  add(c, "--precision", o.precision, "NAME",
      "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4; default the usual 16-bit format of the device; example: --precision fp8");
  add(c, "--framework,--stack", o.framework, "NAME",
      "training framework; default megatron-lm, on TPUs maxtext, on Gaudi megatron-deepspeed; example: --framework fsdp2");
  add(c, "--optimizer", o.optimizer, "NAME",
      "adamw, adam, adam8bit, lion, adafactor, sgd, momentum, lamb or muon; default adamw; example: --optimizer lion");
  add(c, "--offload", o.offload, "LIST",
      "what lives on the host: optimizer, parameters, activations, or the inputs of modules: activations=core_attn+moe_act; "
      "default "
      "nothing; example: --offload optimizer");
  add_switch(c, "--flash,!--no-flash", o.flash,
             "flash attention, or attention as separate kernels; default that of the framework; example: --no-flash");
  add_switch(c, "--compile,!--no-compile", o.compile,
             "memory-bound operators fused by a compiler; default that of the framework; example: --compile");
  add_switch(c, "--cuda-graph,!--no-cuda-graph", o.cuda_graph,
             "no launch cost per kernel; default that of the framework; example: --cuda-graph");
  add_switch(c, "--fused-cross-entropy,!--no-fused-cross-entropy", o.fused_cross_entropy,
             "logits in chunks, never whole; default that of the framework; example: --fused-cross-entropy");
  add_switch(c, "--tp-overlap,!--no-tp-overlap", o.tp_overlap,
             "tensor-parallel collectives beside their GEMMs; default that of the framework; example: --tp-overlap");
  add_switch(c, "--dp-overlap,!--no-dp-overlap", o.dp_overlap,
             "gradients are reduced beside the backward pass and sharded weights gathered beside the passes that need them, or "
             "after and before; default those of the framework; example: --no-dp-overlap");
  add_switch(c, "--gradient-overlap,!--no-gradient-overlap", o.gradient_overlap,
             "gradients alone; default that of the framework; example: --no-gradient-overlap");
  add_switch(c, "--gather-overlap,!--no-gather-overlap", o.gather_overlap,
             "weights alone; default that of the framework; example: --no-gather-overlap");
  add(c, "--cp-scheme", o.cp_scheme, "NAME",
      "how context ranks share keys and values: ring, all-gather or all-to-all; default that of the framework; example: "
      "--cp-scheme "
      "all-gather");
  add_switch(
      c, "--cp-balanced,!--cp-unbalanced", o.cp_balanced,
      "context ranks hold an early and a late piece of a sequence (zigzag), or plain pieces; default that of the framework; "
      "example: --cp-unbalanced");
  add_experts(c, o);
  add(c, "--date", o.date, "DAY",
      "when the software was current, YYYY-MM-DD; default today's; example: --framework megatron-lm --date 2021-06-01");
  add(c, "--framework-version", o.framework_version, "TEXT",
      "release of the framework, whose date counts where it is known; default that of the date; example: --framework-version "
      "0.13");
  for (const hwdb::Setting& setting : hwdb::run_settings()) add_setting(c, setting, o);
}

}  // namespace

void add_run_options(CLI::App& c, RunOptions& o) {
  add_model(c, o);
  add(c, "--gpus", o.gpus, "N",
      "devices (an MI250X counts as two), 1 to 1048576; default dp * tp * pp * cp; example: --gpus 256");
  add_work(c, o);
  add(c, "--tp", o.tp, "N", "tensor-parallel ranks; default 1; example: --tp 8");
  add(c, "--pp", o.pp, "N", "pipeline stages; default 1; example: --pp 4");
  add(c, "--dp", o.dp, "N", "data-parallel ranks; default gpus / (tp * pp * cp); example: --dp 8");
  add(c, "--cp", o.cp, "N", "context-parallel ranks; default 1; example: --cp 2");
  add(c, "--ep", o.ep, "N", "expert-parallel ranks, inside dp * cp; default 1; example: --ep 8");
  add(c, "--micro-batch", o.micro_batch, "SEQS", "sequences per forward pass of a replica; default 1; example: --micro-batch 2");
  add(c, "--virtual-stages", o.virtual_stages, "N",
      "model chunks per pipeline stage, interleaved; default 1; example: --virtual-stages 2");
  add(c, "--schedule", o.schedule, "NAME",
      "pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-v or dualpipe; default 1f1b, or interleaved with virtual stages; "
      "example: --schedule zb-h1");
  add(c, "--recompute", o.recompute, "MODE",
      "none, selective[=MODULES], full[=K], every-n=[Q/]P, op[=all|qkv]; MODULES: core_attn, mlp (dense ones), moe (whole "
      "MoE models), layernorm, activation, moe_act (of experts), shared_experts, mla_up_proj; default none; example: --recompute "
      "selective=core_attn+mlp");
  add(c, "--sharding", o.sharding, "MODE",
      "none, zero1, zero2, zero3 or hsdp; default that of the framework; example: --sharding zero3");
  add(c, "--shard-size", o.shard_size, "N",
      "ranks that share one copy of what is sharded; default all, under hsdp none; example: --sharding hsdp --shard-size 8");
  add_switch(
      c, "--sequence-parallel,!--no-sequence-parallel", o.sequence_parallel,
      "shard norms and residuals over the tensor ranks; default that of the framework; example: --tp 8 --sequence-parallel");
  add(c, "--stage-layers", o.stage_layers, "LIST",
      "transformer layers of each pipeline stage, first to last; default even; example: --pp 4 --stage-layers 19,21,21,19");
  add_switch(c, "--embeddings-as-layers,!--no-embeddings-as-layers", o.embeddings_as_layers,
             "the embedding and the LM head each count as a layer; default where only that divides evenly; example: --pp 8 "
             "--embeddings-as-layers");
  add_recipe(c, o);
}

void add_search_options(CLI::App& c, RunOptions& o) {
  add_model(c, o);
  add(c, "--gpus", o.gpus, "N", "devices (an MI250X counts as two), 1 to 1048576; no default; example: --gpus 256");
  add_work(c, o);
  add(c, "--tp", o.tp, "LIST", "tensor-parallel ranks; default all divisors of gpus; example: --tp 1,2,4,8");
  add(c, "--pp", o.pp, "LIST", "pipeline stages; default all divisors of gpus; example: --pp 1-16*2");
  add(c, "--dp", o.dp, "LIST", "data-parallel ranks; default gpus / (tp * pp * cp); example: --dp 8,16");
  add(c, "--cp", o.cp, "LIST",
      "context-parallel ranks; default 1, and more where a rank keeps 8192 tokens of a sequence; example: --cp 1,2");
  add(c, "--ep", o.ep, "LIST",
      "expert-parallel ranks, inside dp * cp; default powers of two that divide the experts; example: --ep 1,8");
  add(c, "--micro-batch", o.micro_batch, "LIST",
      "sequences per forward pass of a replica; default all that divide the batch; example: --micro-batch 1,2,4");
  add(c, "--virtual-stages", o.virtual_stages, "LIST",
      "model chunks per pipeline stage, interleaved; default all that divide the layers; example: --virtual-stages 1,2");
  add(c, "--schedule", o.schedule, "LIST",
      "pipeline schedules: gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe; default 1f1b,interleaved; example: --schedule "
      "1f1b,zb-h1");
  add(c, "--recompute", o.recompute, "LIST",
      "the same modes; default none, selective, every-n=4, every-n=2, full; example: --recompute none,full");
  add(c, "--sharding", o.sharding, "LIST",
      "none, zero1, zero2, zero3, hsdp; default all that make sense; example: --sharding zero1,zero3");
  add_recipe(c, o);
}

}  // namespace llmsim::cli
