#include "hwdb/launch/launch_fields.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "hwdb/frameworks/settings.h"
#include "hwdb/launch/layer_pattern.h"
#include "hwdb/models/catalogue.h"
#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/text_blocks.h"
#include "sim/base/error.h"
#include "sim/model/layer_kinds.h"
#include "sim/model/tower.h"
#include "sim/search/searched_fields.h"
#include "sim/strategy/stages.h"

namespace llmsim::hwdb {
namespace {

const std::string kModel = "model.";

// What a value of fields.rows is.
struct OtherField {
  bool is_compared, is_of_layout;
};

const std::map<std::string, OtherField>& other_fields() {
  static const std::map<std::string, OtherField> all = [] {
    std::map<std::string, OtherField> fields;
    for (const Block& block : blocks_of(shipped_launch_fields(), "fields.rows")) {
      const auto [kind, place] = parted(block.head.text, ", ");
      for (const Line& line : block.body)
        fields[line.text] = {kind == "compared", place == "of the layout"};
    }
    return fields;
  }();
  return all;
}

// --- a run ---

// Takes out what no cost depends on where one of both does not know it.
void forget_unknown(sim::PartialTransformer& fields, sim::PartialTransformer& others) {
  for (const sim::TransformerField& field : sim::transformer_fields()) {
    if (!field.costless || (fields.contains(field.key) && others.contains(field.key))) continue;
    fields.erase(field.key), others.erase(field.key);
  }
}

bool has_dense_layers(const sim::Transformer& model) {
  const sim::LayerKinds kinds = sim::layer_kinds(model);
  return std::any_of(kinds.begin(), kinds.end(),
                     [](const sim::LayerKind& kind) { return kind.mlp == sim::LayerMlp::Dense; });
}

// Names of models are those of their text part; MLPs that no layer has may have any width.
sim::PartialTransformer text_fields(sim::Transformer model) {
  model.vision.reset(), model.audio.reset();
  sim::PartialTransformer fields = sim::fields_of(model);
  if (!has_dense_layers(model)) fields.erase("ffn_size");
  return fields;
}

bool same_but_length(const sim::Transformer& model, const sim::Transformer& known) {
  sim::PartialTransformer fields = text_fields(model), others = text_fields(known);
  forget_unknown(fields, others);
  fields.erase("seq_len"), others.erase("seq_len");
  if (model.position != sim::Position::Learned)
    fields.erase("max_positions"), others.erase("max_positions");
  return fields == others;
}

std::optional<std::string> catalogue_name(const sim::Transformer& model) {
  if (const auto* named = find_model(model.name); named && same_but_length(model, named->model))
    return named->model.name;
  for (const sim::NamedModel& entry : catalogue()) {
    if (same_but_length(model, entry.model)) return entry.model.name;
  }
  return std::nullopt;
}

// A letter for each layer, whatever the period.
std::string pattern_of_all(const sim::Transformer& model) {
  std::string letters;
  for (int layer = 0; layer < model.num_layers; ++layer)
    letters +=
        (*model.layer_pattern)[static_cast<std::size_t>(layer) % model.layer_pattern->size()];
  return letters;
}

void add_model_fields(const sim::Transformer& model, LaunchValues& fields) {
  for (const auto& [key, value] : sim::fields_of(model)) fields[kModel + key] = sim::text_of(value);
  if (model.position == sim::Position::Learned && model.max_positions == 0)
    fields["model.max_positions"] = std::to_string(model.seq_len);
  if (model.layer_pattern && model.gated_delta_net &&
      model.layer_pattern->find_first_not_of("G*") == std::string::npos) {
    fields.erase("model.layer_pattern");
    fields["model.linear_layers"] = linear_layers(pattern_of_all(model));
  } else if (model.layer_pattern) {
    fields["model.layer_pattern"] = pattern_of_all(model);
  }
  if (const auto name = catalogue_name(model)) fields["model.catalogue"] = *name;
  if (!model.moe) return;
  fields["model.moe.shared_width"] =
      std::to_string(model.moe->num_shared_experts * model.moe->shared_expert_ffn_size);
  fields["model.moe.layers"] =
      layer_pattern(model.num_layers, model.moe->num_dense_layers, model.moe->layer_interval);
}

// Whether stages have different numbers of layers, with or without the embedding and the head.
bool have_unequal_layers(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  const int chunks = sim::stage_layout(s).model_chunks();
  const int layers = run.model.num_layers + (s.embeddings_as_layers ? 2 : 0);
  return chunks > 1 &&
         (!s.stage_layers.empty() || layers % chunks != 0 || run.model.mtp_layers > 0);
}

// Whether the first chunks have one layer more than the last ones, or all have as many; with the
// embedding and the head where they count.
bool gives_remainder_first(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  if (s.pp * s.virtual_stages == 1) return true;
  std::vector<int> layers;
  for (const sim::ModelChunk& chunk : model_chunks(run.model, s))
    layers.push_back(chunk.blocks - (chunk.head ? run.model.mtp_layers : 0));
  if (s.embeddings_as_layers) ++layers.front(), ++layers.back();
  return std::is_sorted(layers.rbegin(), layers.rend()) && layers.front() - layers.back() <= 1;
}

void add_derived_fields(const sim::Run& run, LaunchValues& fields) {
  const sim::Strategy& s = run.strategy;
  fields["num_devices"] = std::to_string(s.num_devices());
  const int node = std::min(run.cluster.devices_per_node, s.num_devices());
  fields["devices_per_node"] = std::to_string(node);
  if (s.num_devices() % node == 0) fields["num_nodes"] = std::to_string(s.num_devices() / node);
  if (s.cp > 1 && s.cp_scheme == sim::ContextScheme::AllToAllRing)
    fields["cp_sizes"] = std::to_string(s.context_inner_ranks()) + "+" +
                         std::to_string(s.cp / s.context_inner_ranks());
  fields["num_microbatches"] = std::to_string(s.num_microbatches());
  fields["replica_batch"] = std::to_string(s.global_batch / s.dp);
  fields["framework"] = run.framework.id;
  if (s.flash_attention)
    fields.emplace("attention_kernel", name_of(run.framework.attention_kernel));
  if (s.precision == sim::Precision::Fp8)
    fields["scaling"] = name_of(run.framework.low_precision.scaling);
  fields["regathers"] = sim::text_of(sim::FieldValue(run.framework.sharded.regathers_in_backward));
  const bool partial = s.sharding != sim::Sharding::None && s.shard_ranks() < s.dp * s.cp;
  if (partial) fields["replicate_size"] = std::to_string(s.dp * s.cp / s.shard_ranks());
  fields["device_batch"] =
      sim::text_of(sim::FieldValue(static_cast<double>(s.micro_batch) * s.dp / s.num_devices()));
  if (s.shard_ranks() % s.cp == 0) fields["dp_shard"] = std::to_string(s.shard_ranks() / s.cp);
  fields["layers_per_chunk"] = std::to_string(run.model.num_layers / (s.pp * s.virtual_stages));
  const int parts = s.pp * s.virtual_stages;
  const int weighted = run.model.num_layers + (s.embeddings_as_layers ? 2 : 0);
  const int per_chunk = (weighted + parts - 1) / parts;
  if ((weighted + per_chunk - 1) / per_chunk == parts)
    fields["weighted_layers_per_chunk"] = std::to_string(per_chunk);
  if (const int rounds = s.num_microbatches() / s.pp; rounds == 0)
    fields["rounds"] = "none";
  else
    fields["rounds"] = s.num_microbatches() % rounds == 0 ? "whole" : "parts";
  fields["lone_head"] = s.pp > 1 && model_chunks(run.model, s).back().blocks < run.model.mtp_layers
                            ? "true"
                            : "false";
  fields["remainder"] = gives_remainder_first(run) ? "first" : "elsewhere";
  if (have_unequal_layers(run)) fields["stage_layout"] = stage_layout_text(run.model, s);
}

// Nothing where tensor, context and expert ranks do not fit into a node, and under ZeRO-2.
void add_axes(const sim::Run& run, LaunchValues& fields) {
  const sim::Strategy& s = run.strategy;
  const bool divides = s.sharding == sim::Sharding::Zero3 || s.sharding == sim::Sharding::Hsdp;
  const int inner = s.tp * s.cp * s.ep * s.pp, node = run.cluster.devices_per_node;
  const int slice =
      run.cluster.device.vendor == "Google" || node > s.num_devices() ? s.num_devices() : node;
  const int shards = divides ? s.shard_ranks() / (s.cp * s.ep) : 1;
  const int copies = s.dp / std::max(1, s.ep * shards);
  const int room = slice / inner;
  if (s.sharding == sim::Sharding::Zero2 || slice % inner != 0 || shards * copies * s.ep != s.dp)
    return;
  const int inside = std::gcd(shards, room), copies_inside = std::gcd(copies, room / inside);
  if (inside * copies_inside != room) return;
  fields["fsdp_inside"] = std::to_string(inside);
  fields["fsdp_across"] = std::to_string(shards / inside);
  fields["data_inside"] = std::to_string(copies_inside);
  fields["data_across"] = std::to_string(copies / copies_inside);
  fields["shards_states"] = s.sharding == sim::Sharding::Zero1 ? "true" : "false";
}

void add_adapters(const sim::Strategy& strategy, LaunchValues& fields) {
  if (!strategy.adapters) return;
  fields["model.lora.rank"] = std::to_string(strategy.adapters->rank);
  fields["model.lora.targets"] = sim::joined(names_of(strategy.adapters->layers), "+");
}

// --- two runs ---

// The fields of model and strategy in one spelling each.
LaunchValues canonical_fields(const sim::Run& run) {
  LaunchValues fields = fields_of(run);
  for (const auto& [key, field] : other_fields())
    if (!field.is_compared) fields.erase(key);
  for (const char* key : {"model.moe.num_shared_experts", "model.moe.shared_expert_ffn_size",
                          "embeddings_as_layers", "stage_layers"})
    fields.erase(key);
  for (const auto& [key, value] : run.settings) fields.erase(key);
  if (!has_dense_layers(run.model)) fields.erase("model.ffn_size");
  if (run.strategy.optimizer == sim::OptimizerKind::Adam) fields["optimizer"] = "adamw";
  if (run.strategy.sharding == sim::Sharding::None) fields.erase("gather_overlap");
  if (run.strategy.expert_tensor_ranks() == run.strategy.tp || !run.model.moe) fields.erase("etp");
  if (run.strategy.pp > 1) fields["stage_layers"] = stage_layout_text(run.model, run.strategy);
  if (run.model.position != sim::Position::Learned) fields.erase("model.max_positions");
  // A tower that gets no tokens is not there; of one that does, its tokens are named first.
  for_each_tower(run.model, [&](const char* name, const sim::Tower& tower) {
    const std::string prefix = kModel + std::string(name) + ".";
    std::erase_if(fields, [&](const auto& field) {
      return field.first.starts_with(prefix) &&
             (tower.tokens == 0 || field.first != prefix + "tokens");
    });
  });
  // Kernels of one work the other out too.
  if (run.model.activation == sim::Activation::GeluTanh) fields["model.activation"] = "gelu";
  return fields;
}

std::string full_key(const std::string& key) {
  return key.starts_with(kModel) ? key : "training." + key;
}

// The setting by which a run states a field of its framework.
std::string setting_of(const std::string& field, const sim::Run& run) {
  for (const Setting& setting : run_settings()) {
    if (field == setting.field && run.settings.contains(setting.key))
      return "training." + std::string(setting.key) + " = " +
             sim::text_of(run.settings.at(setting.key));
  }
  return "";
}

}  // namespace

LaunchValues stated_fields(const sim::Strategy& strategy) {
  LaunchValues fields;
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    const auto value = field.get(strategy);
    if (value && is_stated(field, strategy)) fields[field.key] = sim::text_of(*value);
  }
  return fields;
}

