#include "runtime/measure/kernel_work.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "runtime/kernels/activation.h"
#include "runtime/kernels/adamw.h"
#include "runtime/kernels/attention.h"
#include "runtime/kernels/cross_entropy.h"
#include "runtime/kernels/embedding.h"
#include "runtime/kernels/linear.h"
#include "runtime/kernels/mla_heads.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/rotary.h"
#include "runtime/kernels/router.h"

namespace llmsim::runtime {
namespace {

constexpr double kCacheFills = 2.0;
constexpr int kMostCopies = 64;
constexpr std::int64_t kDrawn = 1 << 16;

// Copies of something cold, one after the other.
template <typename T>
class Rotation {
 public:
  template <typename Make>
  Rotation(double bytes, sim::Bytes cache, const Make& make) {
    const double copies = std::ceil(kCacheFills * cache.value() / std::max(bytes, 1.0));
    for (int i = 0; i < std::clamp(static_cast<int>(std::min(copies, 1e6)), 1, kMostCopies); ++i)
      members_.push_back(make());
  }
  T& next() { return members_[turn_++ % members_.size()]; }

 private:
  std::vector<T> members_;
  std::size_t turn_ = 0;
};

// Operands of one case: random values where nothing else is said.
struct Operands {
  Operands(const KernelCase& wanted, c10::Device device, sim::Bytes last_level_cache)
      : one(wanted),
        cache(last_level_cache),
        options(at::TensorOptions(one.dtype == sim::DType::Fp32 ? at::kFloat : at::kBFloat16)
                    .device(device)),
        drawn(at::randn({kDrawn}, options.dtype(at::kFloat))) {}

  std::string_view label() const { return one.op.label; }
  double element() const { return sim::size_of(one.dtype).value(); }
  // Normal numbers, a block of them again and again: drawing each would take longer than the
  // measurement.
  at::Tensor fill(at::Tensor tensor) const {
    at::Tensor flat = tensor.view({-1});
    const std::int64_t whole = flat.numel() / kDrawn * kDrawn, rest = flat.numel() - whole;
    flat.narrow(0, 0, whole).view({-1, kDrawn}).copy_(drawn);
    flat.narrow(0, whole, rest).copy_(drawn.narrow(0, 0, rest));
    return tensor;
  }
  at::Tensor random(at::IntArrayRef sizes) const { return fill(at::empty(sizes, options)); }
  at::Tensor wide(std::int64_t size) const {
    return fill(at::empty({size}, options.dtype(at::kFloat))).abs_();
  }
  at::Tensor tokens(std::int64_t width) const { return random({one.shape.tokens(), width}); }
  template <typename Make>
  auto rotation(double bytes, const Make& make) const {
    return std::make_shared<Rotation<std::decay_t<decltype(make())>>>(bytes, cache, make);
  }
  std::int64_t fused_width() const {
    return (one.shape.heads + 2 * one.shape.kv_heads) * one.shape.head_dim;
  }
  // None for an encoder.
  at::Tensor mask(std::int64_t side) const {
    return one.model.encoder ? at::Tensor() : causal_mask(side, side, options);
  }
  const MlaHeadShape& mla() const { return one.shape.mla; }
  at::Tensor query_rows() const { return tokens(mla().heads * mla().query()); }
  at::Tensor key_rows() const { return tokens(mla().heads * (mla().plain + mla().value)); }
  RotaryTable mla_table() const { return rotary_table(one.shape.seq_len, mla().rotary, options); }
  Heads mla_heads() const {
    KeysAndValues keys = mla_keys(key_rows(), tokens(mla().rotary), mla(), {});
    return {
        .q = mla_queries(query_rows(), mla(), {}), .k = std::move(keys.k), .v = std::move(keys.v)};
  }
  std::int64_t rows() const { return one.shape.tokens() * one.model.moe->top_k; }
  std::int64_t norm_width() const {
    if (label() == "query_norm") return *one.model.mla->q_lora_rank;
    return label() == "mla_norm" ? one.model.mla->kv_lora_rank : one.shape.hidden;
  }
  at::Tensor ids() const {
    return at::randint(0, one.shape.vocab, {one.shape.tokens()}, options.dtype(at::kLong));
  }
  auto cold_gradients() const {
    return rotation(static_cast<double>(one.weights) * element(),
                    [&] { return random({one.weights}); });
  }

