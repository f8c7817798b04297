// The terms whose sum is the memory of a rank, and the account of them while a step is
// followed (step_walk.h).
//
// Every byte belongs to exactly one term.  An account holds what is there now and remembers the
// most that ever was,
//
//   take    now += size, then peak = max(peak, now)
//   give    now -= size
//   run     peak = max(peak, now + rise), now += net: where rise and net change are known
//
// in bytes (Amount = double: a search asks for nothing else), in bytes by term (MemoryTerms: tables
// do) or in bytes by tensor (TensorAmounts in peak_tensors.h). The same statements are executed for
// all, so that a search and a table cannot differ but by the rounding of their sums. Source: ours.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/operators/layer_memory.h"

namespace llmsim::sim {

enum class MemoryKind {
  Weights,
  Gathered,     // whole weights of sharded units
  CastWeights,  // 16-bit copies of fp32 weights under autocast
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
  Framework,
  MeasuredCorrection  // what measured peaks of the cluster add (peak_correction.h); may be negative
};

inline constexpr int kNumMemoryKinds = static_cast<int>(MemoryKind::MeasuredCorrection) + 1;

// "weights", "gathered_weights", "optimizer_states", ...: stable keys of the tables.
const char* name_of(MemoryKind kind);

// One of them with its name.
struct MemoryTerm {
  const char* name = "";
  Bytes size{};
};

// One size per term.
class MemoryTerms {
 public:
  Bytes& operator[](MemoryKind kind) { return sizes_[static_cast<std::size_t>(kind)]; }
  Bytes operator[](MemoryKind kind) const { return sizes_[static_cast<std::size_t>(kind)]; }

  MemoryTerms& operator+=(const MemoryTerms& other) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) sizes_[i] += other.sizes_[i];
    return *this;
  }
  MemoryTerms& operator-=(const MemoryTerms& other) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) sizes_[i] -= other.sizes_[i];
    return *this;
  }
  friend MemoryTerms operator+(MemoryTerms a, const MemoryTerms& b) { return a += b; }

  // In lanes, which need not wait for one another: it is taken after every change.
  Bytes total() const {
    std::array<Bytes, kLanes> sums{};
    for (std::size_t i = 0; i < sizes_.size(); i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += sizes_[i + lane];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]) + (sums[4] + sums[5]);
  }
  std::vector<MemoryTerm> present() const;  // those that are not 0, in their order

 private:
  static constexpr std::size_t kLanes = 6;
  // Whole rounds of the lanes; the last sizes belong to no term and are 0.
  std::array<Bytes, (kNumMemoryKinds + kLanes - 1) / kLanes * kLanes> sizes_{};
};

// The bytes of an amount.
inline double total_of(double size) { return size; }
inline double total_of(const MemoryTerms& terms) { return terms.total().value(); }

// So many bytes of one term more; of `what`, a name of style "received input".
inline void add_to(double& amount, MemoryKind, Bytes size, const char*) { amount += size.value(); }
inline void add_to(MemoryTerms& amount, MemoryKind kind, Bytes size, const char*) {
  amount[kind] += size;
}

// Those of a layer's pass.
template <class Amount>
Amount amount_of(const LiveBytes& live);
template <>
inline double amount_of<double>(const LiveBytes& live) {
  return live.total().value();
}
template <>
MemoryTerms amount_of<MemoryTerms>(const LiveBytes& live);

// What a high point belongs to: a layer, or
inline constexpr int kNoLayer = -1;    // the embedding, or what is between passes
inline constexpr int kLossLayer = -2;  // the head with the loss

template <class Amount>
struct HighPoint {
  double total = -std::numeric_limits<double>::infinity();  // none yet
  Amount amount{};
  int layer = kNoLayer;

  bool is_there() const { return total > -std::numeric_limits<double>::infinity(); }
};

template <class Amount>
class Account {
 public:
  void take(const Amount& size) {
    now_ += size;
    note(now_);
  }
  void take(MemoryKind kind, Bytes size, const char* what = "") {
    add_to(now_, kind, size, what);
    note(now_);
  }
  void give(const Amount& size) { now_ -= size; }
  void give(MemoryKind kind, Bytes size, const char* what = "") { add_to(now_, kind, -size, what); }
  // What comes and goes at once.
  void pass(const Amount& size) { note(now_ + size); }
  void pass(MemoryKind kind, Bytes size, const char* what = "") {
    Amount there = now_;
    add_to(there, kind, size, what);
    note(there);
  }
  void run(const Amount& rise, const Amount& net) {
    note(now_ + rise);
    now_ += net;
  }
  // `times` changes whose high points an equal one before them has had.
  void repeat(const Amount& change, int times) {
    for (int i = 0; i < times; ++i) now_ += change;
  }
  // From here on high points belong to a layer, kNoLayer or kLossLayer.
  void at(int layer) { layer_ = layer; }
  // What is there is what was there before.
  void return_to(const Amount& before) { now_ = before; }
  // From here on peaks are those of what is still to come.
  void forget_peak() { layers_ = loss_ = {}; }

  const Amount& now() const { return now_; }
  const HighPoint<Amount>& of_layers() const { return layers_; }
  const HighPoint<Amount>& of_loss() const { return loss_; }
  const HighPoint<Amount>& highest() const { return loss_.total > layers_.total ? loss_ : layers_; }

 private:
  void note(const Amount& there) {
    const double total = total_of(there);
    HighPoint<Amount>& highest = layer_ == kLossLayer ? loss_ : layers_;
    if (total > highest.total) highest = {.total = total, .amount = there, .layer = layer_};
  }

  Amount now_{};
  HighPoint<Amount> layers_, loss_;
  int layer_ = kNoLayer;
};

}  // namespace llmsim::sim
