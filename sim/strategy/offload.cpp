#include "sim/strategy/offload.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace llmsim::sim {
namespace {

struct NamedModule {
  const char* name;
  bool OffloadedModules::*flag;
};

constexpr std::array<NamedModule, 7> kModules{{{"attn_norm", &OffloadedModules::attention_norm},
                                               {"qkv_linear", &OffloadedModules::qkv},
                                               {"core_attn", &OffloadedModules::core_attention},
                                               {"attn_proj", &OffloadedModules::attention_output},
                                               {"mlp_norm", &OffloadedModules::mlp_norm},
                                               {"expert_fc1", &OffloadedModules::mlp_input},
                                               {"moe_act", &OffloadedModules::activation}}};

constexpr int kMostBlocks = 4096;

}  // namespace

std::string text_of(const OffloadedModules& modules, const char* separator) {
  std::string text;
  for (const NamedModule& module : kModules) {
    if (modules.*module.flag) text += (text.empty() ? "" : separator) + std::string(module.name);
  }
  return text;
}

std::optional<OffloadedModules> offloaded_modules_from(std::string names) {
  OffloadedModules modules;
  for (names += '+'; !names.empty(); names.erase(0, names.find('+') + 1)) {
    const std::string name = names.substr(0, names.find('+'));
    const auto known = std::find_if(kModules.begin(), kModules.end(), [&](const NamedModule& m) { return name == m.name; });
    if (known == kModules.end()) return std::nullopt;
    modules.*known->flag = true;
  }
  return modules;
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
