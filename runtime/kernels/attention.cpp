#include "runtime/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "runtime/library/operator_trace.h"

namespace llmsim::runtime {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// One matrix for each sequence and key head: the queries of the group are its rows.
at::Tensor groups(const at::Tensor& heads, std::int64_t kv_heads) {
  return heads.reshape(
      {heads.size(0) * kv_heads, heads.size(1) / kv_heads * heads.size(2), heads.size(3)});
}

double scale_of(const at::Tensor& q) { return 1.0 / std::sqrt(static_cast<double>(q.size(-1))); }

at::Tensor copied(const at::Tensor& strided) { return strided.clone(at::MemoryFormat::Contiguous); }

// (b, a, s, w) as rows of tokens, and back.
at::Tensor as_tokens(const at::Tensor& heads) {
  return copied(heads.transpose(1, 2))
      .view({heads.size(0) * heads.size(2), heads.size(1) * heads.size(3)});
}
at::Tensor token_view(const at::Tensor& tokens, const at::Tensor& q) {
  return tokens.view({q.size(0), q.size(2), q.size(1), -1}).transpose(1, 2);
}
// What a GEMM gives for the queries of q, by heads: (b, a, s, w).
at::Tensor head_view(const at::Tensor& gemm, const at::Tensor& q) {
  return gemm.view({q.size(0), q.size(1), -1, gemm.size(-1)});
}

void hide(at::Tensor scores, const at::Tensor& mask) {
  if (!mask.defined()) return;
  scores.view({-1, mask.size(0), mask.size(1)}).masked_fill_(mask, kMinusInfinity);
}

// Scores that the mask lets through (half of them, or all without one), of all heads, in pairs of
// GEMMs of 2 d and 2 w FLOP each: one forward, two backward.
std::int64_t useful_flops(const Heads& heads, const at::Tensor& mask, int pairs) {
  const std::int64_t s = heads.q.size(2), halves = mask.defined() ? 1 : 2;
  return pairs * halves * heads.q.size(0) * heads.q.size(1) * s * s *
         (heads.q.size(3) + heads.v.size(3));
}

// A block of queries and the keys it can see.
struct Block {
  std::int64_t begin = 0, size = 0, keys = 0;
};

// Rows of a block of a head tensor, grouped as GEMMs want them: (b g, a / g size, d).
at::Tensor rows(const at::Tensor& heads, std::int64_t kv_heads, const Block& block) {
  return groups(copied(heads.narrow(2, block.begin, block.size)), kv_heads);
}
at::Tensor first_keys(const at::Tensor& heads, const Block& block) {
  return heads.narrow(2, 0, block.keys).flatten(0, 1);
}

at::Tensor block_scores(const Heads& heads, const Block& block, const at::Tensor& mask) {
  const at::Tensor q = rows(heads.q, heads.k.size(1), block);
  at::Tensor scores = at::bmm(q, first_keys(heads.k, block).transpose(1, 2)).mul_(scale_of(q));
  if (!mask.defined()) return scores;
  scores.view({-1, block.size, block.keys})
      .narrow(2, block.begin, block.size)
      .masked_fill_(mask.narrow(0, 0, block.size).narrow(1, 0, block.size), kMinusInfinity);
  return scores;
}

// Under a mask a block sees the keys before it and its own.
template <typename Visit>
void for_each_block(std::int64_t seq_len, const at::Tensor& mask, const Visit& visit) {
  for (std::int64_t begin = 0; begin < seq_len; begin += kAttentionBlock) {
    const std::int64_t size = std::min(kAttentionBlock, seq_len - begin);
    visit(Block{.begin = begin, .size = size, .keys = mask.defined() ? begin + size : seq_len});
  }
}

}  // namespace

at::Tensor causal_mask(std::int64_t seq_len, std::int64_t window,
                       const at::TensorOptions& options) {
  at::Tensor mask = at::ones({seq_len, seq_len}, options.dtype(at::kBool)).triu_(1);
  if (window < seq_len)
    mask.bitwise_or_(at::ones({seq_len, seq_len}, options.dtype(at::kBool)).tril_(-window));
  return mask;
}

AttentionOutput unfused_attention(const Heads& heads, const at::Tensor& mask) {
  const std::int64_t kv_heads = heads.k.size(1);
  at::Tensor scores = at::bmm(groups(heads.q, kv_heads), groups(heads.k, kv_heads).transpose(1, 2));
  scores.mul_(scale_of(heads.q));
  hide(scores, mask);
  AttentionOutput out{.o = {},
                      .probabilities = at::_softmax(scores, -1, false),
                      .log_sum_exp = {},
                      .of_library = {}};
  scores.reset();
  out.o = as_tokens(head_view(at::bmm(out.probabilities, groups(heads.v, kv_heads)), heads.q));
  return out;
}

