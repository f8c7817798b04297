#include "hwdb/frameworks/settings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/number_text.h"

namespace llmsim::hwdb {
namespace {

using enum sim::FieldKind;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

Setting on_off(const char* key, const char* field, const char* part_of, const char* help,
               const char* example = "true") {
  return {key, field, Switch, 0.0, 0.0, {}, part_of, help, example};
}

Setting number_setting(const char* key, const char* field, double least, double most,
                       const char* part_of, const char* help, const char* example) {
  return {key, field, Number, least, most, {}, part_of, help, example};
}

Setting count(const char* key, const char* field, int least, int most, const char* part_of,
              const char* help, const char* example) {
  return {key, field, Count, 1.0 * least, 1.0 * most, {}, part_of, help, example};
}

Setting word(const char* key, const char* field, std::vector<std::string> words,
             const char* part_of, const char* help, const char* example) {
  return {key, field, Word, 0.0, 0.0, std::move(words), part_of, help, example};
}

std::vector<Setting> all_settings() {
  const std::vector<std::string> half{"fp32", "bf16", "fp16"};
  return {
      word("weight_dtype", "storage.weight_bytes", {"fp32", "bf16", "fp16", "fp8"}, "precision",
           "format in which weights are stored", "fp32"),
      word("gradient_dtype", "storage.gradient_bytes", half, "precision", "format of gradients",
           "fp32"),
      word("main_gradient_dtype", "storage.main_gradient_bytes", {"none", "fp32", "bf16"},
           "precision", "format of a second gradient buffer, sharded with the states", "none"),
      word("master_dtype", "storage.master_bytes", {"none", "fp32", "bf16"}, "precision",
           "format of the optimizer's own copy of the weights", "none"),
      word("state_dtype", "storage.state_bytes", {"fp32", "bf16", "fp16", "int8", "fp8"},
           "optimizer", "format of each optimizer state", "bf16"),
      word("gradient_reduce_dtype", "gradients.reduced_in_fp32", half, "precision",
           "format in which gradients are summed over ranks", "bf16"),
      word("norm_dtype", "norms_in_fp32", half, "precision",
           "format in which norms save their input", "bf16"),
      word("fp8_recipe", "low_precision.scaling",
           {"delayed", "current", "rowwise", "rowwise-gw-hp", "blockwise", "mxfp8", "nvfp4"},
           "precision", "scales of the low-precision GEMMs", "current"),
      word("mxfp8_rounding", "", {"floor", "rceil"}, "precision", "rounding of mxfp8 scales",
           "rceil"),
      on_off("fp8_all_gather", "low_precision.gathers", "precision",
             "weights are quantised before they are gathered"),
      on_off("fp8_lm_head", "low_precision.head", "precision",
             "the LM head multiplies in low precision too"),
      count("first_layers_bf16", "low_precision.high_precision_first", 0, 4096, "precision",
            "first layers that a low-precision recipe leaves in 16 bits", "1"),
      count("last_layers_bf16", "low_precision.high_precision_last", 0, 4096, "precision",
            "last layers that a low-precision recipe leaves in 16 bits", "1"),
      on_off("moe_fp8_dispatch", "experts.dispatches_low_precision", "precision",
             "tokens travel to experts in low precision"),
      count("moe_dispatch_sms", "experts.dispatch_sms", 0, 1024, "moe_dispatch",
            "multiprocessors that DeepEP or HybridEP is given, 0 for as fast as the links", "32"),
      on_off("fp8_activation_inputs", "saved.fp8_activation_inputs", "precision",
             "gate and values of a gated MLP are saved in 8 bits"),
      word(
          "attention_kernel", "attention_kernel",
          {"flash-1", "flash-triton", "flash-2", "flash-3", "flash-4", "cudnn", "composable-kernel",
           "aotriton", "aotriton-first", "splash", "blockwise", "blockwise-fp32"},
          "flash_attention", "kernel that flash attention is", "cudnn"),
      number_setting("dropout", "dropout", 0, 0.999, "", "probability of dropout", "0.1"),
      word("elementwise_fusion", "fusion", {"eager", "compiled", "fused"}, "compile",
           "how memory-bound operators become kernels: one for each operator, by a compiler, or "
           "fused by hand",
           "fused"),
      word("fused_loss", "loss.fused", {"kernel", "logits", "recomputed", "gradient"},
           "fused_cross_entropy",
           "what a fused cross entropy does: one kernel over whole logits, fp32 copies in chunks, "
           "chunks that are recomputed, or "
           "chunks with their gradients",
           "gradient"),
      count("loss_chunks", "loss.chunks", 0, 65536, "fused_cross_entropy",
            "chunks of the tokens in the loss, 0 for as many as keep a chunk's logits as large as "
            "its input",
            "8"),
      on_off("fused_optimizer", "update.fused", "optimizer", "one kernel updates all parameters"),
      on_off("muon_use_syrk", "update.symmetric_gemms", "optimizer",
             "Muon makes symmetric results with kernels that make half of them"),
      on_off("whole_tables", "update.whole_tables", "optimizer",
             "ranks that share Muon's matrices have whole tables too"),
      on_off("optimizer_in_backward", "update.in_backward", "optimizer",
             "each parameter is updated as soon as its gradient exists"),
      on_off("optimizer_step", "default.optimizer_step", "",
             "off: the step is a micro-step without update", "false"),
      on_off("gradient_accumulation_fusion", "gradients.accumulated_by_gemm", "",
             "weight-gradient GEMMs add to the gradient buffer", "false"),
      on_off(
          kSyncsEachMicrobatch, "gradients.reduced_every_microbatch", "",
          "gradients are reduced after each micro-batch; off: whole gradients wait for the last"),
      on_off("fp32_logits", "loss.fp32_logits", "", "off: the loss works on 16-bit logits",
             "false"),
      number_setting("reduce_bucket_size", "gradients.bucket", 1, kNoLimit, "",
                     "gradients in one bucket, elements", "5e8"),
      on_off("reshard_after_forward", "sharded.regathers_in_backward", "",
             "off: zero3 leaves weights gathered until the backward pass", "false"),
      on_off(
          "checkpoints_outside_units", "sharded.regathers_recomputed", "recompute",
          "recomputed blocks hold whole units of zero3, which are gathered for recomputation and "
          "once more for the backward pass"),
      number_setting(
          "fsdp_unit_blocks", "sharded.unit_blocks", 0, 4096, "",
          "blocks that zero3 gathers as one unit, 0 for the whole model, 0.5 for two units a block",
          "0"),
      count("fsdp_prefetch_units", "sharded.prefetch_units", 0, 1000, "",
            "FSDP units gathered ahead of the one that runs", "2"),
      number_setting("max_live_parameters", "sharded.live_parameters", 1, kNoLimit, "",
                     "gathered parameters of zero3 that stay until there are so many, elements",
                     "1e9"),
      on_off("partition_activations", "saved.partitioned_checkpoints", "",
             "stored block inputs are divided over the tensor ranks"),
      count("checkpointed_modules_per_block", "saved.parts_per_block", 1, 16, "recompute",
            "modules of a block that count when checkpoints are spaced", "2"),
      on_off("transformer_engine", "reserve.transformer_engine", "precision",
             "linear layers are TransformerEngine's"),
      on_off("grouped_gemm", "", "", "the GEMMs of experts run grouped, on several streams"),
      on_off("tuned_gemm", "", "", "GEMM kernels are tuned for the run's shapes (TunableOp)"),
      on_off("deterministic", "", "", "steps are the same to the bit"),
  };
}

}  // namespace

const std::vector<Setting>& run_settings() {
  static const std::vector<Setting> all = all_settings();
  return all;
}

const Setting* find_setting(const std::string& key) {
  for (const Setting& setting : run_settings()) {
    if (key == setting.key) return &setting;
  }
  return nullptr;
}

sim::FieldValue setting_from(const Setting& setting, const std::string& name,
                             const std::string& text) {
  sim::FieldValue value = text;
  if (setting.kind == Switch && (text == "true" || text == "false")) value = text == "true";
  if (setting.kind == Number || setting.kind == Count) {
    if (const std::optional<double> number = sim::number_from(text)) value = *number;
  }
  if (!can_have(setting, value))
    throw Error(name + " = " + text + ": " + values_of(setting) + " is expected");
  return value;
}

std::string values_of(const Setting& setting) {
  return sim::expected_values(setting.kind, setting.words, setting.least, setting.most);
}

bool can_have(const Setting& setting, const sim::FieldValue& value) {
  if (setting.kind == Switch) return std::holds_alternative<bool>(value);
  if (setting.kind == Word) {
    const std::string* const word = std::get_if<std::string>(&value);
    return word &&
           std::find(setting.words.begin(), setting.words.end(), *word) != setting.words.end();
  }
  const std::optional<double> number = sim::number_of(value);
  return number && std::isfinite(*number) && sim::in_range(value, setting.least, setting.most) &&
         (setting.kind == Number || *number == std::floor(*number));
}

}  // namespace llmsim::hwdb