  const KernelCase& one;
  sim::Bytes cache;
  at::TensorOptions options;
  at::Tensor drawn;
};

// A chunked loss makes `batch` GEMMs one after the other with one weight.
Work linear_gemm_work(const Operands& w) {
  const std::int64_t m = w.one.op.m, n = w.one.op.n, k = w.one.op.k, times = w.one.op.batch;
  const auto repeat = [times](auto call) {
    return [times, call] {
      for (std::int64_t i = 0; i < times; ++i) call();
    };
  };
  if (w.one.op.weight_gradient) {
    const at::Tensor x = w.random({k, m}), dy = w.random({k, n});
    const auto sums = w.rotation(static_cast<double>(m * n) * w.element(), [&] {
      return w.random({n, m});
    });
    return {repeat([=] { add_linear_weight_gradient(dy, x, sums->next(), {}); })};
  }
  const at::Tensor x = w.random({m, k});
  const bool data_gradient =
      w.one.backward || (w.one.op.module == sim::Module::Head && m < n && k > n);
  const auto weights = w.rotation(static_cast<double>(n * k) * w.element(), [&] {
    return data_gradient ? w.random({k, n}) : w.random({n, k});
  });
  if (data_gradient) return {repeat([=] { linear_data_gradient(x, weights->next()); })};
  return {repeat([=] { linear_forward(x, weights->next(), {}); })};
}

// Of unfused attention: sums over the head size read the keys by rows, the backward ones read the
// scores by columns.
Work batched_gemm_work(const Operands& w) {
  const bool over_heads = w.label() == "attention_scores" || w.label() == "attention_values_dgrad";
  const bool by_columns =
      w.label() == "attention_values_wgrad" || w.label() == "attention_scores_dgrad_k";
  const at::Tensor a = by_columns
                           ? w.random({w.one.op.batch, w.one.op.k, w.one.op.m}).transpose(1, 2)
                           : w.random({w.one.op.batch, w.one.op.m, w.one.op.k});
  const at::Tensor b = over_heads
                           ? w.random({w.one.op.batch, w.one.op.n, w.one.op.k}).transpose(1, 2)
                           : w.random({w.one.op.batch, w.one.op.k, w.one.op.n});
  return {[=] { at::bmm(a, b); }};
}

// With the layout of the queries; keys and values are assembled by an operator of their own.
Work mla_attention_work(const Operands& w) {
  const at::Tensor rows = w.query_rows(),
                   hidden = w.mask(std::min<std::int64_t>(kAttentionBlock, w.one.shape.seq_len));
  const MlaHeadShape shape = w.mla();
  const Heads heads = w.mla_heads();
  if (!w.one.backward) {
    return {[=] {
      blockwise_attention({.q = mla_queries(rows, shape, {}), .k = heads.k, .v = heads.v}, hidden);
    }};
  }
  const AttentionOutput forward = blockwise_attention(heads, hidden);
  const at::Tensor dout = w.tokens(shape.heads * shape.value);
  return {[=] {
    mla_queries_backward(blockwise_attention_backward(dout, heads, forward, hidden).q, shape, {});
  }};
}

Work attention_work(const Operands& w) {
  if (w.one.model.mla) return mla_attention_work(w);
  const at::Tensor z = w.tokens(w.fused_width()),
                   hidden = w.mask(std::min<std::int64_t>(kAttentionBlock, w.one.shape.seq_len));
  const HeadShape heads = w.one.shape.head_shape();
  if (!w.one.backward) return {[=] { blockwise_attention(split_heads(z, heads, {}), hidden); }};
  const Heads kept = split_heads(z, heads, {});
  const AttentionOutput forward = blockwise_attention(kept, hidden);
  const at::Tensor dout =
      w.random({w.one.shape.tokens(), w.one.shape.heads * w.one.shape.head_dim});
  return {[=] {
    split_heads_backward(blockwise_attention_backward(dout, kept, forward, hidden), heads, {});
  }};
}

Work mla_rotary_work(const Operands& w) {
  const MlaHeadShape shape = w.mla();
  const RotaryTable table = w.mla_table();
  const at::Tensor queries = w.query_rows(), keys = w.key_rows(), shared = w.tokens(shape.rotary);
  const Heads heads = w.mla_heads();
  const auto forward = [=](const RotaryTable& turn) {
    mla_queries(queries, shape, turn), mla_keys(keys, shared, shape, turn);
  };
  const auto backward = [=](const RotaryTable& turn) {
    mla_queries_backward(heads.q, shape, turn);
    mla_keys_backward({.k = heads.k, .v = heads.v}, shared, shape, turn);
  };
  if (!w.one.backward) return {[=] { forward(table); }, [=] { forward({}); }};
  return {[=] { backward(table); }, [=] { backward({}); }};
}

Work assembled_keys_work(const Operands& w) {
  const MlaHeadShape shape = w.mla();
  const at::Tensor rows = w.key_rows(), shared = w.tokens(shape.rotary);
  const Heads heads = w.mla_heads();
  if (!w.one.backward) return {[=] { mla_keys(rows, shared, shape, {}); }};
  return {[=] { mla_keys_backward({.k = heads.k, .v = heads.v}, shared, shape, {}); }};
}

// Queries into heads, and the output back.
Work mla_layout_work(const Operands& w) {
  const MlaHeadShape shape = w.mla();
  const at::Tensor rows = w.query_rows();
  const Heads heads = w.mla_heads();
  const auto output = [=] { heads.v.transpose(1, 2).clone(at::MemoryFormat::Contiguous); };
  if (!w.one.backward) return {[=] { mla_queries(rows, shape, {}), output(); }};
  return {[=] { mla_queries_backward(heads.q, shape, {}), output(); }};
}

// `batch` experts with the same number of rows each.
Work expert_gemm_work(const Operands& w) {
  const std::int64_t experts = w.one.op.batch, m = w.one.op.m, n = w.one.op.n, k = w.one.op.k;
  if (w.one.op.weight_gradient) {
    const std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), k);
    const at::Tensor x = w.random({experts * k, m}), dy = w.random({experts * k, n});
    const auto sums = w.rotation(static_cast<double>(experts * m * n) * w.element(), [&] {
      return w.random({experts, n, m});
    });
    return {[=] { add_expert_weight_gradient(dy, x, sums->next(), {}, rows); }};
  }
  const std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), m);
  const at::Tensor x = w.random({experts * m, k});
  const bool backward = w.one.backward;
  const auto weights = w.rotation(static_cast<double>(experts * n * k) * w.element(), [&] {
    return backward ? w.random({experts, k, n}) : w.random({experts, n, k});
  });
  if (backward) return {[=] { expert_linear_data_gradient(x, weights->next(), rows); }};
  return {[=] { expert_linear(x, weights->next(), {}, rows); }};
}

