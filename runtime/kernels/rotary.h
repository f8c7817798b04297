// From the fused projection to heads: the layout change of q, k and v, with rotary positions on q
// and k where the model has them.
//
// z (b s, (a + 2 g) d) holds q, k and v side by side; heads are (b, a, s, d) and (b, g, s, d),
// contiguous.  Rotation is by halves (GPT-NeoX, Llama):  q' = q cos - [q2, -q1] sin.  Memory:
// allocates q, k, v; backward allocates dz.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

struct HeadShape {
  std::int64_t batch = 1;     // sequences
  std::int64_t seq_len = 1;   // tokens of each
  std::int64_t heads = 1;     // of queries, on this rank
  std::int64_t kv_heads = 1;  // of keys and values, on this rank
  std::int64_t head_dim = 1;
};

struct Heads {
  at::Tensor q, k, v;
};

// Cosines and sines of the first `seq_len` positions, (s, d / 2) each, in the format of the
// activations; none: no rotation.
struct RotaryTable {
  at::Tensor cosine, sine;
  bool empty() const { return !cosine.defined(); }
};

RotaryTable rotary_table(std::int64_t seq_len, std::int64_t head_dim,
                         const at::TensorOptions& options);

enum class Rotation { Forward, Backward };

// to = from, both (..., s, d), rotated by the table's angles, or by their negatives; a copy without
// a table.
void rotate(const at::Tensor& to, const at::Tensor& from, const RotaryTable& table,
            Rotation rotation);

Heads split_heads(const at::Tensor& z, const HeadShape& shape, const RotaryTable& table);

// dz from the gradients of q, k and v, which it frees one by one.
at::Tensor split_heads_backward(Heads gradients, const HeadShape& shape, const RotaryTable& table);

}  // namespace llmsim::runtime
