#include "runtime/model/embedding_and_head.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/kernels/embedding.h"
#include "runtime/kernels/linear.h"
#include "runtime/model/layer_parameters.h"

namespace llmsim::runtime {
namespace {

VocabularyShard shard_of(const RankShape& shape) {
  return {.first_row = shape.vocab * shape.tensor_rank, .divided = shape.tensor_ranks > 1};
}

}  // namespace

std::vector<ParameterShape> embedding_parameters(const sim::Transformer& model,
                                                 const RankShape& shape, bool tied_across_stages) {
  std::vector<ParameterShape> list{{.name = "embedding",
                                    .sizes = {shape.vocab, shape.hidden},
                                    .tied_across_stages = tied_across_stages}};
  if (model.position == sim::Position::Learned) {
    const std::int64_t rows = model.max_positions > 0 ? model.max_positions : model.seq_len;
    list.push_back({.name = "positions", .sizes = {rows, shape.hidden}, .replicated = true});
  }
  return list;
}

std::vector<ParameterShape> head_parameters(const sim::Transformer& model, const RankShape& shape,
                                            bool tied_here) {
  std::vector<ParameterShape> list;
  if (model.norm_weight)
    add_parameters(list, {.columns = shape.hidden, .biases = model.bias.norm}, "final_norm");
  if (tied_here) return list;
  const bool copy = model.tied_embeddings;
  list.push_back({.name = copy ? "embedding" : "head",
                  .sizes = {shape.vocab, shape.hidden},
                  .tied_across_stages = copy});
  return list;
}

Embedding::Embedding(const BlockContext& context, ParameterUnit& unit)
    : context_(context), table_(unit, 0) {
  if (context.model.position == sim::Position::Learned) positions_ = Parameter(unit, 1);
}

at::Tensor Embedding::forward(const at::Tensor& ids) const {
  at::Tensor x = embed(ids, table_.weight(), shard_of(context_.shape));
  if (!positions_.exists()) return context_.tensor.row_output(std::move(x));
  const at::Tensor positions = positions_.weight();
  if (context_.tensor.rank() == 0) add_positions(x, positions, context_.shape.seq_len);
  return context_.tensor.row_output(std::move(x));
}

void Embedding::backward(at::Tensor dx, const at::Tensor& ids) const {
  dx = context_.tensor.row_gradient(dx);
  if (positions_.exists()) add_position_gradient(dx, positions_.gradient(), context_.shape.seq_len);
  add_embedding_gradient(dx, ids, table_.gradient(), shard_of(context_.shape));
}

Head::Head(const BlockContext& context, ParameterUnit& unit, Parameter tied_table)
    : context_(context), projection_(tied_table) {
  std::size_t next = 0;
  if (context.model.norm_weight) {
    norm_weight_ = Parameter(unit, next++);
    if (context.model.bias.norm) norm_bias_ = Parameter(unit, next++);
  }
  if (!tied_table.exists()) projection_ = Parameter(unit, next);
}

LossContext Head::loss_context(double tokens_of_step) const {
  return {.tokens_of_step = tokens_of_step,
          .shard = shard_of(context_.shape),
          .tensor = context_.tensor.group()};
}

at::Tensor Head::forward(at::Tensor x, const at::Tensor& targets, HeadTape& tape,
                         double tokens_of_step, std::int64_t chunks) const {
  tape.x = std::move(x);
  tape.norm = norm(context_.model.norm, tape.x, norm_weight_.weight(), norm_bias_.weight());
  const LossContext loss = loss_context(tokens_of_step);
  if (chunks > 0) {
    const at::Tensor y = context_.tensor.column_input(tape.norm.y);
    tape.norm.y.reset();
    return chunked_loss(y, targets, tape, loss, chunks);
  }
  at::Tensor logits =
      linear_forward(context_.tensor.column_input(tape.norm.y), projection_.weight(), {});
  LossOutput out = cross_entropy(std::move(logits), targets, loss);
  tape.saved = std::move(out.saved);
  return out.loss;
}

at::Tensor Head::chunked_loss(const at::Tensor& y, const at::Tensor& targets, HeadTape& tape,
                              const LossContext& loss, std::int64_t chunks) const {
  tape.gradient = at::empty_like(y);
  at::Tensor total = at::zeros({}, y.options().dtype(at::kFloat));
  const at::Tensor weight = projection_.weight(), gradient = projection_.gradient();
  const std::int64_t rows = (y.size(0) + chunks - 1) / chunks;
  for (std::int64_t begin = 0; begin < y.size(0); begin += rows) {
    const std::int64_t size = std::min(rows, y.size(0) - begin);
    const at::Tensor part = y.narrow(0, begin, size), wanted = targets.narrow(0, begin, size);
    LossOutput out = cross_entropy(linear_forward(part, weight, {}), wanted, loss);
    total.add_(out.loss);
    const at::Tensor dlogits =
        cross_entropy_backward(std::move(out.saved), wanted, loss, y.scalar_type());
    at::Tensor dy = tape.gradient.narrow(0, begin, size);
    at::mm_out(dy, dlogits, weight);
    add_linear_weight_gradient(dlogits, part, gradient, {});
  }
  return total;
}

at::Tensor Head::backward(const at::Tensor& targets, HeadTape tape, double tokens_of_step) const {
  at::Tensor dy = std::move(tape.gradient);
  if (!dy.defined()) {
    const at::Tensor dlogits = cross_entropy_backward(
        std::move(tape.saved), targets, loss_context(tokens_of_step), tape.x.scalar_type());
    dy = linear_data_gradient(dlogits, projection_.weight());
    add_linear_weight_gradient(dlogits, context_.tensor.column_input(tape.norm.y),
                               projection_.gradient(), {});
    tape.norm.y.reset();
  }
  dy = context_.tensor.column_gradient(std::move(dy));
  return norm_backward(context_.model.norm, std::move(dy), tape.x, tape.norm, norm_weight_.weight(),
                       norm_bias_.weight(), norm_weight_.gradient(), norm_bias_.gradient());
}

}  // namespace llmsim::runtime
