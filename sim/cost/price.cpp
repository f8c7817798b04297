#include "sim/cost/price.h"

#include "sim/base/error.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

// TransformerEngine's userbuffers: units of the collectives that are no rings of copies, and pieces
// of a GEMM whose sums are scattered.  Source: TransformerEngine pytorch/module/base.py, default
// configuration of initialize_ub.
constexpr double kBufferUnits = 16.0;
constexpr int kScatteredPieces = 4;

bool is_pipelined(const Operator& collective) {
  return collective.tensor_overlap == TensorOverlap::Feeds ||
         collective.tensor_overlap == TensorOverlap::Follows;
}

double rate_loss(const DeviceShare& share, const Device& device) {
  return 1.0 - rates_overlapped(share, device).arithmetic;
}

bool is_of_context(GroupKind kind) {
  return kind == GroupKind::Context || kind == GroupKind::ContextInner ||
         kind == GroupKind::ContextOuter;
}

}  // namespace

ExpertRoute expert_route(const Run& run) {
  if (!run.model.moe) return {};
  const ExpertBehaviour& experts = run.framework.experts;
  return {.dispatch = run.strategy.moe_dispatch,
          .top_k = visited_experts(*run.model.moe),
          .num_groups = run.model.moe->num_groups,
          .groups_per_token = run.model.moe->groups_per_token,
          .kernel_bandwidth = experts.dispatch_sms * experts.dispatch_sm_bandwidth};
}

void CollectiveTally::add(const CollectiveTally& other, double times) {
  count += times * other.count;
  message += times * other.message;
  time += times * other.time;
}

Seconds time_of(const CollectiveTallies& tallies) {
  Seconds sum;
  for (const CollectiveTally& tally : tallies) sum += tally.time;
  return sum;
}

void LaunchTally::add(const Operator& op) {
  kernels += op.kernels;
  if (op.kind == OperatorKind::Gemm && is_low_precision(op.dtype)) low_precision_gemms += 1.0;
}

void LaunchTally::add(const LaunchTally& other, double times) {
  kernels += times * other.kernels;
  low_precision_gemms += times * other.low_precision_gemms;
}

void PassPrice::add(const PassPrice& other, double times) {
  gemm += times * other.gemm;
  weight_gradients += times * other.weight_gradients;
  attention += times * other.attention;
  memory_bound += times * other.memory_bound;
  collective += times * other.collective;
  collective_exposed += times * other.collective_exposed;
  context += times * other.context;
  expert += times * other.expert;
  contention += times * other.contention;
  flops += times * other.flops;
  launches.add(other.launches, times);
  ragged_launches.add(other.ragged_launches, times);
  for (std::size_t i = 0; i < tensor_collectives.size(); ++i) {
    tensor_collectives[i].add(other.tensor_collectives[i], times);
    context_collectives[i].add(other.context_collectives[i], times);
    context_inner_collectives[i].add(other.context_inner_collectives[i], times);
    context_outer_collectives[i].add(other.context_outer_collectives[i], times);
    expert_collectives[i].add(other.expert_collectives[i], times);
    expert_tensor_collectives[i].add(other.expert_tensor_collectives[i], times);
  }
}

OperatorPricer::OperatorPricer(const Run& run) : run_(run) {
  for (const DType dtype : {activations_, matmul_dtype(run.strategy.precision)}) {
    auto& machine = gemm_machines_[static_cast<std::size_t>(dtype)];
    if (!machine) machine = gemm_machine(run, dtype);
  }
  const Device& device = run.cluster.device;
  const auto loss = [&](const DeviceShare& share) { return rate_loss(share, device); };
  copied_loss_ = loss(copied_share(tensor_links_, device));
  library_loss_ = loss(collective_share(tensor_links_, device));
  buffer_loss_ = loss(collective_share(tensor_links_, device, kBufferUnits));
  expert_loss_ = loss(collective_share(expert_links_, device));
}

const GemmMachine& OperatorPricer::gemm_machine_for(DType dtype) const {
  return *gemm_machines_[static_cast<std::size_t>(dtype)];
}

