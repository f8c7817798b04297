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

// Operands of one case.
class Workshop {
 public:
  Workshop(const KernelCase& one, c10::Device device, sim::Bytes cache)
      : one_(one),
        op_(one.op),
        shape_(one.shape),
        cache_(cache),
        options_(at::TensorOptions(one.dtype == sim::DType::Fp32 ? at::kFloat : at::kBFloat16)
                     .device(device)),
        drawn_(at::randn({kDrawn}, options_.dtype(at::kFloat))) {}

  std::optional<Work> work() {
    if (is_of_experts(op_)) return experts();
    switch (op_.kind) {
      case sim::OperatorKind::Gemm:
        return op_.batch > 1 && op_.module != sim::Module::Head ? batched_gemm() : linear_gemm();
      case sim::OperatorKind::Attention: return attention();
      case sim::OperatorKind::Norm: return norm_work();
      case sim::OperatorKind::Softmax: return softmax();
      case sim::OperatorKind::Activation: return activation_work();
      case sim::OperatorKind::Rotary: return rotary();
      case sim::OperatorKind::Copy: return layout();
      case sim::OperatorKind::Residual: return residual();
      case sim::OperatorKind::BiasGradient: return bias_gradient();
      case sim::OperatorKind::Embedding: return embedding();
      case sim::OperatorKind::CrossEntropy: return loss();
      case sim::OperatorKind::Cast: return cast();
      case sim::OperatorKind::Optimizer: return optimizer();
      case sim::OperatorKind::GradientNorm: return gradient_norm();
      case sim::OperatorKind::GradientScale:
        return op_.module == sim::Module::Update ? gradient_clip() : gradient_scale();
      default: return std::nullopt;
    }
  }

 private:
  std::string_view label() const { return op_.label; }
  double element() const { return sim::size_of(one_.dtype).value(); }

  // Normal numbers, a block of them again and again: drawing each would take longer than the
  // measurement.
  at::Tensor fill(at::Tensor tensor) const {
    at::Tensor flat = tensor.view({-1});
    const std::int64_t whole = flat.numel() / kDrawn * kDrawn, rest = flat.numel() - whole;
    flat.narrow(0, 0, whole).view({-1, kDrawn}).copy_(drawn_);
    flat.narrow(0, whole, rest).copy_(drawn_.narrow(0, 0, rest));
    return tensor;
  }
  at::Tensor random(at::IntArrayRef sizes) const { return fill(at::empty(sizes, options_)); }
  at::Tensor wide(std::int64_t size) const {
    return fill(at::empty({size}, options_.dtype(at::kFloat))).abs_();
  }
  at::Tensor tokens(std::int64_t width) const { return random({shape_.tokens(), width}); }

  template <typename Make>
  auto rotation(double bytes, const Make& make) const {
    return std::make_shared<Rotation<std::decay_t<decltype(make())>>>(bytes, cache_, make);
  }

  // A chunked loss makes `batch` GEMMs one after the other with one weight.
  Work linear_gemm() const {
    const std::int64_t m = op_.m, n = op_.n, k = op_.k, times = op_.batch;
    const auto repeat = [times](auto call) {
      return [times, call] {
        for (std::int64_t i = 0; i < times; ++i) call();
      };
    };
    if (op_.weight_gradient) {
      const at::Tensor x = random({k, m}), dy = random({k, n});
      const auto sums = rotation(static_cast<double>(m * n) * element(), [&] {
        return random({n, m});
      });
      return {repeat([=] { add_linear_weight_gradient(dy, x, sums->next(), {}); })};
    }
    const at::Tensor x = random({m, k});
    const bool data_gradient = one_.backward || (op_.module == sim::Module::Head && m < n && k > n);
    const auto weights = rotation(static_cast<double>(n * k) * element(), [&] {
      return data_gradient ? random({k, n}) : random({n, k});
    });
    if (data_gradient) return {repeat([=] { linear_data_gradient(x, weights->next()); })};
    return {repeat([=] { linear_forward(x, weights->next(), {}); })};
  }

  // Of unfused attention: sums over the head size read the keys by rows, the backward ones read the
  // scores by columns.
  Work batched_gemm() const {
    const bool over_heads = label() == "attention_scores" || label() == "attention_values_dgrad";
    const bool by_columns =
        label() == "attention_values_wgrad" || label() == "attention_scores_dgrad_k";
    const at::Tensor a = by_columns ? random({op_.batch, op_.k, op_.m}).transpose(1, 2)
                                    : random({op_.batch, op_.m, op_.k});
    const at::Tensor b = over_heads ? random({op_.batch, op_.n, op_.k}).transpose(1, 2)
                                    : random({op_.batch, op_.k, op_.n});
    return {[=] { at::bmm(a, b); }};
  }

