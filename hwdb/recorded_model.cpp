#include "hwdb/recorded_model.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "sim/model/catalogue.h"

namespace llmsim::hwdb {
namespace {

// True where every recorded width equals the catalogue's.
bool same_shape(const RecordedModel& m, const sim::Transformer& known) {
  const auto agrees = [](const std::optional<int>& recorded, int value) {
    return !recorded || *recorded == value;
  };
  return agrees(m.hidden_size, known.hidden_size) && agrees(m.num_heads, known.num_heads) &&
         agrees(m.num_kv_heads, known.num_kv_heads) && agrees(m.ffn_size, known.ffn_size) &&
         m.moe.has_value() == known.moe.has_value();
}

sim::Position position_named(const std::string& name) {
  if (name == "learned") return sim::Position::Learned;
  if (name == "rope") return sim::Position::Rope;
  if (name == "alibi") return sim::Position::Alibi;
  if (name == "relative") return sim::Position::Relative;
  return sim::Position::None;
}

bool same_positions(const RecordedModel& m, const sim::Transformer& known) {
  return !m.position || position_named(*m.position) == known.position;
}

// The model of the same family with the recorded shape and positions.
const sim::CatalogueEntry* sibling(const RecordedModel& m, const sim::Transformer& named) {
  for (const sim::CatalogueEntry& entry : sim::catalogue()) {
    const sim::Transformer& known = entry.model;
    const bool same_size = m.num_layers == known.num_layers && m.hidden_size == known.hidden_size;
    if (same_size && sim::family_of(known.name) == sim::family_of(named.name) &&
        same_shape(m, known) && same_positions(m, known))
      return &entry;
  }
  return nullptr;
}

// That of the name; where it has other positions or widths, its sibling that has the recorded ones
// (the throughput tables of llm-foundry call a model with learned positions mpt-7b, the released
// one has ALiBi).
const sim::CatalogueEntry* catalogue_entry(const RecordedModel& m) {
  const sim::CatalogueEntry* named = m.name ? sim::find_model(*m.name) : nullptr;
  if (!named) return nullptr;
  const bool shape_missing = !m.num_layers && !m.hidden_size && !m.num_heads;
  const bool same = shape_missing || same_shape(m, named->model);
  if (same && same_positions(m, named->model)) return named;
  if (const sim::CatalogueEntry* other = sibling(m, named->model)) return other;
  return same ? named : nullptr;
}

std::string nearest_models_text(const std::string& name) {
  std::string text;
  for (const std::string& model : sim::nearest_models(name, 3))
    text += (text.empty() ? "; did you mean " : ", ") + model;
  return text.empty() ? text : text + "?";
}

void check_described(const RecordedModel& m, const sim::CatalogueEntry* entry,
                     const Assumptions& assume) {
  if (m.architecture && *m.architecture != "decoder" && *m.architecture != "encoder") {
    assume.refuse("model.architecture = " + *m.architecture +
                  ": only decoders and encoders are simulated");
  }
  if (entry || (m.num_layers && m.hidden_size && m.num_heads)) return;
  const char* missing = !m.num_layers ? "num_layers" : !m.hidden_size ? "hidden_size" : "num_heads";
  const std::string known =
      m.name ? " and " + *m.name + " is no model of the catalogue" + nearest_models_text(*m.name)
             : "";
  assume.refuse(std::string("model.") + missing + " is missing" + known);
}

sim::Norm norm_of(const RecordedModel& m, Assumptions& assume) {
  if (m.norm) return *m.norm == "rmsnorm" ? sim::Norm::RmsNorm : sim::Norm::LayerNorm;
  const bool rms = m.gated_mlp.value_or(false);
  assume.note("model.norm", rms ? "rmsnorm" : "layernorm", "goes with the kind of MLP");
  return rms ? sim::Norm::RmsNorm : sim::Norm::LayerNorm;
}

int head_dim_of(const RecordedModel& m, Assumptions& assume) {
  if (m.head_dim) return *m.head_dim;
  if (m.mla) return m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
  if (*m.hidden_size % *m.num_heads != 0) {
    assume.refuse("model.head_dim is missing and num_heads = " + std::to_string(*m.num_heads) +
                  " does not divide hidden_size = " + std::to_string(*m.hidden_size));
  }
  return *m.hidden_size / *m.num_heads;
}

int ffn_size_of(const RecordedModel& m, Assumptions& assume) {
  if (m.ffn_size) return *m.ffn_size;
  if (m.moe) return m.moe->expert_ffn_size;
  if (m.gated_mlp.value_or(false)) assume.refuse("model.ffn_size is missing");
  assume.note("model.ffn_size", std::to_string(4 * std::int64_t{*m.hidden_size}),
              "4 * hidden_size");
  return static_cast<int>(4 * std::int64_t{*m.hidden_size});
}

bool is_encoder(const RecordedModel& m) { return m.encoder || m.architecture == "encoder"; }

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
  t.norm = norm_of(m, assume);
  const bool llama = t.norm == sim::Norm::RmsNorm;
  t.num_layers = *m.num_layers;
  t.hidden_size = *m.hidden_size;
  t.num_heads = *m.num_heads;
  t.num_kv_heads = m.num_kv_heads.value_or(*m.num_heads);
  t.head_dim = head_dim_of(m, assume);
  t.ffn_size = ffn_size_of(m, assume);
  t.vocab_size = assume.required(m.vocab_size, "model.vocab_size");
  t.seq_len = assume.required(m.seq_len, "model.seq_len");
  t.gated_mlp = assume.given(m.gated_mlp, "model.gated_mlp", llama, "goes with the kind of norm");
  t.tied_embeddings = assume.given(m.tied_embeddings, "model.tied_embeddings", !llama,
                                   "GPT models tie them, Llama models do not");
  t.position = position_named(assume.given(m.position, "model.position",
                                           std::string(llama ? "rope" : "learned"),
                                           "goes with the kind of norm"));
  const bool bias = assume.given(m.bias, "model.bias", defaults.bias.value_or(!llama),
                                 "goes with the kind of norm and the framework");
  t.bias = bias ? sim::Biases::gpt() : sim::Biases{};
  t.parallel_block = m.parallel_block.value_or(false);
  t.norms_per_layer = t.parallel_block ? 1 : 2;
  if (is_encoder(m)) set_encoder(t);
  return t;
}

// A catalogue model with what the record changes.
sim::Transformer adapted_model(const RecordedModel& m, sim::Transformer t, Assumptions& assume) {
  const auto replace = [](auto& target, const auto& value) {
    if (value) target = *value;
  };
  replace(t.num_layers, m.num_layers);
  replace(t.head_dim, m.head_dim);
  replace(t.vocab_size, m.vocab_size);
  t.seq_len = assume.given(m.seq_len, "model.seq_len", t.seq_len,
                           "training length of the catalogue's model");
  replace(t.gated_mlp, m.gated_mlp);
  replace(t.tied_embeddings, m.tied_embeddings);
  replace(t.parallel_block, m.parallel_block);
  if (m.position) t.position = position_named(*m.position);
  if (m.norm) t.norm = *m.norm == "rmsnorm" ? sim::Norm::RmsNorm : sim::Norm::LayerNorm;
  if (m.bias && !*m.bias) t.bias = {};
  if (m.bias && *m.bias && t.bias == sim::Biases{}) t.bias = sim::Biases::gpt();
  return t;
}

// Routing as recorded; flags that the schema has no key for stay those of the catalogue.
void set_experts(const RecordedModel& m, sim::Transformer& t) {
  if (!m.moe) return;
  sim::Moe moe = *m.moe;
  if (t.moe) {
    moe.router_bias = t.moe->router_bias;
    if (moe.num_groups == 1)
      moe.num_groups = t.moe->num_groups, moe.groups_per_token = t.moe->groups_per_token;
    moe.expert_bias = t.moe->expert_bias;
    moe.shared_expert_gate = t.moe->shared_expert_gate;
  }
  moe.router_bias = m.router_bias.value_or(moe.router_bias);
  moe.expert_bias = m.expert_bias.value_or(moe.expert_bias);
  moe.shared_expert_gate = m.shared_expert_gate.value_or(moe.shared_expert_gate);
  t.moe = moe;
}

constexpr std::array<std::pair<const char*, sim::QkNorm>, 3> kQkNorms = {
    {{"none", sim::QkNorm::None},
     {"per-head", sim::QkNorm::PerHead},
     {"all-heads", sim::QkNorm::AllHeads}}};

// What a record says of details that most leave to the family or the catalogue.
void set_details(const RecordedModel& m, sim::Transformer& t) {
  const auto replace = [](auto& target, const auto& value) {
    if (value) target = *value;
  };
  replace(t.bias, m.biases);
  replace(t.norm_weight, m.norm_weight);
  replace(t.norms_per_layer, m.norms_per_layer);
  replace(t.final_norm, m.final_norm);
  replace(t.embedding_norm, m.embedding_norm);
  replace(t.attention_sinks, m.attention_sinks);
  replace(t.max_positions, m.max_positions);
  replace(t.sliding_window_interval, m.sliding_window_interval);
  for (const auto& [name, value] : kQkNorms) {
    if (m.qk_norm == name) t.qk_norm = value;
  }
}

}  // namespace