Heads unfused_attention_backward(at::Tensor dout, Heads heads, at::Tensor probabilities) {
  const std::int64_t kv_heads = heads.k.size(1);
  const double scale = scale_of(heads.q);
  at::Tensor douts = groups(copied(token_view(dout, heads.q)), kv_heads);
  dout.reset();
  Heads gradients;
  gradients.v = at::bmm(probabilities.transpose(1, 2), douts).view_as(heads.v);
  at::Tensor dp = at::bmm(douts, groups(heads.v, kv_heads).transpose(1, 2));
  douts.reset(), heads.v.reset();
  at::Tensor ds = at::_softmax_backward_data(dp, probabilities, -1, dp.scalar_type());
  dp.reset(), probabilities.reset();
  ds.mul_(scale);
  gradients.q = at::bmm(ds, groups(heads.k, kv_heads)).view_as(heads.q);
  gradients.k = at::bmm(ds.transpose(1, 2), groups(heads.q, kv_heads)).view_as(heads.k);
  return gradients;
}

AttentionOutput blockwise_attention(const Heads& heads, const at::Tensor& mask) {
  const CountedAs counted("llmsim::attention", useful_flops(heads, mask, 1));
  AttentionOutput out;
  out.o = at::empty({heads.q.size(0) * heads.q.size(2), heads.q.size(1) * heads.v.size(3)},
                    heads.q.options());
  out.log_sum_exp = at::empty({heads.q.size(0), heads.q.size(1), heads.q.size(2)},
                              heads.q.options().dtype(at::kFloat));
  for_each_block(heads.q.size(2), mask, [&](const Block& block) {
    at::Tensor scores = block_scores(heads, block, mask);
    if (scores.scalar_type() != at::kFloat) scores = scores.to(at::kFloat);
    const at::Tensor largest = scores.amax(-1, /*keepdim=*/true);
    scores.sub_(largest).exp_();
    at::Tensor sum = scores.sum(-1, /*keepdim=*/true);
    scores.div_(sum);
    sum.log_().add_(largest);
    out.log_sum_exp.narrow(2, block.begin, block.size)
        .copy_(sum.view({heads.q.size(0), heads.q.size(1), block.size}));
    const at::Tensor v = first_keys(heads.v, block);
    const at::Tensor o =
        at::bmm(scores.scalar_type() == v.scalar_type() ? scores : scores.to(v.scalar_type()), v);
    token_view(out.o, heads.q).narrow(2, block.begin, block.size).copy_(head_view(o, heads.q));
  });
  return out;
}

// With the row sums D of dO * O:  dS = P (dP - D), dQ = dS K, dK = dS^T Q, dV = P^T dO.
Heads blockwise_attention_backward(at::Tensor dout, Heads heads, AttentionOutput forward,
                                   const at::Tensor& mask) {
  const CountedAs counted("llmsim::attention", useful_flops(heads, mask, 2));
  const std::int64_t kv_heads = heads.k.size(1);
  const double scale = scale_of(heads.q);
  Heads gradients{
      .q = at::empty_like(heads.q), .k = at::zeros_like(heads.k), .v = at::zeros_like(heads.v)};
  const at::Tensor douts = token_view(dout, heads.q), outs = token_view(forward.o, heads.q);
  for_each_block(heads.q.size(2), mask, [&](const Block& block) {
    const at::Tensor grad = rows(douts, kv_heads, block), q = rows(heads.q, kv_heads, block);
    const at::Tensor lse = rows(forward.log_sum_exp.unsqueeze(-1), kv_heads, block);
    at::Tensor p = block_scores(heads, block, mask);
    if (p.scalar_type() != at::kFloat) p = p.to(at::kFloat);
    p.sub_(lse).exp_();
    if (p.scalar_type() != grad.scalar_type()) p = p.to(grad.scalar_type());
    gradients.v.narrow(2, 0, block.keys)
        .add_(at::bmm(p.transpose(1, 2), grad)
                  .view({heads.v.size(0), heads.v.size(1), block.keys, heads.v.size(3)}));
    const at::Tensor row_sums = grad.mul(rows(outs, kv_heads, block)).sum(-1, /*keepdim=*/true);
    at::Tensor ds = at::bmm(grad, first_keys(heads.v, block).transpose(1, 2));
    ds.sub_(row_sums).mul_(p).mul_(scale);
    gradients.q.narrow(2, block.begin, block.size)
        .copy_(head_view(at::bmm(ds, first_keys(heads.k, block)), heads.q));
    gradients.k.narrow(2, 0, block.keys)
        .add_(at::bmm(ds.transpose(1, 2), q)
                  .view({heads.k.size(0), heads.k.size(1), block.keys, heads.k.size(3)}));
  });
  return gradients;
}

}  // namespace llmsim::runtime
