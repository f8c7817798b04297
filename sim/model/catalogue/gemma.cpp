// Gemma 1 to 3: tied heads, vocabularies of a quarter million, head_dim independent of the width.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

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

}  // namespace

std::vector<CatalogueEntry> gemma_models() {
  const std::string gemma1_source = "arXiv 2403.08295 table 1; HF google/gemma-";
  const std::string gemma2_source = "arXiv 2408.00118 table 1; HF google/gemma-2-";
  const std::string gemma3_source = "arXiv 2503.19786; HF google/gemma-3-";
  const std::string text_part = "-pt config.json, text part";
  return {
      {gemma({"gemma-2b", 18, 2048, 8, 1, 16384, 256000, 8192}, 256), {"gemma-1-2b"}, 2506172416, gemma1_source + "2b"},
      {gemma({"gemma-7b", 28, 3072, 16, 16, 24576, 256000, 8192}, 256), {"gemma-1-7b"}, 8537680896, gemma1_source + "7b"},
      {gemma2({"gemma-2-2b", 26, 2304, 8, 4, 9216, 256000, 8192}, 256), {}, 2614341888, gemma2_source + "2b"},
      {gemma2({"gemma-2-9b", 42, 3584, 16, 8, 14336, 256000, 8192}, 256), {"gemma-9b"}, 9241705984, gemma2_source + "9b"},
      {gemma2({"gemma-2-27b", 46, 4608, 32, 16, 36864, 256000, 8192}, 128), {}, 27227128320, gemma2_source + "27b"},
      {gemma3({"gemma-3-270m", 18, 640, 4, 1, 2048, 262144, 32768}, 256, 512), {"gemma-270m"}, 268098176, gemma3_source + "270m"},
      {gemma3({"gemma-3-1b", 26, 1152, 4, 1, 6912, 262144, 32768}, 256, 512), {"gemma-1b"}, 999885952, gemma3_source + "1b-pt"},
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

}  // namespace llmsim::sim
