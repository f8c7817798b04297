#include "hwdb/launch/launch_record.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <sstream>
#include <utility>

#include "hwdb/frameworks/settings.h"
#include "hwdb/launch/layer_pattern.h"
#include "hwdb/models/catalogue.h"
#include "hwdb/text/json_reader.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"
#include "sim/base/number_text.h"

namespace llmsim::hwdb {
namespace {

const std::string kOfModel = "model.";

constexpr int kMostCount = 1 << 30;

// A count of a file, which sizes are divided by and multiplied with.
int count_of(const std::string& key, const std::string& text) {
  const std::optional<double> number = sim::number_from(text);
  if (!number || *number < 1 || *number > kMostCount || *number != std::floor(*number))
    throw Error(key + " = " + text + ": a whole number from 1 on is expected");
  return static_cast<int>(*number);
}

int count_in(const LaunchValues& fields, const std::string& key, int fallback) {
  const auto* const text = value_in(fields, key);
  return text ? count_of(key, *text) : fallback;
}

// A product of counts, which is one.
int product_of(const std::string& key, std::initializer_list<int> counts) {
  double product = 1.0;
  for (const int count : counts) product *= count;
  if (product > kMostCount)
    throw Error(key + " = " + sim::text_of(sim::FieldValue(product)) + ": too large a number");
  return static_cast<int>(product);
}

// Layers of the model that is read, by its shape or its name.
int layers_of(const LaunchValues& fields, const RunRecord& record) {
  const sim::NamedModel* const known = record.model.name ? find_model(*record.model.name) : nullptr;
  return count_in(fields, "model.num_layers", known ? known->model.num_layers : 0);
}

// Takes a value out of the fields.
std::optional<std::string> taken(LaunchValues& fields, const std::string& key) {
  const auto field = fields.extract(key);
  return field.empty() ? std::nullopt : std::optional(field.mapped());
}

std::optional<int> taken_count(LaunchValues& fields, const std::string& key) {
  const auto text = taken(fields, key);
  return text ? std::optional(count_of(key, *text)) : std::nullopt;
}

template <class AnyField>
sim::FieldValue value_of(const AnyField& field, const std::string& key, const std::string& text) {
  sim::FieldValue value = text;
  const std::optional<double> number = sim::number_from(text);
  if (field.kind == sim::FieldKind::Switch) value = text == "true";
  if ((field.kind == sim::FieldKind::Count || field.kind == sim::FieldKind::Number) && number)
    value = *number;
  if (field.kind == sim::FieldKind::Counts) value = counts_in(text);
  const auto right = checked(field, value);
  if (!right) throw Error(key + " = " + text + ": " + expected_values(field) + " is expected");
  return *right;
}

const sim::TransformerField* model_field(const std::string& key) {
  return sim::find_field(sim::transformer_fields(), key.substr(kOfModel.size()));
}

void put_field(const std::string& key, const std::string& text, RunRecord& record) {
  if (key.starts_with(kOfModel)) {
    record.model.fields[key.substr(kOfModel.size())] = value_of(*model_field(key), key, text);
  } else if (const auto* const field = sim::find_strategy_field(key)) {
    record.training.strategy[key] = value_of(*field, key, text);
  } else if (const Setting* const setting = find_setting(key)) {
    record.training.settings[key] = setting_from(*setting, key, text);
  }
}

// Layers of the parts where the first ones take what does not divide; `layers` are with the `ends`.
void put_remainder(LaunchValues& fields, int layers, int ends, RunRecord& record) {
  const int parts = product_of("pipeline stages * virtual stages",
                               {count_in(fields, "pp", 1), count_in(fields, "virtual_stages", 1)});
  if (!taken(fields, "remainder") || layers % parts == 0 || layers - ends < parts) return;
  std::vector<int> dealt(static_cast<std::size_t>(parts), layers / parts);
  for (int i = 0; i < layers % parts; ++i) ++dealt[static_cast<std::size_t>(i)];
  dealt.front() -= ends / 2, dealt.back() -= ends / 2;
  record.training.strategy["stage_layers"] = dealt;
}

void put_stages(LaunchValues& fields, RunRecord& record) {
  const std::int64_t layers = layers_of(fields, record);
  const int pp = count_in(fields, "pp", 1);
  const auto* const counted = value_in(fields, "embeddings_as_layers");
  const int ends = counted && *counted == "true" ? 2 : 0;
  if (const auto weighted = taken_count(fields, "weighted_layers_per_chunk"))
    fields["virtual_stages"] = std::to_string(
        std::max<std::int64_t>(1, ((layers + ends + *weighted - 1) / *weighted + pp - 1) / pp));
  if (const auto per_chunk = taken_count(fields, "layers_per_chunk"))
    fields["virtual_stages"] =
        std::to_string(std::max<std::int64_t>(1, (layers - 1) / *per_chunk / pp + 1));
  if (const auto layout = taken(fields, "stage_layout")) {
    const std::vector<int> counts = chunk_layers(*layout);
    if (counts.size() % static_cast<std::size_t>(pp) != 0)
      throw Error("pipeline layout " + *layout + ": parts that the stages, " + std::to_string(pp) +
                  ", divide are expected");
    fields["virtual_stages"] = std::to_string(counts.size() / static_cast<std::size_t>(pp));
    record.training.strategy["stage_layers"] = counts;
  }
  const auto first = taken_count(fields, "first_stage_layers");
  const auto last = taken_count(fields, "last_stage_layers");
  if (first || last)
    record.training.strategy["stage_layers"] =
        stages_between(static_cast<int>(layers), pp, first, last);
  put_remainder(fields, static_cast<int>(layers) + ends, ends, record);
}

// Of an all-to-all and of a ring over such groups, the fastest first.
void put_context_ranks(LaunchValues& fields) {
  const auto sizes = taken(fields, "cp_sizes");
  if (!sizes) return;
  const std::size_t plus = sizes->find('+');
  const std::string inner = sizes->substr(0, plus),
                    outer = plus == std::string::npos ? "" : sizes->substr(plus + 1);
  const int cp = count_in(fields, "cp", 1);
  if (product_of("cp_sizes", {count_of("cp_sizes", inner), count_of("cp_sizes", outer)}) != cp)
    throw Error("cp_sizes = " + *sizes + ": two sizes whose product is cp = " + std::to_string(cp) +
                " are expected");
  fields["cp_inner"] = inner;
}

// A width that a file leaves to its program, which makes it of the hidden size h: "4h", or "8h/3"
// in whole 64s.
void put_width(LaunchValues& fields) {
  if (const auto both = taken_count(fields, "model.gate_and_up"))
    fields["model.ffn_size"] = std::to_string(*both / 2);
  const auto width = fields.find("model.ffn_size");
  if (width == fields.end() || (width->second != "4h" && width->second != "8h/3")) return;
  const std::int64_t hidden = count_in(fields, "model.hidden_size", 0);
  if (hidden > 0)
    width->second = std::to_string(width->second == "4h" ? 4 * hidden : hidden * 8 / 3 / 64 * 64);
  else
    fields.erase(width);
}

void put_experts(LaunchValues& fields, RunRecord& record) {
  put_width(fields);
  if (const auto width = taken(fields, "model.moe.shared_width"); width && *width != "0") {
    fields["model.moe.num_shared_experts"] = "1";
    fields["model.moe.shared_expert_ffn_size"] = *width;
  }
  if (const auto pattern = taken(fields, "model.moe.layers")) {
    const ExpertLayers layers = expert_layers(*pattern, count_in(fields, "model.num_layers", 0));
    record.model.fields["moe.num_dense_layers"] = std::int64_t{layers.dense};
    record.model.fields["moe.layer_interval"] = std::int64_t{layers.interval};
  }
  const auto wide = fields.find("model.ffn_size");
  if (fields.contains("model.moe.num_experts") && wide != fields.end())
    fields.emplace("model.moe.expert_ffn_size", wide->second);
}

// Layers that are only predicted and model chunks, which a hybrid's pattern may say.
void put_hybrid_parts(LaunchValues& fields) {
  const auto pattern = fields.find("model.layer_pattern");
  if (pattern == fields.end()) return;
  const HybridLayers layers = hybrid_layers(pattern->second);
  pattern->second = layers.letters;
  fields.emplace("model.num_layers", std::to_string(layers.letters.size()));
  if (layers.predicted > 0) fields["model.mtp_layers"] = std::to_string(layers.predicted);
  if (layers.chunks.size() == 1) return;
  std::string layout;
  for (const int chunk : layers.chunks)
    layout += (layout.empty() ? "t*" : "|t*") + std::to_string(chunk);
  fields["stage_layout"] = layout;
}

// A hybrid's layers are one thing each: without a letter for them there are no MLPs.  Heads fill
// twice the hidden size unless their number is given.
void put_hybrid(LaunchValues& fields) {
  const auto pattern = fields.find("model.layer_pattern");
  if (pattern == fields.end()) return;
  if (pattern->second.find('-') == std::string::npos) fields["model.ffn_size"] = "0";
  const int width = count_in(fields, "model.mamba.head_dim", 0);
  if (width > 0)
    fields.emplace("model.mamba.num_heads",
                   std::to_string(2LL * count_in(fields, "model.hidden_size", 0) / width));
}

void put_vocabulary(LaunchValues& fields) {
  const auto divisor = taken_count(fields, "model.vocab_divisor");
  const auto rows = fields.find("model.vocab_size");
  if (!divisor || rows == fields.end()) return;
  rows->second = std::to_string(sim::padded_vocab_size(
      count_of(rows->first, rows->second), *divisor,
      product_of("vocabulary's divisor * tp", {*divisor, count_in(fields, "tp", 1)}) / *divisor));
}

// Sequences of a device become those of a replica, which tensor, pipeline and context ranks share.
void put_device_batch(LaunchValues& fields) {
  const auto text = taken(fields, "device_batch");
  if (!text) return;
  double batch = sim::number_from(*text).value_or(0.0);
  for (const char* ranks : {"tp", "pp", "cp"}) batch *= count_in(fields, ranks, 1);
  if (batch < 1.0 || batch > kMostCount || batch != std::floor(batch))
    throw Error("a batch of " + *text +
                " sequences a device: whole sequences of the ranks that "
                "share them are expected");
  fields["micro_batch"] = std::to_string(static_cast<int>(batch));
}

// An axis of a mesh of which a part lies inside of a node or slice and a part across them; none
// where it takes the devices that are left.
std::optional<int> axis_ranks(LaunchValues& fields, const std::string& axis) {
  const std::string inside = taken(fields, axis + "_inside").value_or("1"),
                    across = taken(fields, axis + "_across").value_or("1");
  if (inside == "-1") return std::nullopt;
  return product_of(axis, {count_of(axis, inside), across == "-1" ? 1 : count_of(axis, across)});
}

// The mesh of a JAX program: weights are divided over the axis fsdp, copies stand along data.
void put_axes(LaunchValues& fields, RunRecord& record) {
  if (!fields.contains("fsdp_inside")) return;
  const auto shards = axis_ranks(fields, "fsdp"), copies = axis_ranks(fields, "data");
  const bool states = taken(fields, "shards_states") == "true";
  const int experts = count_in(fields, "ep", 1);
  const bool divided = shards != 1;
  fields["sharding"] = !divided ? (states ? "zero1" : "none") : copies == 1 ? "zero3" : "hsdp";
  if (divided && copies != 1 && copies) record.training.replicate_size = copies;
  if (divided && !copies)
    fields["shard_size"] =
        std::to_string(product_of("shard_size", {*shards, experts, count_in(fields, "cp", 1)}));
  if (shards && copies)
    fields["dp"] = std::to_string(product_of("dp", {*shards, *copies, experts}));
}

void put_batch(LaunchValues& fields, RunRecord& record) {
  record.training.num_microbatches = taken_count(fields, "num_microbatches");
  record.training.replicate_size = taken_count(fields, "replicate_size");
  if (const auto batch = taken_count(fields, "replica_batch")) {
    const int micro = count_in(fields, "micro_batch", 1);
    if (*batch % micro != 0)
      throw Error("a batch of " + std::to_string(*batch) +
                  " sequences a replica: a multiple of the micro-batch, " + std::to_string(micro) +
                  ", is expected");
    record.training.num_microbatches = *batch / micro;
  }
  if (const auto shard = taken_count(fields, "dp_shard"))
    fields["dp"] =
        std::to_string(product_of("dp", {*shard, record.training.replicate_size.value_or(1)}));
}

void put_adapters(LaunchValues& fields, RunRecord& record) {
  record.model.lora_rank = taken_count(fields, "model.lora.rank");
  if (!record.model.lora_rank) return;
  record.model.trainable = "lora";
  std::istringstream names(taken(fields, "model.lora.targets").value_or(""));
  for (std::string name; std::getline(names, name, '+');) record.model.lora_targets.push_back(name);
}

// What is done with outputs that only go together; none of them is known: again.
std::string kept_together(LaunchValues& fields, const std::string& whole,
                          const std::vector<std::string>& parts) {
  const auto value = [&](const std::string& name) {
    return taken(fields, "remat." + name).value_or("remat");
  };
  const std::string kept = value(whole);
  std::vector<std::string> values;
  for (const std::string& name : parts) values.push_back(value(name));
  for (const std::string& one : values) {
    if (one != values.front())
      throw Error("recomputation: " + sim::joined(parts, ", ") +
                  " are saved together, offloaded together or all recomputed");
  }
  return values.empty() || values.front() == "remat" ? kept : values.front();
}

// Recomputation that names what becomes of each output.
void put_kept(LaunchValues& fields) {
  if (!fields.contains("remat.input")) return;
  const std::string input = taken(fields, "remat.input").value_or("device");
  const std::pair<const char*, std::string> outputs[] = {
      {"qkv", kept_together(fields, "qkv", {"q", "k", "v"})},
      {"core_attn", kept_together(fields, "core_attn", {})},
      {"attn_proj", kept_together(fields, "attn_proj", {})},
      {"mlp_up", kept_together(fields, "mlp_up", {"mlp_gate", "mlp_value"})},
      {"mlp_down", kept_together(fields, "mlp_down", {})}};
  std::string saved, place;
  for (const auto& [name, kept] : outputs) {
    if (kept == "remat") continue;
    if (!place.empty() && kept != place)
      throw Error("recomputation: some outputs on the device and others on the host");
    saved += (saved.empty() ? "" : "+") + std::string(name), place = kept;
  }
  const auto kind = fields.find("recompute.kind");
  if (kind == fields.end() || kind->second != "op" || fields.contains("recompute.saved")) return;
  if (saved.empty())
    kind->second = "full", place = input;
  else
    fields["recompute.saved"] = saved;
  fields["offload.activations"] = place == "offload" ? "true" : "false";
}

// As in run files (json_reader.h): what is read may be written into a script.
void refuse_control_characters(const LaunchValues& fields) {
  for (const auto& [key, text] : fields)
    if (has_control_characters(text))
      throw Error(key + ": line feeds, tabs and other control characters are not allowed");
}

// The catalogue's model whose weights a repository or a folder has: further training changes no
// shape ("meta-llama/Meta-Llama-3.1-8B-Instruct").  The name itself where there is none.
std::string model_of_weights(const std::string& name) {
  static const std::set<std::string> kTrained{"instruct", "chat", "base", "thinking", "it",
                                              "pt",       "hf",   "2507", "v0.1",     "v0.3"};
  std::string path = name;
  while (path.ends_with('/')) path.pop_back();
  if (path.ends_with(".yaml")) path.resize(path.size() - 5);
  if (const sim::NamedModel* const known = find_model(path)) return known->model.name;
  std::string last = path.substr(path.rfind('/') + 1);
  std::replace(last.begin(), last.end(), '_', '-');
  std::istringstream words(last);
  std::string left;
  for (std::string word; std::getline(words, word, '-');) {
    if (!kTrained.contains(folded(word))) left += (left.empty() ? "" : "-") + word;
  }
  const sim::NamedModel* const known = find_model(left);
  return known ? known->model.name : path;
}

void put_hardware(LaunchValues& fields, RunRecord& record) {
  record.hardware.num_devices = taken_count(fields, "num_devices");
  const auto node = taken_count(fields, "devices_per_node");
  const auto nodes = taken_count(fields, "num_nodes");
  if (node && nodes && !record.hardware.num_devices)
    record.hardware.num_devices = product_of("num_devices", {*node, *nodes});
}

// Sizes beside a name of the catalogue make another model of that one.
void put_changed_model(RunRecord& record) {
  const sim::NamedModel* const known = record.model.name ? find_model(*record.model.name) : nullptr;
  if (!known) return;
  const sim::PartialTransformer of_name = sim::fields_of(known->model);
  const bool changes =
      std::any_of(record.model.fields.begin(), record.model.fields.end(), [&](const auto& field) {
        const auto same = of_name.find(field.first);
        const auto* const row = sim::find_field(sim::transformer_fields(), field.first);
        return field.first != "seq_len" && field.first != "max_positions" && !row->costless &&
               (same == of_name.end() || !(same->second == field.second));
      });
  if (!changes) return;
  for (const auto& [key, value] : of_name) record.model.fields.emplace(key, value);
  record.model.name.reset();
}

}  // namespace

void check_number(const std::string& key, const std::string& text) {
  if (!sim::number_from(text)) return;
  if (key.starts_with(kOfModel)) {
    if (const auto* const field = model_field(key)) value_of(*field, key, text);
  } else if (const auto* const field = sim::find_strategy_field(key)) {
    value_of(*field, key, text);
  }
}

RunRecord record_of(LaunchValues fields) {
  refuse_control_characters(fields);
  RunRecord record;
  if (const auto name = taken(fields, "model.catalogue"))
    record.model.name = model_of_weights(*name);
  record.training.framework = taken(fields, "framework");
  put_vocabulary(fields);
  put_hybrid_parts(fields);
  put_stages(fields, record);
  put_experts(fields, record);
  put_hybrid(fields);
  if (const auto layers = taken(fields, "model.linear_layers"))
    record.model.fields["layer_pattern"] = mixers_of(*layers);
  put_context_ranks(fields);
  put_adapters(fields, record);
  taken(fields, "model.overridden");
  put_kept(fields);
  put_device_batch(fields);
  put_batch(fields, record);
  put_axes(fields, record);
  put_hardware(fields, record);
  for (const auto& [key, text] : fields) put_field(key, text, record);
  put_changed_model(record);
  return record;
}

}  // namespace llmsim::hwdb