OperatorPricer::ContextGroup OperatorPricer::context_group(
    GroupKind kind, CollectiveTallies PassPrice::*tallies) const {
  const GroupLinks links = group_links(run_, kind);
  const Device& device = run_.cluster.device;
  return {links, rate_loss(collective_share(links, device), device), tallies};
}

const OperatorPricer::ContextGroup& OperatorPricer::context_group_of(GroupKind kind) const {
  if (kind == GroupKind::ContextInner) return context_inner_;
  return kind == GroupKind::ContextOuter ? context_outer_ : context_;
}

// `attention`: the time of one launch of the attention operator before it.
void OperatorPricer::add_context(PassPrice& pass, const Operator& op, Seconds attention) const {
  const ContextGroup& group = context_group_of(op.group);
  const Seconds time = collective_time(op.collective, op.message, group.links);
  const ExposedTimes times =
      run_overlapped(time, op.overlaps_attention ? attention : Seconds(0.0), group.loss);
  pass.context += op.launches * times.exposed;
  pass.contention += op.launches * times.slowdown;
  (pass.*group.tallies)[static_cast<std::size_t>(op.collective)].add(op.message, time, op.launches);
}

void OperatorPricer::add_expert(PassPrice& pass, const Operator& op) const {
  const bool divides = op.group == GroupKind::ExpertTensor,
             rows = op.collective == CollectiveKind::AllToAll;
  const Seconds each = rows ? expert_all_to_all_time(op.message, route_, expert_links_)
                            : collective_time(op.collective, op.message,
                                              divides ? expert_tensor_links_ : expert_links_);
  pass.expert += op.launches * each;
  CollectiveTallies& tallies = divides ? pass.expert_tensor_collectives : pass.expert_collectives;
  tallies[static_cast<std::size_t>(op.collective)].add(op.message, each, op.launches);
}

void OperatorPricer::overlap_all_to_alls(PassPrice& forward, PassPrice& backward) const {
  if (!run_.strategy.moe_overlap || run_.strategy.pipeline_schedule == PipelineSchedule::DualPipe)
    return;
  const ExposedTimes there = run_overlapped(forward.expert, backward.compute(), expert_loss_);
  const ExposedTimes back = run_overlapped(backward.expert, forward.compute(), expert_loss_);
  forward.expert = there.exposed, backward.expert = back.exposed;
  forward.contention += back.slowdown, backward.contention += there.slowdown;
}

void OperatorPricer::add_tensor(PassPrice& pass, const OperatorList& operators,
                                std::size_t index) const {
  const Operator& op = operators[index];
  const Seconds each = collective_time(op.collective, op.message, tensor_links_),
                time = op.launches * each;
  pass.collective += time;
  const ExposedTimes times = overlapped_with_gemms(operators, index, time);
  pass.collective_exposed += times.exposed;
  pass.contention += times.slowdown;
  pass.tensor_collectives[static_cast<std::size_t>(op.collective)].add(op.message, each,
                                                                       op.launches);
}

Seconds OperatorPricer::gemm_time(const Operator& op) const {
  return sim::gemm_time(op, gemm_machine_for(op.dtype)) /
         (is_low_precision(op.dtype) ? low_precision_gemm_rate_ : gemm_rate_);
}

OverlapGemm OperatorPricer::overlapped(const OperatorList& operators, std::size_t index,
                                       int pieces) const {
  const OperatorRange range = overlapped_gemms(operators, index);
  OverlapGemm gemm;
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (!is_overlapped(operators[index], operators[i])) continue;
    gemm.whole += gemm_time(operators[i]);
    if (pieces == 1) continue;
    Operator piece = operators[i];
    piece.m = (piece.m + pieces - 1) / pieces;
    piece.flops = piece.flops / pieces;
    piece.moved = piece.moved / pieces;
    gemm.piece += gemm_time(piece);
  }
  return gemm;
}

