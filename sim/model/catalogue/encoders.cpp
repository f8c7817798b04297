// BERT and RoBERTa: encoders with a norm after the embedding and after both halves of every layer.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

struct EncoderShape {
  const char* name;
  int layers, hidden, heads, vocab;
};

// Learned positions, two segments, biases everywhere, tied projection with a bias, sentences told apart.
Transformer bert(const EncoderShape& s) {
  Biases bias = Biases::gpt();
  bias.head = true;
  return {.name = s.name,
          .num_layers = s.layers,
          .hidden_size = s.hidden,
          .num_heads = s.heads,
          .num_kv_heads = s.heads,
          .head_dim = s.hidden / s.heads,
          .ffn_size = 4 * s.hidden,
          .vocab_size = s.vocab,
          .seq_len = 512,
          .tied_embeddings = true,
          .bias = bias,
          .final_norm = false,
          .embedding_norm = true,
          .position = Position::Learned,
          .max_positions = 512,
          .encoder = Encoder{.predicted_share = kMaskedShareOfBert, .segment_types = 2, .next_sentence = true}};
}

// Two more rows of positions (one is of the padding), one segment, no sentences to tell apart, and every token's logits.
// Source: Liu et al. 2019, arXiv 1907.11692; RobertaLMHead of fairseq takes the masked tokens, that of transformers all.
Transformer roberta(const EncoderShape& s) {
  Transformer m = bert(s);
  m.max_positions = 514;
  m.encoder = Encoder{.predicted_share = 1.0, .segment_types = 1, .next_sentence = false};
  return m;
}

}  // namespace

std::vector<CatalogueEntry> encoder_models() {
  const std::string google = "HF google-bert/", facebook = "HF FacebookAI/";
  return {{bert({"bert-base", 12, 768, 12, 30522}), {"bert-base-uncased"}, 110106428, google + "bert-base-uncased"},
          {bert({"bert-large", 24, 1024, 16, 30522}), {"bert-large-uncased"}, 336226108, google + "bert-large-uncased"},
          {roberta({"roberta-base", 12, 768, 12, 50265}), {}, 124697433, facebook + "roberta-base"},
          {roberta({"roberta-large", 24, 1024, 16, 50265}), {}, 355412057, facebook + "roberta-large"}};
}

}  // namespace llmsim::sim
