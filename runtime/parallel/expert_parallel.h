// How rows find the experts that other ranks have: all-to-alls of pieces as large as the router
// made them.
//
// Rank p of x has experts p E / x to (p + 1) E / x - 1.  Rows that lie by expert lie by rank
// too: they are sent as they are, arrive by the rank that sent them, and are copied to lie by
// expert (unless this rank has one alone); what the experts return goes the same way back.
// How many rows arrive is exchanged first, E counts of 8 bytes.  With one rank everything is
// free and copies nothing.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

// Rows of one exchange.
struct ExpertLoad {
  std::vector<std::int64_t> sent;  // to each rank
  // From each rank, for each of this rank's experts.
  std::vector<std::vector<std::int64_t>> received;
  std::vector<std::int64_t> rows;  // of each of this rank's experts
};

class ExpertParallel {
 public:
  ExpertParallel() = default;  // one rank
  explicit ExpertParallel(Communicator& group) : group_(&group) {}

  int rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  int size() const { return group_ == nullptr ? 1 : group_->size(); }

  // `rows`: this rank's for each expert of the model.  `balanced`: every rank has the same, which
  // is believed unseen.
  ExpertLoad load(const std::vector<std::int64_t>& rows, bool balanced, c10::Device device) const;

  // From rows by expert of the model to those for this rank's experts, and back.
  at::Tensor to_experts(at::Tensor rows, const ExpertLoad& load) const;
  at::Tensor from_experts(at::Tensor rows, const ExpertLoad& load) const;

 private:
  void exchange_counts(std::vector<std::int64_t>& received, const std::vector<std::int64_t>& rows,
                       bool balanced, c10::Device device) const;
  at::Tensor exchanged(const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                       const std::vector<std::int64_t>& received) const;

  Communicator* group_ = nullptr;
};

}  // namespace llmsim::runtime
