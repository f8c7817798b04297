#include "sim/operators/update.h"

#include <algorithm>

#include "sim/base/dtype.h"

namespace llmsim::sim {
namespace {

constexpr double kEightBitState = 1.0 + 4.0 / 256.0;
constexpr double kEightBitOperations = 610.0;

double master_bytes(const ParameterStorage& storage) {
  return storage.master_bytes > 0.0 ? storage.master_bytes : storage.weight_bytes;
}

// The 8-bit Adam is one kernel everywhere.
bool is_fused(OptimizerKind optimizer, bool fused) {
  if (optimizer == OptimizerKind::Adam8bit) return true;
  return fused && optimizer != OptimizerKind::Adafactor;
}

// Values of a parameter that an optimizer keeps, and that its operations one by one read and write.
struct OptimizerValues {
  double states, unfused;
};
constexpr OptimizerValues kValues[] = {{2.0, 20.0},  // AdamW
                                       {2.0, 18.0},  // Adam
                                       {2.0, 20.0},  // Adam8bit
                                       {1.0, 17.0},  // Lion
                                       {0.0, 15.0},  // Adafactor
                                       {0.0, 3.0},   // Sgd
                                       {1.0, 8.0},   // Momentum
                                       {2.0, 25.0},  // Lamb
                                       {1.0, 8.0}};  // Muon

double unfused_values(OptimizerKind optimizer) {
  return kValues[static_cast<std::size_t>(optimizer)].unfused;
}

double fused_bytes(OptimizerKind optimizer, const ParameterStorage& storage, double gradient) {
  const double second_pass = optimizer == OptimizerKind::Lamb ? 3.0 * kFp32Bytes : 0.0;
  return gradient + 2.0 * master_bytes(storage) +
         2.0 * state_bytes_per_parameter(optimizer, storage) + second_pass;
}

}  // namespace

double state_values(OptimizerKind optimizer) {
  return kValues[static_cast<std::size_t>(optimizer)].states;
}

double state_bytes_per_parameter(OptimizerKind optimizer, const ParameterStorage& storage) {
  const double bytes = optimizer == OptimizerKind::Adam8bit ? kEightBitState : storage.state_bytes;
  return state_values(optimizer) * bytes;
}

double update_temporary_bytes(OptimizerKind optimizer, const ParameterStorage& storage,
                              const UpdateBehaviour& update) {
  const bool none = is_fused(optimizer, update.fused) || optimizer == OptimizerKind::Sgd;
  const double values = none ? 0.0 : update.temporary_values * storage.state_bytes;
  return std::max(update.temporary_bytes, update.kept_temporary_bytes + values);
}

UpdateOperators lower_update(OptimizerKind optimizer, const ParameterStorage& storage, bool fused,
                             double parameters, double gradients) {
  const bool one_pass = is_fused(optimizer, fused);
  const double gradient =
      storage.main_gradient_bytes > 0.0 ? storage.main_gradient_bytes : storage.gradient_bytes;
  const double low_precision_copy = storage.master_bytes > 0.0 ? storage.weight_bytes : 0.0;
  const double arithmetic = one_pass ? fused_bytes(optimizer, storage, gradient)
                                     : unfused_values(optimizer) * master_bytes(storage);
  const int passes = one_pass ? 2 : static_cast<int>(unfused_values(optimizer) / 2.0);
  UpdateOperators operators{
      .norm = memory_bound(OperatorKind::GradientNorm, "gradient_norm", gradients, gradient, 2),
      .clip =
          memory_bound(OperatorKind::GradientScale, "gradient_clip", gradients, 2.0 * gradient, 1),
      .update = memory_bound(OperatorKind::Optimizer, "optimizer_update", parameters,
                             arithmetic + low_precision_copy, passes)};
  for (Operator* op : {&operators.norm, &operators.clip, &operators.update})
    op->module = Module::Update;
  if (optimizer == OptimizerKind::Adam8bit)
    operators.update.flops = kEightBitOperations * parameters * FLOP;
  return operators;
}

}  // namespace llmsim::sim
