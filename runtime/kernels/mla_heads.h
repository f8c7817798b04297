// From the GEMMs of MLA to heads, and back: layout, rotary positions, and one
// rotary key for all heads.
//
// A query or key is n values without position and r with; a value has v.  Rows of queries (b s, a
// (n + r)) and of keys and values (b s, a (n + v)) lie head by head; rotary keys are (b s, r).
// Heads are (b, a, s, n + r) and (b, a, s, v), contiguous.
//
// Memory: forward allocates the heads, and for a moment the rotated keys (b, 1, s, r); backward the
// rows, and for a moment the sum over heads of the rotary keys' gradients.
//
// Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/rotary.h"

namespace llmsim::runtime {

struct MlaHeadShape {
  std::int64_t batch = 1;    // sequences
  std::int64_t seq_len = 1;  // tokens of each
  std::int64_t heads = 1;    // on this rank
  std::int64_t plain = 0;    // n
  std::int64_t rotary = 0;   // r
  std::int64_t value = 0;    // v

  std::int64_t tokens() const { return batch * seq_len; }
  std::int64_t query() const { return plain + rotary; }
};

struct KeysAndValues {
  at::Tensor k, v;
};

at::Tensor mla_queries(const at::Tensor& rows, const MlaHeadShape& shape, const RotaryTable& table);
at::Tensor mla_queries_backward(const at::Tensor& gradient, const MlaHeadShape& shape,
                                const RotaryTable& table);

KeysAndValues mla_keys(const at::Tensor& rows, const at::Tensor& rotary_keys,
                       const MlaHeadShape& shape, const RotaryTable& table);
// Gives the gradient of the rows, and writes that of the rotary keys.
at::Tensor mla_keys_backward(const KeysAndValues& gradients, const at::Tensor& rotary_gradient,
                             const MlaHeadShape& shape, const RotaryTable& table);

}  // namespace llmsim::runtime
