#include "runtime/library/operator_call.h"

#include <mutex>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace llmsim::runtime {
namespace {

using Stack = torch::jit::Stack;

// Boxed functions fit any release's signature: arguments come off a stack and results go back on
// it.
template <typename Results>
void answer(const c10::OperatorHandle& op, Stack* stack, const Results& results) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  for (const at::Tensor& result : results) torch::jit::push(*stack, result);
}

at::Tensor argument(const c10::OperatorHandle& op, const Stack& stack, std::size_t index) {
  const c10::IValue& value = torch::jit::peek(stack, index, op.schema().arguments().size());
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

void index_select(const c10::OperatorHandle& op, Stack* stack) {
  const at::Tensor self = argument(op, *stack, 0), index = argument(op, *stack, 2);
  std::vector<std::int64_t> sizes = self.sizes().vec();
  sizes[static_cast<std::size_t>(torch::jit::peek(*stack, 1, 3).toInt())] = index.numel();
  answer(op, stack, std::vector<at::Tensor>{at::empty(sizes, self.options())});
}

// Mean and reciprocal standard deviation are one value for each row.
void layer_norm(const c10::OperatorHandle& op, Stack* stack) {
  const at::Tensor x = argument(op, *stack, 0);
  std::vector<std::int64_t> rows = x.sizes().vec();
  rows.back() = 1;
  answer(op, stack,
         std::vector<at::Tensor>{at::empty_like(x), at::empty(rows, x.options()),
                                 at::empty(rows, x.options())});
}

// Per-thread partial sums of the weights' gradients are the CPU kernel's own; one thread's are
// counted here.
void layer_norm_backward(const c10::OperatorHandle& op, Stack* stack) {
  const at::Tensor x = argument(op, *stack, 1), weight = argument(op, *stack, 5),
                   bias = argument(op, *stack, 6);
  const at::Tensor partial =
      weight.defined() ? at::empty({2, x.size(-1)}, x.options()) : at::Tensor();
  std::vector<at::Tensor> gradients{at::empty_like(x)};
  gradients.push_back(weight.defined() ? at::empty_like(weight) : at::Tensor());
  gradients.push_back(bias.defined() ? at::empty_like(bias) : at::Tensor());
  answer(op, stack, gradients);
}

template <void Kernel(const c10::OperatorHandle&, Stack*)>
void add_where_missing(torch::Library& library, const std::string& name) {
  const auto schema = c10::Dispatcher::singleton().findSchema({"aten::" + name, ""});
  if (!schema || schema->hasKernelForDispatchKey(c10::DispatchKey::Meta)) return;
  library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<Kernel>());
}

}  // namespace

bool has_operator(const std::string& name) {
  return c10::Dispatcher::singleton().findSchema({name, ""}).has_value();
}

std::optional<std::vector<c10::IValue>> call_operator(const std::string& name,
                                                      std::vector<c10::IValue> arguments) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!found) return std::nullopt;
  const auto& wanted = found->schema().arguments();
  for (std::size_t i = arguments.size(); i < wanted.size(); ++i) {
    if (!wanted[i].default_value()) return std::nullopt;
    arguments.push_back(*wanted[i].default_value());
  }
  torch::jit::Stack stack(std::move(arguments));
  found->callBoxed(&stack);
  return stack;
}

void install_meta_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__,
                                  __LINE__);
    add_where_missing<index_select>(library, "index_select");
    add_where_missing<layer_norm>(library, "native_layer_norm");
    add_where_missing<layer_norm_backward>(library, "native_layer_norm_backward");
  });
}

}  // namespace llmsim::runtime
