// Models of other publishers that vary Llama's block, and the Phi family.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

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
  all.push_back({llama({"mistral-7b-v0.3", 32, 4096, 32, 8, 14336, 32768, 32768}), {}, 7248023552, source + "Mistral-7B-v0.3"});
  all.push_back({with_head_dim(llama({"mistral-nemo-12b", 40, 5120, 32, 8, 14336, 131072, 131072}), 128),
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
  all.push_back({llama({"yi-6b", 32, 4096, 32, 4, 11008, 64000, 4096}), {}, 6061035520, source + "6B"});
  all.push_back({llama({"yi-9b", 48, 4096, 32, 4, 11008, 64000, 4096}), {}, 8829407232, source + "9B"});
  all.push_back({llama({"yi-34b", 60, 7168, 56, 8, 20480, 64000, 4096}), {}, 34388917248, source + "34B"});
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
  all.push_back({tied(llama({"smollm-135m", 30, 576, 9, 3, 1536, 49152, 2048})), {"smollm2-135m"}, 134515008, source + "135M"});
  all.push_back({tied(llama({"smollm-360m", 32, 960, 15, 5, 2560, 49152, 2048})), {"smollm2-360m"}, 361821120, source + "360M"});
  all.push_back(
      {tied(llama({"smollm-1.7b", 24, 2048, 32, 32, 8192, 49152, 2048})), {"smollm2-1.7b"}, 1711376384, source + "1.7B"});
}

void append_phi(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF microsoft/";
  all.push_back({phi({"phi-1.5", 24, 2048, 32, 32, 8192, 51200, 2048}), {}, 1418270720, source + "phi-1_5"});
  all.push_back({phi({"phi-2", 32, 2560, 32, 32, 10240, 51200, 2048}), {}, 2779683840, source + "phi-2"});
  all.push_back({windowed(llama({"phi-3-mini", 32, 3072, 32, 32, 8192, 32064, 4096}), 2047),
                 {"phi-3", "phi-3-mini-4k-instruct"},
                 3821079552,
                 source + "Phi-3-mini-4k-instruct"});
  all.push_back({windowed(llama({"phi-3-medium", 40, 5120, 40, 10, 17920, 32064, 4096}), 2047),
                 {"phi-3-medium-4k-instruct"},
                 13960238080,
                 source + "Phi-3-medium-4k-instruct"});
  all.push_back({llama({"phi-4", 40, 5120, 40, 10, 17920, 100352, 4096}), {}, 14659507200, source + "phi-4; arXiv 2412.08905"});
}

}  // namespace

std::vector<CatalogueEntry> llama_likes() {
  std::vector<CatalogueEntry> all;
  append_mistral(all);
  append_yi(all);
  append_deepseek_llm(all);
  append_smollm(all);
  append_phi(all);
  return all;
}

}  // namespace llmsim::sim
