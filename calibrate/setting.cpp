#include "calibrate/setting.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "hwdb/settings.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RecordedTraining;
using hwdb::RunRecord;

// --- values ---

SettingValue unknown() { return {.text = "?", .rank = 0.0, .known = false}; }

SettingValue switched(const std::optional<bool>& value) {
  if (!value) return unknown();
  return {.text = *value ? "on" : "off", .rank = *value ? 1.0 : 0.0};
}

SettingValue counted(const std::optional<int>& value) {
  if (!value) return unknown();
  return {.text = std::to_string(*value), .rank = static_cast<double>(*value)};
}

SettingValue named(const std::optional<std::string>& value) { return value ? SettingValue{.text = *value} : unknown(); }

// `text` at its place in `order`; what is not listed comes last.
SettingValue ordered(const std::string& text, const std::string& word, const std::vector<std::string>& order) {
  const auto found = std::find(order.begin(), order.end(), word);
  return {.text = text, .rank = static_cast<double>(found - order.begin())};
}

// The stated settings of which `setting` is the whole: " (fp8_recipe rowwise)".
std::string details_of(const RecordedTraining& t, const std::string& setting) {
  std::string text;
  for (const hwdb::Setting& one : hwdb::run_settings()) {
    const auto stated = t.settings.find(one.key);
    if (setting != one.part_of || stated == t.settings.end()) continue;
    text += (text.empty() ? "" : ", ") + std::string(one.key) + " " + sim::text_of(stated->second);
  }
  return text.empty() ? text : " (" + text + ")";
}

SettingValue with_details(SettingValue value, const RecordedTraining& t, const std::string& setting) {
  if (value.known) value.text += details_of(t, setting);
  return value;
}

SettingValue recompute_of(const RecordedTraining& t) {
  if (!t.recompute || !t.recompute->kind) return unknown();
  const hwdb::RecordedRecompute& r = *t.recompute;
  std::string text = *r.kind;
  for (const std::optional<int>& count : {r.every_n, r.share, r.blocks}) text += count ? " " + std::to_string(*count) : "";
  for (const std::string& module : r.modules) text += " " + module;
  if (r.saved) text += " " + *r.saved;
  return ordered(text, *r.kind, {"none", "op", "selective", "every_n", "full"});
}

SettingValue precision_of(const RecordedTraining& t) {
  if (!t.precision) return unknown();
  return ordered(*t.precision, *t.precision, {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "nf4", "int4"});
}

SettingValue optimizer_of(const RecordedTraining& t) {
  if (!t.optimizer) return unknown();
  return ordered(*t.optimizer, *t.optimizer, {"adamw", "adam"});
}

// One replica has nothing to shard.
SettingValue sharding_of(const RecordedTraining& t) {
  if (t.dp == 1) return {.text = "none"};
  if (!t.sharding) return unknown();
  return ordered(*t.sharding, *t.sharding, {"none", "zero1", "zero2", "zero3", "hsdp"});
}

SettingValue topology_of(const RecordedTraining& t) {
  const int tp = t.tp.value_or(1), pp = t.pp.value_or(1);
  std::string text = "tp " + std::to_string(tp) + ", pp " + std::to_string(pp);
  if (t.dp) text += ", dp " + std::to_string(*t.dp);
  if (t.sharding == "hsdp" && t.shard_size) text += " in shards of " + std::to_string(*t.shard_size);
  return {.text = text, .rank = 1e6 * tp + pp};
}

SettingValue virtual_stages_of(const RecordedTraining& t) {
  SettingValue value = counted(t.virtual_stages.value_or(1));
  if (t.pipeline_schedule) value.text += " (" + *t.pipeline_schedule + ")";
  return value;
}

SettingValue software_of(const RunRecord& record) {
  std::string text = record.training.framework.value_or("?");
  if (record.training.framework_version) text += " " + *record.training.framework_version;
  return {.text = text};
}

// --- what must be equal ---

