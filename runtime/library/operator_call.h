// Operators by name, for those that some releases of libtorch do not
// have (_scaled_mm, _fused_adamw_, scaled_dot_product_attention).
//
// A call costs about half a microsecond more on the host than a direct one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace llmsim::runtime {

bool has_operator(const std::string& name);

// Calls the overload-less operator `name` with its first arguments, the rest from the schema's
// defaults.  None where this libtorch has no such operator, or one whose remaining arguments have
// no defaults.  Errors of the operator itself are thrown as they are.
std::optional<std::vector<c10::IValue>> call_operator(const std::string& name,
                                                      std::vector<c10::IValue> arguments);

// Registers the shape-only kernels that a training step on the meta device needs and this libtorch
// does not have; later calls do nothing.
void install_meta_kernels();

}  // namespace llmsim::runtime
