#include "sim/cost/price.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/cost/tensor_overlap.h"

namespace llmsim::sim {

void CollectiveTally::add(Bytes size, Seconds duration, double times) {
  count += times;
  message += times * size;
  time += times * duration;
}

void CollectiveTally::add(const CollectiveTally& other, double times) {
  count += times * other.count;
  message += times * other.message;
  time += times * other.time;
}

void PassPrice::add(const PassPrice& other, double times) {
  gemm += times * other.gemm;
  attention += times * other.attention;
  memory_bound += times * other.memory_bound;
  collective += times * other.collective;
  collective_exposed += times * other.collective_exposed;
  context += times * other.context;
  flops += times * other.flops;
  kernels += static_cast<int>(std::lround(times * other.kernels));
  for (std::size_t i = 0; i < tensor_collectives.size(); ++i) {
    tensor_collectives[i].add(other.tensor_collectives[i], times);
    context_collectives[i].add(other.context_collectives[i], times);
  }
}

OperatorPricer::OperatorPricer(const Run& run)
    : tensor_links_(group_links(run.strategy, GroupKind::Tensor, run.cluster, run.stack.collective_efficiency)),
      context_links_(group_links(run.strategy, GroupKind::Context, run.cluster, run.stack.collective_efficiency)),
      pieces_(run.strategy.tensor_parallel),
      pipelines_products_(run.strategy.tensor_overlap),
      hides_in_gradients_(run.strategy.tensor_overlap || run.stack.hides_column_gradients),
      contention_(run.cluster.device.achieved.contention),
      bandwidth_(run.cluster.device.achieved.memory_fraction * run.cluster.device.memory_bandwidth),
      kernel_time_(run.cluster.device.achieved.kernel_time),
      compute_rate_(run.cluster.device.achieved.sustained_clock * run.cluster.device.achieved.training_rate *
                    run.stack.efficiency),
      gemm_rate_(compute_rate_ * run.stack.gemm_efficiency),
      narrow_gemm_rate_(gemm_rate_ * run.stack.narrow.gemm_efficiency) {
  const DType wide = activation_dtype(run.strategy.precision);
  for (const DType dtype : {wide, matmul_dtype(run.strategy.precision), DType::Bf16}) {
    auto& machine = gemm_machines_[static_cast<std::size_t>(dtype)];
    const bool needed = dtype != DType::Bf16 || run.strategy.adapters || wide == DType::Bf16;
    if (!machine && needed) machine = gemm_machine(run.cluster.device, dtype);
  }
  attention_machine_ = attention_machine(run.cluster.device, wide, run.stack.attention_kernel);
}

const GemmMachine& OperatorPricer::gemm_machine_for(DType dtype) const {
  return *gemm_machines_[static_cast<std::size_t>(dtype)];
}

Seconds OperatorPricer::streaming_time(const Operator& op) const {
  return op.moved / (op.rate * bandwidth_) + op.kernels * kernel_time_;
}

// `beside`: the time of one launch of the attention operator before it.
void OperatorPricer::add_context(PassPrice& pass, const Operator& op, Seconds beside) const {
  const Seconds time = collective_time(op.collective, op.message, context_links_);
  const Seconds hidden = op.beside_attention ? std::min(time, beside) : Seconds(0.0);
  pass.context += op.launches * (time - hidden);
  pass.context_collectives[static_cast<std::size_t>(op.collective)].add(op.message, time, op.launches);
}

Seconds OperatorPricer::product_time(const Operator& op) const {
  return gemm_time(op, gemm_machine_for(op.dtype)) / (is_narrow(op.dtype) ? narrow_gemm_rate_ : gemm_rate_);
}

Seconds OperatorPricer::exposed(const OperatorList& operators, std::size_t index, Seconds time) const {
  const Operator& op = operators[index];
  const bool pipelined = op.tensor_overlap == TensorOverlap::Feeds || op.tensor_overlap == TensorOverlap::Follows;
  if (op.tensor_overlap == TensorOverlap::None || !(pipelined ? pipelines_products_ : hides_in_gradients_)) return time;
  const OperatorRange range = overlapped_products(operators, index);
  OverlapProduct product;
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (!is_overlapped(op, operators[i])) continue;
    product.whole += product_time(operators[i]);
    if (!pipelined) continue;
    Operator piece = operators[i];
    piece.m = (piece.m + pieces_ - 1) / pieces_;
    piece.flops = piece.flops / pieces_;
    piece.moved = piece.moved / pieces_;
    product.piece += product_time(piece);
  }
  return pipelined ? pipelined_exposed(time, product, pieces_, contention_) : beside_exposed(time, product.whole, contention_);
}

PassPrice OperatorPricer::price(const OperatorList& operators, bool backward) const {
  PassPrice pass;
  Seconds attention;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const Operator& op = operators[i];
    pass.flops += op.flops;
    pass.kernels += op.kernels;
    switch (op.kind) {
      case OperatorKind::Gemm:
        pass.gemm += product_time(op);
        pass.narrow_products += is_narrow(op.dtype) ? 1 : 0;
        break;
      case OperatorKind::Attention: {
        const Seconds time = attention_time(op, backward, attention_machine_) / compute_rate_;
        pass.attention += time;
        attention = time / op.launches;
        break;
      }
      case OperatorKind::Collective: {
        if (op.group == GroupKind::Context) {
          add_context(pass, op, attention);
          break;
        }
        const Seconds time = collective_time(op.collective, op.message, tensor_links_);
        pass.collective += time;
        pass.collective_exposed += exposed(operators, i, time);
        pass.tensor_collectives[static_cast<std::size_t>(op.collective)].add(op.message, time);
        break;
      }
      default: pass.memory_bound += streaming_time(op);
    }
  }
  return pass;
}

}  // namespace llmsim::sim