ExposedTimes OperatorPricer::overlapped_with_gemms(const OperatorList& operators, std::size_t index,
                                                   Seconds time) const {
  const Operator& op = operators[index];
  const bool pipelines = run_.strategy.tp_overlap;  // cuts GEMMs and collectives into pieces
  // Weight gradients that are passes of their own come long after the data gradients.
  const bool apart = op.tensor_overlap == TensorOverlap::WeightGradient &&
                     splits_backward(run_.strategy.pipeline_schedule);
  const bool hides = pipelines || (!is_pipelined(op) && run_.framework.hides_column_gradients);
  if (op.tensor_overlap == TensorOverlap::None || !hides || apart) return {.exposed = time};
  const double loss = pipelines ? buffer_loss_ : library_loss_;
  if (!is_pipelined(op)) return run_overlapped(time, overlapped(operators, index, 1).whole, loss);
  // TransformerEngine sums behind a GEMM by collectives of its own, not by a ring of copies.
  const int ranks = run_.strategy.tp;
  if (op.collective == CollectiveKind::AllGather || !run_.framework.reserve.transformer_engine)
    return pipelined(time, overlapped(operators, index, ranks), ranks, ranks - 1, copied_loss_);
  return pipelined(time, overlapped(operators, index, kScatteredPieces), kScatteredPieces,
                   kScatteredPieces, loss);
}

void OperatorPricer::add_fill(PassPrice& pass, const Operator& op, bool backward) const {
  const Bytes filled = filled_bytes(op, backward, size_of(activations_).value(), run_.framework);
  if (filled == Bytes(0.0)) return;
  pass.memory_bound += filled / memory_bound_machine_.bandwidth + memory_bound_machine_.kernel_time;
  pass.launches.kernels += 1.0;
  if (op.ragged) pass.ragged_launches.kernels += 1.0;
}

// `attention`: the time of one launch of the last attention operator, on the way through the list.
void OperatorPricer::add(PassPrice& pass, const OperatorList& operators, std::size_t index,
                         bool backward, Seconds& attention) const {
  const Operator& op = operators[index];
  pass.flops += op.flops;
  pass.launches.add(op);
  if (op.ragged) pass.ragged_launches.add(op);
  if (run_.framework.determinism.fills_new_tensors) add_fill(pass, op, backward);
  switch (op.kind) {
    case OperatorKind::Gemm: {
      const Seconds time = gemm_time(op);
      pass.gemm += time;
      if (op.weight_gradient && backward) pass.weight_gradients += time;
      break;
    }
    case OperatorKind::Attention: {
      const double rate = backward ? attention_backward_rate_ : attention_rate_;
      const Seconds time = attention_time(op, backward, attention_machine_) / rate;
      pass.attention += time;
      attention = time / op.launches;
      break;
    }
    case OperatorKind::Collective:
      if (is_of_context(op.group)) {
        add_context(pass, op, attention);
      } else if (op.group == GroupKind::Expert || op.group == GroupKind::ExpertTensor) {
        add_expert(pass, op);
      } else {
        add_tensor(pass, operators, index);
      }
      break;
    default: pass.memory_bound += memory_bound_time(op, backward, memory_bound_machine_);
  }
}

PassPrice OperatorPricer::price(const OperatorList& operators, bool backward) const {
  PassPrice pass;
  Seconds attention;
  for (std::size_t i = 0; i < operators.size(); ++i) add(pass, operators, i, backward, attention);
  return pass;
}

std::vector<PricedOperator> OperatorPricer::each_price(const OperatorList& operators,
                                                       bool backward) const {
  std::vector<PricedOperator> list;
  Seconds attention;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    PassPrice price;
    add(price, operators, i, backward, attention);
    PricedOperator& op = list.emplace_back(PricedOperator{operators[i]});
    op.time = price.total();
    for (const CollectiveTallies* tallies :
         {&price.tensor_collectives, &price.context_collectives, &price.context_inner_collectives,
          &price.context_outer_collectives, &price.expert_collectives,
          &price.expert_tensor_collectives})
      op.message_time += time_of(*tallies);
  }
  return list;
}

bool PricedOperator::is_all_to_all() const {
  return kind == OperatorKind::Collective &&
         (group == GroupKind::Expert || group == GroupKind::ExpertTensor);
}

}  // namespace llmsim::sim
