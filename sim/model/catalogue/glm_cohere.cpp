// GLM-4 and Cohere's Command R, which vary Llama's block.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

// Two heads of keys and values; rotary positions in half of a head.  The models of April 2025 have
// norms before and after both halves of a block.
Transformer glm4(const LlamaShape& s, bool qkv_bias, int norms_per_layer) {
  Transformer m = llama(s);
  m.bias.qkv = qkv_bias;
  m.norms_per_layer = norms_per_layer;
  return m;
}

// Parallel block with one LayerNorm, no biases, tied head.
Transformer command_r(const LlamaShape& s) {
  Transformer m = tied(llama(s));
  m.parallel_block = true;
  m.norm = Norm::LayerNorm;
  m.norms_per_layer = 1;
  return m;
}

// And norms on query and key heads, each head with weights of its own.
Transformer command_r_plus(const LlamaShape& s) {
  Transformer m = command_r(s);
  m.qk_norm = QkNorm::AllHeads;
  return m;
}

}  // namespace

std::vector<CatalogueEntry> glm_models() {
  const std::string source = "HF THUDM/";
  return {{glm4({"glm-4-9b", 40, 4096, 32, 2, 13696, 151552, 8192}, true, 2),
           {"glm-4-9b-chat", "glm-4-9b-chat-hf"},
           9399951360,
           source + "glm-4-9b-chat-hf"},
          {glm4({"glm-4-9b-0414", 40, 4096, 32, 2, 13696, 151552, 8192}, true, 4),
           {},
           9400279040,
           source + "GLM-4-9B-0414"},
          {glm4({"glm-4-32b-0414", 61, 6144, 48, 2, 23040, 151552, 8192}, false, 4),
           {"glm-4-32b", "glm-4-32b-base-0414"},
           32566081536,
           source + "GLM-4-32B-0414"}};
}

std::vector<CatalogueEntry> cohere_models() {
  const std::string source = "HF CohereForAI/c4ai-";
  return {{command_r({"command-r-35b", 40, 8192, 64, 64, 22528, 256000, 8192}),
           {"command-r", "command-r-v01", "c4ai-command-r-v01", "aya-23-35b"},
           34980831232,
           source + "command-r-v01"},
          {command_r({"command-r-32b", 40, 8192, 64, 8, 24576, 256000, 8192}),
           {"command-r-08-2024", "c4ai-command-r-08-2024", "aya-expanse-32b"},
           32296476672,
           source + "command-r-08-2024"},
          {command_r_plus({"command-r-plus-104b", 64, 12288, 96, 8, 33792, 256000, 8192}),
           {"command-r-plus", "command-r+", "c4ai-command-r-plus", "c4ai-command-r-plus-08-2024"},
           103810674688,
           source + "command-r-plus"}};
}

}  // namespace llmsim::sim
