#include "sim/operators/operator.h"

namespace llmsim::sim {
namespace {

// The process group's call, the launch, and the events that order two streams.
constexpr int kHostCallsPerCollective = 3;

}  // namespace

const char* name_of(Module module) {
  switch (module) {
    case Module::Norm: return "norm";
    case Module::Qkv: return "QKV";
    case Module::MlaUp: return "MLA up";
    case Module::CoreAttention: return "core attention";
    case Module::AttentionOutput: return "attention output";
    case Module::MixerInput: return "mixer input";
    case Module::Scan: return "scan";
    case Module::MixerNorm: return "mixer norm";
    case Module::MixerOutput: return "mixer output";
    case Module::Residual: return "residual sum";
    case Module::MlpUp: return "MLP up";
    case Module::Activation: return "activation";
    case Module::MlpDown: return "MLP down";
    case Module::MoeInput: return "MoE input";
    case Module::Router: return "router";
    case Module::Dispatch: return "dispatch";
    case Module::ExpertUp: return "expert up";
    case Module::ExpertActivation: return "expert activation";
    case Module::ExpertDown: return "expert down";
    case Module::SharedUp: return "shared up";
    case Module::SharedActivation: return "shared activation";
    case Module::SharedDown: return "shared down";
    case Module::Combine: return "combine";
    case Module::Embedding: return "embedding";
    case Module::Head: return "LM head";
    case Module::Loss: return "loss";
    case Module::Update: return "update";
  }
  return "";
}

const char* name_of(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::Gemm: return "gemm";
    case OperatorKind::Attention: return "attention";
    case OperatorKind::Norm: return "norm";
    case OperatorKind::Softmax: return "softmax";
    case OperatorKind::Activation: return "activation";
    case OperatorKind::Rotary: return "rotary";
    case OperatorKind::Residual: return "residual";
    case OperatorKind::BiasGradient: return "bias_gradient";
    case OperatorKind::Copy: return "copy";
    case OperatorKind::Convolution: return "convolution";
    case OperatorKind::Scan: return "scan";
    case OperatorKind::SelectiveScan: return "selective_scan";
    case OperatorKind::Embedding: return "embedding";
    case OperatorKind::CrossEntropy: return "cross_entropy";
    case OperatorKind::Cast: return "cast";
    case OperatorKind::Optimizer: return "optimizer";
    case OperatorKind::GradientNorm: return "gradient_norm";
    case OperatorKind::GradientScale: return "gradient_scale";
    case OperatorKind::Collective: return "collective";
    case OperatorKind::HostCopy: return "host_copy";
  }
  return "";
}

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce: return "all_reduce";
    case CollectiveKind::AllGather: return "all_gather";
    case CollectiveKind::ReduceScatter: return "reduce_scatter";
    case CollectiveKind::AllToAll: return "all_to_all";
    case CollectiveKind::Broadcast: return "broadcast";
    case CollectiveKind::SendRecv: return "send_recv";
  }
  return "";
}

Operator gemm(const char* label, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
              DType dtype, DType out) {
  const double dm = static_cast<double>(m), dn = static_cast<double>(n),
               dk = static_cast<double>(k);
  const double db = static_cast<double>(batch);
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
  if (traffic.forward_kernels == 0) return {};
  return {.forward = {memory_bound(kind, label, elements, traffic.forward_bytes,
                                   traffic.forward_kernels)},
          .backward = {memory_bound(kind, label, elements, traffic.backward_bytes,
                                    traffic.backward_kernels)},
          .recompute = {}};
}

}  // namespace llmsim::sim
