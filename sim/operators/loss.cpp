#include "sim/operators/loss.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/base/dtype.h"
#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Of the loss of one rank over `tokens` tokens.
struct Loss {
  const Transformer& model;
  const Strategy& strategy;
  const Framework& framework;
  std::int64_t tokens;
  std::int64_t columns;  // of the vocabulary
  double element;        // bytes
  std::int64_t chunks;

  DType dtype() const { return activation_dtype(strategy.precision); }
  bool trains() const { return !strategy.adapters; }
  bool casts() const { return framework.casts_weights_per_microbatch && element < kFp32Bytes; }
  double logits() const { return static_cast<double>(tokens) * static_cast<double>(columns); }
  double weights() const { return static_cast<double>(columns) * model.hidden_size; }
  std::int64_t chunk_tokens() const { return ceil_div(tokens, chunks); }
  std::int64_t pieces() const { return ceil_div(tokens, chunk_tokens()); }
};

// The head multiplies in 16 bits under the low-precision recipes unless the framework says
// otherwise; under adapters it is frozen.
LayerOperators linear(const Loss& loss) {
  const Precision precision = loss.strategy.precision;
  const bool low_precision = size_of(matmul_dtype(precision)) < size_of(DType::Bf16);
  const LinearContext context{.precision = low_precision && !loss.framework.low_precision.head
                                               ? Precision::Bf16
                                               : precision,
                              .framework = &loss.framework,
                              .adapters = {},
                              .frozen = !loss.trains()};
  return lower_linear(context, "head", loss.tokens, loss.columns, loss.model.hidden_size);
}

// Tensor ranks have columns of the logits: the largest of a row, the sum of its exponentials and
// the logit of its target are those of all of them.
void add_vocabulary_sums(OperatorList& operators, const Loss& loss, std::int64_t pieces) {
  if (loss.strategy.tp == 1) return;
  const Bytes message(static_cast<double>(loss.tokens) * kFp32Bytes / static_cast<double>(pieces));
  for (const char* label : {"largest_logit", "target_logit", "sum_of_exponentials"}) {
    Operator sum = collective(label, CollectiveKind::AllReduce, GroupKind::Tensor, message);
    sum.launches = static_cast<int>(pieces);
    sum.kernels *= sum.launches;
    operators.push_back(sum);
  }
}

Operator entropy(const Loss& loss, double bytes, int kernels) {
  return memory_bound(OperatorKind::CrossEntropy, "cross_entropy", loss.logits(), bytes, kernels);
}

LayerOperators entropy_of(const Loss& loss, const Traffic& traffic, int chunks) {
  LayerOperators operators;
  add_vocabulary_sums(operators.forward, loss, chunks);
  operators.forward.push_back(
      entropy(loss, traffic.forward_bytes, traffic.forward_kernels * chunks));
  operators.backward.push_back(
      entropy(loss, traffic.backward_bytes, traffic.backward_kernels * chunks));
  return operators;
}

LayerOperators of_whole_logits(const Loss& loss, const Traffic& traffic, int chunks) {
  LayerBuilder operators;
  operators.add(linear(loss));
  operators.add(entropy_of(loss, traffic, chunks));
  return std::move(operators).build();
}

LayerOperators plain(const Loss& loss) {
  return of_whole_logits(loss, cross_entropy_traffic(loss.framework, loss.element), 1);
}

LayerOperators kernel(const Loss& loss) {
  const double bytes = loss.element + 2.0 * kFp32Bytes;
  return of_whole_logits(loss,
                         {.forward_bytes = bytes,
                          .forward_kernels = 2,
                          .backward_bytes = bytes,
                          .backward_kernels = 2},
                         1);
}

Operator weight_cast(const Loss& loss) {
  return memory_bound(OperatorKind::Cast, "weight_cast", loss.weights(), 2.0 + kFp32Bytes, 1);
}

Operator chunk_gemm(const Loss& loss, std::int64_t m, std::int64_t n, std::int64_t k) {
  Operator head = gemm("head", loss.chunks, m, n, k,
                       high_precision_matmul_dtype(loss.strategy.precision), loss.dtype());
  head.flops =
      2.0 * loss.logits() * loss.model.hidden_size * FLOP;  // the last chunk may be smaller
  head.kernels = static_cast<int>(loss.chunks);
  return head;
}

Operator logits_gemm(const Loss& loss) {
  return transposed(chunk_gemm(loss, loss.chunk_tokens(), loss.columns, loss.model.hidden_size));
}

