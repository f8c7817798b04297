#include "sim/operators/operator.h"

namespace llmsim::sim {
namespace {

// The process group's call, the launch, and the events that order two streams.
constexpr int kHostCallsPerCollective = 3;

}  // namespace

const char* name_of(Module module) {
  static constexpr const char* kNames[] = {
      "norm", "QKV", "MLA up", "core attention", "attention output",
      // Of mixers, MLPs and experts.
      "mixer input", "scan", "mixer norm", "mixer output", "residual sum", "MLP up", "activation",
      "MLP down", "MoE input", "router", "dispatch", "expert up", "expert activation",
      "expert down", "shared up", "shared activation", "shared down", "combine", "embedding",
      "LM head", "loss", "update"};
  return kNames[static_cast<std::size_t>(module)];
}

const char* name_of(OperatorKind kind) {
  static constexpr const char* kNames[] = {
      "gemm",      "attention",      "norm",           "softmax",       "activation",
      "rotary",    "residual",       "bias_gradient",  "copy",          "convolution",
      "scan",      "selective_scan", "embedding",      "cross_entropy", "cast",
      "optimizer", "gradient_norm",  "gradient_scale", "collective",    "host_copy"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* name_of(CollectiveKind kind) {
  static constexpr const char* kNames[] = {
      // In the order of the enumerators.
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"};
  return kNames[static_cast<std::size_t>(kind)];
}

Operator gemm(const char* label, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
              DType dtype, DType out) {
  const double dm = real(m), dn = real(n), dk = real(k);
  const double db = real(batch);
  Operator op{.kind = OperatorKind::Gemm,
              .label = label,
              .dtype = dtype,
              .batch = batch,
              .m = m,
              .n = n,
              .k = k};
  op.flops = 2.0 * db * dm * dn * dk * FLOP;
  op.moved = db * ((dm * dk + dk * dn) * size_of(dtype) + dm * dn * size_of(out));
  return op;
}

Operator transposed(Operator gemm) {
  gemm.transposed = true;
  return gemm;
}

Operator memory_bound(OperatorKind kind, const char* label, double elements,
                      double bytes_per_element, int kernels) {
  Operator op{.kind = kind, .label = label, .kernels = kernels};
  op.moved = Bytes(elements * bytes_per_element);
  return op;
}

Operator memory_bound(OperatorKind kind, const char* label, double elements,
                      double bytes_per_element, int kernels, Flops flops) {
  Operator op = memory_bound(kind, label, elements, bytes_per_element, kernels);
  op.flops = flops;
  return op;
}

Operator collective(const char* label, CollectiveKind kind, GroupKind group, Bytes message,
                    TensorOverlap overlap) {
  Operator op{.kind = OperatorKind::Collective,
              .label = label,
              .kernels = kHostCallsPerCollective,
              .collective = kind,
              .group = group};
  op.message = message;
  op.tensor_overlap = overlap;
  return op;
}

bool in_gemms(const Operator& op) {
  return op.kind == OperatorKind::Gemm || op.kind == OperatorKind::Cast;
}

void LayerOperators::set_module(Module module) {
  for (OperatorList* pass : {&forward, &backward, &recompute}) {
    for (Operator& op : *pass) op.module = module;
  }
}

LayerOperators& LayerOperators::append(const LayerOperators& next) {
  forward.insert(forward.end(), next.forward.begin(), next.forward.end());
  backward.insert(backward.begin(), next.backward.begin(), next.backward.end());
  recompute.insert(recompute.end(), next.recompute.begin(), next.recompute.end());
  return *this;
}

LayerOperators elementwise(OperatorKind kind, const char* label, double elements,
                           const Traffic& traffic) {
  if (traffic.forward.kernels == 0) return {};
  const auto kernels = [&](const PassTraffic& pass) {
    return memory_bound(kind, label, elements, pass.bytes, pass.kernels);
  };
  return {.forward = {kernels(traffic.forward)}, .backward = {kernels(traffic.backward)}};
}

}  // namespace llmsim::sim
