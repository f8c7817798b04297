#include "runtime/measure/shapes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "hwdb/models/catalogue.h"
#include "sim/base/error.h"
#include "sim/cost/kernels.h"
#include "sim/model/parameters.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/operators/update.h"
#include "sim/strategy/validity.h"

namespace llmsim::runtime {
namespace {

constexpr int kTensorRanks[] = {1, 2, 4, 8};
constexpr int kMicroBatches[] = {1, 2, 4};
// Operands of an operator beside those whose bytes it moves: gradients that are added to, copies
// that rotate.
constexpr double kOperandCopies = 4.0;
constexpr double kCastBytes = 6.0;  // fp32 on one side, 16 bits on the other

// The runtime's blocks are a decoder's; of an encoder it executes attention without a mask, and is
// as wide as a decoder of its sizes.
sim::Transformer executed(sim::Transformer model) {
  if (!model.encoder) return model;
  model.encoder.reset();
  model.embedding_norm = model.bias.head = false;
  model.final_norm = true;
  return model;
}

bool executes(const sim::Transformer& model, const sim::Strategy& strategy) {
  if (broken_rule_name(model, strategy, strategy.num_devices()) != nullptr) return false;
  if (model.num_kv_heads % strategy.tp != 0) return false;  // key heads are not replicated
  try {
    rank_shape(executed(model), strategy, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Gradients and weights have the format of the activations; master weights and states are fp32.
sim::ParameterStorage storage_of(sim::DType dtype) {
  const double e = sim::size_of(dtype).value();
  return {.weight_bytes = e,
          .gradient_bytes = e,
          .main_gradient_bytes = 0.0,
          .master_bytes = e < 4.0 ? 4.0 : 0.0};
}

void add(std::vector<KernelCase>& cases, const KernelCase& like, const sim::OperatorList& operators,
         bool backward) {
  for (const sim::Operator& op : operators) {
    if (op.kind == sim::OperatorKind::Collective || op.kind == sim::OperatorKind::HostCopy)
      continue;
    KernelCase one = like;
    one.op = op;
    one.backward = backward;
    cases.push_back(one);
  }
}

sim::Seconds expected_time(const sim::Operator& op, const ShapeLimits& limits) {
  return op.repeats * op.flops / limits.rate + op.moved / limits.bandwidth;
}

// `wanted` of `cases`, evenly over the logarithm of their times.  They are sorted by time.
std::vector<KernelCase> thinned(const std::vector<KernelCase>& cases, int wanted) {
  if (wanted <= 0 || static_cast<int>(cases.size()) <= wanted) return cases;
  const double low = std::log(cases.front().expected), high = std::log(cases.back().expected);
  std::set<std::size_t> picked;
  for (int i = 0; i < wanted; ++i) {
    const double target = low + (high - low) * i / std::max(1, wanted - 1);
    const auto after = std::lower_bound(
        cases.begin(), cases.end(), target,
        [](const KernelCase& one, double value) { return std::log(one.expected) < value; });
    picked.insert(std::min(static_cast<std::size_t>(after - cases.begin()), cases.size() - 1));
  }
  std::vector<KernelCase> some;
  for (const std::size_t index : picked) some.push_back(cases[index]);
  return some;
}

std::vector<sim::Strategy> strategies(sim::Precision precision) {
  std::vector<sim::Strategy> all;
  for (const int ranks : kTensorRanks) {
    for (const int micro_batch : kMicroBatches) {
      for (const bool fused : {false, true}) {
        sim::Strategy strategy;
        strategy.tp = ranks;
        strategy.micro_batch = strategy.global_batch = micro_batch;
        strategy.precision = precision;
        strategy.flash_attention = strategy.fused_cross_entropy = fused;
        all.push_back(strategy);
      }
    }
  }
  return all;
}

std::vector<sim::Transformer> models(const ShapeLimits& limits) {
  std::vector<sim::Transformer> all;
  for (const sim::NamedModel& entry : hwdb::catalogue()) {
    for (int seq_len = limits.shortest_sequence;
         seq_len <= std::min(limits.longest_sequence, entry.model.seq_len); seq_len *= 2) {
      all.push_back(entry.model);
      all.back().seq_len = seq_len;
    }
  }
  return all;
}

using Group = std::tuple<sim::OperatorKind, std::string, bool, sim::DType>;

// Operators of one kind whose kernels differ.
std::string variant_of(const KernelCase& one) {
  if (one.op.kind == sim::OperatorKind::Gemm && is_of_experts(one.op))
    return one.op.weight_gradient ? "experts accumulated" : "experts";
  if (one.op.kind == sim::OperatorKind::Gemm)
    return one.op.weight_gradient ? "accumulated" : one.op.batch > 1 ? "batched" : "";
  if (one.op.kind == sim::OperatorKind::Attention)
    return one.model.mla ? "mla" : one.model.encoder ? "unmasked" : "";
  if (!is_memory_bound(one.op.kind)) return "";
  return name_of(memory_bound_kernel(one.op, memory_bound_forms(one.model, one.strategy)));
}

Group group_of(const KernelCase& one) {
  return {one.op.kind, variant_of(one), one.backward, one.dtype};
}

// One of each group, then the next of each.
std::vector<KernelCase> in_rounds(std::vector<std::vector<KernelCase>>& groups) {
  std::vector<KernelCase> all;
  for (std::size_t round = 0, before = 1; all.size() != before; ++round) {
    before = all.size();
    for (std::vector<KernelCase>& members : groups) {
      if (round < members.size()) all.push_back(std::move(members[round]));
    }
  }
  return all;
}

// Operators that MLA alone has.
bool is_of_mla(const sim::Operator& op) {
  if (op.module == sim::Module::CoreAttention)
    return op.kind == sim::OperatorKind::Attention || op.kind == sim::OperatorKind::Gemm;
  return op.module == sim::Module::Qkv || op.module == sim::Module::MlaUp;
}

std::vector<KernelCase> unmasked_cases_of(const sim::Transformer& model,
                                          const sim::Strategy& strategy) {
  const KernelCase like{.op = {},
                        .dtype = sim::activation_dtype(strategy.precision),
                        .model = model,
                        .strategy = strategy,
                        .shape = rank_shape(executed(model), strategy, {})};
  const sim::LayerOperators block = lower_block(model, strategy, {}, sim::RecomputeKind::None);
  std::vector<KernelCase> cases;
  add(cases, like, block.forward, false);
  add(cases, like, block.backward, true);
  std::erase_if(cases,
                [](const KernelCase& one) { return one.op.kind != sim::OperatorKind::Attention; });
  return cases;
}

// Of an MoE model or an encoder what the catalogue's dense decoders do not have.
std::vector<KernelCase> new_cases_of(const sim::Transformer& model, const sim::Strategy& strategy) {
  if (model.encoder) return unmasked_cases_of(model, strategy);
  if (!model.moe) return cases_of(model, strategy);
  std::vector<KernelCase> cases = expert_cases_of(model, strategy);
  if (!model.mla) return cases;
  std::vector<KernelCase> all = cases_of(model, strategy);
  std::copy_if(all.begin(), all.end(), std::back_inserter(cases),
               [](const KernelCase& one) { return is_of_mla(one.op); });
  return cases;
}

}  // namespace

const char* pass_name(bool backward) { return backward ? "backward" : "forward"; }

std::string KernelCase::key() const {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::string text = std::string(sim::name_of(op.kind)) + " " + op.label + " " +
                     pass_name(backward) + " " + sim::name_of(dtype);
  if (op.kind == sim::OperatorKind::Gemm || op.kind == sim::OperatorKind::Attention) {
    return text + " " + number(op.batch) + "x" + number(op.m) + "x" + number(op.n) + "x" +
           number(op.k) + (op.weight_gradient ? " accumulated" : "") +
           (op.kind == sim::OperatorKind::Attention && model.mla ? " mla" : "") +
           (op.kind == sim::OperatorKind::Attention && model.encoder ? " unmasked" : "");
  }
  return text + " " + number(static_cast<std::int64_t>(op.moved.value())) + "B/" +
         number(op.kernels);
}

std::vector<KernelCase> cases_of(const sim::Transformer& model, const sim::Strategy& strategy) {
  const sim::Framework framework;
  KernelCase like{.op = {},
                  .dtype = sim::activation_dtype(strategy.precision),
                  .model = model,
                  .strategy = strategy,
                  .shape = rank_shape(model, strategy, {})};
  std::vector<KernelCase> cases;
  const sim::LayerOperators block =
      lower_block(model, strategy, framework, sim::RecomputeKind::None);
  add(cases, like, block.forward, false);
  add(cases, like, block.backward, true);
  for (const sim::LayerOperators& end :
       {lower_embedding(model, strategy, framework), lower_head(model, strategy, framework)}) {
    add(cases, like, end.forward, false);
    add(cases, like, end.backward, true);
  }
  like.weights = sim::block_parameters(model, 0).total() / strategy.tp;
  const auto weights = static_cast<double>(like.weights);
  const sim::UpdateOperators update =
      lower_update(strategy.optimizer, storage_of(like.dtype), /*fused=*/false, weights, weights);
  add(cases, like, {update.norm, update.clip, update.update}, false);
  if (like.dtype != sim::DType::Fp32) {
    add(cases, like, {memory_bound(sim::OperatorKind::Cast, "weight_cast", weights, kCastBytes, 1)},
        false);
    add(cases, like,
        {memory_bound(sim::OperatorKind::Cast, "gradient_cast", weights, kCastBytes, 1)}, true);
  }
  return cases;
}

bool is_of_experts(const sim::Operator& op) {
  switch (op.module) {
    case sim::Module::Router: return op.kind == sim::OperatorKind::Softmax;
    case sim::Module::Combine: return true;
    case sim::Module::Dispatch:
    case sim::Module::ExpertUp:
    case sim::Module::ExpertDown:
      return op.kind != sim::OperatorKind::Cast && op.kind != sim::OperatorKind::BiasGradient;
    default: return false;
  }
}

std::vector<KernelCase> expert_cases_of(const sim::Transformer& model,
                                        const sim::Strategy& strategy) {
  const sim::Framework framework;
  const KernelCase like{.op = {},
                        .dtype = sim::activation_dtype(strategy.precision),
                        .model = model,
                        .strategy = strategy,
                        .shape = rank_shape(model, strategy, {})};
  const sim::LayerOperators block =
      lower_block(model, strategy, framework, sim::RecomputeKind::None, sim::LayerKind::Moe);
  std::vector<KernelCase> all, cases;
  add(all, like, block.forward, false);
  add(all, like, block.backward, true);
  std::copy_if(all.begin(), all.end(), std::back_inserter(cases),
               [](const KernelCase& one) { return is_of_experts(one.op); });
  return cases;
}

std::vector<KernelCase> kernel_cases(const ShapeLimits& limits) {
  std::set<std::string> seen;
  std::map<Group, std::vector<KernelCase>> groups;
  for (const sim::Transformer& model : models(limits)) {
    for (const sim::Precision precision : limits.precisions) {
      for (const sim::Strategy& strategy : strategies(precision)) {
        if (!executes(model, strategy)) continue;
        for (KernelCase& one : new_cases_of(model, strategy)) {
          const sim::Seconds time = expected_time(one.op, limits);
          if (time > limits.longest || kOperandCopies * one.op.moved > limits.memory) continue;
          if (!seen.insert(one.key()).second) continue;
          one.expected = time.value();
          groups[group_of(one)].push_back(std::move(one));
        }
      }
    }
  }
  std::vector<std::vector<KernelCase>> chosen;
  for (auto& [group, members] : groups) {
    std::sort(members.begin(), members.end(),
              [](const KernelCase& a, const KernelCase& b) { return a.expected < b.expected; });
    const bool gemm = std::get<0>(group) == sim::OperatorKind::Gemm;
    chosen.push_back(thinned(members, (gemm ? 2 : 1) * limits.cases_per_kind));
  }
  return in_rounds(chosen);
}

}  // namespace llmsim::runtime