template <class T>
std::string shown(const std::optional<T>& value) {
  if (!value) return "?|";
  if constexpr (std::is_same_v<T, std::string>)
    return *value + "|";
  else
    return std::to_string(*value) + "|";
}

std::string model_key(const hwdb::RecordedModel& m) {
  std::string key = shown(m.name);
  for (const auto& count : {m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads, m.head_dim, m.ffn_size, m.seq_len,
                            m.sliding_window, m.mtp_layers, m.lora_rank})
    key += shown(count);
  for (const auto& flag : {m.gated_mlp, m.tied_embeddings, m.bias, m.parallel_block}) key += shown(flag);
  for (const auto& word : {m.norm, m.position, m.trainable}) key += shown(word);
  if (m.moe) key += std::to_string(m.moe->num_experts) + "/" + std::to_string(m.moe->top_k);
  return key + (m.mla ? "mla" : "");
}

std::string study_key(const RunRecord& record) {
  const hwdb::RecordedHardware& h = record.hardware;
  return record.group + "|" + model_key(record.model) + shown(h.accelerator) + shown(h.system) + shown(h.num_devices) +
         shown(h.devices_per_node) + shown(h.inter_node_bytes_per_s_per_device) + shown(record.training.global_batch) +
         shown(record.training.cp) + shown(record.training.ep);
}

}  // namespace

bool operator<(const SettingValue& a, const SettingValue& b) { return std::tie(a.rank, a.text) < std::tie(b.rank, b.text); }

bool is_scale(const std::string& setting) {
  return setting == kTopology || setting == kSoftware || setting == "micro_batch" || setting == "virtual_stages" ||
         setting == "vocab_size";
}

Settings settings_of(const RunRecord& record) {
  const RecordedTraining& t = record.training;
  Settings settings = {{"recompute", recompute_of(t)},
                       {"precision", precision_of(t)},
                       {"optimizer", optimizer_of(t)},
                       {"vocab_size", counted(record.model.vocab_size)},
                       {"sharding", sharding_of(t)},
                       {"virtual_stages", virtual_stages_of(t)},
                       {"micro_batch", counted(t.micro_batch)},
                       {kTopology, topology_of(t)},
                       {"sequence_parallel", switched(t.sequence_parallel)},
                       {"flash_attention", switched(t.flash_attention)},
                       {"compile", switched(t.compile)},
                       {"fused_cross_entropy", switched(t.fused_cross_entropy)},
                       {"tp_overlap", switched(t.tp_overlap)},
                       {"dp_overlap", switched(t.dp_overlap)},
                       {"gradient_overlap", switched(t.gradient_overlap)},
                       {"gather_overlap", switched(t.gather_overlap)},
                       {"cuda_graph", switched(t.cuda_graph)},
                       {"offload.optimizer", switched(t.offload.optimizer)},
                       {"offload.parameters", switched(t.offload.parameters)},
                       {"offload.activations", switched(t.offload.activations)},
                       {"moe_overlap", switched(t.moe_overlap)},
                       {"moe_dispatch", named(t.moe_dispatch)},
                       {"etp", counted(t.etp)},
                       {"embeddings_as_layers", switched(t.embeddings_as_layers)},
                       {kSoftware, software_of(record)}};
  for (const hwdb::Setting& one : hwdb::run_settings()) {
    const auto stated = t.settings.find(one.key);
    if (one.part_of[0] == '\0' && stated != t.settings.end()) settings[one.key] = {.text = sim::text_of(stated->second)};
  }
  // The kinds of a fused loss differ in libraries, which studies switch together with it: they are one.
  for (const char* whole : {"precision", "recompute", "optimizer", "flash_attention"})
    settings[whole] = with_details(settings[whole], t, whole);
  return settings;
}

std::string all_but(const std::string& setting, const RunRecord& record, const Settings& settings) {
  std::string key = study_key(record);
  for (const auto& [name, value] : settings) {
    if (name == setting) continue;
    key += name + "=" + value.text + "|";
  }
  return key;
}

}  // namespace llmsim::calibrate
