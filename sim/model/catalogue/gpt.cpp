// GPT and its close relatives: LayerNorm, plain MLPs four times as wide as the model; and BERT and
// RoBERTa, encoders with a norm after the embedding and after both halves of every layer.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

Transformer gpt(const GptShape& s) {
  return {.name = s.name,
          .num_layers = s.layers,
          .hidden_size = s.hidden,
          .num_heads = s.heads,
          .num_kv_heads = s.heads,
          .head_dim = s.hidden / s.heads,
          .ffn_size = 4 * s.hidden,
          .vocab_size = s.vocab,
          .seq_len = s.seq_len,
          .tied_embeddings = true,
          .bias = Biases::gpt(),
          .position = Position::Learned};
}

namespace {

// GPT-3's tables give head_dim, and 13B has heads * head_dim = 5120 beside a d_model of 5140.
Transformer gpt3(const GptShape& s, int head_dim) {
  Transformer m = gpt(s);
  m.head_dim = head_dim;
  return m;
}

Transformer bloom(const GptShape& s) {
  Transformer m = gpt(s);
  m.position = Position::Alibi;
  m.embedding_norm = true;
  return m;
}

// Position table with two extra rows.
Transformer opt(const GptShape& s) {
  Transformer m = gpt(s);
  m.max_positions = s.seq_len + 2;
  return m;
}

// Rotary positions, parallel block with two norms, untied head.
Transformer neox(const GptShape& s) {
  Transformer m = gpt(s);
  m.tied_embeddings = false;
  m.parallel_block = true;
  m.position = Position::Rope;
  return m;
}

// One norm for the parallel block, no attention biases, a bias on the head.
Transformer gptj() {
  Transformer m = neox({"gpt-j-6b", 28, 4096, 16, 50400, 2048});
  m.bias = {.mlp = true, .norm = true, .head = true};
  m.norms_per_layer = 1;
  return m;
}

// No biases at all, not even in the norms.
Transformer mpt(const GptShape& s) {
  Transformer m = gpt(s);
  m.bias = {};
  m.position = Position::Alibi;
  return m;
}

Transformer falcon(const GptShape& s, int kv_heads, int norms_per_layer) {
  Transformer m = gpt(s);
  m.num_kv_heads = kv_heads;
  m.bias = {.norm = true};
  m.parallel_block = true;
  m.position = Position::Rope;
  m.norms_per_layer = norms_per_layer;
  return m;
}

void append_gpt2(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF openai-community/";
  all.push_back({gpt({"gpt2", 12, 768, 12, 50257, 1024}),
                 {"gpt2-small", "gpt2-124m", "gpt2-117m"},
                 124439808,
                 source + "gpt2"});
  all.push_back({gpt({"gpt2-medium", 24, 1024, 16, 50257, 1024}),
                 {"gpt2-355m", "gpt2-345m", "gpt2-350m"},
                 354823168,
                 source + "gpt2-medium"});
  all.push_back({gpt({"gpt2-large", 36, 1280, 20, 50257, 1024}),
                 {"gpt2-774m"},
                 774030080,
                 source + "gpt2-large"});
  all.push_back({gpt({"gpt2-xl", 48, 1600, 25, 50257, 1024}),
                 {"gpt2-1.5b", "gpt2-1558m"},
                 1557611200,
                 source + "gpt2-xl"});
}

void append_gpt3(std::vector<CatalogueEntry>& all) {
  const std::string source =
      "arXiv 2005.14165 table 2.1; alternating sparse attention layers taken as full, their width "
      "is unpublished";
  all.push_back({gpt3({"gpt3-125m", 12, 768, 12, 50257, 2048}, 64), {"gpt3-small"}, {}, source});
  all.push_back({gpt3({"gpt3-350m", 24, 1024, 16, 50257, 2048}, 64), {"gpt3-medium"}, {}, source});
  all.push_back({gpt3({"gpt3-760m", 24, 1536, 16, 50257, 2048}, 96), {"gpt3-large"}, {}, source});
  all.push_back({gpt3({"gpt3-1.3b", 24, 2048, 24, 50257, 2048}, 128), {"gpt3-xl"}, {}, source});
  all.push_back({gpt3({"gpt3-2.7b", 32, 2560, 32, 50257, 2048}, 80), {}, {}, source});
  all.push_back({gpt3({"gpt3-6.7b", 32, 4096, 32, 50257, 2048}, 128), {}, {}, source});
  all.push_back({gpt3({"gpt3-13b", 40, 5140, 40, 50257, 2048}, 128), {}, {}, source});
  all.push_back(
      {gpt3({"gpt3-175b", 96, 12288, 96, 50257, 2048}, 128), {"gpt3", "gpt-175b"}, {}, source});
}

void append_megatron(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2104.04473 table 1; vocabulary 51200, sequence 2048";
  all.push_back({gpt({"megatron-1.7b", 24, 2304, 24, 51200, 2048}), {"gpt-1.7b"}, {}, source});
  all.push_back({gpt({"megatron-3.6b", 30, 3072, 32, 51200, 2048}), {"gpt-3.6b"}, {}, source});
  all.push_back({gpt({"megatron-7.5b", 36, 4096, 32, 51200, 2048}), {"gpt-7.5b"}, {}, source});
  all.push_back({gpt({"megatron-18b", 40, 6144, 48, 51200, 2048}), {"gpt-18b"}, {}, source});
  all.push_back({gpt({"megatron-39b", 48, 8192, 64, 51200, 2048}), {"gpt-39b"}, {}, source});
  all.push_back({gpt({"megatron-76b", 60, 10240, 80, 51200, 2048}), {"gpt-76b"}, {}, source});
  all.push_back({gpt({"megatron-145b", 80, 12288, 96, 51200, 2048}), {"gpt-145b"}, {}, source});
  all.push_back({gpt({"megatron-310b", 96, 16384, 128, 51200, 2048}), {"gpt-310b"}, {}, source});
  all.push_back({gpt({"megatron-530b", 105, 20480, 128, 51200, 2048}),
                 {"gpt-530b", "mt-nlg-530b"},
                 {},
                 source});
  all.push_back(
      {gpt({"megatron-1t", 128, 25600, 160, 51200, 2048}), {"gpt-1t", "gpt-1008b"}, {}, source});
}

void append_bloom(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF bigscience/";
  all.push_back(
      {bloom({"bloom-560m", 24, 1024, 16, 250880, 2048}), {}, 559214592, source + "bloom-560m"});
  all.push_back({bloom({"bloom-1b1", 24, 1536, 16, 250880, 2048}),
                 {"bloom-1.1b"},
                 1065314304,
                 source + "bloom-1b1"});
  all.push_back({bloom({"bloom-1b7", 24, 2048, 16, 250880, 2048}),
                 {"bloom-1.7b"},
                 1722408960,
                 source + "bloom-1b7"});
  all.push_back(
      {bloom({"bloom-3b", 30, 2560, 32, 250880, 2048}), {}, 3002557440, source + "bloom-3b"});
  all.push_back({bloom({"bloom-7b1", 30, 4096, 32, 250880, 2048}),
                 {"bloom-7.1b", "bloom-7b"},
                 7069016064,
                 source + "bloom-7b1"});
  all.push_back({bloom({"bloom-176b", 70, 14336, 112, 250880, 2048}),
                 {"bloom"},
                 176247271424,
                 source + "bloom"});
}

void append_neox(std::vector<CatalogueEntry>& all) {
  all.push_back({gptj(), {"gpt-j"}, 6050882784, "HF EleutherAI/gpt-j-6b"});
  all.push_back({neox({"gpt-neox-20b", 44, 6144, 64, 50432, 2048}),
                 {"gpt-neox"},
                 20554567680,
                 "arXiv 2204.06745"});
  const std::string source = "EleutherAI/pythia README, table of model sizes";
  all.push_back({neox({"pythia-70m", 6, 512, 8, 50304, 2048}), {}, 70426624, source});
  all.push_back({neox({"pythia-160m", 12, 768, 12, 50304, 2048}), {}, 162322944, source});
  all.push_back({neox({"pythia-410m", 24, 1024, 16, 50304, 2048}), {}, 405334016, source});
  all.push_back({neox({"pythia-1b", 16, 2048, 8, 50304, 2048}), {}, 1011781632, source});
  all.push_back({neox({"pythia-1.4b", 24, 2048, 16, 50304, 2048}), {}, 1414647808, source});
  all.push_back({neox({"pythia-2.8b", 32, 2560, 32, 50304, 2048}), {}, 2775208960, source});
  all.push_back({neox({"pythia-6.9b", 32, 4096, 32, 50432, 2048}), {}, 6857302016, source});
  all.push_back({neox({"pythia-12b", 36, 5120, 40, 50688, 2048}), {}, 11846072320, source});
}

void append_opt(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2205.01068 table 1; HF facebook/opt-";
  all.push_back({opt({"opt-125m", 12, 768, 12, 50272, 2048}), {}, 125239296, source + "125m"});
  all.push_back({opt({"opt-1.3b", 24, 2048, 32, 50272, 2048}), {}, 1315758080, source + "1.3b"});
  all.push_back({opt({"opt-2.7b", 32, 2560, 32, 50272, 2048}), {}, 2651596800, source + "2.7b"});
  all.push_back({opt({"opt-6.7b", 32, 4096, 32, 50272, 2048}), {}, 6658473984, source + "6.7b"});
  all.push_back({opt({"opt-13b", 40, 5120, 40, 50272, 2048}), {}, 12853473280, source + "13b"});
  all.push_back({opt({"opt-30b", 48, 7168, 56, 50272, 2048}), {}, 29974540288, source + "30b"});
  all.push_back({opt({"opt-66b", 64, 9216, 72, 50272, 2048}), {}, {}, source + "66b"});
  all.push_back(
      {opt({"opt-175b", 96, 12288, 96, 50272, 2048}), {}, {}, "arXiv 2205.01068 table 1"});
}

// The sizes of llm-foundry's throughput tables have learned positions and biases; the two released
// models, whose plain names are theirs, have neither.
void append_mpt(std::vector<CatalogueEntry>& all) {
  const std::string source = "mosaicml/llm-foundry scripts/train/benchmarking README";
  all.push_back({gpt({"mpt-125m", 12, 768, 12, 50368, 2048}), {}, 125311488, source});
  all.push_back({gpt({"mpt-350m", 24, 1024, 16, 50368, 2048}), {}, 355985408, source});
  all.push_back({gpt({"mpt-760m", 24, 1536, 12, 50368, 2048}), {}, 760470528, source});
  all.push_back({gpt({"mpt-1b", 24, 2048, 16, 50368, 2048}), {}, 1315950592, source});
  all.push_back({gpt({"mpt-3b", 32, 2560, 20, 50368, 2048}), {}, 2651837440, source});
  all.push_back({gpt({"mpt-7b-throughput", 32, 4096, 32, 50368, 2048}), {}, 6658859008, source});
  all.push_back({gpt({"mpt-13b", 40, 5120, 40, 50368, 2048}), {}, 12853954560, source});
  all.push_back({gpt({"mpt-30b-throughput", 48, 7168, 56, 50368, 2048}), {}, 29975214080, source});
  all.push_back({gpt({"mpt-70b", 80, 8192, 64, 50368, 2048}), {}, 64862437376, source});
  all.push_back({mpt({"mpt-7b", 32, 4096, 32, 50432, 2048}),
                 {"mpt-7b-released", "mpt-7b-alibi"},
                 6649286656,
                 "HF mosaicml/mpt-7b"});
  all.push_back({mpt({"mpt-30b", 48, 7168, 64, 50432, 8192}),
                 {"mpt-30b-released", "mpt-30b-alibi"},
                 {},
                 "HF mosaicml/mpt-30b"});
}

void append_falcon(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2311.16867; HF tiiuae/falcon-";
  all.push_back(
      {falcon({"falcon-7b", 32, 4544, 71, 65024, 2048}, 1, 1), {}, 6921720704, source + "7b"});
  all.push_back({falcon({"falcon-40b", 60, 8192, 128, 65024, 2048}, 8, 2), {}, {}, source + "40b"});
  all.push_back(
      {falcon({"falcon-180b", 80, 14848, 232, 65024, 2048}, 8, 2), {}, {}, source + "180b"});
}

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

// Two more rows of positions (one is of the padding), one segment, no sentences to tell apart, and
// every token's logits.  Source: Liu et al. 2019, arXiv 1907.11692; RobertaLMHead of fairseq takes
// the masked tokens, that of transformers all.
Transformer roberta(const GptShape& s) {
  Transformer m = bert(s);
  m.max_positions = s.seq_len + 2;
  m.encoder = Encoder{.predicted_share = 1.0, .segment_types = 1, .next_sentence = false};
  return m;
}

}  // namespace

std::vector<CatalogueEntry> gpt_models() {
  std::vector<CatalogueEntry> all;
  append_gpt2(all);
  append_gpt3(all);
  append_megatron(all);
  append_neox(all);
  append_opt(all);
  append_bloom(all);
  append_mpt(all);
  append_falcon(all);
  return all;
}

std::vector<CatalogueEntry> encoder_models() {
  const std::string google = "HF google-bert/", facebook = "HF FacebookAI/";
  return {{bert({"bert-base", 12, 768, 12, 30522, 512}),
           {"bert-base-uncased"},
           110106428,
           google + "bert-base-uncased"},
          {bert({"bert-large", 24, 1024, 16, 30522, 512}),
           {"bert-large-uncased"},
           336226108,
           google + "bert-large-uncased"},
          {roberta({"roberta-base", 12, 768, 12, 50265, 512}),
           {},
           124697433,
           facebook + "roberta-base"},
          {roberta({"roberta-large", 24, 1024, 16, 50265, 512}),
           {},
           355412057,
           facebook + "roberta-large"}};
}

}  // namespace llmsim::sim
