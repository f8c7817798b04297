// Overrides of a Megatron-Bridge recipe: experts, number formats, training.  Sources: nemo.cpp.
#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "hwdb/launch/launch_table.h"

namespace llmsim::hwdb {

std::vector<Row> nemo_program_rows();

namespace {

const std::string kProvider = "model.", kMixedPrecision = "mixed_precision.",
                  kOfOptimizer = "optimizer.";

std::vector<Row> nemo_experts() {
  const std::string dispatcher = kProvider + "moe_token_dispatcher_type";
  const std::string deepep = kProvider + "moe_enable_deepep";
  const std::string backend = kProvider + "moe_flex_dispatcher_backend";
  const std::string capacity = kProvider + "moe_expert_capacity_factor";
  const std::string pad = kProvider + "moe_pad_expert_input_to_capacity";
  const std::string grouped = kProvider + "moe_grouped_gemm";
  const std::string ranks = kProvider + "expert_tensor_parallel_size";
  // A dense model's file does not mention these keys.
  const auto silent = [](const std::vector<std::string>& keys) {
    Case one{.file = {},
             .run = {},
             .when = {{"model.moe.num_experts", kAbsent}},
             .direction = Direction::Write};
    for (const std::string& key : keys) one.file.push_back({key, kAnything});
    return one;
  };
  const auto flex = [&](const char* by, Direction direction) {
    return Case{.file = {{dispatcher, "flex"}, {backend, by}, {deepep, kAnything}},
                .run = {{"moe_dispatch", "deepep"}},
                .when = {},
                .direction = direction};
  };
  return {copied(kProvider + "expert_model_parallel_size", "ep", "1"),
          {.cases = {silent({ranks}),
                     {.file = {{ranks, "$"}}, .run = {{"etp", "$"}}},
                     {.file = {}, .run = {{"etp", kAbsent}}}},
           .overrides = true},
          {.cases = {silent({dispatcher}),
                     flex("deepep", Direction::Both),
                     flex("hybridep", Direction::Read),
                     {.file = {{dispatcher, "allgather"}}, .run = {{"moe_dispatch", "allgather"}}},
                     {.file = {{dispatcher, "alltoall"}}, .run = {{"moe_dispatch", kAbsent}}}},
           .defaults = {{dispatcher, "alltoall"}, {backend, "deepep"}, {deepep, "false"}}},
          {.cases = {silent({capacity, pad}),
                     {.file = {{capacity, "$"}, {pad, kAnything}}, .run = {{"moe_capacity", "$"}}},
                     {.file = {}, .run = {{"moe_capacity", kAbsent}}}},
           .defaults = {{pad, "false"}},
           .overrides = true},
          {.cases = {silent({grouped}),
                     {.file = {{grouped, "false"}}, .run = {{"grouped_gemm", "false"}}},
                     {.file = {{grouped, "true"}}, .run = {{"grouped_gemm", "true"}}},
                     {.file = {{grouped, "true"}},
                      .run = {{"grouped_gemm", kAbsent}},
                      .when = {},
                      .direction = Direction::Write}}}};
}

// Recipes of mixed precision by their names.
Row nemo_named_precision() {
  const std::string name = "mixed_precision";
  Row row{.cases = {{.file = {{kMixedPrecision + "dtype", "bf16"}},
                     .run = {{"precision", "bf16"}},
                     .direction = Direction::Read}}};
  const auto named = [&](const std::string& word, const std::vector<Term>& run) {
    std::string dashed = word;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    for (const std::string& spelling : {word, dashed})
      row.cases.push_back(
          {.file = {{name, spelling}}, .run = run, .when = {}, .direction = Direction::Read});
  };
  const auto in_fp8 = [](const char* scaling, bool gathers, bool ends) {
    std::vector<Term> run{{"precision", "fp8"}, {"fp8_recipe", scaling}};
    if (gathers) run.push_back({"fp8_all_gather", "true"});
    if (ends) run.insert(run.end(), {{"first_layers_bf16", "1"}, {"last_layers_bf16", "1"}});
    return run;
  };
  named("bf16_mixed", {{"precision", "bf16"}}), named("fp16_mixed", {{"precision", "fp16"}});
  named("bf16_with_fp8_delayed_scaling_mixed", in_fp8("delayed", true, false));
  named("bf16_with_fp8_current_scaling_mixed", in_fp8("current", true, true));
  named("bf16_with_fp8_subchannel_scaling_mixed", in_fp8("blockwise", false, false));
  named("bf16_with_mxfp8_mixed", {{"precision", "mxfp8"}, {"fp8_all_gather", "true"}});
  return row;
}

// The formats of a whole configuration; `terms`: what holds beside the format of the weights.
std::vector<Term> nemo_dtypes(const char* dtype, std::vector<Term> terms) {
  for (const char* of : {"params_dtype.", "pipeline_dtype."}) {
    terms.push_back({kMixedPrecision + of + "_target_", dtype});
    terms.push_back({kMixedPrecision + of + "_call_", "false"});
  }
  terms.insert(terms.begin(), {kMixedPrecision + "_target_",
                               "megatron.bridge.training.mixed_precision.MixedPrecisionConfig"});
  return terms;
}

Row nemo_precision() {
  const std::string bf16 = kMixedPrecision + "bf16", fp16 = kMixedPrecision + "fp16",
                    fp32 = kMixedPrecision + "fp32";
  const std::string fp8 = kMixedPrecision + "fp8", recipe = kMixedPrecision + "fp8_recipe",
                    fp4 = kMixedPrecision + "fp4";
  const Term nvfp4{kMixedPrecision + "fp4_recipe", "nvfp4"};
  const char* const half = "torch.bfloat16";
  const auto formats = [](const char* dtype, std::vector<Term> terms, const char* precision) {
    return Case{.file = nemo_dtypes(dtype, std::move(terms)), .run = {{"precision", precision}}};
  };
  Row row{
      .cases = {formats(half, {{bf16, "true"}}, "bf16"),
                formats("torch.float16", {{fp16, "true"}}, "fp16"),
                formats("torch.float32", {{fp32, "true"}}, "fp32"),
                formats(half, {{bf16, "true"}, {fp4, "e2m1"}, nvfp4}, "nvfp4"),
                {.file = nemo_dtypes(half, {{bf16, "true"}, {fp8, "hybrid"}}),
                 .run = {{"precision", "fp8"}, {"fp8_recipe", kAbsent}},
                 .direction = Direction::Write}},
      .defaults = nemo_dtypes(
          half, {{bf16, "false"}, {fp16, "false"}, {fp32, "false"}, {recipe, "tensorwise"}, nvfp4}),
      .overrides = true};
  for (const auto& [format, direction] :
       {std::pair{"hybrid", Direction::Both}, std::pair{"e4m3", Direction::Read}}) {
    for (const auto& [word, value] :
         {std::pair{"delayed", "delayed"}, std::pair{"tensorwise", "current"},
          std::pair{"blockwise", "blockwise"}})
      row.cases.push_back(
          {.file = nemo_dtypes(half, {{bf16, "true"}, {fp8, format}, {recipe, word}}),
           .run = {{"precision", "fp8"}, {"fp8_recipe", value}},
           .when = {},
           .direction = direction});
  }
  row.cases.push_back(formats(half, {{bf16, "true"}, {fp8, "e4m3"}, {recipe, "mxfp8"}}, "mxfp8"));
  return row;
}

std::vector<Row> nemo_formats() {
  const std::string ends = kMixedPrecision + "first_last_layers_bf16";
  const std::string first = kMixedPrecision + "num_layers_at_start_in_bf16";
  const std::string last = kMixedPrecision + "num_layers_at_end_in_bf16";
  const std::string wide = kMixedPrecision + "grad_reduce_in_fp32",
                    gather = kMixedPrecision + "fp8_param_gather";
  const std::string aware = kOfOptimizer + "use_precision_aware_optimizer";
  const std::string mean = kOfOptimizer + "exp_avg_dtype.",
                    square = kOfOptimizer + "exp_avg_sq_dtype.";
  const auto states = [&](const char* dtype, const char* value, Direction direction) {
    std::vector<Term> file{{aware, "true"}};
    for (const std::string& of : {mean, square}) {
      file.push_back({of + "_target_", dtype});
      file.push_back({of + "_call_", "false"});
    }
    return Case{.file = file, .run = {{"state_dtype", value}}, .when = {}, .direction = direction};
  };
  Row state{.cases = {states("torch.bfloat16", "bf16", Direction::Both),
                      states("torch.float16", "fp16", Direction::Both),
                      {.file = {{aware, "false"}}, .run = {{"state_dtype", kAbsent}}},
                      {.file = {{aware, "false"}},
                       .run = {{"state_dtype", "fp32"}},
                       .when = {},
                       .direction = Direction::Write},
                      states("torch.float32", "fp32", Direction::Read)},
            .defaults = {{aware, "false"}}};
  for (const std::string& of : {mean, square}) {
    state.defaults.push_back({of + "_target_", "torch.float32"});
    state.defaults.push_back({of + "_call_", "false"});
  }
  const auto plain = [&](const char* value, Direction direction) {
    return Case{.file = {{wide, "true"}},
                .run = {{"gradient_dtype", value}, {"gradient_reduce_dtype", kAbsent}},
                .when = {},
                .direction = direction};
  };
  return {nemo_named_precision(),
          nemo_precision(),
          {.cases = {{.file = {{gather, "true"}}, .run = {{"fp8_all_gather", "true"}}},
                     {.file = {{gather, "false"}}, .run = {{"fp8_all_gather", kAbsent}}}},
           .defaults = {{gather, "false"}}},
          {.cases = {{.file = {{ends, "true"}, {first, "$"}, {last, "$2"}},
                      .run = {{"first_layers_bf16", "$"}, {"last_layers_bf16", "$2"}}},
                     {.file = {{ends, "false"}, {first, kAnything}, {last, kAnything}},
                      .run = {{"first_layers_bf16", kAbsent}, {"last_layers_bf16", kAbsent}}}},
           .defaults = {{ends, "false"}, {first, "0"}, {last, "0"}}},
          {.cases = {{.file = {{wide, "false"}},
                      .run = {{"gradient_dtype", "bf16"}, {"gradient_reduce_dtype", "bf16"}}},
                     plain(kAbsent, Direction::Both),
                     plain("fp32", Direction::Write)},
           .defaults = {{wide, "true"}}},
          state};
}

Row nemo_graphs() {
  const std::string how = kProvider + "cuda_graph_impl", what = kProvider + "cuda_graph_scope";
  const auto captured = [&](const char* by, Direction direction) {
    return Case{.file = {{how, by}, {what, kAnything}},
                .run = {{"cuda_graph", "true"}, {"moe_captured", kAbsent}},
                .when = {},
                .direction = direction};
  };
  return {.cases = {{.file = {{how, "none"}, {what, kAnything}}, .run = {{"cuda_graph", "false"}}},
                    {.file = {{how, "transformer_engine"}, {what, "attn"}},
                     .run = {{"cuda_graph", "true"}, {"moe_captured", "false"}}},
                    captured("transformer_engine", Direction::Both),
                    captured("local", Direction::Read)},
          .defaults = {{how, "none"}}};
}

Row nemo_attention() {
  const std::string backend = kProvider + "attention_backend";
  const auto reads = [&](const char* word, const char* flash) {
    return Case{.file = {{backend, word}},
                .run = {{"flash_attention", flash}},
                .when = {},
                .direction = Direction::Read};
  };
  return {
      .cases = {{.file = {{backend, "unfused"}}, .run = {{"flash_attention", "false"}}},
                {.file = {{backend, "fused"}},
                 .run = {{"flash_attention", "true"}, {"attention_kernel", "cudnn"}}},
                {.file = {}, .run = {{"flash_attention", "true"}, {"attention_kernel", kAbsent}}},
                reads("local", "false"),
                reads("flash", "true"),
                reads("auto", "true")},
      .overrides = true};
}

constexpr std::pair<const char*, const char*> kAdapted[] = {
    {"q", "linear_q"},     {"k", "linear_k"},           {"v", "linear_v"},
    {"o", "linear_proj"},  {"gate", "linear_fc1_gate"}, {"up", "linear_fc1_up"},
    {"down", "linear_fc2"}};

// "q+v" as "[linear_q, linear_v]"; other values as they are.
std::string nemo_adapted(const std::string& names) {
  std::string text;
  std::istringstream parts(names);
  for (std::string part; std::getline(parts, part, '+');) {
    for (const auto& [name, module] : kAdapted)
      if (part == name) text += (text.empty() ? "[" : ", ") + std::string(module);
  }
  return text.empty() ? names : text + "]";
}

std::string adapted_names(const std::string& modules) {
  std::string text;
  std::istringstream parts(modules);
  for (std::string part; std::getline(parts >> std::ws, part, ',');) {
    for (const auto& [name, module] : kAdapted)
      if (part == module) part = name;
    text += (text.empty() ? "" : "+") + part;
  }
  return text;
}

// Adapters on each matrix of its own; those on fused ones (LoRA) are others.
Row nemo_adapters() {
  const Term kind{"peft._target_", "megatron.bridge.peft.canonical_lora.CanonicalLoRA"};
  const Term rank{"peft.dim", "$r"};
  return {.cases = {{.file = {}, .run = {{"model.lora.rank", kAbsent}}},
                    {.file = {kind, {"peft.target_modules", "$t"}, rank},
                     .run = {{"model.lora.targets", "$t"}, {"model.lora.rank", "$r"}}},
                    {.file = {kind, rank},
                     .run = {{"model.lora.targets", "all"}, {"model.lora.rank", "$r"}},
                     .when = {},
                     .direction = Direction::Read}},
          .defaults = {{"peft.dim", "32"}},
          .spelled = nemo_adapted,
          .meant = adapted_names};
}

std::vector<Row> nemo_training() {
  const std::string clip = kOfOptimizer + "clip_grad", kind = kOfOptimizer + "optimizer";
  const std::string inner = kProvider + "attention_dropout", outer = kProvider + "hidden_dropout";
  const std::string fusion = kProvider + "gradient_accumulation_fusion";
  const std::string exact = kProvider + "deterministic_mode";
  const std::string engine = kProvider + "transformer_impl";
  return {
      nemo_adapters(),
      nemo_attention(),
      nemo_graphs(),
      switched(kProvider + "cross_entropy_loss_fusion", "fused_cross_entropy", "true"),
      worded(kind, "optimizer",
             {{"adam", "adamw"}, {"adam", "adam"}, {"sgd", "momentum"}, {"muon", "muon"}}, "adam"),
      {.cases =
           {{.file = {{clip, "0.0"}}, .run = {{"gradient_clip", "false"}}},
            {.file = {{clip, "1.0"}},
             .run = {{"gradient_clip", kAbsent}},
             .when = {},
             .direction = Direction::Write},
            {.file = {{clip, kAnything}}, .run = {}, .when = {}, .direction = Direction::Read}}},
      {.cases = {{.file = {{inner, "$"}, {outer, "$"}}, .run = {{"dropout", "$"}}},
                 {.file = {{inner, "0.0"}, {outer, "0.0"}},
                  .run = {{"dropout", kAbsent}},
                  .when = {},
                  .direction = Direction::Write}},
       .defaults = {{inner, "0.0"}, {outer, "0.0"}}},
      {.cases = {{.file = {{fusion, "false"}}, .run = {{"gradient_accumulation_fusion", "false"}}},
                 {.file = {{fusion, "true"}}, .run = {{"gradient_accumulation_fusion", kAbsent}}},
                 {.file = {{fusion, "true"}},
                  .run = {{"gradient_accumulation_fusion", "true"}},
                  .when = {},
                  .direction = Direction::Write}},
       .defaults = {{fusion, "true"}}},
      {.cases = {{.file = {{exact, "true"}}, .run = {{"deterministic", "true"}}},
                 {.file = {{exact, "false"}}, .run = {{"deterministic", kAbsent}}}},
       .defaults = {{exact, "false"}}},
      {.cases = {{.file = {{engine, "local"}}, .run = {{"transformer_engine", "false"}}},
                 {.file = {{engine, "transformer_engine"}},
                  .run = {{"transformer_engine", kAbsent}}},
                 {.file = {{engine, "transformer_engine"}},
                  .run = {{"transformer_engine", "true"}},
                  .when = {},
                  .direction = Direction::Write}},
       .defaults = {{engine, "transformer_engine"}}}};
}

}  // namespace

std::vector<Row> nemo_program_rows() {
  std::vector<Row> rows;
  for (const auto& part : {nemo_experts, nemo_formats, nemo_training}) {
    for (Row& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace llmsim::hwdb
