// Megatron-LM's arguments of the model and of the training program.  Sources: megatron.cpp.
#include <string>
#include <utility>
#include <vector>

#include "hwdb/launch/launch_table.h"

namespace llmsim::hwdb {

std::vector<Row> megatron_model_rows();
std::vector<Row> megatron_program_rows();

namespace {

const Term kHasExperts{"model.moe.num_experts", kPresent};
const Term kNoExperts{"model.moe.num_experts", kAbsent};
const Term kHasLatents{"model.mla.kv_lora_rank", kPresent};
const Term kHybrid{"model.layer_pattern", kPresent};

// Layers of a hybrid are one of Mamba-2, attention, an MLP or experts each.  Older releases want a
// flag and a stack of layers beside the pattern, newer ones give the pattern another name.
Row megatron_pattern() {
  const std::string flag = "--is-hybrid-model", pattern = "--hybrid-override-pattern";
  const std::string renamed = "--hybrid-layer-pattern", stack = "--spec";
  const std::string heads = "--mamba-num-heads", width = "--mamba-head-dim";
  const std::vector<Term> sizes{
      {width, "$d"}, {"--mamba-state-dim", "$n"}, {"--mamba-num-groups", "$g"}};
  const std::vector<Term> run{{"model.layer_pattern", "$p"},
                              {"model.mamba.head_dim", "$d"},
                              {"model.mamba.state_size", "$n"},
                              {"model.mamba.num_groups", "$g"}};
  Row row{.cases = {{.file = {{stack, kAnything}}, .run = {{"model.layer_pattern", kAbsent}}}},
          .defaults = {{flag, "false"},
                       {width, "64"},
                       {"--mamba-state-dim", "128"},
                       {"--mamba-num-groups", "8"}}};
  Case written{.file = {{flag, "true"},
                        {pattern, "$p"},
                        {heads, "$h"},
                        {stack, "megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec"}},
               .run = run};
  written.file.insert(written.file.end(), sizes.begin(), sizes.end());
  written.run.push_back({"model.mamba.num_heads", "$h"});
  row.cases.push_back(written);
  for (const std::string& key : {pattern, renamed}) {
    for (const bool counted : {true, false}) {
      Case read{.file = {{key, "$p"}, {flag, kAnything}, {stack, kAnything}},
                .run = run,
                .direction = Direction::Read};
      read.file.insert(read.file.end(), sizes.begin(), sizes.end());
      if (counted) read.file.push_back({heads, "$h"});
      if (counted) read.run.push_back({"model.mamba.num_heads", "$h"});
      row.cases.push_back(read);
    }
  }
  return row;
}

// The width of MLPs; a hybrid without any writes that of its experts, whose default it is.
Row megatron_ffn() {
  const std::string key = "--ffn-hidden-size", field = "model.ffn_size";
  return {.cases = {
              {.file = {{key, "$"}},
               .run = {{field, "0"}, {"model.moe.expert_ffn_size", "$"}},
               .when = {kHybrid},
               .direction = Direction::Write},
              {.file = {}, .run = {{field, "0"}}, .when = {kHybrid}, .direction = Direction::Write},
              {.file = {{key, "$"}}, .run = {{field, "$"}}}}};
}

Row megatron_latents() {
  const std::string on = "--multi-latent-attention", q = "--q-lora-rank", kv = "--kv-lora-rank";
  const std::string plain = "--qk-head-dim", rope = "--qk-pos-emb-head-dim", v = "--v-head-dim";
  const std::vector<Term> file{{on, "true"}, {kv, "$kv"}, {plain, "$p"}, {rope, "$r"}, {v, "$v"}};
  const std::vector<Term> run{{"model.mla.kv_lora_rank", "$kv"},
                              {"model.mla.qk_nope_head_dim", "$p"},
                              {"model.mla.qk_rope_head_dim", "$r"},
                              {"model.mla.v_head_dim", "$v"}};
  Case with_queries{.file = file, .run = run}, without{.file = file, .run = run};
  with_queries.file.push_back({q, "$q"});
  with_queries.run.push_back({"model.mla.q_lora_rank", "$q"});
  without.run.push_back({"model.mla.q_lora_rank", kAbsent});
  return {
      .cases = {{.file = {}, .run = {{"model.mla.kv_lora_rank", kAbsent}}}, with_queries, without},
      .defaults = {{on, "false"}, {kv, "32"}, {plain, "128"}, {rope, "64"}, {v, "128"}}};
}

std::vector<Row> megatron_shape() {
  const std::string gqa = "--group-query-attention", groups = "--num-query-groups";
  return {copied("--num-layers", "model.num_layers"),
          copied("--hidden-size", "model.hidden_size"),
          megatron_pattern(),
          copied("--num-attention-heads", "model.num_heads"),
          megatron_latents(),
          {.cases = {{.file = {{gqa, kAnything}, {groups, kAnything}},
                      .run = {},
                      .when = {kHasLatents}},
                     {.file = {},
                      .run = {{"model.num_heads", "$"}, {"model.num_kv_heads", "$"}},
                      .when = {},
                      .direction = Direction::Write},
                     {.file = {{gqa, "true"}, {groups, "$"}}, .run = {{"model.num_kv_heads", "$"}}},
                     {.file = {{groups, kAnything}}, .run = {}}},
           .defaults = {{gqa, "false"}, {groups, "1"}}},
          {.cases = {{.file = {{"--kv-channels", kAnything}}, .run = {}, .when = {kHasLatents}},
                     {.file = {{"--kv-channels", "$"}}, .run = {{"model.head_dim", "$"}}}}},
          megatron_ffn(),
          copied("--seq-length", "model.seq_len"),
          {.cases = {{.file = {{"--swiglu", "true"}}, .run = {{"model.gated_mlp", "true"}}},
                     {.file = {{"--quick-geglu", "true"}},
                      .run = {{"model.gated_mlp", "true"}},
                      .direction = Direction::Read},
                     {.file = {{"--squared-relu", "true"}},
                      .run = {{"model.gated_mlp", "false"}},
                      .when = {kHybrid}},
                     {.file = {{"--squared-relu", "true"}},
                      .run = {{"model.gated_mlp", "false"}},
                      .direction = Direction::Read},
                     {.file = {}, .run = {{"model.gated_mlp", "false"}}}},
           .defaults = {{"--swiglu", "false"},
                        {"--quick-geglu", "false"},
                        {"--squared-relu", "false"}}},
          {.cases = {{.file = {{"--untie-embeddings-and-output-weights", "true"}},
                      .run = {{"model.tied_embeddings", "false"}}},
                     {.file = {}, .run = {{"model.tied_embeddings", "true"}}}},
           .defaults = {{"--untie-embeddings-and-output-weights", "false"}}}};
}

std::vector<Row> megatron_layers() {
  const std::string position = "--position-embedding-type";
  const std::string old = "--use-rotary-position-embeddings", rows = "--max-position-embeddings";
  const std::string plain = "--disable-bias-linear", qkv = "--add-qkv-bias";
  const auto biases = [](const char* of_qkv, const char* others) {
    return std::vector<Term>{{"model.bias.qkv", of_qkv},
                             {"model.bias.attention_output", others},
                             {"model.bias.mlp", others}};
  };
  return {
      {.cases = {{.file = {{position, "rope"}, {old, kAnything}},
                  .run = {{"model.position", "rope"}}},
                 {.file = {{old, "true"}, {position, kAnything}},
                  .run = {{"model.position", "rope"}},
                  .direction = Direction::Read},
                 {.file = {{position, "yarn"}},
                  .run = {{"model.position", "rope"}},
                  .direction = Direction::Read},
                 {.file = {{position, "learned_absolute"}}, .run = {{"model.position", "learned"}}},
                 {.file = {{position, "relative"}}, .run = {{"model.position", "relative"}}},
                 {.file = {{position, "none"}}, .run = {{"model.position", "none"}}}},
       .defaults = {{position, "learned_absolute"}, {old, "false"}}},
      {.cases = {{.file = {{rows, "$"}},
                  .run = {{"model.max_positions", "$"}},
                  .when = {{"model.position", "learned"}}},
                 {.file = {{rows, kAnything}}, .run = {}, .when = {}, .direction = Direction::Read},
                 {.file = {{rows, "$"}},
                  .run = {{"model.seq_len", "$"}},
                  .when = {},
                  .direction = Direction::Write}}},
      {.cases = {{.file = {{"--normalization", "RMSNorm"}},
                  .run = {{"model.norm", "rmsnorm"}, {"model.bias.norm", "false"}}},
                 {.file = {{"--normalization", "LayerNorm"}},
                  .run = {{"model.norm", "layernorm"}, {"model.bias.norm", "true"}}}},
       .defaults = {{"--normalization", "LayerNorm"}}},
      {.cases = {{.file = {}, .run = biases("true", "true")},
                 {.file = {{plain, "true"}}, .run = biases("false", "false")},
                 {.file = {{plain, "true"}, {qkv, "true"}}, .run = biases("true", "false")}},
       .defaults = {{plain, "false"}, {qkv, "false"}}},
      {.cases = {{.file = {{"--qk-layernorm", "true"}},
                  .run = {{"model.qk_norm", "none"}},
                  .when = {kHasLatents}},
                 {.file = {{"--qk-layernorm", "true"}}, .run = {{"model.qk_norm", "per-head"}}},
                 {.file = {}, .run = {{"model.qk_norm", "none"}}}},
       .defaults = {{"--qk-layernorm", "false"}}},
      {.cases = {{.file = {}, .run = {{"model.mtp_layers", "0"}}},
                 {.file = {{"--mtp-num-layers", "$"}, {"--mtp-hybrid-override-pattern", "*E"}},
                  .run = {{"model.mtp_layers", "$"}},
                  .when = {kHybrid}},
                 {.file = {{"--mtp-num-layers", "$"}}, .run = {{"model.mtp_layers", "$"}}}}}};
}

// Rows of the embedding: as they are given, or those of a tokenizer that comes with its own.
std::vector<Row> megatron_vocabulary() {
  const std::string rows = "--vocab-size", tokenizer = "--tokenizer-type";
  return {{.cases = {{.file = {{rows, "$"}, {tokenizer, kAnything}},
                      .run = {{"model.vocab_size", "$"}}},
                     {.file = {{tokenizer, "GPT2BPETokenizer"}},
                      .run = {{"model.vocab_size", "50257"}},
                      .direction = Direction::Read},
                     {.file = {{tokenizer, "Llama2Tokenizer"}},
                      .run = {{"model.vocab_size", "32000"}},
                      .direction = Direction::Read},
                     {.file = {{tokenizer, kAnything}},
                      .run = {},
                      .when = {},
                      .direction = Direction::Read}},
           .defaults = {{tokenizer, "GPT2BPETokenizer"}}},
          {.cases = {{.file = {{"--make-vocab-size-divisible-by", "128"}}, .run = {}},
                     {.file = {{"--make-vocab-size-divisible-by", "$"}},
                      .run = {{"model.vocab_divisor", "$"}},
                      .direction = Direction::Read}},
           .defaults = {{"--make-vocab-size-divisible-by", "128"}}}};
}

std::vector<Row> megatron_experts() {
  const std::string dispatcher = "--moe-token-dispatcher-type", deepep = "--moe-enable-deepep";
  const std::string backend = "--moe-flex-dispatcher-backend";
  const std::string capacity = "--moe-expert-capacity-factor";
  const std::string pad = "--moe-pad-expert-input-to-capacity";
  const auto of_experts = [](const std::string& key, const std::string& field,
                             const std::string& fallback) {
    return Row{
        .cases = {{.file = {{key, "$"}}, .run = {{field, "$"}}, .when = {kHasExperts}},
                  {.file = {{key, kAnything}}, .run = {}}},
        .defaults = fallback.empty() ? std::vector<Term>{} : std::vector<Term>{{key, fallback}}};
  };
  return {
      copied("--num-experts", "model.moe.num_experts"),
      of_experts("--moe-router-topk", "model.moe.top_k", "2"),
      copied("--moe-ffn-hidden-size", "model.moe.expert_ffn_size"),
      copied("--moe-latent-size", "model.moe.latent_size"),
      {.cases = {{.file = {}, .run = {{"model.moe.shared_width", "0"}}, .when = {kHasExperts}},
                 {.file = {{"--moe-shared-expert-intermediate-size", "$"}},
                  .run = {{"model.moe.shared_width", "$"}}},
                 {.file = {}, .run = {}}}},
      of_experts("--moe-layer-freq", "model.moe.layers", "1"),
      {.cases = {{.file = {}, .run = {{"model.moe.num_groups", "1"}}, .when = {kHasExperts}},
                 {.file = {{"--moe-router-num-groups", "$"}, {"--moe-router-group-topk", "$2"}},
                  .run = {{"model.moe.num_groups", "$"}, {"model.moe.groups_per_token", "$2"}},
                  .when = {kHasExperts}},
                 {.file = {}, .run = {}}}},
      {.cases = {{.file = {{"--moe-router-enable-expert-bias", "true"}},
                  .run = {{"model.moe.router_bias", "true"}}},
                 {.file = {}, .run = {{"model.moe.router_bias", "false"}}, .when = {kHasExperts}},
                 {.file = {}, .run = {}}},
       .defaults = {{"--moe-router-enable-expert-bias", "false"}}},
      {.cases = {{.file = {{"--moe-shared-expert-gate", "true"}},
                  .run = {{"model.moe.shared_expert_gate", "true"}}},
                 {.file = {},
                  .run = {{"model.moe.shared_expert_gate", "false"}},
                  .when = {kHasExperts}},
                 {.file = {}, .run = {}}},
       .defaults = {{"--moe-shared-expert-gate", "false"}}},
      copied("--expert-model-parallel-size", "ep", "1"),
      {.cases = {{.file = {{"--expert-tensor-parallel-size", "$"}}, .run = {{"etp", "$"}}},
                 {.file = {}, .run = {{"etp", kAbsent}}}}},
      {.cases = {{.file = {{dispatcher, kAnything}, {backend, kAnything}, {deepep, kAnything}},
                  .run = {},
                  .when = {kNoExperts}},
                 {.file = {{dispatcher, "flex"}, {backend, "deepep"}, {deepep, kAnything}},
                  .run = {{"moe_dispatch", "deepep"}}},
                 {.file = {{dispatcher, "flex"}, {backend, "hybridep"}, {deepep, kAnything}},
                  .run = {{"moe_dispatch", "deepep"}},
                  .direction = Direction::Read},
                 {.file = {{dispatcher, "allgather"}}, .run = {{"moe_dispatch", "allgather"}}},
                 {.file = {{dispatcher, "alltoall"}}, .run = {{"moe_dispatch", kAbsent}}}},
       .defaults = {{dispatcher, "allgather"}, {backend, "deepep"}, {deepep, "false"}}},
      {.cases = {{.file = {{capacity, "$"}, {pad, "true"}}, .run = {{"moe_capacity", "$"}}},
                 {.file = {{capacity, "$"}},
                  .run = {{"moe_capacity", "$"}},
                  .when = {},
                  .direction = Direction::Read},
                 {.file = {}, .run = {{"moe_capacity", kAbsent}}}},
       .defaults = {{pad, "false"}}},
      stated_flag("--overlap-moe-expert-parallel-comm", "moe_overlap", "true"),
      {.cases = {{.file = {{"--moe-grouped-gemm", "true"}}, .run = {{"grouped_gemm", "true"}}},
                 {.file = {{"--moe-grouped-gemm", "true"}},
                  .run = {{"grouped_gemm", kAbsent}},
                  .when = {kHasExperts},
                  .direction = Direction::Write},
                 {.file = {}, .run = {{"grouped_gemm", "false"}}, .when = {kHasExperts}},
                 {.file = {}, .run = {{"grouped_gemm", kAbsent}}}},
       .defaults = {{"--moe-grouped-gemm", "false"}}}};
}

Row megatron_precision() {
  const std::string bf16 = "--bf16", fp8 = "--fp8-format", recipe = "--fp8-recipe";
  const std::string fp4 = "--fp4-format";
  Row row{.cases = {{.file = {{bf16, "true"}}, .run = {{"precision", "bf16"}}},
                    {.file = {{"--fp16", "true"}}, .run = {{"precision", "fp16"}}},
                    {.file = {}, .run = {{"precision", "fp32"}}},
                    {.file = {{bf16, "true"}, {fp4, "e2m1"}, {"--fp4-recipe", kAnything}},
                     .run = {{"precision", "nvfp4"}}},
                    {.file = {{bf16, "true"}, {fp8, "hybrid"}},
                     .run = {{"precision", "fp8"}, {"fp8_recipe", kAbsent}},
                     .direction = Direction::Write}},
          .defaults = {{bf16, "false"}, {"--fp16", "false"}, {recipe, "delayed"}}};
  for (const auto& [format, direction] :
       {std::pair{"hybrid", Direction::Both}, std::pair{"e4m3", Direction::Read}}) {
    for (const auto& [word, value] :
         {std::pair{"delayed", "delayed"}, std::pair{"tensorwise", "current"},
          std::pair{"blockwise", "blockwise"}})
      row.cases.push_back({.file = {{bf16, "true"}, {fp8, format}, {recipe, word}},
                           .run = {{"precision", "fp8"}, {"fp8_recipe", value}},
                           .when = {},
                           .direction = direction});
    row.cases.push_back(
        {.file = {{bf16, "true"}, {fp8, format}, {recipe, "mxfp8"}},
         .run = {{"precision", "mxfp8"}},
         .when = {},
         .direction = direction == Direction::Both ? Direction::Read : Direction::Both});
  }
  return row;
}

std::vector<Row> megatron_formats() {
  const std::string ends = "--first-last-layers-bf16", reduce = "--grad-reduce-in-bf16";
  const std::string aware = "--use-precision-aware-optimizer";
  return {
      megatron_precision(),
      stated_flag("--fp8-param-gather", "fp8_all_gather", "true"),
      {.cases = {{.file = {{ends, "true"},
                           {"--num-layers-at-start-in-bf16", "$"},
                           {"--num-layers-at-end-in-bf16", "$2"}},
                  .run = {{"first_layers_bf16", "$"}, {"last_layers_bf16", "$2"}}},
                 {.file = {},
                  .run = {{"first_layers_bf16", kAbsent}, {"last_layers_bf16", kAbsent}}}},
       .defaults = {{ends, "false"},
                    {"--num-layers-at-start-in-bf16", "1"},
                    {"--num-layers-at-end-in-bf16", "1"}}},
      {.cases = {{.file = {{reduce, "true"}},
                  .run = {{"gradient_dtype", "bf16"}, {"gradient_reduce_dtype", "bf16"}}},
                 {.file = {},
                  .run = {{"gradient_dtype", kAbsent}, {"gradient_reduce_dtype", kAbsent}}},
                 {.file = {},
                  .run = {{"gradient_dtype", "fp32"}},
                  .when = {},
                  .direction = Direction::Write}},
       .defaults = {{reduce, "false"}}},
      {.cases = {{.file = {{aware, "true"}, {"--exp-avg-dtype", "$"}, {"--exp-avg-sq-dtype", "$"}},
                  .run = {{"state_dtype", "$"}}},
                 {.file = {}, .run = {{"state_dtype", kAbsent}}},
                 {.file = {},
                  .run = {{"state_dtype", "fp32"}},
                  .when = {},
                  .direction = Direction::Write}},
       .defaults = {
           {aware, "false"}, {"--exp-avg-dtype", "fp32"}, {"--exp-avg-sq-dtype", "fp32"}}}};
}

Row megatron_attention() {
  const std::string backend = "--attention-backend", old = "--use-flash-attn";
  return {.cases = {{.file = {{backend, "unfused"}}, .run = {{"flash_attention", "false"}}},
                    {.file = {{backend, "local"}},
                     .run = {{"flash_attention", "false"}},
                     .direction = Direction::Read},
                    {.file = {{backend, "fused"}},
                     .run = {{"flash_attention", "true"}, {"attention_kernel", "cudnn"}}},
                    {.file = {{backend, "flash"}, {old, kAnything}},
                     .run = {{"flash_attention", "true"}}},
                    {.file = {{backend, "auto"}, {old, kAnything}},
                     .run = {{"flash_attention", "true"}},
                     .direction = Direction::Read},
                    {.file = {{old, "true"}},
                     .run = {{"flash_attention", "true"}},
                     .direction = Direction::Read}},
          .defaults = {{old, "false"}}};
}

Row megatron_graphs() {
  const std::string how = "--cuda-graph-impl", what = "--cuda-graph-scope";
  const std::string old = "--enable-cuda-graph", outside = "--external-cuda-graph";
  Row row{.cases = {{.file = {{how, kAnything}, {what, kAnything}},
                     .run = {{"cuda_graph", "false"}},
                     .direction = Direction::Write},
                    {.file = {{how, "transformer_engine"}, {what, "attn"}},
                     .run = {{"cuda_graph", "true"}, {"moe_captured", "false"}}},
                    {.file = {{how, "transformer_engine"}, {what, kAnything}},
                     .run = {{"cuda_graph", "true"}, {"moe_captured", kAbsent}}},
                    {.file = {{how, "none"}},
                     .run = {{"cuda_graph", "false"}},
                     .direction = Direction::Read}},
          .defaults = {{how, "none"}, {old, "false"}, {outside, "false"}}};
  for (const auto& [key, word] : {std::pair{how.c_str(), "local"}, std::pair{old.c_str(), "true"},
                                  std::pair{outside.c_str(), "true"}})
    row.cases.push_back({.file = {{key, word}, {what, kAnything}},
                         .run = {{"cuda_graph", "true"}},
                         .when = {},
                         .direction = Direction::Read});
  return row;
}

std::vector<Row> megatron_training() {
  const std::string loss = "--cross-entropy-loss-fusion",
                    fusion = "--no-gradient-accumulation-fusion";
  const std::string inner = "--attention-dropout", outer = "--hidden-dropout";
  return {
      {.cases = {{.file = {{"--optimizer", "adam"}}, .run = {{"optimizer", "adamw"}}},
                 {.file = {{"--optimizer", "adam"}}, .run = {{"optimizer", "adam"}}},
                 {.file = {{"--optimizer", "sgd"}}, .run = {{"optimizer", "momentum"}}},
                 {.file = {{"--optimizer", "muon"}}, .run = {{"optimizer", "muon"}}}},
       .defaults = {{"--optimizer", "adam"}}},
      {.cases = {{.file = {{"--clip-grad", "0.0"}}, .run = {{"gradient_clip", "false"}}},
                 {.file = {{"--clip-grad", kAnything}}, .run = {{"gradient_clip", kAbsent}}}}},
      {.cases = {{.file = {{inner, "$"}, {outer, "$"}}, .run = {{"dropout", "$"}}},
                 {.file = {{inner, "0.0"}, {outer, "0.0"}},
                  .run = {{"dropout", kAbsent}},
                  .direction = Direction::Write}},
       .defaults = {{inner, "0.1"}, {outer, "0.1"}}},
      megatron_attention(),
      {.cases = {{.file = {{loss, "true"}, {"--cross-entropy-fusion-impl", kAnything}},
                  .run = {{"fused_cross_entropy", "true"}}},
                 {.file = {}, .run = {{"fused_cross_entropy", "false"}}}},
       .defaults = {{loss, "false"}}},
      flagged("--tp-comm-overlap", "tp_overlap"),
      stated_flag("--use-tp-pp-dp-mapping", "mesh_order", "tp-cp-ep-pp-dp"),
      megatron_graphs(),
      {.cases = {{.file = {{fusion, "true"}}, .run = {{"gradient_accumulation_fusion", "false"}}},
                 {.file = {}, .run = {{"gradient_accumulation_fusion", kAbsent}}},
                 {.file = {},
                  .run = {{"gradient_accumulation_fusion", "true"}},
                  .when = {},
                  .direction = Direction::Write}},
       .defaults = {{fusion, "false"}}},
      stated_flag("--deterministic-mode", "deterministic", "true"),
      {.cases = {{.file = {{"--transformer-impl", "transformer_engine"}},
                  .run = {{"transformer_engine", kAbsent}}},
                 {.file = {{"--transformer-impl", "transformer_engine"}},
                  .run = {{"transformer_engine", "true"}}},
                 {.file = {{"--transformer-impl", "local"}},
                  .run = {{"transformer_engine", "false"}}}},
       .defaults = {{"--transformer-impl", "transformer_engine"}}}};
}

}  // namespace

std::vector<Row> megatron_model_rows() {
  std::vector<Row> rows;
  for (const auto& part :
       {megatron_shape, megatron_layers, megatron_vocabulary, megatron_experts}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> megatron_program_rows() {
  std::vector<Row> rows;
  for (const auto& part : {megatron_formats, megatron_training}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace llmsim::hwdb
