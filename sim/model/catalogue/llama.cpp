// Models of Llama's block: the Llama generations and the proxies that benchmarks cut from them,
// models of other publishers that vary the block, the Phi family, and OLMo.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

Transformer llama(const LlamaShape& shape) {
  return {.name = shape.name,
          .num_layers = shape.layers,
          .hidden_size = shape.hidden,
          .num_heads = shape.heads,
          .num_kv_heads = shape.kv_heads,
          .head_dim = shape.hidden / shape.heads,
          .ffn_size = shape.ffn,
          .vocab_size = shape.vocab,
          .seq_len = shape.seq_len,
          .gated_mlp = true,
          .norm = Norm::RmsNorm,
          .position = Position::Rope};
}

Transformer tied(Transformer model) {
  model.tied_embeddings = true;
  return model;
}

Transformer moe(Transformer model, const Moe& moe) {
  model.moe = moe;
  return model;
}

namespace {

// Chunks of 8192 tokens attend to themselves, every fourth layer to everything; taken as a window
// of the same length.  Each token visits one routed expert and one shared expert; Maverick has
// experts in every second layer, the dense ones being wider.
Transformer llama4(const char* name, int num_experts, bool alternating) {
  Transformer m = llama({name, 48, 5120, 40, 8, 16384, 202048, 8192});
  m.sliding_window = 8192;
  m.sliding_window_interval = 4;
  m.moe = Moe{.num_experts = num_experts,
              .top_k = 1,
              .expert_ffn_size = 8192,
              .num_shared_experts = 1,
              .shared_expert_ffn_size = 8192,
              .num_dense_layers = alternating ? 1 : 0,
              .layer_interval = alternating ? 2 : 1};
  return m;
}

void append_llama1(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2302.13971 table 2; HF huggyllama/llama-";
  all.push_back({llama({"llama-7b", 32, 4096, 32, 32, 11008, 32000, 2048}),
                 {"llama-1-7b"},
                 6738415616,
                 source + "7b"});
  all.push_back({llama({"llama-13b", 40, 5120, 40, 40, 13824, 32000, 2048}),
                 {"llama-1-13b"},
                 13015864320,
                 source + "13b"});
  all.push_back({llama({"llama-33b", 60, 6656, 52, 52, 17920, 32000, 2048}),
                 {"llama-30b", "llama-1-33b", "llama-32.5b"},
                 32528943616,
                 source + "30b"});
  all.push_back({llama({"llama-65b", 80, 8192, 64, 64, 22016, 32000, 2048}),
                 {"llama-1-65b"},
                 65285660672,
                 source + "65b"});
}

void append_llama2(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF meta-llama/Llama-2-";
  all.push_back({llama({"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 4096}),
                 {"llama-2-7b-hf"},
                 6738415616,
                 source + "7b-hf"});
  all.push_back({llama({"llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 4096}),
                 {"llama-2-13b-hf"},
                 13015864320,
                 source + "13b-hf"});
  all.push_back({llama({"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 4096}),
                 {"llama-2-70b-hf"},
                 68976648192,
                 source + "70b-hf"});
}

void append_llama3(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF meta-llama/";
  all.push_back({llama({"llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 8192}),
                 {"llama-8b", "meta-llama-3-8b"},
                 8030261248,
                 source + "Meta-Llama-3-8B"});
  all.push_back({llama({"llama-3-70b", 80, 8192, 64, 8, 28672, 128256, 8192}),
                 {"llama-70b", "meta-llama-3-70b"},
                 70553706496,
                 source + "Meta-Llama-3-70B"});
  all.push_back({llama({"llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256, 8192}),
                 {"meta-llama-3.1-8b"},
                 8030261248,
                 source + "Llama-3.1-8B"});
  all.push_back({llama({"llama-3.1-70b", 80, 8192, 64, 8, 28672, 128256, 8192}),
                 {"meta-llama-3.1-70b", "llama-3.3-70b"},
                 70553706496,
                 source + "Llama-3.1-70B"});
  all.push_back({llama({"llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256, 8192}),
                 {"llama-405b", "llama-3-405b", "meta-llama-3.1-405b"},
                 405853388800,
                 source + "Llama-3.1-405B"});
  all.push_back({tied(llama({"llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, 8192})),
                 {"llama-1b"},
                 1235814400,
                 source + "Llama-3.2-1B"});
  all.push_back({tied(llama({"llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256, 8192})),
                 {"llama-3b"},
                 3212749824,
                 source + "Llama-3.2-3B"});
}

void append_proxies(std::vector<CatalogueEntry>& all) {
  const std::string source =
      "OrenLeung/nanoGPT-amd configs/llama-3.1-70b-proxy.json: layers of Llama 3.1 70B between its "
      "vocabulary ends";
  all.push_back({llama({"llama-3.1-70b-proxy", 1, 8192, 64, 8, 28672, 128256, 4096}),
                 {"llama-3.1-70b-proxy1"},
                 {},
                 source});
  all.push_back(
      {llama({"llama-3.1-70b-proxy2", 2, 8192, 64, 8, 28672, 128256, 4096}), {}, {}, source});
  all.push_back(
      {llama({"llama-3.1-70b-proxy4", 4, 8192, 64, 8, 28672, 128256, 4096}), {}, {}, source});
}

void append_llama4(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF meta-llama/Llama-4-";
  all.push_back({llama4("llama-4-scout", 16, false),
                 {"llama-4-scout-17b-16e", "llama4-scout-17bx16e"},
                 {},
                 source + "Scout-17B-16E config.json, text part"});
  all.push_back({llama4("llama-4-maverick", 128, true),
                 {"llama-4-maverick-17b-128e", "llama4-maverick-400b"},
                 {},
                 source + "Maverick-17B-128E config.json, text part"});
}

Transformer windowed(Transformer m, int window) {
  m.sliding_window = window;
  return m;
}

Transformer with_head_dim(Transformer m, int head_dim) {
  m.head_dim = head_dim;
  return m;
}

// Phi 1 to 2: parallel block with one LayerNorm, plain MLP, biases everywhere, the head included.
Transformer phi(const LlamaShape& s) {
  Transformer m = llama(s);
  m.gated_mlp = false;
  m.parallel_block = true;
  m.norm = Norm::LayerNorm;
  m.norms_per_layer = 1;
  m.bias = {.qkv = true, .attention_output = true, .mlp = true, .norm = true, .head = true};
  return m;
}

void append_mistral(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF mistralai/";
  const Moe experts_7b{.num_experts = 8, .top_k = 2, .expert_ffn_size = 14336};
  const Moe experts_22b{.num_experts = 8, .top_k = 2, .expert_ffn_size = 16384};
  all.push_back({windowed(llama({"mistral-7b", 32, 4096, 32, 8, 14336, 32000, 8192}), 4096),
                 {"mistral-7b-v0.1", "mistral"},
                 7241732096,
                 source + "Mistral-7B-v0.1; arXiv 2310.06825 table 1"});
  all.push_back({llama({"mistral-7b-v0.3", 32, 4096, 32, 8, 14336, 32768, 32768}),
                 {},
                 7248023552,
                 source + "Mistral-7B-v0.3"});
  all.push_back(
      {with_head_dim(llama({"mistral-nemo-12b", 40, 5120, 32, 8, 14336, 131072, 131072}), 128),
       {"mistral-nemo", "mistral-nemo-base-2407"},
       12247782400,
       source + "Mistral-Nemo-Base-2407"});
  all.push_back({moe(llama({"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 32768}), experts_7b),
                 {"mixtral", "mixtral-8x7b-v0.1"},
                 46702792704,
                 source + "Mixtral-8x7B-v0.1; arXiv 2401.04088 table 1"});
  all.push_back({moe(llama({"mixtral-8x22b", 56, 6144, 48, 8, 16384, 32000, 65536}), experts_22b),
                 {"mixtral-8x22b-v0.1"},
                 140620634112,
                 source + "Mixtral-8x22B-v0.1"});
}

void append_yi(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF 01-ai/Yi-";
  all.push_back(
      {llama({"yi-6b", 32, 4096, 32, 4, 11008, 64000, 4096}), {}, 6061035520, source + "6B"});
  all.push_back(
      {llama({"yi-9b", 48, 4096, 32, 4, 11008, 64000, 4096}), {}, 8829407232, source + "9B"});
  all.push_back(
      {llama({"yi-34b", 60, 7168, 56, 8, 20480, 64000, 4096}), {}, 34388917248, source + "34B"});
}

void append_deepseek_llm(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2401.02954 table 2; HF deepseek-ai/deepseek-llm-";
  all.push_back({llama({"deepseek-llm-7b", 30, 4096, 32, 32, 11008, 102400, 4096}),
                 {"deepseek-7b", "deepseek-llm-7b-base"},
                 6910365696,
                 source + "7b-base"});
  all.push_back({llama({"deepseek-llm-67b", 95, 8192, 64, 8, 22016, 102400, 4096}),
                 {"deepseek-67b", "deepseek-llm-67b-base"},
                 {},
                 source + "67b-base"});
}

void append_smollm(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF HuggingFaceTB/SmolLM-";
  all.push_back({tied(llama({"smollm-135m", 30, 576, 9, 3, 1536, 49152, 2048})),
                 {"smollm2-135m"},
                 134515008,
                 source + "135M"});
  all.push_back({tied(llama({"smollm-360m", 32, 960, 15, 5, 2560, 49152, 2048})),
                 {"smollm2-360m"},
                 361821120,
                 source + "360M"});
  all.push_back({tied(llama({"smollm-1.7b", 24, 2048, 32, 32, 8192, 49152, 2048})),
                 {"smollm2-1.7b"},
                 1711376384,
                 source + "1.7B"});
  // Every fourth layer is without positions, which changes neither weights nor GEMMs.
  all.push_back({tied(llama({"smollm3-3b", 36, 2048, 16, 4, 11008, 128256, 4096})),
                 {"smollm3", "smollm3-3b-base"},
                 3075098624,
                 "HF HuggingFaceTB/SmolLM3-3B-Base"});
}

void append_phi(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF microsoft/";
  all.push_back(
      {phi({"phi-1.5", 24, 2048, 32, 32, 8192, 51200, 2048}), {}, 1418270720, source + "phi-1_5"});
  all.push_back(
      {phi({"phi-2", 32, 2560, 32, 32, 10240, 51200, 2048}), {}, 2779683840, source + "phi-2"});
  all.push_back({windowed(llama({"phi-3-mini", 32, 3072, 32, 32, 8192, 32064, 4096}), 2047),
                 {"phi-3", "phi-3-mini-4k-instruct"},
                 3821079552,
                 source + "Phi-3-mini-4k-instruct"});
  all.push_back({windowed(llama({"phi-3-medium", 40, 5120, 40, 10, 17920, 32064, 4096}), 2047),
                 {"phi-3-medium-4k-instruct"},
                 13960238080,
                 source + "Phi-3-medium-4k-instruct"});
  all.push_back({llama({"phi-4", 40, 5120, 40, 10, 17920, 100352, 4096}),
                 {},
                 14659507200,
                 source + "phi-4; arXiv 2412.08905"});
}

// OLMo 1 as released, OLMo 2, and the sizes that the OLMo project's training log of 2023 really
// ran.

// Norms without parameters, tied or untied head.
Transformer olmo1(const LlamaShape& s) {
  Transformer m = llama(s);
  m.norm = Norm::LayerNorm;
  m.norm_weight = false;
  return m;
}

// Norms after the sublayers instead of before them, and over all query and all key heads.
Transformer olmo2(const LlamaShape& s) {
  Transformer m = llama(s);
  m.qk_norm = QkNorm::AllHeads;
  return m;
}

// LayerNorm with parameters, biases, ALiBi, tied head.
Transformer olmo_log(const LlamaShape& s) {
  Transformer m = tied(llama(s));
  m.norm = Norm::LayerNorm;
  m.bias = Biases::gpt();
  m.position = Position::Alibi;
  return m;
}

}  // namespace

std::vector<CatalogueEntry> llama_models() {
  std::vector<CatalogueEntry> all;
  append_llama1(all);
  append_llama2(all);
  append_llama3(all);
  append_proxies(all);
  append_llama4(all);
  return all;
}

std::vector<CatalogueEntry> llama_likes() {
  std::vector<CatalogueEntry> all;
  append_mistral(all);
  append_yi(all);
  append_deepseek_llm(all);
  append_smollm(all);
  append_phi(all);
  return all;
}

// The log's names: a SwiGLU with mlp_ratio 4 keeps half of the 4 h columns, so "1.2B" has 1.11
// billion parameters, "7B" 5.58 and "70B" 54.1.
std::vector<CatalogueEntry> olmo_models() {
  const std::string log =
      "allenai/OLMo LOG.md of 2023-04-17, which prints the true sizes 1.1B, 5.6B and 54B";
  const std::string hf = "HF allenai/";
  return {
      {tied(olmo1({"olmo-1b", 16, 2048, 16, 16, 8192, 50304, 2048})),
       {"olmo-1-1b", "olmo-1b-hf"},
       1176764416,
       hf + "OLMo-1B-hf"},
      {olmo1({"olmo-7b", 32, 4096, 32, 32, 11008, 50304, 2048}),
       {"olmo-1-7b", "olmo-7b-hf"},
       6888095744,
       hf + "OLMo-7B-hf"},
      {olmo_log({"olmo-log-300m", 24, 1024, 16, 16, 2048, 50304, 1024}), {"olmo-300m"}, {}, log},
      {olmo_log({"olmo-log-1.2b", 24, 2048, 16, 16, 4096, 50304, 1024}), {"olmo-1.2b"}, {}, log},
      {olmo_log({"olmo-log-7b", 32, 4096, 32, 32, 8192, 50304, 2048}), {"olmo-5.6b"}, {}, log},
      {olmo_log({"olmo-log-70b", 80, 8192, 64, 64, 16384, 50304, 2048}),
       {"olmo-70b", "olmo-54b"},
       {},
       log},
      {olmo2({"olmo-2-1b", 16, 2048, 16, 16, 8192, 100352, 4096}),
       {"olmo-2-0425-1b"},
       1484916736,
       hf + "OLMo-2-0425-1B"},
      {olmo2({"olmo-2-7b", 32, 4096, 32, 32, 11008, 100352, 4096}),
       {"olmo-2-1124-7b"},
       7298617344,
       hf + "OLMo-2-1124-7B"},
      {olmo2({"olmo-2-13b", 40, 5120, 40, 40, 13824, 100352, 4096}),
       {"olmo-2-1124-13b"},
       13716198400,
       hf + "OLMo-2-1124-13B"},
      {olmo2({"olmo-2-32b", 64, 5120, 40, 8, 27648, 100352, 4096}),
       {"olmo-2-0325-32b"},
       32234279936,
       hf + "OLMo-2-0325-32B"},
  };
}

}  // namespace llmsim::sim
