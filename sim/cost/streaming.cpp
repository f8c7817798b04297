#include "sim/cost/streaming.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {

StreamingForms streaming_forms(const Transformer& model, const Strategy& strategy) {
  return {.dtype = activation_dtype(strategy.precision),
          .norm = model.norm,
          .gated_mlp = model.gated_mlp,
          .chunked_loss = strategy.fused_cross_entropy};
}

bool is_streaming(OperatorKind kind) { return OperatorKind::Norm <= kind && kind <= OperatorKind::GradientScale; }

namespace {

// Rows that a router sends.
bool is_of_rows(Module module) { return Module::Dispatch <= module && module <= Module::ExpertDown; }

}  // namespace

StreamingKernel streaming_kernel(const Operator& op, const StreamingForms& forms) {
  switch (op.kind) {
    case OperatorKind::Norm: return forms.norm == Norm::RmsNorm ? StreamingKernel::RmsNorm : StreamingKernel::LayerNorm;
    case OperatorKind::Softmax: return op.module == Module::Router ? StreamingKernel::ExpertChoice : StreamingKernel::Softmax;
    case OperatorKind::Activation: return forms.gated_mlp ? StreamingKernel::GatedActivation : StreamingKernel::Gelu;
    case OperatorKind::Rotary: return StreamingKernel::Rotary;
    case OperatorKind::Copy: return is_of_rows(op.module) ? StreamingKernel::RowMove : StreamingKernel::Copy;
    case OperatorKind::Residual: return op.module == Module::Combine ? StreamingKernel::WeightedSum : StreamingKernel::Add;
    case OperatorKind::BiasGradient: return StreamingKernel::ColumnSum;
    case OperatorKind::Embedding: return StreamingKernel::Lookup;
    case OperatorKind::CrossEntropy:
      return forms.chunked_loss ? StreamingKernel::ChunkedCrossEntropy : StreamingKernel::CrossEntropy;
    case OperatorKind::Cast: return StreamingKernel::Cast;
    case OperatorKind::Optimizer: return StreamingKernel::Optimizer;
    case OperatorKind::GradientNorm: return StreamingKernel::SquareSum;
    case OperatorKind::GradientScale: return StreamingKernel::Scale;
    default: return StreamingKernel::Copy;
  }
}

StreamingMachine streaming_machine(const Device& device, const StreamingForms& forms) {
  return {.bandwidth = device.achieved.memory_fraction * device.memory_bandwidth,
          .cache = device.cache,
          .kernel_time = device.achieved.kernel_time,
          .rates = device.achieved.streaming[static_cast<std::size_t>(forms.dtype)],
          .forms = forms};
}

double streamed_share(Bytes moved, Bytes cache) {
  if (cache <= Bytes(0.0)) return 1.0;
  if (moved <= Bytes(0.0)) return 0.0;
  return std::clamp(0.5 + 0.5 * std::log2(moved / cache), 0.0, 1.0);
}

double relative_rate(const StreamingRate& rate, Bytes moved, Bytes cache) {
  if (rate.cached == rate.streamed) return rate.streamed;
  const double w = streamed_share(moved, cache);
  return std::exp((1.0 - w) * std::log(rate.cached) + w * std::log(rate.streamed));
}

Seconds streaming_time(const Operator& op, bool backward, const StreamingMachine& machine) {
  const auto& rates = backward ? machine.rates.backward : machine.rates.forward;
  const StreamingRate& rate = rates[static_cast<std::size_t>(streaming_kernel(op, machine.forms))];
  const double relative = relative_rate(rate, op.moved, machine.cache);
  return op.moved / (op.rate * relative * machine.bandwidth) + op.kernels * machine.kernel_time;
}

}  // namespace llmsim::sim
