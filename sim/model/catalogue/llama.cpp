// The Llama generations and the proxies that benchmarks cut from them.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

// Chunks of 8192 tokens attend to themselves, every fourth layer to everything; taken as a window of the same length.  Each token
// visits one routed expert and one shared expert; Maverick has experts in every second layer, the dense ones being wider.
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
  all.push_back({llama({"llama-7b", 32, 4096, 32, 32, 11008, 32000, 2048}), {"llama-1-7b"}, 6738415616, source + "7b"});
  all.push_back({llama({"llama-13b", 40, 5120, 40, 40, 13824, 32000, 2048}), {"llama-1-13b"}, 13015864320, source + "13b"});
  all.push_back({llama({"llama-33b", 60, 6656, 52, 52, 17920, 32000, 2048}),
                 {"llama-30b", "llama-1-33b", "llama-32.5b"},
                 32528943616,
                 source + "30b"});
  all.push_back({llama({"llama-65b", 80, 8192, 64, 64, 22016, 32000, 2048}), {"llama-1-65b"}, 65285660672, source + "65b"});
}

void append_llama2(std::vector<CatalogueEntry>& all) {
  const std::string source = "HF meta-llama/Llama-2-";
  all.push_back({llama({"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 4096}), {"llama-2-7b-hf"}, 6738415616, source + "7b-hf"});
  all.push_back(
      {llama({"llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 4096}), {"llama-2-13b-hf"}, 13015864320, source + "13b-hf"});
  all.push_back(
      {llama({"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 4096}), {"llama-2-70b-hf"}, 68976648192, source + "70b-hf"});
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
  all.push_back(
      {tied(llama({"llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, 8192})), {"llama-1b"}, 1235814400, source + "Llama-3.2-1B"});
  all.push_back(
      {tied(llama({"llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256, 8192})), {"llama-3b"}, 3212749824, source + "Llama-3.2-3B"});
}

void append_proxies(std::vector<CatalogueEntry>& all) {
  const std::string source =
      "OrenLeung/nanoGPT-amd configs/llama-3.1-70b-proxy.json: layers of Llama 3.1 70B between its vocabulary ends";
  all.push_back({llama({"llama-3.1-70b-proxy", 1, 8192, 64, 8, 28672, 128256, 4096}), {"llama-3.1-70b-proxy1"}, {}, source});
  all.push_back({llama({"llama-3.1-70b-proxy2", 2, 8192, 64, 8, 28672, 128256, 4096}), {}, {}, source});
  all.push_back({llama({"llama-3.1-70b-proxy4", 4, 8192, 64, 8, 28672, 128256, 4096}), {}, {}, source});
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

}  // namespace llmsim::sim