  std::int64_t fused_width() const {
    return (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
  }
  // None for an encoder.
  at::Tensor mask(std::int64_t side) const {
    return one_.model.encoder ? at::Tensor() : causal_mask(side, side, options_);
  }

  Work attention() const {
    if (one_.model.mla) return mla_attention();
    const at::Tensor z = tokens(fused_width()),
                     hidden = mask(std::min<std::int64_t>(kAttentionBlock, shape_.seq_len));
    const HeadShape heads = shape_.head_shape();
    if (!one_.backward) return {[=] { blockwise_attention(split_heads(z, heads, {}), hidden); }};
    const Heads kept = split_heads(z, heads, {});
    const AttentionOutput forward = blockwise_attention(kept, hidden);
    const at::Tensor dout = random({shape_.tokens(), shape_.heads * shape_.head_dim});
    return {[=] {
      split_heads_backward(blockwise_attention_backward(dout, kept, forward, hidden), heads, {});
    }};
  }

  const MlaHeadShape& mla() const { return shape_.mla; }
  at::Tensor query_rows() const { return tokens(mla().heads * mla().query()); }
  at::Tensor key_rows() const { return tokens(mla().heads * (mla().plain + mla().value)); }
  RotaryTable mla_table() const { return rotary_table(shape_.seq_len, mla().rotary, options_); }

  Heads mla_heads() const {
    KeysAndValues keys = mla_keys(key_rows(), tokens(mla().rotary), mla(), {});
    return {
        .q = mla_queries(query_rows(), mla(), {}), .k = std::move(keys.k), .v = std::move(keys.v)};
  }

  // With the layout of the queries; keys and values are assembled by an operator of their own.
  Work mla_attention() const {
    const at::Tensor rows = query_rows(),
                     hidden = mask(std::min<std::int64_t>(kAttentionBlock, shape_.seq_len));
    const MlaHeadShape shape = mla();
    const Heads heads = mla_heads();
    if (!one_.backward) {
      return {[=] {
        blockwise_attention({.q = mla_queries(rows, shape, {}), .k = heads.k, .v = heads.v},
                            hidden);
      }};
    }
    const AttentionOutput forward = blockwise_attention(heads, hidden);
    const at::Tensor dout = tokens(shape.heads * shape.value);
    return {[=] {
      mla_queries_backward(blockwise_attention_backward(dout, heads, forward, hidden).q, shape, {});
    }};
  }

  Work mla_rotary() const {
    const MlaHeadShape shape = mla();
    const RotaryTable table = mla_table();
    const at::Tensor queries = query_rows(), keys = key_rows(), shared = tokens(shape.rotary);
    const Heads heads = mla_heads();
    const auto forward = [=](const RotaryTable& turn) {
      mla_queries(queries, shape, turn), mla_keys(keys, shared, shape, turn);
    };
    const auto backward = [=](const RotaryTable& turn) {
      mla_queries_backward(heads.q, shape, turn);
      mla_keys_backward({.k = heads.k, .v = heads.v}, shared, shape, turn);
    };
    if (!one_.backward) return {[=] { forward(table); }, [=] { forward({}); }};
    return {[=] { backward(table); }, [=] { backward({}); }};
  }

  Work assembled_keys() const {
    const MlaHeadShape shape = mla();
    const at::Tensor rows = key_rows(), shared = tokens(shape.rotary);
    const Heads heads = mla_heads();
    if (!one_.backward) return {[=] { mla_keys(rows, shared, shape, {}); }};
    return {[=] { mla_keys_backward({.k = heads.k, .v = heads.v}, shared, shape, {}); }};
  }

  // Queries into heads, and the output back.
  Work mla_layout() const {
    const MlaHeadShape shape = mla();
    const at::Tensor rows = query_rows();
    const Heads heads = mla_heads();
    const auto output = [=] { heads.v.transpose(1, 2).clone(at::MemoryFormat::Contiguous); };
    if (!one_.backward) return {[=] { mla_queries(rows, shape, {}), output(); }};
    return {[=] { mla_queries_backward(heads.q, shape, {}), output(); }};
  }

  std::optional<Work> experts() const {
    switch (op_.kind) {
      case sim::OperatorKind::Gemm: return expert_gemm();
      case sim::OperatorKind::Softmax: return expert_choice();
      case sim::OperatorKind::Copy: return moved_rows();
      case sim::OperatorKind::Residual: return weighted_sum();
      default: return std::nullopt;
    }
  }

  // `batch` experts with the same number of rows each.
  Work expert_gemm() const {
    const std::int64_t experts = op_.batch, m = op_.m, n = op_.n, k = op_.k;
    if (op_.weight_gradient) {
      const std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), k);
      const at::Tensor x = random({experts * k, m}), dy = random({experts * k, n});
      const auto sums = rotation(static_cast<double>(experts * m * n) * element(), [&] {
        return random({experts, n, m});
      });
      return {[=] { add_expert_weight_gradient(dy, x, sums->next(), {}, rows); }};
    }
    const std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), m);
    const at::Tensor x = random({experts * m, k});
    const bool backward = one_.backward;
    const auto weights = rotation(static_cast<double>(experts * n * k) * element(), [&] {
      return backward ? random({experts, k, n}) : random({experts, n, k});
    });
    if (backward) return {[=] { expert_linear_data_gradient(x, weights->next(), rows); }};
    return {[=] { expert_linear(x, weights->next(), {}, rows); }};
  }

  std::int64_t rows() const { return shape_.tokens() * one_.model.moe->top_k; }

  Work expert_choice() const {
    const std::int64_t experts = one_.model.moe->num_experts, top_k = one_.model.moe->top_k;
    const at::Tensor logits = tokens(experts);
    const auto choose = [=] { return choose_experts(logits, top_k, false); };
    if (!one_.backward) return {[=] { order_by_expert(choose().chosen, experts, false); }};
    const ExpertChoice choice = choose();
    const at::Tensor gradient = tokens(top_k);
    return {[=] { router_gradient(gradient, choice, logits.scalar_type()); }};
  }

  // Rows by token to rows by expert: read anywhere, written in order; backward the other way round.
  Work moved_rows() const {
    const at::Tensor order = at::randperm(rows(), options_.dtype(at::kLong)),
                     from = random({rows(), shape_.hidden});
    if (!one_.backward) return {[=] { from.index_select(0, order); }};
    return {[=] { at::empty_like(from).index_copy_(0, order, from); }};
  }

  Work weighted_sum() const {
    const std::int64_t top_k = one_.model.moe->top_k;
    const at::Tensor weights = tokens(top_k), of_tokens = random({rows(), shape_.hidden});
    if (!one_.backward) return {[=] { combined_rows(of_tokens, weights); }};
    const at::Tensor dy = tokens(shape_.hidden), gradient = at::empty_like(weights);
    return {[=] { combined_rows_backward(dy, of_tokens, weights, gradient); }};
  }

  std::int64_t norm_width() const {
    if (label() == "query_norm") return *one_.model.mla->q_lora_rank;
    return label() == "mla_norm" ? one_.model.mla->kv_lora_rank : shape_.hidden;
  }

  Work norm_work() const {
    const sim::Norm kind = one_.model.norm;
    const std::int64_t width = norm_width();
    const at::Tensor x = tokens(width),
                     weight = one_.model.norm_weight ? random({width}) : at::Tensor();
    const at::Tensor bias =
        weight.defined() && one_.model.bias.norm ? random({width}) : at::Tensor();
    if (!one_.backward) return {[=] { norm(kind, x, weight, bias); }};
    const NormOutput forward = norm(kind, x, weight, bias);
    const at::Tensor dy = tokens(width);
    const at::Tensor dw = weight.defined() ? at::zeros_like(weight) : at::Tensor();
    const at::Tensor db = bias.defined() ? at::zeros_like(bias) : at::Tensor();
    return {[=] { norm_backward(kind, dy, x, forward, weight, bias, dw, db); }};
  }

  Work softmax() const {
    const std::int64_t s = shape_.seq_len;
    const at::Tensor scores = random({shape_.batch * shape_.heads, s, s}), hidden = mask(s);
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    if (!one_.backward) {
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
  Work activation_work() const {
    const bool gated = one_.model.gated_mlp;
    const at::Tensor x = tokens((gated ? 2 : 1) * shape_.ffn);
    if (gated) x.narrow(1, shape_.ffn, shape_.ffn).fill_(1.0);
    if (!one_.backward) return {[=] { activation(gated, x); }};
    const at::Tensor silu = activation(gated, x).silu,
                     dy = at::ones({shape_.tokens(), shape_.ffn}, options_);
    return {[=] { activation_backward(gated, dy, x, silu); }};
  }

  Work rotary() const {
    if (one_.model.mla) return mla_rotary();
    const HeadShape heads = shape_.head_shape();
    const RotaryTable table = rotary_table(shape_.seq_len, shape_.head_dim, options_);
    const at::Tensor z = tokens(fused_width());
    if (!one_.backward)
      return {[=] { split_heads(z, heads, table); }, [=] { split_heads(z, heads, {}); }};
    const Heads gradients = split_heads(z, heads, {});
    return {[=] { split_heads_backward(gradients, heads, table); },
            [=] { split_heads_backward(gradients, heads, {}); }};
  }

  // q, k and v into heads, and the output back.
  Work layout() const {
    if (label() == "assemble_keys") return assembled_keys();
    if (one_.model.mla) return mla_layout();
    const HeadShape heads = shape_.head_shape();
    const at::Tensor z = tokens(fused_width());
    const Heads split = split_heads(z, heads, {});
    const auto output = [split] { split.q.transpose(1, 2).clone(at::MemoryFormat::Contiguous); };
    if (!one_.backward) return {[=] { split_heads(z, heads, {}), output(); }};
    return {[=] { split_heads_backward(split, heads, {}), output(); }};
  }

  Work residual() const {
    const at::Tensor x = tokens(shape_.hidden), y = at::zeros_like(x);
    return {[=] { x.add_(y); }};
  }

  Work bias_gradient() const {
    const auto width = static_cast<std::int64_t>(op_.moved.value() / element()) / shape_.tokens();
    const at::Tensor dy = tokens(width), sum = at::zeros({width}, options_);
    return {[=] { accumulate(sum, dy.sum(0)); }};
  }

  at::Tensor ids() const {
    return at::randint(0, shape_.vocab, {shape_.tokens()}, options_.dtype(at::kLong));
  }

  Work embedding() const {
    const at::Tensor table = random({shape_.vocab, shape_.hidden}), wanted = ids();
    if (!one_.backward) return {[=] { embed(wanted, table, {}); }};
    const at::Tensor dx = tokens(shape_.hidden);
    return {[=] { add_embedding_gradient(dx, wanted, table, {}); }};
  }

  // The chunked loss makes its gradient at once; it is timed on all tokens together.
  Work loss() const {
    const LossContext context{.tokens_of_step = static_cast<double>(shape_.tokens())};
    const at::Tensor logits = tokens(shape_.vocab), targets = ids();
    const at::ScalarType type = logits.scalar_type();
    if (!one_.backward && one_.strategy.fused_cross_entropy) {
      return {[=] {
        cross_entropy_backward(cross_entropy(logits, targets, context).kept, targets, context,
                               type);
      }};
    }
    if (!one_.backward) return {[=] { cross_entropy(logits, targets, context); }};
    const at::Tensor kept = cross_entropy(logits, targets, context).kept;
    return {[=] { cross_entropy_backward(kept, targets, context, type); }};
  }

  Work gradient_scale() const {
    const at::Tensor waiting =
        random({static_cast<std::int64_t>(op_.moved.value() / (2.0 * element()))});
    return {[=] { waiting.mul_(1.0); }};
  }

  Work cast() const {
    const auto bytes = static_cast<double>(one_.weights) * 6.0;
    if (label() == "gradient_cast") {
      const auto gradients = rotation(bytes, [&] { return random({one_.weights}); });
      return {[=] { gradients->next().to(at::kFloat); }};
    }
    const at::ScalarType low_precision = options_.dtype().toScalarType();
    const auto weights = rotation(bytes, [&] { return wide(one_.weights); });
    return {[=] { weights->next().to(low_precision); }};
  }

  // With the gradients set to zero for the next step.
  Work optimizer() const {
    const bool low_precision = element() < 4.0;
    const auto slices = rotation(static_cast<double>(one_.weights) * 16.0, [&] {
      AdamWSlice slice{.master = wide(one_.weights),
                       .gradient = random({one_.weights}),
                       .first_moment = wide(one_.weights),
                       .second_moment = wide(one_.weights),
                       .weight = {}};
      if (low_precision) slice.weight = random({one_.weights});
      return slice;
    });
    return {[=] {
      AdamWSlice& slice = slices->next();
      adamw_steps({slice}, 10, {});
      slice.gradient.zero_();
    }};
  }

  auto cold_gradients() const {
    return rotation(static_cast<double>(one_.weights) * element(),
                    [&] { return random({one_.weights}); });
  }
  Work gradient_norm() const {
    const auto gradients = cold_gradients();
    return {[=] { squared_norm({gradients->next()}); }};
  }
  Work gradient_clip() const {
    const auto gradients = cold_gradients();
    return {[=] { gradients->next().mul_(1.0); }};
  }

  const KernelCase& one_;
  const sim::Operator& op_;
  const RankShape& shape_;
  sim::Bytes cache_;
  at::TensorOptions options_;
  at::Tensor drawn_;
};

}  // namespace

std::optional<Work> work_of(const KernelCase& one, c10::Device device, sim::Bytes cache) {
  return Workshop(one, device, cache).work();
}

}  // namespace llmsim::runtime
