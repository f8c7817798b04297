#include "sim/operators/loss.h"

#include <algorithm>
#include <bit>

#include "sim/base/dtype.h"
#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class LossLowering {
 public:
  LossLowering(const Transformer& model, const Strategy& strategy, const Framework& framework,
               std::int64_t tokens)
      : model_(model),
        strategy_(strategy),
        framework_(framework),
        tokens_(tokens),
        columns_(model.vocab_size / strategy.tp),
        element_(size_of(activation_dtype(strategy.precision)).value()),
        chunks_(loss_chunks(model, framework, tokens)) {}

  LayerOperators plain() const {
    return of_whole_logits(cross_entropy_traffic(framework_, element_), 1);
  }

  LayerOperators fused() {
    switch (framework_.loss.fused) {
      case FusedLoss::Kernel: return kernel();
      case FusedLoss::Logits:
        return of_whole_logits(cross_entropy_traffic(framework_, element_),
                               static_cast<int>(chunks_));
      case FusedLoss::Recomputed: return recomputed();
      case FusedLoss::Gradient: return gradient_in_forward();
    }
    return plain();
  }

 private:
  LayerOperators kernel() const {
    const double bytes = element_ + 2.0 * kFp32Bytes;
    return of_whole_logits({.forward_bytes = bytes,
                            .forward_kernels = 2,
                            .backward_bytes = bytes,
                            .backward_kernels = 2},
                           1);
  }

  LayerOperators of_whole_logits(const Traffic& traffic, int chunks) const {
    LayerOperators entropy;
    add_entropy(entropy.forward, entropy.backward, traffic, chunks);
    LayerBuilder loss;
    loss.add(linear());
    loss.add(entropy);
    return std::move(loss).build();
  }

  LayerOperators recomputed() {
    const double e = element_;
    add_cast();
    loss_.forward.push_back(logits_gemm());
    loss_.recompute.push_back(logits_gemm());
    const Traffic traffic = cross_entropy_traffic(framework_, e);
    add_entropy(loss_.forward, loss_.backward, traffic, static_cast<int>(chunks_));
    add_vocabulary_sums(loss_.recompute, pieces());
    loss_.recompute.push_back(memory_bound(OperatorKind::CrossEntropy, "cross_entropy", logits(),
                                           traffic.forward_bytes, traffic.forward_kernels));
    loss_.backward.push_back(input_gradient());
    if (trains()) loss_.backward.push_back(weight_gradient());
    return std::move(loss_);
  }

  LayerOperators gradient_in_forward() {
    const double e = element_;
    const bool wide = e >= kFp32Bytes;
    add_cast();
    loss_.forward.push_back(logits_gemm());
    // upcast, two reads and one write by the kernel, cast back
    const double bytes = 3.0 * kFp32Bytes + (wide ? 0.0 : 2.0 * (e + kFp32Bytes));
    add_vocabulary_sums(loss_.forward, pieces());
    loss_.forward.push_back(memory_bound(OperatorKind::CrossEntropy, "cross_entropy", logits(),
                                         bytes, static_cast<int>(chunks_) * (wide ? 1 : 3)));
    loss_.forward.push_back(input_gradient());
    if (trains()) loss_.forward.push_back(weight_gradient());
    const double waiting =
        (trains() ? weights() : 0.0) + static_cast<double>(tokens_) * model_.hidden_size;
    if (framework_.loss.scales_gradients)
      loss_.backward.push_back(
          memory_bound(OperatorKind::GradientScale, "gradient_scale", waiting, 2.0 * e, 2));
    if (casts() && framework_.casts_weights_in_backward) loss_.backward.push_back(weight_cast());
    return std::move(loss_);
  }

  // The head multiplies in 16 bits under the low-precision recipes unless the framework says
  // otherwise; under adapters it is frozen.
  LayerOperators linear() const {
    const bool low_precision = size_of(matmul_dtype(strategy_.precision)) < size_of(DType::Bf16);
    const LinearContext context{.precision = low_precision && !framework_.low_precision.head
                                                 ? Precision::Bf16
                                                 : strategy_.precision,
                                .framework = &framework_,
                                .adapters = {},
                                .frozen = !trains()};
    return lower_linear(context, "head", tokens_, columns_, model_.hidden_size);
  }

  void add_entropy(OperatorList& forward, OperatorList& backward, const Traffic& traffic,
                   int chunks) const {
    add_vocabulary_sums(forward, chunks);
    forward.push_back(memory_bound(OperatorKind::CrossEntropy, "cross_entropy", logits(),
                                   traffic.forward_bytes, traffic.forward_kernels * chunks));
    backward.push_back(memory_bound(OperatorKind::CrossEntropy, "cross_entropy", logits(),
                                    traffic.backward_bytes, traffic.backward_kernels * chunks));
  }

  // Tensor ranks have columns of the logits: the largest of a row, the sum of its exponentials and
  // the logit of its target are those of all of them.
  void add_vocabulary_sums(OperatorList& operators, std::int64_t pieces) const {
    if (strategy_.tp == 1) return;
    const Bytes message(static_cast<double>(tokens_) * kFp32Bytes / static_cast<double>(pieces));
    for (const char* label : {"largest_logit", "target_logit", "sum_of_exponentials"}) {
      Operator sum = collective(label, CollectiveKind::AllReduce, GroupKind::Tensor, message);
      sum.launches = static_cast<int>(pieces);
      sum.kernels *= sum.launches;
      operators.push_back(sum);
    }
  }

  void add_cast() {
    if (casts()) loss_.forward.push_back(weight_cast());
  }
  Operator weight_cast() const {
    return memory_bound(OperatorKind::Cast, "weight_cast", weights(), 2.0 + kFp32Bytes, 1);
  }

  Operator chunk_gemm(std::int64_t m, std::int64_t n, std::int64_t k) const {
    Operator head =
        gemm("head", chunks_, m, n, k, high_precision_matmul_dtype(strategy_.precision), dtype());
    head.flops = 2.0 * logits() * model_.hidden_size * FLOP;  // the last chunk may be smaller
    head.kernels = static_cast<int>(chunks_);
    return head;
  }

  Operator logits_gemm() const {
    return transposed(chunk_gemm(chunk_tokens(), columns_, model_.hidden_size));
  }
  Operator input_gradient() const {
    return chunk_gemm(chunk_tokens(), model_.hidden_size, columns_);
  }

  // Each chunk reads the sum that it adds to.
  Operator weight_gradient() const {
    Operator gemm = chunk_gemm(model_.hidden_size, columns_, chunk_tokens());
    gemm.moved += static_cast<double>(chunks_) * weights() * size_of(dtype());
    gemm.weight_gradient = true;
    return gemm;
  }

  DType dtype() const { return activation_dtype(strategy_.precision); }
  bool trains() const { return !strategy_.adapters; }
  bool casts() const { return framework_.casts_weights_per_microbatch && element_ < kFp32Bytes; }
  double logits() const { return static_cast<double>(tokens_) * static_cast<double>(columns_); }
  double weights() const { return static_cast<double>(columns_) * model_.hidden_size; }
  std::int64_t chunk_tokens() const { return ceil_div(tokens_, chunks_); }
  std::int64_t pieces() const { return ceil_div(tokens_, chunk_tokens()); }

  const Transformer& model_;
  const Strategy& strategy_;
  const Framework& framework_;
  std::int64_t tokens_;
  std::int64_t columns_;
  double element_;
  std::int64_t chunks_;
  LayerOperators loss_;
};

}  // namespace

LayerOperators lower_loss(const Transformer& model, const Strategy& strategy,
                          const Framework& framework, std::int64_t tokens) {
  LossLowering lowering(model, strategy, framework, tokens);
  LayerOperators loss = strategy.fused_cross_entropy ? lowering.fused() : lowering.plain();
  for (OperatorList* pass : {&loss.forward, &loss.backward, &loss.recompute}) {
    for (Operator& op : *pass)
      op.module = op.kind == OperatorKind::Gemm || op.kind == OperatorKind::Cast ? Module::Head
                                                                                 : Module::Loss;
  }
  return loss;
}

std::int64_t loss_chunks(const Transformer& model, const Framework& framework,
                         std::int64_t tokens) {
  if (framework.loss.chunks > 0) return std::min<std::int64_t>(framework.loss.chunks, tokens);
  const std::int64_t at_least = ceil_div(tokens, ceil_div(model.vocab_size, model.hidden_size));
  return ceil_div(tokens,
                  static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least))));
}

}  // namespace llmsim::sim
