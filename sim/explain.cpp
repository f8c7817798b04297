#include "sim/explain.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/cost/price.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/schedule/communication.h"

namespace llmsim::sim {
namespace {

// An operator of a list, and whether that is of the backward pass.
struct PassedOperator {
  Operator op;
  bool backward = false;
};

bool same_kernel(const PassedOperator& one, const PassedOperator& other) {
  const auto shape = [](const Operator& op) { return std::array{op.batch, op.m, op.n, op.k}; };
  const Operator &a = one.op, &b = other.op;
  return one.backward == other.backward && std::string_view(a.label) == b.label &&
         shape(a) == shape(b) && a.dtype == b.dtype && a.weight_gradient == b.weight_gradient &&
         a.transposed == b.transposed && a.flops == b.flops && a.moved == b.moved;
}

// The operators of one kind in a run, each once.
class Kernels {
 public:
  explicit Kernels(OperatorKind kind) : kind_(kind) {}

  void add(const OperatorList& operators, bool backward) {
    for (const Operator& op : operators) {
      const PassedOperator passed{op, backward};
      if (op.kind != kind_ || op.flops <= Flops(0.0)) continue;
      const auto same = [&](const PassedOperator& other) { return same_kernel(passed, other); };
      if (std::none_of(list_.begin(), list_.end(), same)) list_.push_back(passed);
    }
  }

  // Blocks, embedding and head; what is recomputed belongs to the forward pass.
  template <typename Lowered>
  void add(const Lowered& lowered) {
    add(lowered.forward, false);
    add(lowered.recompute, false);
    add(lowered.backward, true);
  }

  // Those of one label together, in the order of the forward pass.
  std::vector<PassedOperator> take() {
    std::vector<std::string_view> labels;
    for (const PassedOperator& kernel : list_) labels.emplace_back(kernel.op.label);
    const auto place = [&](const PassedOperator& kernel) {
      return std::find(labels.begin(), labels.end(), kernel.op.label);
    };
    std::stable_sort(list_.begin(), list_.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
    return std::move(list_);
  }

 private:
  OperatorKind kind_;
  std::vector<PassedOperator> list_;
};

// Layers with a sliding window and without, in low precision and in 16 bits where a recipe leaves
// some so.
std::vector<PassedOperator> kernels_of(const Run& run, OperatorKind kind) {
  const Framework framework = effective_framework(run.framework, run.strategy);
  Kernels kernels(kind);
  std::vector<Transformer> models{run.model};
  if (run.model.sliding_window && full_attention_share(run.model) > 0.0)
    models.emplace_back(run.model).sliding_window.reset();
  std::vector<Strategy> strategies{run.strategy};
  if (keeps_blocks_in_high_precision(run.framework.low_precision, run.strategy.precision)) {
    strategies.emplace_back(run.strategy).precision = Precision::Bf16;
  }
  for (const Strategy& strategy : strategies) {
    for (const Transformer& model : models) {
      for (const LayerKind layers : layer_kinds(model)) {
        kernels.add(lower_block(model, strategy, framework, strategy.recompute.kind, layers));
      }
    }
  }
  kernels.add(lower_embedding(run.model, run.strategy, framework));
  kernels.add(lower_head(run.model, run.strategy, framework));
  return kernels.take();
}

void add_step_factors(std::vector<RateFactor>& list, const StepFactors& step) {
  list.push_back({"sustained_clock", step.sustained_clock});
  list.push_back({"training_rate", step.training_rate});
  list.push_back({"framework", step.framework});
  list.push_back({"host_sharing", step.host_sharing});
}

}  // namespace

const char* name_of(KernelPass pass) {
  constexpr const char* names[] = {"forward", "dgrad", "wgrad", "backward"};
  return names[static_cast<std::size_t>(pass)];
}

std::vector<RateFactor> rate_factors(const ExplainedGemm& gemm) {
  const GemmFactors& f = gemm.alone;
  std::vector<RateFactor> list{{"max_efficiency", f.max_efficiency},
                               {"k_ramp", f.k_ramp},
                               {"tile", f.tile},
                               {"waves", f.waves},
                               {"padding", f.padding},
                               {"alignment", f.alignment},
                               {"wgrad", f.weight_gradient},
                               {"transposed", f.transposed},
                               {"memory", f.roofline()},
                               {"launch", f.launch()}};
  add_step_factors(list, gemm.in_step);
  list.push_back({"library", gemm.in_step.library});
  list.push_back({"low_precision", gemm.in_step.low_precision});
  return list;
}

std::vector<RateFactor> rate_factors(const ExplainedAttention& attention) {
  const AttentionFactors& f = attention.alone;
  std::vector<RateFactor> list{{"efficiency", f.efficiency}, {"head_size", f.head_size},
                               {"sequence", f.sequence},     {"occupancy", f.occupancy},
                               {"useful", f.useful},         {"memory", f.roofline()},
                               {"launch", f.launch()}};
  add_step_factors(list, attention.in_step);
  list.push_back({"determinism", attention.in_step.determinism});
  return list;
}

std::vector<ExplainedGemm> explained_gemms(const Run& run) {
  std::vector<ExplainedGemm> list;
  for (const PassedOperator& gemm : kernels_of(run, OperatorKind::Gemm)) {
    list.push_back({.op = gemm.op,
                    .pass = gemm.op.weight_gradient ? KernelPass::WeightGradient
                            : gemm.backward         ? KernelPass::DataGradient
                                                    : KernelPass::Forward,
                    .alone = gemm_factors(gemm.op, gemm_machine(run, gemm.op.dtype)),
                    .in_step = gemm_step_factors(run, gemm.op.dtype)});
  }
  return list;
}

std::vector<ExplainedAttention> explained_attention(const Run& run) {
  const DType dtype = activation_dtype(run.strategy.precision);
  const AttentionMachine machine =
      attention_machine(run.cluster.device, dtype, run.framework.attention_kernel);
  std::vector<ExplainedAttention> list;
  for (const PassedOperator& kernel : kernels_of(run, OperatorKind::Attention)) {
    list.push_back({.op = kernel.op,
                    .pass = kernel.backward ? KernelPass::Backward : KernelPass::Forward,
                    .alone = attention_factors(kernel.op, kernel.backward, machine),
                    .in_step = attention_step_factors(run, kernel.backward)});
  }
  return list;
}

std::vector<ExplainedCollective> explained_collectives(const Run& run) {
  std::vector<ExplainedCollective> list;
  for (const RepeatedCollective& call : step_collectives(run)) {
    const GroupLinks links = group_links(run, call.group);
    const bool tokens = call.group == GroupKind::Expert && call.kind == CollectiveKind::AllToAll;
    list.push_back({.call = call,
                    .place = links.place,
                    .terms = tokens
                                 ? expert_all_to_all_terms(call.message, expert_route(run), links)
                                 : collective_terms(call.kind, call.message, links)});
  }
  return list;
}

}  // namespace llmsim::sim