Work expert_choice_work(const Operands& w) {
  const std::int64_t experts = w.one.model.moe->num_experts, top_k = w.one.model.moe->top_k;
  const at::Tensor logits = w.tokens(experts);
  const auto choose = [=] { return choose_experts(logits, top_k, false); };
  if (!w.one.backward) return {[=] { order_by_expert(choose().chosen, experts, false); }};
  const ExpertChoice choice = choose();
  const at::Tensor gradient = w.tokens(top_k);
  return {[=] { router_gradient(gradient, choice, logits.scalar_type()); }};
}

// Rows by token to rows by expert: read anywhere, written in order; backward the other way round.
Work moved_rows_work(const Operands& w) {
  const at::Tensor order = at::randperm(w.rows(), w.options.dtype(at::kLong)),
                   from = w.random({w.rows(), w.one.shape.hidden});
  if (!w.one.backward) return {[=] { from.index_select(0, order); }};
  return {[=] { at::empty_like(from).index_copy_(0, order, from); }};
}

Work weighted_sum_work(const Operands& w) {
  const std::int64_t top_k = w.one.model.moe->top_k;
  const at::Tensor weights = w.tokens(top_k), of_tokens = w.random({w.rows(), w.one.shape.hidden});
  if (!w.one.backward) return {[=] { combined_rows(of_tokens, weights); }};
  const at::Tensor dy = w.tokens(w.one.shape.hidden), gradient = at::empty_like(weights);
  return {[=] { combined_rows_backward(dy, of_tokens, weights, gradient); }};
}

std::optional<Work> experts_work(const Operands& w) {
  switch (w.one.op.kind) {
    case sim::OperatorKind::Gemm: return expert_gemm_work(w);
    case sim::OperatorKind::Softmax: return expert_choice_work(w);
    case sim::OperatorKind::Copy: return moved_rows_work(w);
    case sim::OperatorKind::Residual: return weighted_sum_work(w);
    default: return std::nullopt;
  }
}

