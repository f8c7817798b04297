// How far the predicted ratio of the step times of two layouts of one problem is off, by what the
// layouts differ in.
//
// Errors that both have in common (the device's rate, the framework, the cluster) cancel in a
// ratio.  With the traits x_k of a layout and d_k = x_k(B) - x_k(A),
//
//   ln(t_B / t_A), measured - predicted = sum_k b_k d_k + s T
//   s^2 = 2 r^2 + sum_k e_k^2 d_k^2
//
// with b_k the bias of a trait, above zero where predictions are too fast, e_k its error, by which
// clusters and programs differ from it, r the error of a run, and T of Student's t
// (sim/base/uncertainty.h).  Fitted to runs of the same problem (calibrate/ratio_fit.h).
//
//   trait                 x
//   tensor_ranks          log2 tp
//   stages                log2 pp
//   context_ranks         log2 cp
//   expert_ranks          log2 ep
//   sharded_parameters    1 where weights are gathered (ZeRO-3, HSDP), else 0
//   micro_batch           log2 micro_batch
//   recomputation         1 where whole blocks run again, 1/2 where parts of them do, else 0
//   virtual_stages        log2 virtual_stages
#pragma once

#include <array>
#include <cstddef>

namespace llmsim::sim {

struct Strategy;

enum class LayoutTrait {
  TensorRanks,
  Stages,
  ContextRanks,
  ExpertRanks,
  ShardedParameters,
  MicroBatch,
  Recomputation,
  VirtualStages
};
inline constexpr std::size_t kLayoutTraits = 8;

using LayoutTraits = std::array<double, kLayoutTraits>;  // x, by LayoutTrait
LayoutTraits traits_of(const Strategy& strategy);
double trait_of(LayoutTrait trait, const Strategy& strategy);

// In logarithms of step times.
struct TraitError {
  double bias = 0.0;
  double error = 0.05;
  bool operator==(const TraitError&) const = default;
};

struct RatioErrors {
  TraitError tensor_ranks, stages, context_ranks, expert_ranks;
  TraitError sharded_parameters, micro_batch, recomputation, virtual_stages;
  double run = 0.02;
  bool operator==(const RatioErrors&) const = default;

  const TraitError& of(LayoutTrait trait) const;
  // sum_k b_k x_k.
  double bias_of(const LayoutTraits& traits) const;
  // s.
  double error_between(const LayoutTraits& one, const LayoutTraits& other) const;
};

// The name of a trait, which is that of its member and of its coefficients: "tensor_ranks".
const char* name_of(LayoutTrait trait);

// The probability that a layout is faster than another, of which `log_ratio` is the logarithm of
// the other's predicted step time over its own.
double probability_faster(const RatioErrors& errors, double log_ratio, const LayoutTraits& one,
                          const LayoutTraits& other);

}  // namespace llmsim::sim
