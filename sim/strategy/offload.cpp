#include "sim/strategy/offload.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "sim/strategy/named_modules.h"

namespace llmsim::sim {
namespace {

constexpr std::array<NamedModule<OffloadedModules>, 7> kModules{{{"attn_norm", &OffloadedModules::attention_norm},
                                                                 {"qkv_linear", &OffloadedModules::qkv},
                                                                 {"core_attn", &OffloadedModules::core_attention},
                                                                 {"attn_proj", &OffloadedModules::attention_output},
                                                                 {"mlp_norm", &OffloadedModules::mlp_norm},
                                                                 {"expert_fc1", &OffloadedModules::mlp_input},
                                                                 {"moe_act", &OffloadedModules::activation}}};

constexpr int kMostBlocks = 4096;

}  // namespace

std::string text_of(const OffloadedModules& modules, const char* separator) { return names_of(modules, kModules, separator); }

std::optional<OffloadedModules> offloaded_modules_from(std::string names) {
  return with_named(OffloadedModules{}, kModules, std::move(names));
}

Offload described(Offload offload, const std::string& detail) {
  if (!offload.activations) return offload;
  const std::string layers = "activation cpu offload, ";
  if (const std::size_t found = detail.find(layers); found != std::string::npos) {
    offload.blocks = std::clamp(std::atoi(detail.c_str() + found + layers.size()), 0, kMostBlocks);
  }
  const bool fine = detail.find("fine-grained activation offload") != std::string::npos;
  if (fine && !offload.modules.any()) offload.modules = kAllOffloadedModules;
  return offload;
}

}  // namespace llmsim::sim
