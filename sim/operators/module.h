// The modules of a layer, in which its operators and its tensors stand: what recomputation and
// offload choose by.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace llmsim::sim {

enum class Module : std::uint8_t {
  Norm,           // and what it writes
  Qkv,            // queries, keys and values, or the latents they come from
  MlaUp,          // from the latents to queries, keys and values
  CoreAttention,  // scores, softmax, weighted sum
  AttentionOutput,
  Residual,
  MlpUp,
  Activation,
  MlpDown,
  MoeInput,  // the tokens of all tensor ranks, where each has a part of the sequence
  Router,
  Dispatch,  // rows to their experts and back
  ExpertUp,
  ExpertActivation,
  ExpertDown,
  SharedUp,
  SharedActivation,
  SharedDown,
  Combine,  // the weighted sum of each token's rows
  Embedding,
  Head,
  Loss,
  Update  // of the optimizer
};

// A set of modules.
class ModuleSet {
 public:
  ModuleSet() = default;
  ModuleSet(std::initializer_list<Module> modules) { add(modules); }
  void add(std::initializer_list<Module> modules) {
    for (const Module module : modules) bits_ |= bit(module);
  }
  bool has(Module module) const { return (bits_ & bit(module)) != 0; }

 private:
  static std::uint32_t bit(Module module) {
    return std::uint32_t{1} << static_cast<unsigned>(module);
  }
  std::uint32_t bits_ = 0;
};

}  // namespace llmsim::sim