RecordedModel recorded(const sim::Transformer& t) {
  RecordedModel m;
  m.name = t.name;
  m.architecture = t.encoder ? "encoder" : "decoder";
  m.num_layers = t.num_layers;
  m.hidden_size = t.hidden_size;
  m.num_heads = t.num_heads;
  m.num_kv_heads = t.num_kv_heads;
  m.head_dim = t.head_dim;
  m.ffn_size = t.ffn_size;
  m.vocab_size = t.vocab_size;
  m.seq_len = t.seq_len;
  m.gated_mlp = t.gated_mlp;
  m.tied_embeddings = t.tied_embeddings;
  m.parallel_block = t.parallel_block;
  m.norm = name_of(t.norm);
  m.position = name_of(t.position);
  m.sliding_window = t.sliding_window;
  m.biases = t.bias;
  m.bias = t.bias != sim::Biases{};
  m.norm_weight = t.norm_weight;
  m.norms_per_layer = t.norms_per_layer;
  m.final_norm = t.final_norm;
  m.embedding_norm = t.embedding_norm;
  m.attention_sinks = t.attention_sinks;
  m.max_positions = t.max_positions;
  m.sliding_window_interval = t.sliding_window_interval;
  for (const auto& [name, value] : kQkNorms) {
    if (t.qk_norm == value) m.qk_norm = name;
  }
  m.moe = t.moe;
  if (t.moe) {
    m.router_bias = t.moe->router_bias;
    m.expert_bias = t.moe->expert_bias;
    m.shared_expert_gate = t.moe->shared_expert_gate;
  }
  m.mla = t.mla;
  m.encoder = t.encoder;
  m.mtp_layers = t.mtp_layers;
  return m;
}

sim::Transformer model_of(const RunRecord& record, const FrameworkDefaults& defaults,
                          Assumptions& assume) {
  const RecordedModel& m = record.model;
  const sim::CatalogueEntry* entry = catalogue_entry(m);
  check_described(m, entry, assume);
  sim::Transformer t =
      entry ? adapted_model(m, entry->model, assume) : described_model(m, defaults, assume);
  t.name = m.name.value_or("unnamed");
  if (m.sliding_window) t.sliding_window = m.sliding_window;
  set_experts(m, t);
  if (m.mla) t.mla = m.mla;
  if (m.encoder) t.encoder = m.encoder;
  if (m.mtp_layers) t.mtp_layers = *m.mtp_layers;
  set_details(m, t);
  return t;
}

}  // namespace llmsim::hwdb
