// BERT and RoBERTa as transformers describes them: encoders with learned positions and a norm after
// the embedding.
#include "hwdb/huggingface/model_config.h"

namespace llmsim::hwdb {
namespace {

using sim::Encoder;
using sim::Position;
using sim::Transformer;

// "architectures" names the class that was trained; without it the one that restores tokens alone.
bool tells_sentences_apart(ModelConfig& c) {
  const nlohmann::json* classes = c.any("architectures");
  if (!classes || !classes->is_array()) return false;
  for (const nlohmann::json& name : *classes) {
    if (name.is_string() && name.get<std::string>().ends_with("ForPreTraining")) return true;
  }
  return false;
}

void refuse_other_positions(ModelConfig& c) {
  const std::string kind = c.text("position_embedding_type").value_or("absolute");
  if (kind != "absolute")
    c.refuse("position_embedding_type", kind + " is not supported; absolute is");
  if (c.flag("is_decoder", false))
    c.refuse("is_decoder", "a decoder of this family is not supported; false is");
}

// The heads of transformers make logits of every token.
Transformer bert(ModelConfig& c) {
  refuse_other_positions(c);
  Transformer m;
  m.num_layers = c.need({"num_hidden_layers"});
  m.hidden_size = c.need({"hidden_size"});
  m.num_heads = m.num_kv_heads = c.need({"num_attention_heads"});
  m.head_dim = divided_head_dim(c, m.hidden_size, m.num_heads);
  m.ffn_size = c.need({"intermediate_size"});
  m.vocab_size = c.need({"vocab_size"});
  m.max_positions = m.seq_len = c.count_or({"max_position_embeddings"}, 512);
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  m.bias = sim::Biases::gpt();
  m.bias.head = true;
  m.position = Position::Learned;
  m.embedding_norm = true;
  m.final_norm = false;
  m.encoder = Encoder{.segment_types = c.at_least_zero("type_vocab_size", 2),
                      .next_sentence = tells_sentences_apart(c)};
  return m;
}

// Two rows of the position table are no token's.
Transformer roberta(ModelConfig& c) {
  Transformer m = bert(c);
  m.seq_len = m.max_positions > 2 ? m.max_positions - 2 : m.max_positions;
  return m;
}

}  // namespace

Families encoder_families() {
  return {{"bert", bert}, {"roberta", roberta}, {"xlm-roberta", roberta}};
}

}  // namespace llmsim::hwdb