// Gradients of the input and, where it is trained, of the weight: each chunk reads the sum that it
// adds to.
void add_gradients(OperatorList& operators, const Loss& loss) {
  const std::int64_t h = loss.model.hidden_size, tokens = loss.chunk_tokens();
  operators.push_back(chunk_gemm(loss, tokens, h, loss.columns));
  if (!loss.trains()) return;
  Operator weight = chunk_gemm(loss, h, loss.columns, tokens);
  weight.moved += static_cast<double>(loss.chunks) * loss.weights() * size_of(loss.dtype());
  weight.weight_gradient = true;
  operators.push_back(weight);
}

LayerOperators recomputed(const Loss& loss) {
  const Traffic traffic = cross_entropy_traffic(loss.framework, loss.element);
  LayerOperators operators = entropy_of(loss, traffic, static_cast<int>(loss.chunks));
  OperatorList& forward = operators.forward;
  forward.insert(forward.begin(), logits_gemm(loss));
  if (loss.casts()) forward.insert(forward.begin(), weight_cast(loss));
  operators.recompute.push_back(logits_gemm(loss));
  add_vocabulary_sums(operators.recompute, loss, loss.pieces());
  operators.recompute.push_back(entropy(loss, traffic.forward_bytes, traffic.forward_kernels));
  add_gradients(operators.backward, loss);
  return operators;
}

LayerOperators gradient_in_forward(const Loss& loss) {
  const double e = loss.element;
  const bool wide = e >= kFp32Bytes;
  LayerOperators operators;
  OperatorList& forward = operators.forward;
  if (loss.casts()) forward.push_back(weight_cast(loss));
  forward.push_back(logits_gemm(loss));
  // upcast, two reads and one write by the kernel, cast back
  const double bytes = 3.0 * kFp32Bytes + (wide ? 0.0 : 2.0 * (e + kFp32Bytes));
  add_vocabulary_sums(forward, loss, loss.pieces());
  forward.push_back(entropy(loss, bytes, static_cast<int>(loss.chunks) * (wide ? 1 : 3)));
  add_gradients(forward, loss);
  const double waiting = (loss.trains() ? loss.weights() : 0.0) +
                         static_cast<double>(loss.tokens) * loss.model.hidden_size;
  if (loss.framework.loss.scales_gradients)
    operators.backward.push_back(
        memory_bound(OperatorKind::GradientScale, "gradient_scale", waiting, 2.0 * e, 2));
  if (loss.casts() && loss.framework.casts_weights_in_backward)
    operators.backward.push_back(weight_cast(loss));
  return operators;
}

LayerOperators fused(const Loss& loss) {
  switch (loss.framework.loss.fused) {
    case FusedLoss::Kernel: return kernel(loss);
    case FusedLoss::Logits:
      return of_whole_logits(loss, cross_entropy_traffic(loss.framework, loss.element),
                             static_cast<int>(loss.chunks));
    case FusedLoss::Recomputed: return recomputed(loss);
    case FusedLoss::Gradient: return gradient_in_forward(loss);
  }
  return plain(loss);
}

}  // namespace

LayerOperators lower_loss(const Transformer& model, const Strategy& strategy,
                          const Framework& framework, std::int64_t tokens) {
  const Loss loss{.model = model,
                  .strategy = strategy,
                  .framework = framework,
                  .tokens = tokens,
                  .columns = model.vocab_size / strategy.tp,
                  .element = size_of(activation_dtype(strategy.precision)).value(),
                  .chunks = loss_chunks(model, framework, tokens)};
  LayerOperators operators = strategy.fused_cross_entropy ? fused(loss) : plain(loss);
  for (OperatorList* pass : {&operators.forward, &operators.backward, &operators.recompute}) {
    for (Operator& op : *pass)
      op.module = op.kind == OperatorKind::Gemm || op.kind == OperatorKind::Cast ? Module::Head
                                                                                 : Module::Loss;
  }
  return operators;
}

std::int64_t loss_chunks(const Transformer& model, const Framework& framework,
                         std::int64_t tokens) {
  if (framework.loss.chunks > 0) return std::min<std::int64_t>(framework.loss.chunks, tokens);
  const std::int64_t at_least = ceil_div(tokens, ceil_div(model.vocab_size, model.hidden_size));
  return ceil_div(tokens,
                  static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least))));
}

}  // namespace llmsim::sim
