// Tensor-parallel collectives that run beside GEMMs: what of them shows.
//
// A GEMM that a collective feeds or follows is cut into n pieces, and the message with it.  In a ring of copies the first
// piece is the rank's own, so n pieces of compute meet n - 1 pieces of communication.  For a collective of c and a GEMM of g
// that takes p in each piece, s of its rate lost while a message travels (contention.h)
//
//   ring of copies        t = p + (n - 1) step(p, c / (n - 1))
//   scattered pieces      t = p + (n - 1) step(p, c / n) + c / n     sums that are sent when a piece is done: the last one shows
//
// where step is the longer of the two, the GEMM slowed down (smaller GEMMs run less well, too: n p > g).  A GEMM that
// needs nothing of the collective just runs beside it.  Nothing is ever slower than one after the other.
// Sources: Wang et al., "Overlap Communication with Dependent Computation via Decomposition", ASPLOS 2023; TransformerEngine's
// userbuffers; Megatron Core's LinearWithGradAccumulationAndAsyncCommunication.
#pragma once

#include "sim/cost/contention.h"
#include "sim/operators/operator.h"

namespace llmsim::sim {

struct OverlapGemm {
  Seconds whole{};  // g
  Seconds piece{};  // p
};

// `messages`: how many the collective is cut into, pieces - 1 or pieces.
BesideTimes pipelined(Seconds collective, const OverlapGemm& gemm, int pieces, int messages, double loss);

// GEMMs of `operators` beside which the collective at `index` runs, as its `tensor_overlap` says: [first, last).  Casts
// between GEMMs belong to them.
OperatorRange overlapped_gemms(const OperatorList& operators, std::size_t index);

// Whether a GEMM of the range is one of those the collective runs beside.
bool is_overlapped(const Operator& collective, const Operator& gemm);

}  // namespace llmsim::sim
