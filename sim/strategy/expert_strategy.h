// How the experts of an MoE model are divided, and how tokens reach them.
//
// The ranks of one pipeline stage, tp * cp * dp of them, hold every expert etp * ep * edp = tp * cp * dp ways: etp ranks share
// one expert, ep groups of them have different ones, and edp of those sets are copies.  Experts are numbered as the rest of the
// model is: etp fastest, then ep, then edp.  With etp = tp the expert ranks lie inside dp * cp; with etp = 1 a rank has whole
// experts.
#pragma once

#include "sim/base/field.h"

namespace llmsim::sim {

// What carries tokens to the ranks that have their experts, and results back.
//   AllToAll      one row for each expert that a token visits, by an all-to-all of the collective library
//   AllGather     all tokens of the expert ranks are gathered, each rank picks its own; results are reduce-scattered
//   Deduplicated  a kernel of its own sends a token once to each node and once to each rank that it visits, however many of its
//                 experts are there (DeepEP, HybridEP)
enum class ExpertDispatch { AllToAll, AllGather, Deduplicated };

// "alltoall", "allgather", "deepep"; "hybridep" and "flex" (Megatron's name for what runs either) are Deduplicated too.
NameTable<ExpertDispatch> name_table(ExpertDispatch);

}  // namespace llmsim::sim
