#include "sim/operators/operator.h"

namespace llmsim::sim {
namespace {

// The process group's call, the launch, and the events that order two streams.
constexpr int kHostCallsPerCollective = 3;

void append(OperatorList& list, const OperatorList& more) {
  list.insert(list.end(), more.begin(), more.end());
}

void push(OperatorList& list, Module module, Operator op) {
  op.module = module;
  list.push_back(op);
}

}  // namespace

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

void LayerOperators::add_forward(Module module, Operator op) { push(forward, module, op); }
void LayerOperators::add_backward(Module module, Operator op) { push(backward, module, op); }

void LayerOperators::add(OperatorKind kind, Module module, const char* label, double elements,
                         const Traffic& traffic) {
  if (traffic.forward_kernels == 0) return;
  add_forward(module,
              memory_bound(kind, label, elements, traffic.forward_bytes, traffic.forward_kernels));
  add_backward(module, memory_bound(kind, label, elements, traffic.backward_bytes,
                                    traffic.backward_kernels));
}

void LayerOperators::add(Module module, const LayerOperators& part) {
  for (const Operator& op : part.forward) add_forward(module, op);
  for (const Operator& op : part.backward) add_backward(module, op);
  for (const Operator& op : part.recompute) push(recompute, module, op);
}

void LayerOperators::add(const LayerOperators& part) {
  append(forward, part.forward);
  append(backward, part.backward);
  append(recompute, part.recompute);
}

}  // namespace llmsim::sim
