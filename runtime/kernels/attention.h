// Attention of head tensors, unfused or blockwise, forward and backward; causal, or with every key
// seen by every query.
//
// q (b, a, s, d), k (b, g, s, d), v (b, g, s, w), output (b s, a w); w = d but in MLA.  Grouped
// queries share their key without a copy: the a / g queries of a group are rows of one GEMM.
//
//   unfused    S = q k^T / sqrt(d), masked; P = softmax(S); o = P v.  Keeps P.
//              Memory: two score tensors (b a s^2) at once, forward and backward.
//   blockwise  the same for blocks of queries, with the log-sum-exp of each row saved instead of P:
//              what flash attention keeps.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "runtime/kernels/rotary.h"
#include "sim/operators/attention_core.h"

namespace llmsim::runtime {

// Queries of a block of the blockwise form.
inline constexpr std::int64_t kAttentionBlock = sim::kAttentionBlock;

struct AttentionOutput {
  at::Tensor o;              // (b s, a w): the input of the projection
  at::Tensor probabilities;  // unfused: (b g, a / g s, s)
  at::Tensor log_sum_exp;    // blockwise: (b, a, s), fp32
  // What a library's kernel needs for backward in addition to these (kernels/library_attention.h).
  std::vector<c10::IValue> of_library;
};

// True where a query must not see a key, (s, s), bool.  A window of w tokens hides those further
// back (unfused only).
at::Tensor causal_mask(std::int64_t seq_len, std::int64_t window, const at::TensorOptions& options);

AttentionOutput unfused_attention(const Heads& heads, const at::Tensor& mask);
// Frees what it no longer needs as it goes.
Heads unfused_attention_backward(at::Tensor dout, Heads heads, at::Tensor probabilities);

// `mask` is that of one block: causal_mask(kAttentionBlock, ...) or of the whole sequence where
// that is shorter.  Without one (undefined) every query sees every key, as in an encoder.
AttentionOutput blockwise_attention(const Heads& heads, const at::Tensor& mask);
Heads blockwise_attention_backward(at::Tensor dout, Heads heads, AttentionOutput forward,
                                   const at::Tensor& mask);

}  // namespace llmsim::runtime
