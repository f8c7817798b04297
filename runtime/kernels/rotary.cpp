#include "runtime/kernels/rotary.h"

#include <cmath>

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

constexpr double kBase = 10000.0;

// Columns of z that belong to one of q, k, v, seen as (b, heads, s, d).
at::Tensor columns(const at::Tensor& z, const HeadShape& shape, std::int64_t first,
                   std::int64_t heads) {
  return z.narrow(1, first * shape.head_dim, heads * shape.head_dim)
      .view({shape.batch, shape.seq_len, heads, shape.head_dim})
      .transpose(1, 2);
}

}  // namespace

RotaryTable rotary_table(std::int64_t seq_len, std::int64_t head_dim,
                         const at::TensorOptions& options) {
  const at::TensorOptions fp32 = options.dtype(at::kFloat);
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, fp32).div_(static_cast<double>(head_dim)).mul_(-std::log(kBase));
  const at::Tensor angles =
      at::arange(0, seq_len, fp32).unsqueeze(1).mul(exponents.exp_().unsqueeze(0));
  return {.cosine = angles.cos().to(options.dtype()), .sine = angles.sin().to(options.dtype())};
}

void rotate(const at::Tensor& to, const at::Tensor& from, const RotaryTable& table,
            Rotation rotation) {
  if (table.empty()) {
    to.copy_(from);
    return;
  }
  const std::int64_t half = from.size(-1) / 2;
  at::Tensor to1 = to.narrow(-1, 0, half), to2 = to.narrow(-1, half, half);
  const at::Tensor from1 = from.narrow(-1, 0, half), from2 = from.narrow(-1, half, half);
  const double sign = rotation == Rotation::Backward ? -1.0 : 1.0;
  at::mul_out(to1, from1, table.cosine);
  to1.addcmul_(from2, table.sine, -sign);
  at::mul_out(to2, from2, table.cosine);
  to2.addcmul_(from1, table.sine, sign);
}

Heads split_heads(const at::Tensor& z, const HeadShape& shape, const RotaryTable& table) {
  const auto heads = [&](std::int64_t number) {
    return at::empty({shape.batch, number, shape.seq_len, shape.head_dim}, z.options());
  };
  Heads out{.q = heads(shape.heads), .k = heads(shape.kv_heads), .v = heads(shape.kv_heads)};
  rotate(out.q, columns(z, shape, 0, shape.heads), table, Rotation::Forward);
  rotate(out.k, columns(z, shape, shape.heads, shape.kv_heads), table, Rotation::Forward);
  out.v.copy_(columns(z, shape, shape.heads + shape.kv_heads, shape.kv_heads));
  return out;
}

at::Tensor split_heads_backward(Heads gradients, const HeadShape& shape, const RotaryTable& table) {
  const std::int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  at::Tensor dz = at::empty({shape.batch * shape.seq_len, width}, gradients.q.options());
  rotate(columns(dz, shape, 0, shape.heads), gradients.q, table, Rotation::Backward);
  gradients.q.reset();
  rotate(columns(dz, shape, shape.heads, shape.kv_heads), gradients.k, table, Rotation::Backward);
  gradients.k.reset();
  columns(dz, shape, shape.heads + shape.kv_heads, shape.kv_heads).copy_(gradients.v);
  return dz;
}

}  // namespace llmsim::runtime
