#include "sim/operators/ends.h"

#include <utility>

#include "sim/operators/loss.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

constexpr double kFp32 = 4.0;

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

void add_loss(EndOperators& ends, LossOperators loss) {
  ends.forward.insert(ends.forward.end(), loss.forward.begin(), loss.forward.end());
  ends.backward.insert(ends.backward.end(), loss.backward.begin(), loss.backward.end());
  ends.recompute = std::move(loss.recompute);
  ends.working = loss.working;
}

void add_tensor_collectives(EndOperators& ends, const Transformer& model, const Strategy& strategy, const Stack& stack,
                            const EndShape& shape) {
  if (strategy.tensor_parallel == 1) return;
  const Bytes message = whole_residual(model, shape);
  if (!strategy.sequence_parallel) {
    ends.backward.push_back(collective("head_gradient", CollectiveKind::AllReduce, GroupKind::Tensor, message));
    return;
  }
  ends.forward.push_back(collective("head_input", CollectiveKind::AllGather, GroupKind::Tensor, message));
  // A loss that makes its gradients in the forward pass needs the whole input once.
  if (!strategy.fused_cross_entropy || stack.loss.fused != FusedLoss::Gradient)
    ends.backward.push_back(collective("head_input_again", CollectiveKind::AllGather, GroupKind::Tensor, message));
  ends.backward.push_back(collective("head_gradient", CollectiveKind::ReduceScatter, GroupKind::Tensor, message));
}

void add_norm(EndOperators& ends, const char* label, const Transformer& model, const Stack& stack, const EndShape& shape) {
  const Traffic traffic = norm_traffic(model.norm, stack, shape.element);
  ends.forward.push_back(streaming(OperatorKind::Norm, label, shape.residual, traffic.forward_bytes, traffic.forward_kernels));
  ends.backward.push_back(streaming(OperatorKind::Norm, label, shape.residual, traffic.backward_bytes, traffic.backward_kernels));
}

// To the tokens of every sequence the same rows; backward the sum over the sequences.
void add_positions(EndOperators& ends, const Transformer& model, const Strategy& strategy, const EndShape& shape) {
  const double lookups = static_cast<double>(shape.tokens) * model.hidden_size, table = lookups / strategy.micro_batch;
  const auto add = [&](OperatorList& operators, double values, int kernels) {
    operators.push_back(streaming(OperatorKind::Residual, "positions", 1.0, values * shape.element, kernels));
  };
  add(ends.forward, 2.0 * lookups + table, 1);
  add(ends.backward, lookups + 4.0 * table, 2);
}

// Of the table alone where the head has another: a tied one is cast for the head's products.
void add_table_casts(EndOperators& ends, const Transformer& model, const Strategy& strategy) {
  if (model.tied_embeddings && strategy.pipeline_parallel == 1) return;
  const double values = static_cast<double>(model.vocab_size) / strategy.tensor_parallel * model.hidden_size;
  for (OperatorList* pass : {&ends.forward, &ends.backward})
    pass->push_back(streaming(OperatorKind::Cast, "weight_cast", values, 2.0 + kFp32, 1));
}

}  // namespace

EndOperators lower_embedding(const Transformer& model, const Strategy& strategy, const Stack& stack) {
  const EndShape shape = shape_of(model, strategy);
  EndOperators ends;
  const double lookups = static_cast<double>(shape.tokens) * model.hidden_size;
  ends.forward.push_back(streaming(OperatorKind::Embedding, "embedding", lookups, 2 * shape.element, 1));
  ends.backward.push_back(streaming(OperatorKind::Embedding, "embedding", lookups, 3 * shape.element, 2));
  if (strategy.tensor_parallel > 1) {
    const CollectiveKind kind = strategy.sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
    const Bytes message = whole_residual(model, shape);
    ends.forward.push_back(collective("embedding_output", kind, GroupKind::Tensor, message));
    if (strategy.sequence_parallel)
      ends.backward.push_back(collective("embedding_gradient", CollectiveKind::AllGather, GroupKind::Tensor, message));
  }
  if (stack.positions_apart && model.position == Position::Learned) add_positions(ends, model, strategy, shape);
  if (stack.casts_weights_in_backward && shape.element < kFp32) add_table_casts(ends, model, strategy);
  if (model.embedding_norm) add_norm(ends, "embedding_norm", model, stack, shape);
  if (stack.dropout > 0.0) {
    ends.forward.push_back(streaming(OperatorKind::Residual, "embedding_dropout", shape.residual, 2 * shape.element + 1, 1));
    ends.saved = Bytes(shape.residual);
  }
  return ends;
}

EndOperators lower_head(const Transformer& model, const Strategy& strategy, const Stack& stack) {
  const EndShape shape = shape_of(model, strategy);
  EndOperators ends;
  if (model.final_norm) add_norm(ends, "final_norm", model, stack, shape);
  ends.saved = Bytes(2.0 * shape.residual * shape.element);
  add_tensor_collectives(ends, model, strategy, stack, shape);
  add_loss(ends, lower_loss(model, strategy, stack, shape.tokens));
  return ends;
}

}  // namespace llmsim::sim
