#include "calibrate/profile/predicted_step.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "sim/schedule/step_operators.h"

namespace llmsim::calibrate {

namespace {

using sim::OperatorKind;
using sim::Seconds;
using sim::StepOperator;
using sim::Term;

StepPart part_of(const StepOperator& one) {
  switch (one.op.kind) {
    case OperatorKind::Gemm: return StepPart::Gemms;
    case OperatorKind::Attention: return StepPart::Attention;
    case OperatorKind::Cast: return StepPart::Casts;
    case OperatorKind::HostCopy: return StepPart::Copies;
    case OperatorKind::Optimizer:
    case OperatorKind::GradientNorm:
    case OperatorKind::GradientScale: return StepPart::Optimizer;
    case OperatorKind::Collective: break;
    default: return StepPart::MemoryBound;
  }
  using sim::GroupKind;
  const GroupKind group = one.op.group;
  if (group == GroupKind::Tensor) return StepPart::Tensor;
  if (group == GroupKind::Context || group == GroupKind::ContextInner ||
      group == GroupKind::ContextOuter)
    return StepPart::Context;
  return StepPart::Expert;
}

void count(PredictedStep& step, const StepOperator& one) {
  const StepPart part = part_of(one);
  step.parts[part] += one.time;
  if (part == StepPart::Gemms) step.gemm_kernels += one.kernels;
  if (part == StepPart::Casts) step.cast_kernels += one.kernels;
  if (part == StepPart::MemoryBound) step.memory_bound_kernels += one.kernels;
  const sim::Flops executed = one.calls * one.op.repeats * one.op.flops;
  if (part == StepPart::Gemms) step.gemm_flops += executed;
  if (part == StepPart::Attention) step.attention_flops += executed;
}

// Forward passes of blocks: the embedding and the head have modules of their own.
void count_forward(PredictedStep& step, const StepOperator& one) {
  const sim::Module module = one.op.module;
  if (module == sim::Module::Embedding || module == sim::Module::Head ||
      module == sim::Module::Loss)
    return;
  const StepPart part = part_of(one);
  const double kernels = one.calls * one.op.launches;
  if (part == StepPart::Attention && one.recomputed) step.recomputed_calls += kernels;
  if (one.backward) return;
  if (part == StepPart::Attention) step.attention_calls += kernels;
  if (part == StepPart::MemoryBound) step.forward_memory_bound += one.time;
  if (part != StepPart::Gemms) return;
  step.block_gemms += one.kernels;
  step.forward_gemms += one.time;
}

std::vector<PredictedGemm> gemms_of(const std::vector<StepOperator>& operators) {
  std::map<hwdb::GemmShape, PredictedGemm> gemms;
  for (const StepOperator& one : operators) {
    if (one.op.kind != OperatorKind::Gemm) continue;
    PredictedGemm& gemm = gemms[sorted_sizes({one.op.batch, one.op.m, one.op.n, one.op.k})];
    gemm.calls += one.calls;
    gemm.time += one.time;
  }
  std::vector<PredictedGemm> list;
  for (auto& [shape, gemm] : gemms) {
    gemm.shape = shape;
    list.push_back(gemm);
  }
  return list;
}

struct TermPart {
  Term term;
  StepPart part;
};

// Components that consist of operators, and what a drawing shows them as.
constexpr TermPart kOfOperators[] = {{Term::ForwardGemm, StepPart::Gemms},
                                     {Term::ForwardAttention, StepPart::Attention},
                                     {Term::ForwardMemoryBound, StepPart::MemoryBound},
                                     {Term::BackwardGemm, StepPart::Gemms},
                                     {Term::BackwardAttention, StepPart::Attention},
                                     {Term::BackwardMemoryBound, StepPart::MemoryBound},
                                     {Term::Recompute, StepPart::Gemms},
                                     {Term::HeadAndLoss, StepPart::Gemms},
                                     {Term::Embedding, StepPart::MemoryBound},
                                     {Term::TensorExposed, StepPart::Tensor},
                                     {Term::ContextExposed, StepPart::Context},
                                     {Term::ExpertExposed, StepPart::Expert}};
// All others but the slowdown by collectives and the slowest device.
constexpr TermPart kWaits[] = {{Term::TransferExposed, StepPart::Pipeline},
                               {Term::PipelineBubble, StepPart::Pipeline},
                               {Term::GatherExposed, StepPart::Data},
                               {Term::ReduceExposed, StepPart::Data},
                               {Term::GradientCopies, StepPart::MemoryBound},
                               {Term::LaunchWait, StepPart::Idle},
                               {Term::Host, StepPart::Idle},
                               {Term::OffloadExposed, StepPart::Copies},
                               {Term::Optimizer, StepPart::Optimizer},
                               {Term::Remainder, StepPart::Remainder}};

void add_contention(StepParts& parts, Seconds contention) {
  const Seconds gemms = parts[StepPart::Gemms], compute = gemms + parts[StepPart::Attention];
  const double share = compute > Seconds(0.0) ? gemms / compute : 1.0;
  parts[StepPart::Gemms] += share * contention;
  parts[StepPart::Attention] += (1.0 - share) * contention;
}

}  // namespace

hwdb::GemmShape sorted_sizes(const hwdb::GemmShape& shape) {
  std::array sizes{shape.m, shape.n, shape.k};
  std::ranges::sort(sizes, std::greater{});
  return {.batch = shape.batch, .m = sizes[0], .n = sizes[1], .k = sizes[2]};
}

PredictedStep predicted_step(const sim::Prediction& prediction, bool several_ranks) {
  const sim::StepOperators operators = sim::step_operators(prediction.run);
  const sim::Terms& terms = operators.terms;
  PredictedStep step{.step = prediction.step_time};
  for (const StepOperator& one : operators.operators) {
    count(step, one);
    count_forward(step, one);
  }
  step.gemms = gemms_of(operators.operators);
  Seconds beyond = terms[Term::Contention] - operators.closing_tensor - step.parts.total();
  for (const auto& [term, part] : kOfOperators) beyond += terms[term];
  step.parts[StepPart::Tensor] += operators.closing_tensor;
  const Seconds slowed = std::clamp(beyond, Seconds(0.0), terms[Term::Contention]);
  add_contention(step.parts, slowed);
  const Seconds hidden = std::clamp(slowed - beyond, Seconds(0.0), step.parts[StepPart::Expert]);
  step.parts[StepPart::Expert] -= hidden;
  step.parts[StepPart::Remainder] += beyond - slowed + hidden;
  for (const auto& [term, part] : kWaits) step.parts[part] += terms[term];
  step.parts[several_ranks ? StepPart::Waiting : StepPart::Data] += terms[Term::Straggler];
  return step;
}

PredictedStep drawn_step(const sim::Prediction& prediction) {
  const sim::Terms terms = sim::step_operators(prediction.run).terms;
  PredictedStep step{.step = prediction.step_time};
  for (const auto& [term, part] : kOfOperators) step.parts[part] += terms[term];
  for (const auto& [term, part] : kWaits) step.parts[part] += terms[term];
  step.parts[StepPart::Gemms] += terms[Term::Contention];
  step.parts[StepPart::Data] += terms[Term::Straggler];
  return step;
}

}  // namespace llmsim::calibrate
