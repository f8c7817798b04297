#include "runtime/library/operator_trace.h"

#include <memory>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace llmsim::runtime {
namespace {

constexpr std::string_view kAttention = "llmsim::attention";

thread_local OperatorTrace* active = nullptr;
thread_local int hidden_depth = 0;

// Two factors of a GEMM: (..., m, k) and (..., k, n).
std::int64_t gemm_flops(const at::Tensor& a, const at::Tensor& b) {
  return 2 * a.numel() * b.size(-1);
}

bool is_gemm(std::string_view name) {
  return name == "aten::mm" || name == "aten::bmm" || name == "aten::addmm" ||
         name == "aten::addmm_" || name == "aten::baddbmm" || name == "aten::baddbmm_" ||
         name == "aten::_scaled_mm";
}

std::int64_t flops_of(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  const auto factors = [&](std::size_t first) {
    if (inputs.size() < first + 2 || !inputs[first].isTensor() || !inputs[first + 1].isTensor())
      return std::int64_t{0};
    return gemm_flops(inputs[first].toTensor(), inputs[first + 1].toTensor());
  };
  if (!is_gemm(name)) return 0;
  return factors(name == "aten::mm" || name == "aten::bmm" || name == "aten::_scaled_mm" ? 0 : 1);
}

// What a GEMM calls inside (a batch as single GEMMs) is the same work.
struct InsideGemm : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  if (active == nullptr || hidden_depth > 0) return nullptr;
  active->add(function.name(), flops_of(function.name(), function.inputs()));
  if (!is_gemm(function.name())) return nullptr;
  ++hidden_depth;
  return std::make_unique<InsideGemm>();
}

void ended(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) --hidden_depth;
}

}  // namespace

OperatorTrace::OperatorTrace()
    : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(&started, &ended)
                                               .needsInputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
  active = this;
}

OperatorTrace::~OperatorTrace() {
  at::removeCallback(callback_);
  active = nullptr;
}

void OperatorTrace::add(const std::string& name, std::int64_t flops) {
  OperatorCount& count = counts_[name];
  ++count.calls;
  count.flops += flops;
}

std::int64_t OperatorTrace::flops() const {
  std::int64_t sum = 0;
  for (const auto& [name, count] : counts_) sum += count.flops;
  return sum;
}

std::int64_t OperatorTrace::attention_flops() const {
  const auto found = counts_.find(std::string(kAttention));
  return found == counts_.end() ? 0 : found->second.flops;
}

std::int64_t OperatorTrace::gemm_flops() const { return flops() - attention_flops(); }

CountedAs::CountedAs(const char* name, std::int64_t flops) {
  if (active != nullptr && hidden_depth == 0) active->add(name, flops);
  ++hidden_depth;
}

CountedAs::~CountedAs() { --hidden_depth; }

}  // namespace llmsim::runtime
