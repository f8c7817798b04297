// How much alike two layouts are in what predictions of their step times miss.
//
// On one cluster ln measured - ln predicted of a layout, beyond what all runs of the cluster have
// in common, is a Gaussian process: of two layouts normal with mean 0 and the covariance
//
//   k(A, B) = e^2 exp(-d^2 / 2),  d^2 = sum_k (log2 (x_k(A) / x_k(B)) / l_k)^2 + r^2 + s^2
//
// e the standard deviation of one layout, l_k the doublings over which an axis changes what is
// missed, r where they recompute in another way, s where they shard in another way, else 0.  Fitted
// to studies that are left out (calibrate/layout_fit.h).
//
//   axis              x
//   micro_batch       sequences
//   tensor_ranks      tp
//   stages            pp
//   context_ranks     cp
//   expert_ranks      ep
//   seq_len           tokens
//   devices           of the cluster
//   parameters        of the model
//
// Source: squared-exponential covariance with a length for each input, Rasmussen & Williams,
// Gaussian Processes for Machine Learning, 2006, 5.1.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

enum class LayoutAxis {
  MicroBatch,
  TensorRanks,
  Stages,
  ContextRanks,
  ExpertRanks,
  SeqLen,
  Devices,
  Parameters
};
inline constexpr std::size_t kLayoutAxes = 8;

// "micro_batch".
const char* name_of(LayoutAxis axis);

// Where a layout lies.
struct LayoutPoint {
  std::array<double, kLayoutAxes> log2{};  // of x, by LayoutAxis
  RecomputeKind recompute = RecomputeKind::None;
  Sharding sharding = Sharding::None;

  bool operator==(const LayoutPoint&) const = default;
};
LayoutPoint layout_point(const Transformer& model, const Strategy& strategy, int num_devices);

struct LayoutErrors {
  double error = 0.0;  // e, of ln(measured / predicted); 0: layouts do not differ
  std::array<double, kLayoutAxes> doublings{1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};  // l
  double recompute = 1.0;                                                             // r
  double sharding = 1.0;                                                              // s
  double run = 0.05;  // standard deviation of a run around its layout

  // k(A, B).
  double covariance(const LayoutPoint& one, const LayoutPoint& other) const;

  bool operator==(const LayoutErrors&) const = default;
};

// Its numbers one after the other, and their keys in files: "error", "run", "doublings.micro_batch"
// ..., "recompute", "sharding".
inline constexpr std::size_t kLayoutNumbers = kLayoutAxes + 4;
double& layout_number(LayoutErrors& errors, std::size_t index);
std::string layout_key(std::size_t index);

}  // namespace llmsim::sim
