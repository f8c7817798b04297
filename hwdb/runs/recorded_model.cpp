#include "hwdb/runs/recorded_model.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "hwdb/models/catalogue.h"
#include "hwdb/text/spelling.h"

namespace llmsim::hwdb {
namespace {

bool states(const RecordedModel& m, const char* key) { return m.fields.contains(key); }

std::optional<int> count_of(const RecordedModel& m, const char* key) {
  return sim::stated<int>(m.fields, key);
}

std::optional<bool> flag_of(const RecordedModel& m, const char* key) {
  return sim::stated<bool>(m.fields, key);
}

// True where a recorded value equals the catalogue's.
bool agrees(const RecordedModel& m, const sim::PartialTransformer& known, const char* key) {
  return !states(m, key) || (known.contains(key) && m.fields.at(key) == known.at(key));
}

bool same_shape(const RecordedModel& m, const sim::Transformer& model) {
  const sim::PartialTransformer known = fields_of(model);
  for (const char* key : {"hidden_size", "num_heads", "num_kv_heads", "ffn_size"}) {
    if (!agrees(m, known, key)) return false;
  }
  return sim::states_object(m.fields, "moe") == model.moe.has_value();
}

bool same_positions(const RecordedModel& m, const sim::Transformer& known) {
  return sim::stated<sim::Position>(m.fields, "position").value_or(known.position) ==
         known.position;
}

// The model of the same family with the recorded shape and positions.
const sim::NamedModel* sibling(const RecordedModel& m, const sim::Transformer& named) {
  for (const sim::NamedModel& entry : catalogue()) {
    const sim::Transformer& known = entry.model;
    const bool same_size = count_of(m, "num_layers") == known.num_layers &&
                           count_of(m, "hidden_size") == known.hidden_size;
    if (same_size && sim::family_of(known.name) == sim::family_of(named.name) &&
        same_shape(m, known) && same_positions(m, known))
      return &entry;
  }
  return nullptr;
}

constexpr const char* kShape[] = {"num_layers", "hidden_size", "num_heads"};

// That of the name; where it has other positions or widths, its sibling that has the recorded ones
// (the throughput tables of llm-foundry call a model with learned positions mpt-7b, the released
// one has ALiBi).
const sim::NamedModel* catalogue_entry(const RecordedModel& m) {
  const sim::NamedModel* named = m.name ? find_model(*m.name) : nullptr;
  if (!named) return nullptr;
  // Records of hybrids count layers and leave the rest to the name.
  const auto* const first = std::begin(kShape) + (is_hybrid(named->model) ? 1 : 0);
  const bool shape_missing =
      std::none_of(first, std::end(kShape), [&](const char* key) { return states(m, key); });
  const bool same = shape_missing || same_shape(m, named->model);
  if (same && same_positions(m, named->model)) return named;
  if (const sim::NamedModel* other = sibling(m, named->model)) return other;
  return same ? named : nullptr;
}

void check_described(const RecordedModel& m, const sim::NamedModel* entry,
                     const Assumptions& assume) {
  if (m.architecture && *m.architecture != "decoder" && *m.architecture != "encoder" &&
      *m.architecture != "hybrid") {
    assume.refuse("model.architecture = " + *m.architecture +
                  ": only decoders, encoders and hybrids of attention and Mamba or gated delta "
                  "nets are simulated");
  }
  const bool hybrid = states(m, "layer_pattern") || (entry && is_hybrid(entry->model));
  if (m.architecture == "hybrid" && !hybrid)
    assume.refuse("model.architecture = hybrid: model.layer_pattern is missing" +
                  (m.name && !entry ? " and " + *m.name + " is no model of the catalogue" +
                                          did_you_mean(nearest_models(*m.name, 3))
                                    : ""));
  const auto missing = std::find_if(std::begin(kShape), std::end(kShape),
                                    [&](const char* key) { return !states(m, key); });
  if (entry || missing == std::end(kShape)) return;
  const std::string known = m.name ? " and " + *m.name + " is no model of the catalogue" +
                                         did_you_mean(nearest_models(*m.name, 3))
                                   : "";
  assume.refuse(std::string("model.") + *missing + " is missing" + known);
}

sim::Norm norm_of(const RecordedModel& m, Assumptions& assume) {
  if (const auto norm = sim::stated<sim::Norm>(m.fields, "norm")) return *norm;
  const bool rms = flag_of(m, "gated_mlp").value_or(false);
  assume.note("model.norm", rms ? "rmsnorm" : "layernorm", "goes with the kind of MLP");
  return rms ? sim::Norm::RmsNorm : sim::Norm::LayerNorm;
}

int head_dim_of(const sim::Transformer& t, Assumptions& assume) {
  if (t.mla) return query_head_dim(t);
  if (t.hidden_size % t.num_heads != 0) {
    assume.refuse("model.head_dim is missing and num_heads = " + std::to_string(t.num_heads) +
                  " does not divide hidden_size = " + std::to_string(t.hidden_size));
  }
  return t.hidden_size / t.num_heads;
}

int ffn_size_of(const sim::Transformer& t, Assumptions& assume) {
  if (t.moe) return t.moe->expert_ffn_size;
  if (t.gated_mlp) assume.refuse("model.ffn_size is missing");
  assume.note("model.ffn_size", std::to_string(4 * std::int64_t{t.hidden_size}), "4 * hidden_size");
  return static_cast<int>(4 * std::int64_t{t.hidden_size});
}

// Norms as BERT has them: after the embedding and after each half of a layer, so that none is left
// for the head.
void set_encoder(sim::Transformer& t) {
  t.embedding_norm = true;
  t.final_norm = false;
  t.encoder = sim::Encoder::bert();
}

// A shape that no catalogue model has: what is not recorded follows from the two families, GPT and
// Llama.
sim::Transformer described_model(const RecordedModel& m, const FrameworkDefaults& defaults,
                                 Assumptions& assume) {
  sim::Transformer t;
  put(sim::transformer_fields(), m.fields, t);
  t.norm = norm_of(m, assume);
  const bool llama = t.norm == sim::Norm::RmsNorm;
  if (!states(m, "num_kv_heads")) t.num_kv_heads = t.num_heads;
  if (!states(m, "head_dim")) t.head_dim = head_dim_of(t, assume);
  if (!states(m, "ffn_size")) t.ffn_size = ffn_size_of(t, assume);
  for (const char* key : {"vocab_size", "seq_len"})
    assume.required(count_of(m, key), (std::string("model.") + key).c_str());
  t.gated_mlp =
      assume.given(flag_of(m, "gated_mlp"), "model.gated_mlp", llama, "goes with the kind of norm");
  t.tied_embeddings = assume.given(flag_of(m, "tied_embeddings"), "model.tied_embeddings", !llama,
                                   "GPT models tie them, Llama models do not");
  const std::string position =
      assume.given(sim::stated<std::string>(m.fields, "position"), "model.position",
                   std::string(llama ? "rope" : "learned"), "goes with the kind of norm");
  t.position = sim::named<sim::Position>(position).value();
  if (!sim::states_object(m.fields, "bias")) {
    const bool bias = assume.given(m.bias, "model.bias", defaults.bias.value_or(!llama),
                                   "goes with the kind of norm and the framework");
    t.bias = bias ? sim::Biases::gpt() : sim::Biases{};
  }
  t.norms_per_layer = t.parallel_block ? 1 : 2;
  if (t.encoder || m.architecture == "encoder") set_encoder(t);
  return t;
}

// A catalogue model with what the record changes.
sim::Transformer adapted_model(const RecordedModel& m, sim::Transformer t, Assumptions& assume) {
  t.seq_len = assume.given(count_of(m, "seq_len"), "model.seq_len", t.seq_len,
                           "training length of the catalogue's model");
  if (m.bias && !*m.bias) t.bias = {};
  if (m.bias && *m.bias && t.bias == sim::Biases{}) t.bias = sim::Biases::gpt();
  return t;
}

// Objects of a record replace those of the catalogue.  Of experts, groups and flags that a record
// does not state stay the catalogue's.
void replace_objects(const sim::PartialTransformer& fields, sim::Transformer& t) {
  if (sim::states_object(fields, "moe")) {
    const sim::Moe known = t.moe.value_or(sim::Moe{});
    const int groups = sim::stated<int>(fields, "moe.num_groups").value_or(known.num_groups);
    t.moe =
        sim::Moe{.num_groups = groups,
                 .groups_per_token = groups == known.num_groups ? known.groups_per_token : groups,
                 .router_bias = known.router_bias,
                 .expert_bias = known.expert_bias,
                 .shared_expert_gate = known.shared_expert_gate,
                 .latent_size = known.latent_size,
                 .num_zero_experts = known.num_zero_experts,
                 .branch_norms = known.branch_norms,
                 .router_scales = known.router_scales};
  }
  if (sim::states_object(fields, "mla")) t.mla = sim::Mla{};
  for (const sim::ScanMixer& mixer : sim::scan_mixers())
    if (sim::states_object(fields, mixer.object)) mixer.give(t);
  if (sim::states_object(fields, "sparse_attention")) t.sparse_attention.emplace();
  if (sim::states_object(fields, "compressed_attention")) t.compressed_attention.emplace();
  if (sim::states_object(fields, "layer_embedding")) t.layer_embedding.emplace();
  if (sim::states_object(fields, "ngram_embedding")) t.ngram_embedding.emplace();
  if (sim::states_object(fields, "window_attention")) t.window_attention.emplace();
  if (sim::states_object(fields, "vision")) t.vision.emplace();
  if (sim::states_object(fields, "audio")) t.audio.emplace();
  if (sim::states_object(fields, "encoder")) t.encoder = sim::Encoder::bert();
}

}  // namespace

RecordedModel recorded(const sim::Transformer& t) {
  RecordedModel m;
  m.name = t.name;
  m.architecture = t.encoder ? "encoder" : is_hybrid(t) ? "hybrid" : "decoder";
  m.fields = fields_of(t);
  return m;
}

sim::Transformer model_of(const RunRecord& record, const FrameworkDefaults& defaults,
                          Assumptions& assume) {
  const RecordedModel& m = record.model;
  const sim::NamedModel* entry = catalogue_entry(m);
  check_described(m, entry, assume);
  sim::Transformer t =
      entry ? adapted_model(m, entry->model, assume) : described_model(m, defaults, assume);
  t.name = m.name.value_or("unnamed");
  replace_objects(m.fields, t);
  put(sim::transformer_fields(), m.fields, t);
  return t;
}

}  // namespace llmsim::hwdb
