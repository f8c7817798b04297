#include "sim/operators/ends.h"

#include <algorithm>

#include "sim/operators/linear.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

struct EndShape {
  std::int64_t tokens;
  double residual;  // elements of the residual stream on this rank
  double element;   // bytes
};

EndShape shape_of(const Transformer& model, const Strategy& strategy) {
  const std::int64_t tokens = static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.context_parallel;
  const double whole = static_cast<double>(tokens) * model.hidden_size;
  return {.tokens = tokens,
          .residual = strategy.sequence_parallel ? whole / strategy.tensor_parallel : whole,
          .element = size_of(activation_dtype(strategy.precision)).value()};
}

Bytes whole_residual(const Transformer& model, const EndShape& shape) {
  return Bytes(static_cast<double>(shape.tokens) * model.hidden_size * shape.element);
}

// The head multiplies in 16 bits under the narrow recipes unless the stack says otherwise; under adapters it is frozen.
void add_head_product(EndOperators& ends, const Transformer& model, const Strategy& strategy, const Stack& stack,
                      const EndShape& shape) {
  const bool wide = size_of(matmul_dtype(strategy.precision)) < size_of(DType::Bf16) && !stack.narrow_head;
  const LinearContext context{.precision = wide ? Precision::Bf16 : strategy.precision,
                              .stack = &stack,
                              .adapters = {},
                              .frozen = strategy.adapters.has_value()};
  const LinearOperators head =
      lower_linear(context, "head", shape.tokens, model.vocab_size / strategy.tensor_parallel, model.hidden_size);
  ends.forward.insert(ends.forward.end(), head.forward.begin(), head.forward.end());
  ends.backward.insert(ends.backward.end(), head.backward.begin(), head.backward.end());
}

void add_loss(EndOperators& ends, const Transformer& model, const Strategy& strategy, const Stack& stack, const EndShape& shape) {
  const double logits = static_cast<double>(shape.tokens) * model.vocab_size / strategy.tensor_parallel;
  const Traffic traffic = cross_entropy_traffic(stack, shape.element);
  ends.forward.push_back(
      streaming(OperatorKind::CrossEntropy, "cross_entropy", logits, traffic.forward_bytes, traffic.forward_kernels));
  ends.backward.push_back(
      streaming(OperatorKind::CrossEntropy, "cross_entropy", logits, traffic.backward_bytes, traffic.backward_kernels));
  const double upcast = stack.fp32_logits ? stack.fp32_logit_copies * size_of(DType::Fp32).value() : shape.element;
  const Bytes whole = Bytes(logits * (shape.element + upcast));
  ends.working = strategy.fused_cross_entropy ? whole / cross_entropy_chunks(model) : whole;
}

void add_tensor_collectives(EndOperators& ends, const Transformer& model, const Strategy& strategy, const EndShape& shape) {
  if (strategy.tensor_parallel == 1) return;
  const Bytes message = whole_residual(model, shape);
  if (!strategy.sequence_parallel) {
    ends.backward.push_back(collective("head_gradient", CollectiveKind::AllReduce, GroupKind::Tensor, message));
    return;
  }
  ends.forward.push_back(collective("head_input", CollectiveKind::AllGather, GroupKind::Tensor, message));
  ends.backward.push_back(collective("head_gradient", CollectiveKind::ReduceScatter, GroupKind::Tensor, message));
}

}  // namespace

double cross_entropy_chunks(const Transformer& model) {
  return std::max(8.0, static_cast<double>(model.vocab_size) / model.hidden_size);
}

EndOperators lower_embedding(const Transformer& model, const Strategy& strategy, const Stack& stack) {
  const EndShape shape = shape_of(model, strategy);
  EndOperators ends;
  const double lookups = static_cast<double>(shape.tokens) * model.hidden_size;
  ends.forward.push_back(streaming(OperatorKind::Embedding, "embedding", lookups, 2 * shape.element, 1));
  ends.backward.push_back(streaming(OperatorKind::Embedding, "embedding", lookups, 3 * shape.element, 2));
  if (strategy.tensor_parallel > 1) {
    const CollectiveKind kind = strategy.sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
    ends.forward.push_back(collective("embedding_output", kind, GroupKind::Tensor, whole_residual(model, shape)));
  }
  if (stack.dropout > 0.0) {
    ends.forward.push_back(streaming(OperatorKind::Residual, "embedding_dropout", shape.residual, 2 * shape.element + 1, 1));
    ends.saved = Bytes(shape.residual);
  }
  return ends;
}

EndOperators lower_head(const Transformer& model, const Strategy& strategy, const Stack& stack) {
  const EndShape shape = shape_of(model, strategy);
  EndOperators ends;
  if (model.final_norm) {
    const Traffic traffic = norm_traffic(model.norm, stack, shape.element);
    ends.forward.push_back(
        streaming(OperatorKind::Norm, "final_norm", shape.residual, traffic.forward_bytes, traffic.forward_kernels));
    ends.backward.push_back(
        streaming(OperatorKind::Norm, "final_norm", shape.residual, traffic.backward_bytes, traffic.backward_kernels));
  }
  ends.saved = Bytes(2.0 * shape.residual * shape.element);
  add_tensor_collectives(ends, model, strategy, shape);
  add_head_product(ends, model, strategy, stack, shape);
  add_loss(ends, model, strategy, stack, shape);
  return ends;
}

}  // namespace llmsim::sim
