// The parts of the catalogue, for catalogue.cpp and the files of this folder only.
//
// A `published` count is an exact integer that a publisher or a well-known source prints; the
// source says which:
//   "HF <repository>"  number of parameters in the repository's safetensors (shown on its model
//                      card) or its weights' index
//   arXiv ...          the paper's own count
// Without a published integer the shape alone stands, and its source says where the shape was read.
#pragma once

#include <vector>

#include "sim/model/catalogue.h"

namespace llmsim::sim {

struct LlamaShape {
  const char* name;
  int layers, hidden, heads, kv_heads, ffn, vocab, seq_len;
};

// RMSNorm, rotary positions, gated MLP, no biases, untied head, head_dim = hidden / heads: what
// most open models vary.
Transformer llama(const LlamaShape& shape);

struct GptShape {
  const char* name;
  int layers, hidden, heads, vocab, seq_len;
};

// LayerNorm, plain MLP of four times the width, learned positions, biases everywhere, tied head.
Transformer gpt(const GptShape& shape);

// The same with the head tied to the embedding.
Transformer tied(Transformer model);

// The same with the experts of `moe` in place of its MLPs.
Transformer moe(Transformer model, const Moe& moe);

// GPT-2, GPT-3, Megatron GPT, GPT-J, GPT-NeoX, Pythia, OPT, BLOOM, MPT, Falcon.
std::vector<CatalogueEntry> gpt_models();
std::vector<CatalogueEntry> llama_models();    // Llama 1 to 4 and the proxies cut from them
std::vector<CatalogueEntry> llama_likes();     // Mistral, Mixtral, Yi, DeepSeek LLM, SmolLM, Phi
std::vector<CatalogueEntry> olmo_models();     // OLMo 1 and 2
std::vector<CatalogueEntry> qwen_models();     // Qwen 1 to 3, dense and MoE models
std::vector<CatalogueEntry> gemma_models();    // Gemma 1 to 3
std::vector<CatalogueEntry> moe_models();      // DeepSeek-V2 and V3, Kimi K2, Grok-1, DBRX, GPT-OSS
std::vector<CatalogueEntry> glm_models();      // GLM-4, dense
std::vector<CatalogueEntry> cohere_models();   // Command R and R+
std::vector<CatalogueEntry> hybrid_models();   // Nemotron-H and its kin, Qwen3-Next, Jamba
std::vector<CatalogueEntry> encoder_models();  // BERT and RoBERTa

}  // namespace llmsim::sim
