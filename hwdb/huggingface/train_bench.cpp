// The configurations of llm-train-bench, which have keys of their own.
#include <algorithm>
#include <cmath>

#include "hwdb/huggingface/model_config.h"

namespace llmsim::hwdb {
namespace {

using sim::Norm;
using sim::Position;
using sim::Transformer;

Transformer bench_llama(ModelConfig& c, Transformer m) {
  m.num_kv_heads = c.count_or({"n_kv_heads"}, m.num_heads);
  m.gated_mlp = true;
  m.norm = Norm::RmsNorm;
  m.position = Position::Rope;
  if (const std::optional<int> width = c.maybe({"d_hid"})) {
    m.ffn_size = *width;
    return m;
  }
  const double factor = c.need({"ffn_factor"});
  const double exact = c.need_number("ffn_mult") * 8.0 / 3.0 * m.hidden_size;
  m.ffn_size = static_cast<int>(std::min(factor * std::ceil(exact / factor), 1e9));
  return m;
}

}  // namespace

// A GPT has neither ffn_mult nor kv heads; everything else there is a Llama.
sim::Transformer train_bench(ModelConfig& c) {
  sim::Transformer m;
  m.num_layers = c.need({"n_layers"});
  m.hidden_size = c.need({"d_embd"});
  m.num_heads = c.need({"n_heads"});
  m.head_dim = divided_head_dim(c, m.hidden_size, m.num_heads);
  m.vocab_size = c.need({"vocab_size"});
  m.seq_len = c.need({"max_seq_len"});
  m.name = c.text("arch_name").value_or("llm-train-bench");
  if (c.has("ffn_mult") || c.has("d_hid") || c.has("n_kv_heads")) return bench_llama(c, m);
  m.num_kv_heads = m.num_heads;
  m.ffn_size = 4 * m.hidden_size;
  m.tied_embeddings = true;
  m.bias = sim::Biases::gpt();
  m.position = sim::Position::Learned;
  return m;
}

}  // namespace llmsim::hwdb