LaunchValues fields_without_layout(const sim::Run& run) {
  LaunchValues fields;
  for (const auto& [key, value] : run.settings) fields[key] = sim::text_of(value);
  add_model_fields(run.model, fields);
  add_adapters(run.strategy, fields);
  fields["vendor"] = run.cluster.device.vendor;
  fields["accelerator"] = run.cluster.device.id;
  fields["transport"] = name_of(run.cluster.network.transport);
  fields["collective_algorithm"] = name_of(run.cluster.algorithm);
  return fields;
}

LaunchValues fields_with_layout(const sim::Run& run, LaunchValues fields) {
  fields.merge(stated_fields(run.strategy));
  add_derived_fields(run, fields);
  add_axes(run, fields);
  return fields;
}

LaunchValues fields_of(const sim::Run& run) {
  return fields_with_layout(run, fields_without_layout(run));
}

bool is_of_layout(const std::string& key) {
  if (key.starts_with(kModel)) return false;
  const auto other = other_fields().find(key);
  return sim::find_searched_field(key) || key.starts_with("recompute.") ||
         (other != other_fields().end() && other->second.is_of_layout);
}

bool is_launch_field(const std::string& key) {
  if (other_fields().contains(key)) return true;
  if (!key.starts_with(kModel)) return sim::find_strategy_field(key) || find_setting(key);
  return sim::find_field(sim::transformer_fields(), key.substr(kModel.size()));
}

