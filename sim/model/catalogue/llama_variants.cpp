// Models that vary Llama's block.  Qwen 1 to 3: biases on q, k and v (until 2.5) or a norm per query
// and key head (3).  Gemma 1 to 3: tied heads, vocabularies of a quarter million, head_dim
// independent of the width.  GLM-4.  Cohere's Command R.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {
namespace {

Transformer qwen(const LlamaShape& s) {
  Transformer m = llama(s);
  m.bias.qkv = true;
  return m;
}

Transformer qwen3(const LlamaShape& s) {
  Transformer m = llama(s);
  m.head_dim = 128;
  m.qk_norm = QkNorm::PerHead;
  return m;
}

// All experts that every token visits act as one wide expert behind one gate.
Moe gated_experts(int num_experts, int top_k, int expert_ffn_size, int shared_ffn_size) {
  return {.num_experts = num_experts,
          .top_k = top_k,
          .expert_ffn_size = expert_ffn_size,
          .num_shared_experts = 1,
          .shared_expert_ffn_size = shared_ffn_size,
          .shared_expert_gate = true};
}

void append_qwen1(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2309.16609 table 1; HF Qwen/Qwen-";
  all.push_back(
      {qwen({"qwen-1.8b", 24, 2048, 16, 16, 5504, 151936, 2048}), {}, 1836828672, source + "1_8B"});
  all.push_back(
      {qwen({"qwen-7b", 32, 4096, 32, 32, 11008, 151936, 2048}), {}, 7721324544, source + "7B"});
  all.push_back(
      {qwen({"qwen-14b", 40, 5120, 40, 40, 13696, 152064, 2048}), {}, 14167290880, source + "14B"});
  all.push_back({qwen({"qwen-72b", 80, 8192, 64, 64, 24576, 152064, 32768}),
                 {},
                 72287920128,
                 source + "72B"});
}

void append_qwen15(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF Qwen/Qwen1.5-";
  all.push_back({tied(qwen({"qwen1.5-0.5b", 24, 1024, 16, 16, 2816, 151936, 32768})),
                 {},
                 {},
                 source + "0.5B config.json"});
  all.push_back({qwen({"qwen1.5-1.8b", 24, 2048, 16, 16, 5504, 151936, 32768}),
                 {},
                 1836828672,
                 source + "1.8B"});
  all.push_back(
      {qwen({"qwen1.5-4b", 40, 2560, 20, 20, 6912, 151936, 32768}), {}, 3950369280, source + "4B"});
  all.push_back({qwen({"qwen1.5-7b", 32, 4096, 32, 32, 11008, 151936, 32768}),
                 {},
                 7721324544,
                 source + "7B"});
  all.push_back({qwen({"qwen1.5-14b", 40, 5120, 40, 40, 13696, 152064, 32768}),
                 {},
                 14167290880,
                 source + "14B"});
  all.push_back({qwen({"qwen1.5-32b", 64, 5120, 40, 8, 27392, 152064, 32768}),
                 {},
                 32512218112,
                 source + "32B"});
  all.push_back({qwen({"qwen1.5-72b", 80, 8192, 64, 64, 24576, 152064, 32768}),
                 {},
                 72287920128,
                 source + "72B"});
  all.push_back({qwen({"qwen1.5-110b", 80, 8192, 64, 8, 49152, 152064, 32768}),
                 {},
                 111209914368,
                 source + "110B"});
  all.push_back({moe(qwen({"qwen1.5-moe-a2.7b", 24, 2048, 16, 16, 5632, 151936, 8192}),
                     gated_experts(60, 4, 1408, 5632)),
                 {"qwen-moe", "qwen1.5-moe"},
                 14315784192,
                 source + "MoE-A2.7B"});
}

void append_qwen2(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2407.10671 table 1; HF Qwen/Qwen2-";
  all.push_back({tied(qwen({"qwen2-0.5b", 24, 896, 14, 2, 4864, 151936, 4096})),
                 {},
                 494032768,
                 source + "0.5B"});
  all.push_back({tied(qwen({"qwen2-1.5b", 28, 1536, 12, 2, 8960, 151936, 4096})),
                 {},
                 1543714304,
                 source + "1.5B"});
  all.push_back(
      {qwen({"qwen2-7b", 28, 3584, 28, 4, 18944, 152064, 4096}), {}, 7615616512, source + "7B"});
  all.push_back(
      {qwen({"qwen2-72b", 80, 8192, 64, 8, 29568, 152064, 4096}), {}, 72706203648, source + "72B"});
  all.push_back({moe(qwen({"qwen2-57b-a14b", 28, 3584, 28, 4, 18944, 151936, 4096}),
                     gated_experts(64, 8, 2560, 20480)),
                 {"qwen2-moe"},
                 {},
                 source + "57B-A14B"});
}

void append_qwen25(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2412.15115 table 1; HF Qwen/Qwen2.5-";
  all.push_back({tied(qwen({"qwen2.5-0.5b", 24, 896, 14, 2, 4864, 151936, 4096})),
                 {},
                 494032768,
                 source + "0.5B"});
  all.push_back({tied(qwen({"qwen2.5-1.5b", 28, 1536, 12, 2, 8960, 151936, 4096})),
                 {},
                 1543714304,
                 source + "1.5B"});
  all.push_back({tied(qwen({"qwen2.5-3b", 36, 2048, 16, 2, 11008, 151936, 4096})),
                 {},
                 3085938688,
                 source + "3B"});
  all.push_back(
      {qwen({"qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064, 4096}), {}, 7615616512, source + "7B"});
  all.push_back({qwen({"qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064, 4096}),
                 {},
                 14770033664,
                 source + "14B"});
  all.push_back({qwen({"qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064, 4096}),
                 {},
                 32763876352,
                 source + "32B"});
  all.push_back({qwen({"qwen2.5-72b", 80, 8192, 64, 8, 29568, 152064, 4096}),
                 {},
                 72706203648,
                 source + "72B"});
}

void append_qwen3(std::vector<CatalogueEntry>& all) {
  const std::string source = "arXiv 2505.09388 tables 1 and 2; HF Qwen/Qwen3-";
  const Moe experts_30b{.num_experts = 128, .top_k = 8, .expert_ffn_size = 768};
  const Moe experts_235b{.num_experts = 128, .top_k = 8, .expert_ffn_size = 1536};
  all.push_back({tied(qwen3({"qwen3-0.6b", 28, 1024, 16, 8, 3072, 151936, 4096})),
                 {},
                 {},
                 source + "0.6B-Base config.json"});
  all.push_back({tied(qwen3({"qwen3-1.7b", 28, 2048, 16, 8, 6144, 151936, 4096})),
                 {},
                 {},
                 source + "1.7B-Base config.json"});
  all.push_back({tied(qwen3({"qwen3-4b", 36, 2560, 32, 8, 9728, 151936, 4096})),
                 {},
                 4022468096,
                 source + "4B-Base"});
  all.push_back({qwen3({"qwen3-8b", 36, 4096, 32, 8, 12288, 151936, 4096}),
                 {},
                 8190735360,
                 source + "8B-Base"});
  all.push_back({qwen3({"qwen3-14b", 40, 5120, 40, 8, 17408, 151936, 4096}),
                 {},
                 14768307200,
                 source + "14B-Base"});
  all.push_back({qwen3({"qwen3-32b", 64, 5120, 64, 8, 25600, 151936, 4096}),
                 {},
                 32762123264,
                 source + "32B"});
  all.push_back({moe(qwen3({"qwen3-30b-a3b", 48, 2048, 32, 4, 6144, 151936, 4096}), experts_30b),
                 {"qwen3-moe"},
                 30532122624,
                 source + "30B-A3B"});
  all.push_back(
      {moe(qwen3({"qwen3-235b-a22b", 94, 4096, 64, 4, 12288, 151936, 4096}), experts_235b),
       {"qwen3-235b"},
       235093634560,
       source + "235B-A22B"});
}

Transformer gemma(const LlamaShape& s, int head_dim) {
  Transformer m = tied(llama(s));
  m.head_dim = head_dim;
  return m;
}

// Norms before and after both halves of a block; windowed and full layers in turn.
Transformer gemma2(const LlamaShape& s, int head_dim) {
  Transformer m = gemma(s, head_dim);
  m.norms_per_layer = 4;
  m.sliding_window = 4096;
  m.sliding_window_interval = 2;
  return m;
}

// Norms on query and key heads; one full layer after five windowed ones.
Transformer gemma3(const LlamaShape& s, int head_dim, int window) {
  Transformer m = gemma(s, head_dim);
  m.norms_per_layer = 4;
  m.qk_norm = QkNorm::PerHead;
  m.sliding_window = window;
  m.sliding_window_interval = 6;
  return m;
}

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

std::vector<CatalogueEntry> qwen_models() {
  std::vector<CatalogueEntry> all;
  append_qwen1(all);
  append_qwen15(all);
  append_qwen2(all);
  append_qwen25(all);
  append_qwen3(all);
  return all;
}

std::vector<CatalogueEntry> gemma_models() {
  const std::string gemma1_source = "arXiv 2403.08295 table 1; HF google/gemma-";
  const std::string gemma2_source = "arXiv 2408.00118 table 1; HF google/gemma-2-";
  const std::string gemma3_source = "arXiv 2503.19786; HF google/gemma-3-";
  const std::string text_part = "-pt config.json, text part";
  return {
      {gemma({"gemma-2b", 18, 2048, 8, 1, 16384, 256000, 8192}, 256),
       {"gemma-1-2b"},
       2506172416,
       gemma1_source + "2b"},
      {gemma({"gemma-7b", 28, 3072, 16, 16, 24576, 256000, 8192}, 256),
       {"gemma-1-7b"},
       8537680896,
       gemma1_source + "7b"},
      {gemma2({"gemma-2-2b", 26, 2304, 8, 4, 9216, 256000, 8192}, 256),
       {},
       2614341888,
       gemma2_source + "2b"},
      {gemma2({"gemma-2-9b", 42, 3584, 16, 8, 14336, 256000, 8192}, 256),
       {"gemma-9b"},
       9241705984,
       gemma2_source + "9b"},
      {gemma2({"gemma-2-27b", 46, 4608, 32, 16, 36864, 256000, 8192}, 128),
       {},
       27227128320,
       gemma2_source + "27b"},
      {gemma3({"gemma-3-270m", 18, 640, 4, 1, 2048, 262144, 32768}, 256, 512),
       {"gemma-270m"},
       268098176,
       gemma3_source + "270m"},
      {gemma3({"gemma-3-1b", 26, 1152, 4, 1, 6912, 262144, 32768}, 256, 512),
       {"gemma-1b"},
       999885952,
       gemma3_source + "1b-pt"},
      {gemma3({"gemma-3-4b", 34, 2560, 8, 4, 10240, 262208, 32768}, 256, 1024),
       {"gemma-4b"},
       {},
       gemma3_source + "4b" + text_part},
      {gemma3({"gemma-3-12b", 48, 3840, 16, 8, 15360, 262208, 32768}, 256, 1024),
       {"gemma-12b"},
       {},
       gemma3_source + "12b" + text_part},
      {gemma3({"gemma-3-27b", 62, 5376, 32, 16, 21504, 262208, 32768}, 128, 1024),
       {"gemma-27b"},
       {},
       gemma3_source + "27b" + text_part},
  };
}

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
