#include "runtime/library/operator_call.h"

#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>

namespace llmsim::runtime {

bool has_operator(const std::string& name) { return c10::Dispatcher::singleton().findSchema({name, ""}).has_value(); }

std::optional<std::vector<c10::IValue>> call_operator(const std::string& name, std::vector<c10::IValue> arguments) {
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

}  // namespace llmsim::runtime
