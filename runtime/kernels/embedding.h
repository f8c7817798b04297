// The token embedding: a row of the table for each token, and learned positions
// where the model has them.
//
// ids (t), table (v, h), positions (p, h): x (b s, h).  With a vocabulary divided over
// tensor ranks, `first_row` is the first that this rank holds, and tokens of other ranks
// give zeros, to be summed. Memory: allocates x; dividing adds a mask and shifted ids of one
// value per token.  Backward adds into the gradients in place; that of learned positions is
// summed over the sequences first.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

struct VocabularyShard {
  std::int64_t first_row = 0;
  bool divided = false;
};

at::Tensor embed(const at::Tensor& ids, const at::Tensor& table, const VocabularyShard& shard);
void add_embedding_gradient(const at::Tensor& dx, const at::Tensor& ids,
                            const at::Tensor& table_gradient, const VocabularyShard& shard);

// x (b s, h) += positions of the first s rows.
void add_positions(at::Tensor x, const at::Tensor& positions, std::int64_t seq_len);
void add_position_gradient(const at::Tensor& dx, const at::Tensor& gradient, std::int64_t seq_len);

}  // namespace llmsim::runtime
