#include "calibrate/setting.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "hwdb/frameworks/settings.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RecordedTraining;
using hwdb::RunRecord;
using sim::stated;

// --- values ---

SettingValue unknown() { return {.text = "?", .rank = 0.0, .known = false}; }

// `text` at its place in `order`; what is not listed comes last.
SettingValue ordered(const std::string& text, const std::string& word,
                     const std::vector<std::string>& order) {
  const auto found = std::ranges::find(order, word);
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

// A field of the strategy.  Words come in the order of their table.
SettingValue field_of(const RecordedTraining& t, const std::string& key) {
  const auto found = t.strategy.find(key);
  if (found == t.strategy.end()) return unknown();
  const sim::FieldValue& value = found->second;
  if (const bool* const on = std::get_if<bool>(&value))
    return {.text = *on ? "on" : "off", .rank = *on ? 1.0 : 0.0};
  const std::string text = sim::text_of(value);
  if (const std::optional<double> number = sim::number_of(value))
    return {.text = text, .rank = *number};
  return ordered(text, text, sim::find_strategy_field(key)->words);
}

SettingValue recompute_of(const RecordedTraining& t) {
  const std::optional<std::string> kind = stated<std::string>(t.strategy, "recompute.kind");
  if (!kind) return unknown();
  std::string text = *kind;
  for (const char* key : {"recompute.every_n", "recompute.share", "recompute.blocks"}) {
    if (const auto count = stated<int>(t.strategy, key)) text += " " + std::to_string(*count);
  }
  if (const auto modules = stated<sim::Words>(t.strategy, "recompute.modules"))
    text += " " + sim::joined(*modules, " ");
  if (const auto saved = stated<sim::Words>(t.strategy, "recompute.saved"))
    text += " " + sim::joined(*saved, "+");
  return ordered(text, *kind, {"none", "op", "selective", "every_n", "full"});
}

SettingValue topology_of(const RecordedTraining& t) {
  const auto ranks = [&](const char* key) { return stated<int>(t.strategy, key); };
  const int tp = ranks("tp").value_or(1), pp = ranks("pp").value_or(1);
  std::string text = "tp " + std::to_string(tp) + ", pp " + std::to_string(pp);
  if (const auto dp = ranks("dp")) text += ", dp " + std::to_string(*dp);
  const auto shard_size = ranks("shard_size");
  if (stated<std::string>(t.strategy, "sharding") == "hsdp" && shard_size)
    text += " in shards of " + std::to_string(*shard_size);
  return {.text = text, .rank = 1e6 * tp + pp};
}

SettingValue virtual_stages_of(const RecordedTraining& t) {
  const int chunks = stated<int>(t.strategy, "virtual_stages").value_or(1);
  SettingValue value{.text = std::to_string(chunks), .rank = static_cast<double>(chunks)};
  if (const auto schedule = stated<std::string>(t.strategy, "pipeline_schedule"))
    value.text += " (" + *schedule + ")";
  return value;
}

// Fields that are told by another setting, or are what runs of one study share.
bool told_elsewhere(const std::string& key) {
  constexpr std::array<std::string_view, 8> kParts{
      "tp", "pp", "dp", "shard_size", "pipeline_schedule", "global_batch", "cp", "ep"};
  return key.starts_with("recompute.") || std::ranges::find(kParts, key) != kParts.end();
}

SettingValue vocabulary_of(const hwdb::RecordedModel& m) {
  const std::optional<int> size = sim::stated<int>(m.fields, "vocab_size");
  if (!size) return unknown();
  return {.text = std::to_string(*size), .rank = static_cast<double>(*size)};
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

// All that is recorded of a model but its vocabulary, which is a setting.
std::string model_key(const hwdb::RecordedModel& m) {
  std::string key = shown(m.name) + shown(m.lora_rank) + shown(m.bias) + shown(m.trainable);
  for (const auto& [name, value] : m.fields) {
    if (name != "vocab_size") key += name + "=" + sim::text_of(value) + "|";
  }
  return key;
}

std::string study_key(const RunRecord& record) {
  const hwdb::RecordedHardware& h = record.hardware;
  return record.group + "|" + model_key(record.model) + shown(h.accelerator) + shown(h.system) +
         shown(h.num_devices) + shown(h.devices_per_node) +
         shown(h.inter_node_bytes_per_s_per_device) +
         shown(stated<int>(record.training.strategy, "global_batch")) +
         shown(stated<int>(record.training.strategy, "cp")) +
         shown(stated<int>(record.training.strategy, "ep"));
}

}  // namespace

bool operator<(const SettingValue& a, const SettingValue& b) {
  return std::tie(a.rank, a.text) < std::tie(b.rank, b.text);
}

bool is_scale(const std::string& setting) {
  return setting == kTopology || setting == kSoftware || setting == "micro_batch" ||
         setting == "virtual_stages" || setting == "vocab_size";
}

Settings settings_of(const RunRecord& record) {
  const RecordedTraining& t = record.training;
  Settings settings;
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    if (!told_elsewhere(field.key)) settings[field.key] = field_of(t, field.key);
  }
  settings["recompute"] = recompute_of(t);
  // One replica has nothing to shard.
  if (stated<int>(t.strategy, "dp") == 1) settings["sharding"] = {.text = "none"};
  settings["virtual_stages"] = virtual_stages_of(t);
  settings["dp_overlap"] = t.dp_overlap ? SettingValue{.text = *t.dp_overlap ? "on" : "off",
                                                       .rank = *t.dp_overlap ? 1.0 : 0.0}
                                        : unknown();
  settings["vocab_size"] = vocabulary_of(record.model);
  settings[kTopology] = topology_of(t);
  settings[kSoftware] = {.text = t.framework.value_or("?")};
  if (t.framework_version) settings[kSoftware].text += " " + *t.framework_version;
  for (const hwdb::Setting& one : hwdb::run_settings()) {
    const auto stated = t.settings.find(one.key);
    if (one.part_of[0] == '\0' && stated != t.settings.end())
      settings[one.key] = {.text = sim::text_of(stated->second)};
  }
  // The kinds of a fused loss differ in libraries, which studies switch together with it: they are
  // one.
  for (const char* whole : {"precision", "recompute", "optimizer", "flash_attention"})
    if (settings[whole].known) settings[whole].text += details_of(t, whole);
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
