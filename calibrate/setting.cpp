#include "calibrate/setting.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

namespace llmsim::calibrate {
namespace {

using hwdb::RecordedTraining;
using hwdb::RunRecord;

const std::string kDetail = "detail.";

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

// `text` at its place in `order`; what is not listed comes last.
SettingValue ordered(const std::string& text, const std::string& word, const std::vector<std::string>& order) {
  const auto found = std::find(order.begin(), order.end(), word);
  return {.text = text, .rank = static_cast<double>(found - order.begin())};
}

std::string with_detail(const std::string& text, const std::optional<std::string>& detail) {
  return detail && !detail->empty() ? text + " (" + *detail + ")" : text;
}

SettingValue recompute_of(const RecordedTraining& t) {
  if (!t.recompute || !t.recompute->kind) return unknown();
  std::string text = *t.recompute->kind;
  if (t.recompute->every_n) text += " " + std::to_string(*t.recompute->every_n);
  return ordered(with_detail(text, t.recompute->detail), *t.recompute->kind, {"none", "op", "selective", "every_n", "full"});
}

SettingValue precision_of(const RecordedTraining& t) {
  if (!t.precision) return unknown();
  return ordered(with_detail(*t.precision, t.precision_detail), *t.precision,
                 {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "nf4", "int4"});
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

// --- framework_detail ---

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> clauses(const std::optional<std::string>& detail) {
  std::vector<std::string> result;
  std::string rest = detail.value_or("");
  while (!rest.empty()) {
    const std::size_t end = rest.find(';');
    if (const std::string clause = trimmed(rest.substr(0, end)); !clause.empty()) result.push_back(clause);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return result;
}

// The key of a clause "key=value" whose key is one word.
std::optional<std::string> key_of(const std::string& clause) {
  const std::size_t end = clause.find('=');
  if (end == std::string::npos || end == 0 || clause.find(' ') < end) return std::nullopt;
  return clause.substr(0, end);
}

struct Restatement {
  const char* setting;
  std::vector<const char*> words;
};

// Words by which a clause says a setting of the schema once more.
const std::vector<Restatement>& restatements() {
  static const std::vector<Restatement> all = {
      {"compile", {"torch.compile"}}, {"precision", {"TransformerEngine", "nanoGPT-style", "optimizer: bf16", "optimizer: fp16"}},
      {"optimizer", {"optimizer:"}},  {"fused_cross_entropy", {"cross-entropy", "cross entropy"}},
      {"tp_overlap", {"async_tp"}},   {"cuda_graph", {"cuda graph"}},
      {"offload.", {"offload"}},      {"recompute", {"checkpoint_num_layers"}},
  };
  return all;
}

bool restates(const std::string& clause, const std::string& setting) {
  return std::any_of(restatements().begin(), restatements().end(), [&](const Restatement& known) {
    return setting.starts_with(known.setting) && std::any_of(known.words.begin(), known.words.end(), [&](const char* word) {
             return clause.find(word) != std::string::npos;
           });
  });
}

// A clause that names or counts a configuration without switching anything.
bool is_label(const std::string& clause) {
  const std::string key = key_of(clause).value_or("");
  return key == "config_name" || key == "config_file" || key == "trainable_params";
}

SettingValue software_of(const RunRecord& record) {
  std::string text = record.training.framework.value_or("?");
  for (const std::string& clause : clauses(record.training.framework_detail)) {
    if (!key_of(clause)) text += "; " + clause;
  }
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

// The framework and the clauses that matter where `setting` is switched.
std::string software_key(const std::string& setting, const RunRecord& record) {
  std::set<std::string> kept{record.training.framework.value_or("?")};
  if (setting == kSoftware) kept.clear();
  for (const std::string& clause : clauses(record.training.framework_detail)) {
    const std::optional<std::string> key = key_of(clause);
    const bool is_setting = key ? kDetail + *key == setting : setting == kSoftware;
    if (!is_setting && !is_label(clause) && !restates(clause, setting)) kept.insert(clause);
  }
  std::string text;
  for (const std::string& clause : kept) text += clause + ";";
  return text;
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
                       {kSoftware, software_of(record)}};
  for (const std::string& clause : clauses(t.framework_detail)) {
    const std::optional<std::string> key = key_of(clause);
    if (key && !is_label(clause)) settings[kDetail + *key] = {.text = clause.substr(key->size() + 1)};
  }
  return settings;
}

std::string all_but(const std::string& setting, const RunRecord& record, const Settings& settings) {
  std::string key = study_key(record) + software_key(setting, record);
  for (const auto& [name, value] : settings) {
    if (name == setting || name == kSoftware || name.starts_with(kDetail)) continue;
    key += name + "=" + value.text + "|";
  }
  return key;
}

}  // namespace llmsim::calibrate
