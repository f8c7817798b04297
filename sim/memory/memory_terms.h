// The terms whose sum is the memory of a rank.  Every byte belongs to exactly one of them.
#pragma once

#include <array>
#include <vector>

#include "sim/base/quantity.h"

namespace llmsim::sim {

enum class MemoryKind {
  Weights,
  Gathered,  // whole weights of sharded units
  Gradients,
  MainGradients,
  GradientBuffers,  // whole gradients of sharded units
  Master,
  States,
  Activations,
  Logits,
  Recomputed,
  ActivationGradients,
  Temporaries,  // of the update
  PipelineBuffers,
  DispatchBuffers,
  Buckets,
  Workspaces,
  Buffers,  // masks, tables of positions, tokens of the step
  Framework
};

inline constexpr int kNumMemoryKinds = static_cast<int>(MemoryKind::Framework) + 1;

// "weights", "gathered_weights", "optimizer_states", ...: stable keys of the tables.
const char* name_of(MemoryKind kind);

// One of them as it is told.
struct MemoryTerm {
  const char* name = "";
  Bytes size{};
};

// One size per term.
class MemoryTerms {
 public:
  Bytes& operator[](MemoryKind kind) { return sizes_[static_cast<std::size_t>(kind)]; }
  Bytes operator[](MemoryKind kind) const { return sizes_[static_cast<std::size_t>(kind)]; }

  MemoryTerms& operator+=(const MemoryTerms& other);
  MemoryTerms& operator-=(const MemoryTerms& other);
  friend MemoryTerms operator+(MemoryTerms a, const MemoryTerms& b) { return a += b; }

  Bytes total() const;
  std::vector<MemoryTerm> present() const;  // those that are not 0, in their order

 private:
  std::array<Bytes, kNumMemoryKinds> sizes_{};
};

}  // namespace llmsim::sim
