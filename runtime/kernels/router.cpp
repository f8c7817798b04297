#include "runtime/kernels/router.h"

#include <tuple>
#include <utility>

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

// The softmax and the choice are made in fp32.
at::Tensor wide(at::Tensor low_precision) {
  return low_precision.scalar_type() == at::kFloat ? low_precision : low_precision.to(at::kFloat);
}

// Slot s to expert s mod E.
void deal_out(const at::Tensor& chosen, std::int64_t num_experts) {
  at::Tensor slots = chosen.view(-1);
  at::arange_out(slots, slots.numel());
  slots.remainder_(num_experts);
}

std::vector<std::int64_t> dealt_rows(std::int64_t slots, std::int64_t num_experts) {
  std::vector<std::int64_t> rows;
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    rows.push_back(slots / num_experts + (expert < slots % num_experts ? 1 : 0));
  }
  return rows;
}

// Grouped by values on the host: the GEMMs' sizes are arguments of their calls.
std::vector<std::int64_t> counted_rows(const at::Tensor& chosen, std::int64_t num_experts) {
  const at::Tensor here = chosen.to(at::kCPU);
  const auto* experts = here.data_ptr<std::int64_t>();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(num_experts), 0);
  for (std::int64_t slot = 0; slot < here.numel(); ++slot)
    ++rows[static_cast<std::size_t>(experts[slot])];
  return rows;
}

}  // namespace

ExpertChoice choose_experts(at::Tensor logits, std::int64_t top_k, bool balanced) {
  const at::ScalarType type = logits.scalar_type();
  logits = wide(std::move(logits));
  ExpertChoice choice;
  choice.probabilities = at::_softmax(logits, 1, false);
  logits.reset();
  std::tie(choice.weights, choice.chosen) = at::topk(choice.probabilities, top_k, 1);
  if (balanced) {
    deal_out(choice.chosen, choice.probabilities.size(1));
    at::gather_out(choice.weights, choice.probabilities, 1, choice.chosen);
  }
  if (type != at::kFloat) choice.weights = choice.weights.to(type);
  return choice;
}

at::Tensor router_gradient(at::Tensor weights_gradient, ExpertChoice choice, at::ScalarType type) {
  weights_gradient = wide(std::move(weights_gradient));
  at::Tensor gradient =
      at::zeros_like(choice.probabilities).scatter_(1, choice.chosen, weights_gradient);
  weights_gradient.reset(), choice.chosen.reset();
  gradient = at::_softmax_backward_data(gradient, choice.probabilities, 1, at::kFloat);
  choice.probabilities.reset();
  return type == at::kFloat ? gradient : gradient.to(type);
}

at::Tensor combined_rows(const at::Tensor& rows, const at::Tensor& weights) {
  const at::Tensor choices = rows.view({weights.size(0), weights.size(1), rows.size(1)});
  at::Tensor y = at::mul(choices.select(1, 0), weights.narrow(1, 0, 1));
  for (std::int64_t k = 1; k < weights.size(1); ++k)
    y.addcmul_(choices.select(1, k), weights.narrow(1, k, 1));
  return y;
}

void combined_rows_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& weights,
                            const at::Tensor& weights_gradient) {
  const at::Tensor choices = rows.view({weights.size(0), weights.size(1), rows.size(1)});
  for (std::int64_t k = 0; k < weights.size(1); ++k) {
    at::Tensor row = choices.select(1, k), sum = weights_gradient.select(1, k);
    at::sum_out(sum, at::mul(dy, row), std::vector<std::int64_t>{1});
    at::mul_out(row, dy, weights.narrow(1, k, 1));
  }
}

RowOrder order_by_expert(const at::Tensor& chosen, std::int64_t num_experts, bool balanced) {
  RowOrder order;
  order.slots = std::get<1>(at::sort(chosen.view(-1), true, 0, false));
  order.tokens = order.slots.div(chosen.size(1), "floor");
  order.rows =
      balanced ? dealt_rows(chosen.numel(), num_experts) : counted_rows(chosen, num_experts);
  return order;
}

}  // namespace llmsim::runtime
