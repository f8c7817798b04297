// The router of an MoE model: which experts each token visits and with what weight, and in what
// order its rows lie.
//
// Probabilities are a softmax over all E experts in fp32; a token visits its k most probable ones,
// and their probabilities are the weights of what they return (Shazeer et al. 2017, Switch
// Transformer; not normalised again).  Nothing is dropped: each of the R = t k slots (token,
// choice) is a row.
//
// A balanced choice sends slot s to expert s mod E whatever the probabilities say, with the
// probabilities of those as weights: every expert has the same number of rows where E divides R.
// There is no other on the meta device, which has no values.
//
// Memory: choice: probabilities (t, E) and a copy of the logits in fp32; chosen (t, k) 8 bytes;
// weights (t, k).  Order: two index vectors of R, and a third while it is made.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

struct ExpertChoice {
  at::Tensor probabilities;  // (t, E), fp32
  at::Tensor chosen;         // (t, k), experts
  at::Tensor weights;        // (t, k), in the format of the logits
};

ExpertChoice choose_experts(at::Tensor logits, std::int64_t top_k, bool balanced);

// Gradient of the logits from that of the weights; consumes the choice.
at::Tensor router_gradient(at::Tensor weights_gradient, ExpertChoice choice, at::ScalarType type);

// Rows by expert: row i is slot slots[i], of token tokens[i].
struct RowOrder {
  at::Tensor slots;                // (R)
  at::Tensor tokens;               // (R)
  std::vector<std::int64_t> rows;  // of each expert
};

RowOrder order_by_expert(const at::Tensor& chosen, std::int64_t num_experts, bool balanced);

// The weighted sum of each token's rows: rows (t k, h) by token, weights (t, k); y (t, h).
at::Tensor combined_rows(const at::Tensor& rows, const at::Tensor& weights);

// The rows become their gradients; fills that of the weights.  A GEMM of (t, h) at a time is taken
// for it.
void combined_rows_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& weights,
                            const at::Tensor& weights_gradient);

}  // namespace llmsim::runtime
