// What the model-parallel ranks of one replica still do to gradients when their data ranks have
// summed them.
//
// Sums, each once a step:
//   tensor ranks    under sequence parallelism, what every rank has but whose gradients saw its own
//                   tokens alone (norms, biases of row-parallel GEMMs); and always what follows
//                   from partial sums (router, gate of shared experts): one all-reduce of a copy of
//                   them side by side, as Megatron-LM does
//   embedding       a tied table of which the first and the last stage have a copy each: one
//                   all-reduce between the two
//
// Norm: over all parameters of the model.  What every tensor rank has counts on the first of them,
// a tied table on the first stage; one scalar in fp32 is summed over the ranks with other slices,
// the tensor ranks and the stages.  Whole gradients of divided experts are first summed over the
// expert ranks, as one scalar more; where these include tensor ranks (etp = 1) the sum has all of
// them and counts on the first.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/rank_groups.h"

namespace llmsim::runtime {

// Elements [begin, begin + gradient.numel()) of a parameter, whose tensor is taken flat.
struct GradientPiece {
  const ParameterShape* parameter = nullptr;  // of a unit
  std::int64_t begin = 0;
  at::Tensor gradient;  // a view
};

// What the slices have of each parameter, without padding; nothing for parameters
// that they do not touch.
std::vector<GradientPiece> gradient_pieces(const std::vector<GradientSlice>& slices);

class ModelParallelGradients {
 public:
  // `groups` must outlive it.
  ModelParallelGradients(const RankGroups& groups, const sim::Strategy& strategy)
      : groups_(groups),
        divides_tokens_(strategy.sequence_parallel),
        slices_(strategy.sharding != sim::Sharding::None),
        divides_experts_(strategy.divides_experts()),
        whole_experts_(strategy.expert_tensor_ranks() != strategy.tp) {}

  void sum(const std::vector<GradientSlice>& slices) const;
  // 0 on the meta device.  `slice_group`: of DataParallel.
  double norm(const std::vector<GradientSlice>& slices, Communicator* slice_group) const;

 private:
  void sum_partial(const std::vector<GradientSlice>& slices) const;
  void sum_tied_table(const std::vector<GradientSlice>& slices) const;
  at::Tensor squares(const std::vector<GradientSlice>& slices, bool divided) const;
  at::Tensor expert_squares(const std::vector<GradientSlice>& slices) const;
  bool divided(const ParameterShape& parameter) const {
    return parameter.of_experts && divides_experts_;
  }
  bool counts(const ParameterShape& parameter) const;

  const RankGroups& groups_;
  bool divides_tokens_;
  bool slices_;  // of each parameter a rank has one
  bool divides_experts_;
  bool whole_experts_;  // over tensor ranks, which have others or copies
};

}  // namespace llmsim::runtime
