#include "runtime/kernels/mla_heads.h"

#include <vector>

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

// Rows of tokens, seen as (b, a, s, width).
at::Tensor by_heads(const at::Tensor& rows, const MlaHeadShape& shape) {
  return rows.view({shape.batch, shape.seq_len, shape.heads, -1}).transpose(1, 2);
}

at::Tensor new_rows(std::int64_t width, const MlaHeadShape& shape,
                    const at::TensorOptions& options) {
  return at::empty({shape.tokens(), shape.heads * width}, options);
}

at::Tensor new_heads(std::int64_t width, const MlaHeadShape& shape,
                     const at::TensorOptions& options) {
  return at::empty({shape.batch, shape.heads, shape.seq_len, width}, options);
}

at::Tensor plain_part(const at::Tensor& heads, const MlaHeadShape& shape) {
  return heads.narrow(-1, 0, shape.plain);
}
at::Tensor rotary_part(const at::Tensor& heads, const MlaHeadShape& shape) {
  return heads.narrow(-1, shape.plain, shape.rotary);
}
at::Tensor value_part(const at::Tensor& heads, const MlaHeadShape& shape) {
  return heads.narrow(-1, shape.plain, shape.value);
}

// Of one head, that is all heads'.
at::Tensor rotated(const at::Tensor& rotary_keys, const MlaHeadShape& shape,
                   const RotaryTable& table) {
  at::Tensor keys = at::empty({shape.batch, 1, shape.seq_len, shape.rotary}, rotary_keys.options());
  rotate(keys, rotary_keys.view({shape.batch, 1, shape.seq_len, shape.rotary}), table,
         Rotation::Forward);
  return keys;
}

}  // namespace

at::Tensor mla_queries(const at::Tensor& rows, const MlaHeadShape& shape,
                       const RotaryTable& table) {
  const at::Tensor from = by_heads(rows, shape);
  at::Tensor q = new_heads(shape.query(), shape, rows.options());
  plain_part(q, shape).copy_(plain_part(from, shape));
  rotate(rotary_part(q, shape), rotary_part(from, shape), table, Rotation::Forward);
  return q;
}

at::Tensor mla_queries_backward(const at::Tensor& gradient, const MlaHeadShape& shape,
                                const RotaryTable& table) {
  at::Tensor rows = new_rows(shape.query(), shape, gradient.options());
  const at::Tensor to = by_heads(rows, shape);
  plain_part(to, shape).copy_(plain_part(gradient, shape));
  rotate(rotary_part(to, shape), rotary_part(gradient, shape), table, Rotation::Backward);
  return rows;
}

KeysAndValues mla_keys(const at::Tensor& rows, const at::Tensor& rotary_keys,
                       const MlaHeadShape& shape, const RotaryTable& table) {
  const at::Tensor from = by_heads(rows, shape), keys = rotated(rotary_keys, shape, table);
  KeysAndValues heads{.k = new_heads(shape.query(), shape, rows.options()),
                      .v = new_heads(shape.value, shape, rows.options())};
  plain_part(heads.k, shape).copy_(plain_part(from, shape));
  rotary_part(heads.k, shape)
      .copy_(keys.expand({shape.batch, shape.heads, shape.seq_len, shape.rotary}));
  heads.v.copy_(value_part(from, shape));
  return heads;
}

at::Tensor mla_keys_backward(const KeysAndValues& gradients, const at::Tensor& rotary_gradient,
                             const MlaHeadShape& shape, const RotaryTable& table) {
  at::Tensor rows = new_rows(shape.plain + shape.value, shape, gradients.k.options());
  const at::Tensor to = by_heads(rows, shape);
  plain_part(to, shape).copy_(plain_part(gradients.k, shape));
  value_part(to, shape).copy_(gradients.v);
  const at::Tensor sum = at::sum(rotary_part(gradients.k, shape), std::vector<std::int64_t>{1});
  rotate(rotary_gradient.view({shape.batch, shape.seq_len, shape.rotary}), sum, table,
         Rotation::Backward);
  return rows;
}

}  // namespace llmsim::runtime
