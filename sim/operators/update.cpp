#include "sim/operators/update.h"

namespace llmsim::sim {

double state_values(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::Sgd:
    case OptimizerKind::Adafactor: return 0.0;
    case OptimizerKind::Lion:
    case OptimizerKind::Momentum:
    case OptimizerKind::Muon: return 1.0;
    default: return 2.0;
  }
}

double state_bytes_per_parameter(OptimizerKind optimizer, const ParameterStorage& storage) {
  const double bytes = optimizer == OptimizerKind::Adam8bit ? 1.0 : storage.state_bytes;
  return state_values(optimizer) * bytes;
}

OperatorList lower_update(OptimizerKind optimizer, const ParameterStorage& storage, double parameters, double gradients) {
  const double gradient = storage.main_gradient_bytes > 0.0 ? storage.main_gradient_bytes : storage.gradient_bytes;
  const double master = storage.master_bytes > 0.0 ? storage.master_bytes : storage.weight_bytes;
  const double low_precision_copy = storage.master_bytes > 0.0 ? storage.weight_bytes : 0.0;
  const double update = gradient + 2.0 * master + 2.0 * state_bytes_per_parameter(optimizer, storage) + low_precision_copy;
  OperatorList operators;
  operators.push_back(streaming(OperatorKind::GradientNorm, "gradient_norm", gradients, gradient, 2));
  operators.push_back(streaming(OperatorKind::GradientNorm, "gradient_clip", gradients, 2.0 * gradient, 1));
  operators.push_back(streaming(OperatorKind::Optimizer, "optimizer_update", parameters, update, 2));
  return operators;
}

}  // namespace llmsim::sim
