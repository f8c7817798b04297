// OLMo 1 as released, OLMo 2, and the sizes that the OLMo project's training log of 2023 really ran.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

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

// The log's names: a SwiGLU with mlp_ratio 4 keeps half of the 4 h columns, so "1.2B" has 1.11 billion parameters, "7B" 5.58 and
// "70B" 54.1.
std::vector<CatalogueEntry> olmo_models() {
  const std::string log = "allenai/OLMo LOG.md of 2023-04-17, which prints the true sizes 1.1B, 5.6B and 54B";
  const std::string hf = "HF allenai/";
  return {
      {tied(olmo1({"olmo-1b", 16, 2048, 16, 16, 8192, 50304, 2048})), {"olmo-1-1b", "olmo-1b-hf"}, 1176764416, hf + "OLMo-1B-hf"},
      {olmo1({"olmo-7b", 32, 4096, 32, 32, 11008, 50304, 2048}), {"olmo-1-7b", "olmo-7b-hf"}, 6888095744, hf + "OLMo-7B-hf"},
      {olmo_log({"olmo-log-300m", 24, 1024, 16, 16, 2048, 50304, 1024}), {"olmo-300m"}, {}, log},
      {olmo_log({"olmo-log-1.2b", 24, 2048, 16, 16, 4096, 50304, 1024}), {"olmo-1.2b"}, {}, log},
      {olmo_log({"olmo-log-7b", 32, 4096, 32, 32, 8192, 50304, 2048}), {"olmo-5.6b"}, {}, log},
      {olmo_log({"olmo-log-70b", 80, 8192, 64, 64, 16384, 50304, 2048}), {"olmo-70b", "olmo-54b"}, {}, log},
      {olmo2({"olmo-2-1b", 16, 2048, 16, 16, 8192, 100352, 4096}), {"olmo-2-0425-1b"}, 1484916736, hf + "OLMo-2-0425-1B"},
      {olmo2({"olmo-2-7b", 32, 4096, 32, 32, 11008, 100352, 4096}), {"olmo-2-1124-7b"}, 7298617344, hf + "OLMo-2-1124-7B"},
      {olmo2({"olmo-2-13b", 40, 5120, 40, 40, 13824, 100352, 4096}), {"olmo-2-1124-13b"}, 13716198400, hf + "OLMo-2-1124-13B"},
      {olmo2({"olmo-2-32b", 64, 5120, 40, 8, 27648, 100352, 4096}), {"olmo-2-0325-32b"}, 32234279936, hf + "OLMo-2-0325-32B"},
  };
}

}  // namespace llmsim::sim
