#include "sim/strategy/offload.h"

#include <array>

#include "sim/strategy/named_modules.h"

namespace llmsim::sim {
namespace {

constexpr std::array<NamedModule<OffloadedModules>, 7> kOffloadedModules{{{"attn_norm", &OffloadedModules::attention_norm},
                                                                          {"qkv_linear", &OffloadedModules::qkv},
                                                                          {"core_attn", &OffloadedModules::core_attention},
                                                                          {"attn_proj", &OffloadedModules::attention_output},
                                                                          {"mlp_norm", &OffloadedModules::mlp_norm},
                                                                          {"expert_fc1", &OffloadedModules::mlp_input},
                                                                          {"moe_act", &OffloadedModules::activation}}};

}  // namespace

std::string text_of(const OffloadedModules& modules, const char* separator) {
  return names_of(modules, kOffloadedModules, separator);
}

std::optional<OffloadedModules> offloaded_modules_from(const std::string& names) {
  return with_named(OffloadedModules{}, kOffloadedModules, names);
}

}  // namespace llmsim::sim
