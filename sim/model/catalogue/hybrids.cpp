// Hybrids of attention and state spaces.
#include <string>

#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

struct HybridShape {
  const char* name;
  const char* pattern;
  int hidden, heads, kv_heads, ffn;
  Mamba mamba;
};

// RMSNorm, squared ReLU, no biases, no positions; heads of 128.
Transformer nemotron(const HybridShape& s) {
  const std::string pattern = s.pattern;
  Transformer m = llama({s.name, static_cast<int>(pattern.size()), s.hidden, s.heads, s.kv_heads,
                         s.ffn, 131072, 8192});
  m.head_dim = 128;
  m.gated_mlp = false;
  m.position = Position::None;
  m.layer_pattern = pattern;
  m.mamba = s.mamba;
  return m;
}

constexpr Mamba mamba(int num_heads, int head_dim, int state_size) {
  return {.num_heads = num_heads, .head_dim = head_dim, .num_groups = 8, .state_size = state_size};
}

constexpr const char* k52Layers = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";

Transformer nemotron_h_8b() {
  return nemotron({"nemotron-h-8b", k52Layers, 4096, 32, 8, 21504, mamba(128, 64, 128)});
}

Transformer nemotron_h_47b() {
  return nemotron({"nemotron-h-47b",
                   "M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---"
                   "MM---M-M*-M-M-M-M-M-",
                   8192, 64, 8, 30720, mamba(256, 64, 256)});
}

Transformer nemotron_h_56b() {
  return nemotron({"nemotron-h-56b",
                   "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-"
                   "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
                   8192, 64, 8, 32768, mamba(256, 64, 256)});
}

Transformer nemotron_nano_9b() {
  return nemotron({"nemotron-nano-9b-v2",
                   "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", 4480, 40, 8, 15680,
                   mamba(128, 80, 128)});
}

Transformer nemotron_nano_12b() {
  return nemotron({"nemotron-nano-12b-v2",
                   "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-", 5120, 40, 8,
                   20480, mamba(128, 80, 128)});
}

Transformer nemotron_3_nano() {
  return moe(
      nemotron({"nemotron-3-nano-30b-a3b", "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
                2688, 32, 2, 0, mamba(64, 64, 128)}),
      {.num_experts = 128,
       .top_k = 6,
       .expert_ffn_size = 1856,
       .num_shared_experts = 1,
       .shared_expert_ffn_size = 3712});
}

Transformer nemotron_3_super() {
  Transformer m = moe(
      nemotron({"nemotron-3-super-120b",
                "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*"
                "EMEMEMEME",
                4096, 32, 2, 0, mamba(128, 64, 128)}),
      {.num_experts = 512,
       .top_k = 22,
       .expert_ffn_size = 2688,
       .num_shared_experts = 1,
       .shared_expert_ffn_size = 5376,
       .latent_size = 1024});
  m.mtp_layers = 1;
  return m;
}

// Three layers with a gated delta net, one with attention, experts in each.
Transformer qwen3_next() {
  Transformer m = moe(llama({"qwen3-next-80b-a3b", 48, 2048, 16, 2, 0, 151936, 4096}),
                      {.num_experts = 512,
                       .top_k = 10,
                       .expert_ffn_size = 512,
                       .num_shared_experts = 1,
                       .shared_expert_ffn_size = 512,
                       .shared_expert_gate = true});
  m.head_dim = 256;
  m.qk_norm = QkNorm::PerHead;
  m.attention_gate = true;
  m.layer_pattern = "GGG*";
  m.gated_delta_net = GatedDeltaNet{
      .num_key_heads = 16, .key_head_dim = 128, .num_value_heads = 32, .value_head_dim = 128};
  return m;
}

struct JambaShape {
  const char* name;
  int layers, hidden, heads, ffn, dt_rank;
};

// Blocks of eight layers with attention in the fifth, experts in every second; no positions.
Transformer jamba(const JambaShape& s) {
  Transformer m = moe(llama({s.name, s.layers, s.hidden, s.heads, 8, s.ffn, 65536, 4096}),
                      {.num_experts = 16,
                       .top_k = 2,
                       .expert_ffn_size = s.ffn,
                       .num_dense_layers = 1,
                       .layer_interval = 2});
  m.position = Position::None;
  m.layer_pattern = "SSSS*SSS";
  m.mamba1 = Mamba1{.inner_size = 2 * s.hidden, .state_size = 16, .dt_rank = s.dt_rank};
  return m;
}

Transformer jamba_mini() { return jamba({"jamba-mini", 32, 4096, 32, 14336, 256}); }

Transformer jamba_large() { return jamba({"jamba-1.5-large", 72, 8192, 64, 24576, 512}); }

}  // namespace

std::vector<CatalogueEntry> hybrid_models() {
  const char* const bridge =
      "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/models/nemotronh/nemotron_h_provider.py "
      "@160cccc";
  const std::string nano = std::string(bridge) +
                           "; count: Hugging Face, safetensors of "
                           "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                    super =
                        "config.json and 16-bit weights (header of the safetensors) of "
                        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16";
  return {
      {nemotron_h_8b(), {"nemotron-h-8b-base-8k"}, {}, bridge},
      {nemotron_h_47b(), {"nemotron-h-47b-base-8k"}, {}, bridge},
      {nemotron_h_56b(), {"nemotron-h-56b-base-8k"}, {}, bridge},
      {nemotron_nano_9b(), {"nvidia-nemotron-nano-9b-v2"}, {}, bridge},
      {nemotron_nano_12b(), {"nvidia-nemotron-nano-12b-v2"}, {}, bridge},
      {nemotron_3_nano(), {"nemotron-3-nano", "nvidia-nemotron-3-nano-30b-a3b"}, 31577937344, nano},
      {nemotron_3_super(), {"nemotron-3-super", "nemotron-3-super-120b-a12b"}, 123611012096, super},
      {qwen3_next(),
       {"qwen3-next", "qwen3-next-80b-a3b-instruct", "qwen3-next-80b-a3b-thinking"},
       79674391296,
       "config.json and safetensors of Qwen/Qwen3-Next-80B-A3B-Instruct, without its "
       "multi-token prediction"},
      {jamba_mini(),
       {"jamba-v0.1", "jamba-1.5-mini"},
       51570323328,
       "config.json and total_size of model.safetensors.index.json (103,140,646,656 bytes of "
       "bf16) of ai21labs/Jamba-v0.1"},
      {jamba_large(),
       {"ai21-jamba-1.5-large", "jamba-large"},
       {},
       "Jamba-1.5 (arXiv 2408.12570), section 2: 9 blocks of 8 layers, width 8192, 64 heads, 94 "
       "billion active of 398 billion parameters, from which the MLPs' width of 24576 follows; the "
       "rest as JambaConfig of transformers has it"},
  };
}

}  // namespace llmsim::sim
