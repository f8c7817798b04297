// BERT and RoBERTa: encoders with a norm after the embedding and after both halves of every layer.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

// A norm after the embedding and none before the head, whose projection has a bias.
Transformer bert(const GptShape& s) {
  Transformer m = gpt(s);
  m.bias.head = true;
  m.embedding_norm = true;
  m.final_norm = false;
  m.max_positions = s.seq_len;
  m.encoder = Encoder::bert();
  return m;
}

// Two more rows of positions (one is of the padding), one segment, no sentences to tell apart, and every token's logits.
// Source: Liu et al. 2019, arXiv 1907.11692; RobertaLMHead of fairseq takes the masked tokens, that of transformers all.
Transformer roberta(const GptShape& s) {
  Transformer m = bert(s);
  m.max_positions = s.seq_len + 2;
  m.encoder = Encoder{.predicted_share = 1.0, .segment_types = 1, .next_sentence = false};
  return m;
}

}  // namespace

std::vector<CatalogueEntry> encoder_models() {
  const std::string google = "HF google-bert/", facebook = "HF FacebookAI/";
  return {{bert({"bert-base", 12, 768, 12, 30522, 512}), {"bert-base-uncased"}, 110106428, google + "bert-base-uncased"},
          {bert({"bert-large", 24, 1024, 16, 30522, 512}), {"bert-large-uncased"}, 336226108, google + "bert-large-uncased"},
          {roberta({"roberta-base", 12, 768, 12, 50265, 512}), {}, 124697433, facebook + "roberta-base"},
          {roberta({"roberta-large", 24, 1024, 16, 50265, 512}), {}, 355412057, facebook + "roberta-large"}};
}

}  // namespace llmsim::sim
