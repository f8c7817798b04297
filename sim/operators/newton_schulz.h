// Muon: which matrices it updates, what makes one of them orthogonal, and how the ranks that share
// optimizer states divide them.
//
// Muon updates the matrices of the blocks, routed experts and routers among them.  The tables, the
// head, norms, biases, convolutions and all else that is no matrix are left to Adam, and so is the
// input of Mamba mixers, where gates, states and steps stand side by side.  Queries, keys and
// values are matrices of their own; gate and up are two or one (UpdateBehaviour::splits_gate).
//
// The momentum X of a matrix (m, n), m <= n, is made orthogonal by five steps of Newton-Schulz in
// 16 bits,
//
//   A = X X^T,  B = b A + c A A,  X = a X + B X        2 (2 m^2 n + m^3) FLOP a step
//
// Kernels for symmetric results (SYRK) make half of X X^T and of A A, 2 (1.5 m^2 n + 0.5 m^3) FLOP,
// where m and n are multiples of 8.  A Gram iteration works on R = X X^T (m, m) and the product Q
// of its steps, and begins again after two: 4 GEMMs of 2 m^2 n FLOP (R, Q X; twice) and 14 of 2 m^3
// in all; square matrices take the usual steps.
//
// Of a matrix that t tensor ranks divide,
//
//   blockwise    the usual steps of the shard
//   duplicated   all_gather(4 m n bytes), then the usual steps of the whole matrix on each rank
//   distributed  with u the edge that is not divided and p the other one, in every step
//                A = X X^T of (u, p / t), all_reduce(2 u^2 bytes), A A and B X: 2 (2 u^2 p / t +
//                u^3) FLOP, also where u is the longer edge
//
// n ranks that share the states share out whole matrices: the largest first, each to the rank with
// the least work so far (longest processing time first), work being max(m, n) min(m, n)^2 of what a
// tensor rank has of it.  Of k equal matrices every rank has floor(k / n), and the others are
// shared out.  The busiest rank has at least the mean and at least the largest matrix; some have
// nothing where matrices are few.
//
// Sources: K. Jordan, "Muon: an optimizer for hidden layers" (2024);
// NVIDIA-NeMo/Emerging-Optimizers @fd77292 muon_utils.py of orthogonalized_optimizers
// (newton_schulz_tp);
// NVIDIA/Megatron-LM @d98e8a6 megatron/core/optimizer/emerging_optimizers.py (queries, keys and
// values, _is_muon_excluded), layer_wise_optimizer.py (_ns_compute_cost) and
// megatron/core/ssm/mamba_mixer.py (use_muon); deepspeedai/DeepSpeed @edaa722
// deepspeed/runtime/zero/muon/original_muon.py (zeropower_via_gram_newtonschulz).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/layer_kinds.h"
#include "sim/model/parameters.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Equal matrices.
struct MuonMatrices {
  std::int64_t rows = 0, columns = 0;  // of the whole matrix
  TensorAxis divided = TensorAxis::None;
  int ranks = 1;                        // tensor ranks that divide it
  GroupKind group = GroupKind::Tensor;  // theirs
  bool of_experts = false;              // of routed experts that are divided over expert ranks
  std::int64_t count = 0;               // on one tensor rank, before the data ranks share them

  std::int64_t local_rows() const { return divided == TensorAxis::Rows ? rows / ranks : rows; }
  std::int64_t local_columns() const {
    return divided == TensorAxis::Columns ? columns / ranks : columns;
  }
  double values() const;  // that a tensor rank has of one
  double work() const;    // by which they are shared out
};

// Those of layers of the model's kinds.
std::vector<MuonMatrices> muon_matrices(const Transformer& model, const Strategy& strategy,
                                        const UpdateBehaviour& update, const LayerCounts& of_kind);

// Where the strategy does not say, that of the framework.
MuonTensorMode muon_tensor_mode(const Strategy& strategy, const UpdateBehaviour& update);

// An operator, so many times one after the other.
struct RepeatedOperator {
  Operator op{};
  int times = 1;
};

// What makes one matrix orthogonal on one tensor rank.
std::vector<RepeatedOperator> newton_schulz(const MuonMatrices& of, MuonTensorMode mode,
                                            const UpdateBehaviour& update);

Flops newton_schulz_flops(const MuonMatrices& of, MuonTensorMode mode,
                          const UpdateBehaviour& update);

// Bytes that exist in addition to momentum and gradient while a matrix is made orthogonal: the
// 16-bit result as fp32 and the scaled update, of what a rank multiplies of it,
//
//   bytes = 8 per value, and 8 more where it was gathered: its pieces and their concatenation
double newton_schulz_bytes(const MuonMatrices& of, MuonTensorMode mode);

// Equal matrices that are shared out, with what one of them takes.
struct SharedMatrices {
  std::int64_t count = 0;
  double work = 0.0, values = 0.0;
  Seconds time{};
};

// The longest time and the most values that one of `ranks` ranks has of them.
struct BusiestRank {
  Seconds time{};
  double values = 0.0;
};

BusiestRank busiest_rank(std::vector<SharedMatrices> matrices, int ranks);

}  // namespace llmsim::sim
