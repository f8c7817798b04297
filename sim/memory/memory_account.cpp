#include "sim/memory/memory_account.h"

namespace llmsim::sim {
namespace {

constexpr std::array<const char*, kNumMemoryKinds> kNames{"weights",
                                                          "gathered_weights",
                                                          "cast_weights",
                                                          "gradients",
                                                          "main_gradients",
                                                          "gradient_buffers",
                                                          "master_weights",
                                                          "optimizer_states",
                                                          "activations",
                                                          "logits",
                                                          "recomputed_activations",
                                                          "activation_gradients",
                                                          "optimizer_temporaries",
                                                          "pipeline_buffers",
                                                          "dispatch_buffers",
                                                          "gradient_buckets",
                                                          "workspaces",
                                                          "buffers",
                                                          "framework",
                                                          "measured_correction"};

}  // namespace

const char* name_of(MemoryKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::vector<MemoryTerm> MemoryTerms::present() const {
  std::vector<MemoryTerm> list;
  for (int i = 0; i < kNumMemoryKinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    const bool there = kind == MemoryKind::MeasuredCorrection ? (*this)[kind] != Bytes(0.0)
                                                              : (*this)[kind] > Bytes(0.0);
    if (there) list.push_back({name_of(kind), (*this)[kind]});
  }
  return list;
}

template <>
MemoryTerms amount_of<MemoryTerms>(const LiveBytes& live) {
  MemoryTerms terms;
  terms[MemoryKind::Activations] = live.activations;
  terms[MemoryKind::Recomputed] = live.recomputed;
  terms[MemoryKind::ActivationGradients] = live.gradients;
  terms[MemoryKind::Logits] = live.logits;
  return terms;
}

}  // namespace llmsim::sim