Work norm_work(const Operands& w) {
  const sim::Norm kind = w.one.model.norm;
  const std::int64_t width = w.norm_width();
  const at::Tensor x = w.tokens(width),
                   weight = w.one.model.norm_weight ? w.random({width}) : at::Tensor();
  const at::Tensor bias =
      weight.defined() && w.one.model.bias.norm ? w.random({width}) : at::Tensor();
  if (!w.one.backward) return {[=] { norm(kind, x, weight, bias); }};
  const NormOutput forward = norm(kind, x, weight, bias);
  const at::Tensor dy = w.tokens(width);
  const at::Tensor dw = weight.defined() ? at::zeros_like(weight) : at::Tensor();
  const at::Tensor db = bias.defined() ? at::zeros_like(bias) : at::Tensor();
  return {[=] { norm_backward(kind, dy, x, forward, weight, bias, dw, db); }};
}

Work softmax_work(const Operands& w) {
  const std::int64_t s = w.one.shape.seq_len;
  const at::Tensor scores = w.random({w.one.shape.batch * w.one.shape.heads, s, s}),
                   hidden = w.mask(s);
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  if (!w.one.backward) {
    return {[=] {
      scores.mul_(1.0).masked_fill_(hidden, minus_infinity);
      at::_softmax(scores, -1, false);
    }};
  }
  const at::Tensor probabilities = at::_softmax(scores, -1, false);
  return {[=] {
    at::_softmax_backward_data(scores, probabilities, -1, scores.scalar_type()).mul_(1.0);
  }};
}

// The backward pass of a gated activation multiplies dy in place: by ones, or it would fade to
// denormal numbers.
Work activation_work(const Operands& w) {
  const bool gated = w.one.model.gated_mlp;
  const at::Tensor x = w.tokens((gated ? 2 : 1) * w.one.shape.ffn);
  if (gated) x.narrow(1, w.one.shape.ffn, w.one.shape.ffn).fill_(1.0);
  if (!w.one.backward) return {[=] { activation(gated, x); }};
  const at::Tensor silu = activation(gated, x).silu,
                   dy = at::ones({w.one.shape.tokens(), w.one.shape.ffn}, w.options);
  return {[=] { activation_backward(gated, dy, x, silu); }};
}

Work rotary_work(const Operands& w) {
  if (w.one.model.mla) return mla_rotary_work(w);
  const HeadShape heads = w.one.shape.head_shape();
  const RotaryTable table = rotary_table(w.one.shape.seq_len, w.one.shape.head_dim, w.options);
  const at::Tensor z = w.tokens(w.fused_width());
  if (!w.one.backward)
    return {[=] { split_heads(z, heads, table); }, [=] { split_heads(z, heads, {}); }};
  const Heads gradients = split_heads(z, heads, {});
  return {[=] { split_heads_backward(gradients, heads, table); },
          [=] { split_heads_backward(gradients, heads, {}); }};
}

// q, k and v into heads, and the output back.
Work layout_work(const Operands& w) {
  if (w.label() == "assemble_keys") return assembled_keys_work(w);
  if (w.one.model.mla) return mla_layout_work(w);
  const HeadShape heads = w.one.shape.head_shape();
  const at::Tensor z = w.tokens(w.fused_width());
  const Heads split = split_heads(z, heads, {});
  const auto output = [split] { split.q.transpose(1, 2).clone(at::MemoryFormat::Contiguous); };
  if (!w.one.backward) return {[=] { split_heads(z, heads, {}), output(); }};
  return {[=] { split_heads_backward(split, heads, {}), output(); }};
}

Work residual_work(const Operands& w) {
  const at::Tensor x = w.tokens(w.one.shape.hidden), y = at::zeros_like(x);
  return {[=] { x.add_(y); }};
}

Work bias_gradient_work(const Operands& w) {
  const auto width =
      static_cast<std::int64_t>(w.one.op.moved.value() / w.element()) / w.one.shape.tokens();
  const at::Tensor dy = w.tokens(width), sum = at::zeros({width}, w.options);
  return {[=] { accumulate(sum, dy.sum(0)); }};
}

Work embedding_work(const Operands& w) {
  const at::Tensor table = w.random({w.one.shape.vocab, w.one.shape.hidden}), wanted = w.ids();
  if (!w.one.backward) return {[=] { embed(wanted, table, {}); }};
  const at::Tensor dx = w.tokens(w.one.shape.hidden);
  return {[=] { add_embedding_gradient(dx, wanted, table, {}); }};
}