std::vector<std::string> unsaid_fields(const sim::Run& run, const sim::Run& other) {
  const LaunchValues fields = canonical_fields(run), others = canonical_fields(other);
  std::vector<std::string> unsaid;
  for (const sim::TransformerField& field : sim::transformer_fields()) {
    const std::string key = kModel + field.key;
    const auto *const known = value_in(fields, key), *const said = value_in(others, key);
    if (field.costless && known && !(said && same_value(*said, *known)))
      unsaid.push_back(key + " = " + *known);
  }
  if (run.strategy.optimizer == sim::OptimizerKind::Adam &&
      other.strategy.optimizer == sim::OptimizerKind::AdamW)
    unsaid.emplace_back("training.optimizer = adam (weight decay as part of the gradient)");
  return unsaid;
}

std::optional<std::string> first_difference(const sim::Run& run, const sim::Run& other) {
  LaunchValues fields = canonical_fields(run), others = canonical_fields(other);
  for (const sim::TransformerField& field : sim::transformer_fields())
    if (field.costless) fields.erase(kModel + field.key), others.erase(kModel + field.key);
  for (const auto& [key, value] : fields) {
    const auto* const other_value = value_in(others, key);
    if (!other_value || !same_value(*other_value, value)) return full_key(key) + " = " + value;
  }
  for (const auto& [key, value] : others) {
    if (!fields.contains(key)) return full_key(key) + " of nothing";
  }
  for (const auto& field : sim::framework_fields()) {
    const auto value = field.get(run.framework);
    if (value == field.get(other.framework)) continue;
    const std::string stated = setting_of(field.key, run);
    return stated.empty()
               ? "framework." + field.key + " = " + (value ? sim::text_of(*value) : "none")
               : stated;
  }
  if (run.optimizer_step != other.optimizer_step) return "training.optimizer_step = false";
  return std::nullopt;
}

}  // namespace llmsim::hwdb
