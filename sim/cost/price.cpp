#include "sim/cost/price.h"

#include "sim/base/error.h"

namespace llmsim::sim {

void CollectiveTally::add(Bytes size, Seconds duration, double times) {
  count += times;
  message += times * size;
  time += times * duration;
}

OperatorPricer::OperatorPricer(const Run& run)
    : tensor_links_(group_links(run.strategy, GroupKind::Tensor, run.cluster, run.stack.collective_efficiency)),
      bandwidth_(run.cluster.device.achieved.memory_fraction * run.cluster.device.memory_bandwidth),
      kernel_time_(run.cluster.device.achieved.kernel_time),
      compute_rate_(run.cluster.device.achieved.sustained_clock * run.stack.efficiency) {
  const DType wide = activation_dtype(run.strategy.precision);
  for (const DType dtype : {wide, matmul_dtype(run.strategy.precision), DType::Bf16}) {
    auto& machine = gemm_machines_[static_cast<std::size_t>(dtype)];
    const bool needed = dtype != DType::Bf16 || run.strategy.adapters || wide == DType::Bf16;
    if (!machine && needed) machine = gemm_machine(run.cluster.device, dtype);
  }
  attention_machine_ = attention_machine(run.cluster.device, wide);
}

const GemmMachine& OperatorPricer::gemm_machine_for(DType dtype) const {
  return *gemm_machines_[static_cast<std::size_t>(dtype)];
}

Seconds OperatorPricer::streaming_time(const Operator& op) const { return op.moved / bandwidth_ + op.kernels * kernel_time_; }

PassPrice OperatorPricer::price(const OperatorList& operators, bool backward) const {
  PassPrice pass;
  for (const Operator& op : operators) {
    pass.flops += op.flops;
    pass.kernels += op.kernels;
    switch (op.kind) {
      case OperatorKind::Gemm: pass.gemm += gemm_time(op, gemm_machine_for(op.dtype)) / compute_rate_; break;
      case OperatorKind::Attention: pass.attention += attention_time(op, backward, attention_machine_) / compute_rate_; break;
      case OperatorKind::Collective: {
        const Seconds time = collective_time(op.collective, op.message, tensor_links_);
        pass.collective += time;
        pass.tensor_collectives[static_cast<std::size_t>(op.collective)].add(op.message, time);
        break;
      }
      default: pass.memory_bound += streaming_time(op);
    }
  }
  return pass;
}

}  // namespace llmsim::sim