// The chunked loss makes its gradient at once; it is timed on all tokens together.
Work loss_work(const Operands& w) {
  const LossContext context{.tokens_of_step = static_cast<double>(w.one.shape.tokens())};
  const at::Tensor logits = w.tokens(w.one.shape.vocab), targets = w.ids();
  const at::ScalarType type = logits.scalar_type();
  if (!w.one.backward && w.one.strategy.fused_cross_entropy) {
    return {[=] {
      cross_entropy_backward(cross_entropy(logits, targets, context).saved, targets, context, type);
    }};
  }
  if (!w.one.backward) return {[=] { cross_entropy(logits, targets, context); }};
  const at::Tensor kept = cross_entropy(logits, targets, context).saved;
  return {[=] { cross_entropy_backward(kept, targets, context, type); }};
}

Work gradient_scale_work(const Operands& w) {
  const at::Tensor waiting =
      w.random({static_cast<std::int64_t>(w.one.op.moved.value() / (2.0 * w.element()))});
  return {[=] { waiting.mul_(1.0); }};
}

Work cast_work(const Operands& w) {
  const auto bytes = static_cast<double>(w.one.weights) * 6.0;
  if (w.label() == "gradient_cast") {
    const auto gradients = w.rotation(bytes, [&] { return w.random({w.one.weights}); });
    return {[=] { gradients->next().to(at::kFloat); }};
  }
  const at::ScalarType low_precision = w.options.dtype().toScalarType();
  const auto weights = w.rotation(bytes, [&] { return w.wide(w.one.weights); });
  return {[=] { weights->next().to(low_precision); }};
}

// With the gradients set to zero for the next step.
Work optimizer_work(const Operands& w) {
  const bool low_precision = w.element() < 4.0;
  const auto slices = w.rotation(static_cast<double>(w.one.weights) * 16.0, [&] {
    AdamWSlice slice{.master = w.wide(w.one.weights),
                     .gradient = w.random({w.one.weights}),
                     .first_moment = w.wide(w.one.weights),
                     .second_moment = w.wide(w.one.weights),
                     .weight = {}};
    if (low_precision) slice.weight = w.random({w.one.weights});
    return slice;
  });
  return {[=] {
    AdamWSlice& slice = slices->next();
    adamw_steps({slice}, 10, {});
    slice.gradient.zero_();
  }};
}

Work gradient_norm_work(const Operands& w) {
  const auto gradients = w.cold_gradients();
  return {[=] { squared_norm({gradients->next()}); }};
}

Work gradient_clip_work(const Operands& w) {
  const auto gradients = w.cold_gradients();
  return {[=] { gradients->next().mul_(1.0); }};
}

std::optional<Work> work_on(const Operands& w) {
  if (is_of_experts(w.one.op)) return experts_work(w);
  switch (w.one.op.kind) {
    case sim::OperatorKind::Gemm:
      return w.one.op.batch > 1 && w.one.op.module != sim::Module::Head ? batched_gemm_work(w)
                                                                        : linear_gemm_work(w);
    case sim::OperatorKind::Attention: return attention_work(w);
    case sim::OperatorKind::Norm: return norm_work(w);
    case sim::OperatorKind::Softmax: return softmax_work(w);
    case sim::OperatorKind::Activation: return activation_work(w);
    case sim::OperatorKind::Rotary: return rotary_work(w);
    case sim::OperatorKind::Copy: return layout_work(w);
    case sim::OperatorKind::Residual: return residual_work(w);
    case sim::OperatorKind::BiasGradient: return bias_gradient_work(w);
    case sim::OperatorKind::Embedding: return embedding_work(w);
    case sim::OperatorKind::CrossEntropy: return loss_work(w);
    case sim::OperatorKind::Cast: return cast_work(w);
    case sim::OperatorKind::Optimizer: return optimizer_work(w);
    case sim::OperatorKind::GradientNorm: return gradient_norm_work(w);
    case sim::OperatorKind::GradientScale:
      return w.one.op.module == sim::Module::Update ? gradient_clip_work(w)
                                                    : gradient_scale_work(w);
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<Work> work_of(const KernelCase& one, c10::Device device, sim::Bytes cache) {
  return work_on(Operands(one, device, cache));
}

}  // namespace llmsim::runtime
