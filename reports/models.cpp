#include "reports/models.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "reports/json.h"
#include "reports/result_text.h"

#include "sim/base/error.h"
#include "sim/model/flops.h"
#include "sim/model/parameters.h"
#include "sim/model/tower.h"

namespace llmsim::reports {
namespace {

using sim::NamedModel;
using sim::Transformer;

Cell count(std::int64_t value) { return Cell(value); }

// How people say it.
const char* text_of(sim::QkNorm norm) {
  return norm == sim::QkNorm::PerHead ? "per head" : "over all heads";
}

std::string biases(const sim::Biases& bias) {
  std::vector<std::string> where;
  if (bias.qkv) where.emplace_back("q, k, v");
  if (bias.attention_output) where.emplace_back("attention output");
  if (bias.mlp) where.emplace_back("MLP");
  if (bias.norm) where.emplace_back("norms");
  if (bias.head) where.emplace_back("head");
  return where.empty() ? "none" : sim::joined(where, ", ");
}

std::string attention(const Transformer& m) {
  if (m.mla) return "mla";
  if (m.num_kv_heads == m.num_heads) return "multi-head";
  return m.num_kv_heads == 1 ? "multi-query" : "grouped-query";
}

std::string norms(const Transformer& m) {
  return std::string(name_of(m.norm)) + ", " + std::to_string(m.norms_per_layer) + " per layer" +
         (m.norm_weight ? "" : ", without parameters");
}

std::string window(const Transformer& m) {
  const std::string tokens = std::to_string(*m.sliding_window) + " tokens";
  if (m.sliding_window_interval == 1) return tokens + ", all layers";
  return tokens + ", one full layer in " + std::to_string(m.sliding_window_interval);
}

std::string experts(const sim::Moe& moe) {
  std::string text = std::to_string(moe.top_k) + " of " + std::to_string(moe.num_experts) +
                     ", width " + std::to_string(moe.expert_ffn_size);
  if (moe.num_groups > 1)
    text += "; in " + std::to_string(moe.groups_per_token) + " of " +
            std::to_string(moe.num_groups) + " groups";
  if (moe.num_shared_experts > 0) {
    text += "; shared: " + std::to_string(moe.num_shared_experts) + ", width " +
            std::to_string(moe.shared_expert_ffn_size);
  }
  if (moe.num_zero_experts > 0)
    text += "; " + std::to_string(moe.num_zero_experts) + " that give back what they read";
  if (moe.latent_size) text += "; rows of " + std::to_string(*moe.latent_size) + " values";
  if (moe.num_dense_layers > 0)
    text += "; first " + std::to_string(moe.num_dense_layers) + " layers dense";
  if (moe.num_last_dense_layers > 0)
    text += "; last " + std::to_string(moe.num_last_dense_layers) + " layers dense";
  if (moe.layer_interval > 1) text += "; one layer in " + std::to_string(moe.layer_interval);
  return text;
}

std::string mla(const sim::Mla& mla) {
  const std::string query = mla.q_lora_rank ? "rank " + std::to_string(*mla.q_lora_rank) : "direct";
  return fmt::format("queries {}, keys and values rank {}, head {} + {} rotary, value {}", query,
                     mla.kv_lora_rank, mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim);
}

std::string mamba(const sim::Mamba& mamba) {
  return fmt::format("{} heads of {}, states of {}, {} groups, convolution over {}, chunks of {}",
                     mamba.num_heads, mamba.head_dim, mamba.state_size, mamba.num_groups,
                     mamba.conv_kernel, mamba.chunk_size);
}

std::string mamba1(const sim::Mamba1& mamba) {
  return fmt::format("{} channels, states of {}, steps of rank {}, convolution over {}",
                     mamba.inner_size, mamba.state_size, mamba.dt_rank, mamba.conv_kernel);
}

std::string lightning_attention(const sim::LightningAttention& attention) {
  return std::to_string(attention.num_heads) + " heads of " + std::to_string(attention.head_dim) +
         ", chunks of " + std::to_string(attention.chunk_size);
}

std::string delta_net(const sim::GatedDeltaNet& net) {
  return fmt::format("{} value heads of {}, {} key heads of {}, convolution over {}, chunks of {}",
                     net.num_value_heads, net.value_head_dim, net.num_key_heads, net.key_head_dim,
                     net.conv_kernel, net.chunk_size) +
         (net.gate_rank ? fmt::format(", decays and gates of rank {}", *net.gate_rank) : "");
}

std::string short_convolution(const sim::ShortConvolution& convolution) {
  return fmt::format("{} channels over {} tokens", convolution.channels, convolution.conv_kernel);
}

std::string sparse_attention(const sim::SparseAttention& sparse) {
  return fmt::format("{} of all, by an indexer of {} heads of {}", sparse.top_k, sparse.num_heads,
                     sparse.head_dim) +
         (sparse.block > 1 ? fmt::format(", in blocks of {}", sparse.block) : "");
}

std::string compressed_attention(const sim::CompressedAttention& attention) {
  return fmt::format(
      "a window of {}; Z: {} entries of {} tokens by an indexer of {} heads of {}; H: entries of "
      "{}",
      attention.window, attention.top_k, attention.ratio, attention.index_heads,
      attention.index_dim, attention.heavy_ratio);
}

std::string window_attention(const sim::WindowAttention& window) {
  return fmt::format("{} heads of {}, {} kv heads, {} tokens", window.num_heads, window.head_dim,
                     window.num_kv_heads, window.window);
}

std::string encoder(const Transformer& model) {
  const sim::Encoder& encoder = *model.encoder;
  const std::string share = std::to_string(std::lround(100.0 * encoder.predicted_share));
  if (model.num_labels)
    return std::string("every token sees all others") +
           (encoder.next_sentence ? "; a pooler of the first" : "");
  return "every token sees all others; logits of " + share + " % of the tokens" +
         (encoder.next_sentence ? ", sentences told apart" : "");
}

// `what` of a sequence it makes, which `option` asks for.
std::string tower_text(const sim::Tower& tower, const sim::Transformer& model, const char* what,
                       const char* option) {
  const std::string windows =
      tower.window ? fmt::format(", windows of {}", *tower.window) : std::string();
  return fmt::format(
      "{} layers of {}, {} parameters, {} patches{}, {} to a token{}", tower.num_layers,
      tower.hidden_size, grouped(sim::tower_parameters(tower, model.hidden_size)), tower.patches,
      windows, tower.merged_patches,
      tower.tokens > 0 ? fmt::format("; {} tokens of a sequence are {}{}", tower.tokens, what,
                                     tower.frozen ? ", frozen" : "")
                       : fmt::format("; not of this run ({})", option));
}

std::string positions(const sim::Transformer& model) {
  std::string text = name_of(model.position);
  if (!model.rope) return text;
  const sim::Rope& rope = *model.rope;
  text += " of base " + sim::text_of(rope.base);
  if (rope.window_base) text += ", in windows " + sim::text_of(*rope.window_base);
  if (rope.share < 1.0) text += fmt::format(", in {:.3g} of a head", rope.share);
  if (rope.scaling != sim::RopeScaling::None)
    text += fmt::format(", {} scaling by {:.3g}", name_of(rope.scaling), rope.factor);
  return text;
}

std::string head(const Transformer& m) {
  if (!m.num_labels) return m.tied_embeddings ? ", tied head" : ", own head";
  return *m.num_labels > 0 ? fmt::format(", head of {} labels", *m.num_labels) : ", no head";
}

using Fields = std::vector<std::pair<std::string, std::string>>;

void add_sizes(Fields& fields, const Transformer& m) {
  fields.emplace_back("layers",
                      std::to_string(m.num_layers) +
                          (m.mtp_layers > 0 ? " + " + std::to_string(m.mtp_layers) + " MTP" : ""));
  fields.emplace_back("hidden size", std::to_string(m.hidden_size));
  fields.emplace_back("heads", std::to_string(m.num_heads) + " of " + std::to_string(m.head_dim));
  fields.emplace_back("kv heads", std::to_string(m.num_kv_heads));
  fields.emplace_back(
      "MLP", std::to_string(m.ffn_size) + (m.gated_mlp ? ", gated" : ", plain") +
                 (m.activation ? std::string(" ") + name_of(*m.activation) : std::string()));
  fields.emplace_back("vocabulary", std::to_string(m.vocab_size) + head(m));
  fields.emplace_back(
      "sequence",
      std::to_string(m.seq_len) + " tokens" +
          (m.document_len ? ", documents of " + std::to_string(*m.document_len) : std::string()));
}

void add_details(Fields& fields, const Transformer& m) {
  fields.emplace_back("attention", attention(m));
  if (m.encoder) fields.emplace_back("encoder", encoder(m));
  if (m.mla) fields.emplace_back("MLA", mla(*m.mla));
  if (m.sparse_attention) fields.emplace_back("chosen keys", sparse_attention(*m.sparse_attention));
  if (m.compressed_attention)
    fields.emplace_back("compressed keys", compressed_attention(*m.compressed_attention));
  if (m.layer_embedding)
    fields.emplace_back("layer embeddings",
                        fmt::format("{} values in each layer, of {} ids", m.layer_embedding->width,
                                    m.layer_embedding->vocab_size));
  if (m.ngram_embedding)
    fields.emplace_back("n-gram embeddings",
                        fmt::format("{} tables of {} and {} rows", m.ngram_embedding->num_tables,
                                    m.ngram_embedding->width, m.ngram_embedding->vocab_size));
  if (m.residual_streams > 1)
    fields.emplace_back("residual streams", std::to_string(m.residual_streams) +
                                                (m.alternating_updates ? ", AltUp" : ""));
  if (m.laurel_rank) fields.emplace_back("LAuReL", "rank " + std::to_string(*m.laurel_rank));
  if (m.sliding_window) fields.emplace_back("sliding window", window(m));
  if (m.vision)
    fields.emplace_back("image tower", tower_text(*m.vision, m, "images", "--image-tokens"));
  if (m.audio)
    fields.emplace_back("audio tower", tower_text(*m.audio, m, "audio", "--audio-tokens"));
  if (m.attention_sinks) fields.emplace_back("attention sinks", "one per head");
  if (m.layer_pattern) fields.emplace_back("layer pattern", *m.layer_pattern);
  if (m.mamba) fields.emplace_back("Mamba-2", mamba(*m.mamba));
  if (m.gated_delta_net) fields.emplace_back("gated delta net", delta_net(*m.gated_delta_net));
  if (m.mamba1) fields.emplace_back("Mamba-1", mamba1(*m.mamba1));
  if (m.lightning_attention)
    fields.emplace_back("lightning attention", lightning_attention(*m.lightning_attention));
  if (m.short_convolution)
    fields.emplace_back("short convolution", short_convolution(*m.short_convolution));
  if (m.window_attention)
    fields.emplace_back("windowed attention", window_attention(*m.window_attention));
  if (m.value_head_dim) fields.emplace_back("value heads", std::to_string(*m.value_head_dim));
  if (m.query_rank) fields.emplace_back("queries", "from " + std::to_string(*m.query_rank));
  if (m.keys_as_values) fields.emplace_back("values", "the keys before their norm");
  if (m.attention_gate) fields.emplace_back("attention gate", "yes");
  if (m.attention_head_gate) fields.emplace_back("attention gate", "one value per head");
  if (m.moe) fields.emplace_back("experts", experts(*m.moe));
  fields.emplace_back("positions", positions(m));
  fields.emplace_back(
      "norms",
      norms(m) + (m.norm_epsilon ? ", epsilon " + sim::text_of(*m.norm_epsilon) : std::string()));
  if (m.qk_norm != sim::QkNorm::None) fields.emplace_back("q/k norm", text_of(m.qk_norm));
  if (m.embedding_norm) fields.emplace_back("embedding norm", "yes");
  fields.emplace_back("block", m.parallel_block ? "parallel" : "sequential");
  fields.emplace_back("biases", biases(m.bias));
}

std::vector<std::pair<const char*, std::int64_t>> parts(const sim::Parameters& p) {
  return {{"embedding", p.embedding},
          {"positions", p.positions},
          {"attention", p.attention},
          {"mixers", p.mixers},
          {"mlp", p.mlp},
          {"experts", p.experts},
          {"router", p.router},
          {"norms", p.norms},
          {"head", p.head},
          {"mtp", p.mtp}};
}

// Of one token in one second on one device, so that rates are amounts.
std::vector<sim::Convention> training_conventions(const Transformer& model) {
  const sim::Flops causal = sim::training_flops_per_token(model);
  std::vector<sim::Convention> list = sim::conventions(model, {.tokens = 1.0,
                                                               .model = causal,
                                                               .hardware = causal,
                                                               .step_time = sim::Seconds(1.0),
                                                               .num_devices = 1,
                                                               .peak = sim::FlopsPerSecond(1.0)});
  std::erase_if(list,
                [](const sim::Convention& convention) { return convention.name == "hardware"; });
  return list;
}

}  // namespace

Table catalogue_table(const std::vector<const NamedModel*>& entries) {
  Table table("Models",
              {as_text("name", "model"), as_integer("num_layers", "layers"),
               as_integer("hidden_size", "hidden"), as_integer("num_heads", "heads"),
               as_integer("num_kv_heads", "kv heads"), as_integer("ffn_size", "MLP"),
               as_integer("num_experts", "experts"), as_integer("vocab_size", "vocabulary"),
               as_integer("seq_len", "tokens"), as_integer("num_parameters", "parameters"),
               as_integer("active_parameters", "active"), as_text("aliases", "also called")});
  for (const NamedModel* entry : entries) {
    const Transformer& m = entry->model;
    const sim::Parameters p = sim::parameters(m);
    table.add_row(
        {m.name, count(m.num_layers), count(m.hidden_size), count(m.num_heads),
         count(m.num_kv_heads), count(m.ffn_size), count_or_none(m.moe ? m.moe->num_experts : 0),
         count(m.vocab_size), count(m.seq_len), count(p.total()),
         count_or_none(p.inactive > 0 ? p.active() : 0), sim::joined(entry->aliases, ", ")});
  }
  return table;
}

namespace {

// Of a model's file: the keys that were read, what was assumed, and what was ignored by reason.
std::vector<std::string> notes_on_keys(const NamedModel& entry) {
  std::vector<std::pair<std::string, std::string>> lines;  // in the order in which they come
  const auto add = [&](const std::string& head, const std::string& text) {
    const auto found = std::find_if(lines.begin(), lines.end(),
                                    [&](const auto& line) { return line.first == head; });
    if (found == lines.end())
      lines.emplace_back(head, text);
    else
      found->second += ", " + text;
  };
  for (const sim::ModelKey& key : entry.keys) {
    if (key.outcome == "assumed")
      add("assumed, the file does not say", key.why + " = " + key.value);
    else
      add(key.outcome + (key.outcome == "ignored" ? ", " + key.why : ""), key.key);
  }
  std::vector<std::string> notes;
  for (const auto& [head, text] : lines) notes.push_back(head + ": " + text);
  return notes;
}

}  // namespace

Table shape_table(const NamedModel& entry) {
  Table table(entry.model.name, {as_text("field", "shape"), as_text("value")});
  Fields fields;
  add_sizes(fields, entry.model);
  add_details(fields, entry.model);
  if (!entry.aliases.empty()) fields.emplace_back("also called", sim::joined(entry.aliases, ", "));
  for (auto& [field, value] : fields) table.add_row({std::move(field), std::move(value)});
  table.add_note("source: " + entry.source);
  for (const std::string& note : notes_on_keys(entry)) add_wrapped_note(table, note);
  return table;
}

Table parameters_table(const NamedModel& entry) {
  const sim::Parameters p = sim::parameters(entry.model);
  const auto total = static_cast<double>(p.total());
  Table table("Parameters", {as_text("part"), as_integer("parameters"), in_percent("share")});
  const auto add = [&](const char* name, std::int64_t n) {
    table.add_row({std::string(name), n, static_cast<double>(n) / total});
  };
  for (const auto& [name, n] : parts(p)) {
    if (n > 0) add(name, n);
  }
  add("total", p.total());
  add("without embedding", p.without_embedding());
  if (p.inactive > 0) add("active for a token", p.active());
  if (entry.published_parameters)
    table.add_note("published: " + grouped(*entry.published_parameters));
  return table;
}

Table training_flops_table(const Transformer& model) {
  Table table("Training FLOPs per token",
              {as_text("convention"), in_flops("flops_per_token", "forward and backward")});
  for (const sim::Convention& convention : training_conventions(model))
    table.add_row({convention.name, convention.flops_per_step});
  table.add_note("sequences of " + std::to_string(model.seq_len) +
                 " tokens; gemm_causal is the work that is really done");
  return table;
}

std::string model_json(const NamedModel& entry) {
  const sim::Parameters p = sim::parameters(entry.model);
  Json document = {{"name", entry.model.name},         {"family", sim::family_of(entry.model.name)},
                   {"aliases", entry.aliases},         {"source", entry.source},
                   {"not_counted", entry.notes},       {"model", transformer_json(entry.model)},
                   {"parameters", Json::object()},     {"published_parameters", {}},
                   {"flops_per_token", Json::object()}};
  for (const sim::ModelKey& key : entry.keys)
    document["keys"].push_back(
        {{"key", key.key}, {"value", key.value}, {"outcome", key.outcome}, {"why", key.why}});
  for (const auto& [name, n] : parts(p)) document["parameters"][name] = n;
  document["parameters"]["total"] = p.total();
  document["parameters"]["without_embedding"] = p.without_embedding();
  document["parameters"]["active"] = p.active();
  document["published_parameters"] = or_null(entry.published_parameters);
  for (const sim::Convention& convention : training_conventions(entry.model)) {
    document["flops_per_token"][convention.name] = convention.flops_per_step.value();
  }
  return text_of(document);
}

}  // namespace llmsim::reports
