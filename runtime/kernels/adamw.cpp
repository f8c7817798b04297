#include "runtime/kernels/adamw.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "runtime/library/memory_meter.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

struct Corrections {
  double first, second;
};
Corrections corrections(std::int64_t step, const AdamWOptions& options) {
  const auto n = static_cast<double>(step);
  return {.first = 1.0 - std::pow(options.beta1, n), .second = 1.0 - std::pow(options.beta2, n)};
}

at::Tensor wide(const at::Tensor& gradient) {
  return gradient.scalar_type() == at::kFloat ? gradient : gradient.to(at::kFloat);
}

void loop_step(const AdamWSlice& slice, std::int64_t step, const AdamWOptions& options) {
  const Corrections correction = corrections(step, options);
  const at::Tensor gradient = wide(slice.gradient);
  slice.master.mul_(1.0 - options.learning_rate * options.weight_decay);
  slice.first_moment.lerp_(gradient, 1.0 - options.beta1);
  slice.second_moment.mul_(options.beta2).addcmul_(gradient, gradient, 1.0 - options.beta2);
  const double root = std::sqrt(correction.second);
  const at::Tensor epsilon = at::full({}, options.epsilon * root, slice.master.options());
  slice.master.addcdiv_(slice.first_moment, slice.second_moment.sqrt().add_(epsilon),
                        -options.learning_rate * root / correction.first);
}

// Copies between memories are of one format: the weight is cast before it comes back.
void host_step(const AdamWSlice& slice, std::int64_t step, const AdamWOptions& options) {
  const OnHost placed;
  AdamWSlice there = slice;
  there.gradient = copied_to_host(slice.gradient);
  loop_step(there, step, options);
  slice.weight.copy_(slice.master.to(slice.weight.scalar_type()));
}

// The same tensors of all slices, as operators on lists take them.
struct Lists {
  std::vector<at::Tensor> masters, gradients, first_moments, second_moments;
};
Lists lists_of(const std::vector<AdamWSlice>& slices) {
  Lists lists;
  for (const AdamWSlice& slice : slices) {
    lists.masters.push_back(slice.master), lists.gradients.push_back(wide(slice.gradient));
    lists.first_moments.push_back(slice.first_moment),
        lists.second_moments.push_back(slice.second_moment);
  }
  return lists;
}

void foreach_step(const std::vector<AdamWSlice>& slices, std::int64_t step,
                  const AdamWOptions& options) {
  const Corrections correction = corrections(step, options);
  Lists lists = lists_of(slices);
  // Has no kernels for lists in every release: the temporaries alone.
  if (slices.front().master.is_meta()) {
    std::vector<at::Tensor> denominators;
    for (const at::Tensor& moment : lists.second_moments)
      denominators.push_back(at::empty_like(moment));
    return;
  }
  at::_foreach_mul_(lists.masters, 1.0 - options.learning_rate * options.weight_decay);
  at::_foreach_mul_(lists.first_moments, options.beta1);
  at::_foreach_add_(lists.first_moments, lists.gradients, 1.0 - options.beta1);
  at::_foreach_mul_(lists.second_moments, options.beta2);
  at::_foreach_addcmul_(lists.second_moments, lists.gradients, lists.gradients,
                        1.0 - options.beta2);
  std::vector<at::Tensor> denominators = at::_foreach_sqrt(lists.second_moments);
  at::_foreach_div_(denominators, std::sqrt(correction.second));
  at::_foreach_add_(denominators, options.epsilon);
  at::_foreach_addcdiv_(lists.masters, lists.first_moments, denominators,
                        -options.learning_rate / correction.first);
}

void fused_step(const std::vector<AdamWSlice>& slices, std::int64_t step,
                const AdamWOptions& options) {
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::_fused_adamw_", ""});
  if (!op)
    throw Error(
        "optimizer form fused needs aten::_fused_adamw_ of libtorch 2.x; loop and foreach would "
        "work");
  const Lists lists = lists_of(slices);
  if (slices.front().master.is_meta()) return;  // has no kernel there: the temporaries alone
  const std::vector<at::Tensor> steps(
      slices.size(),
      at::full({}, static_cast<double>(step), slices.front().master.options().dtype(at::kFloat)));
  torch::jit::Stack stack{lists.masters,
                          lists.gradients,
                          lists.first_moments,
                          lists.second_moments,
                          std::vector<at::Tensor>(),
                          steps,
                          options.learning_rate,
                          options.beta1,
                          options.beta2,
                          options.weight_decay,
                          options.epsilon,
                          false,
                          false,
                          c10::IValue(),
                          c10::IValue()};
  op->callBoxed(&stack);
}

}  // namespace

at::Tensor squared_norm(const std::vector<at::Tensor>& gradients) {
  at::Tensor sum = at::zeros({}, gradients.front().options().dtype(at::kFloat));
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor norm = at::linalg_vector_norm(gradient, 2, {}, /*keepdim=*/false);
    sum.add_(norm.to(at::kFloat).square_());
  }
  return sum;
}

void adamw_steps(const std::vector<AdamWSlice>& slices, std::int64_t step,
                 const AdamWOptions& options) {
  if (slices.front().on_host) {
    for (const AdamWSlice& slice : slices) host_step(slice, step, options);
    return;
  }
  switch (options.form) {
    case AdamWForm::Loop:
      for (const AdamWSlice& slice : slices) loop_step(slice, step, options);
      break;
    case AdamWForm::Foreach: foreach_step(slices, step, options); break;
    case AdamWForm::Fused: fused_step(slices, step, options); break;
  }
  for (const AdamWSlice& slice : slices) {
    if (slice.weight.defined()) slice.weight.copy_(slice.master);
  }
}

}  // namespace llmsim::runtime
