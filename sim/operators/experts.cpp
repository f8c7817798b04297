#include "sim/operators/experts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/uncertainty.h"
#include "sim/model/parameters.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

constexpr double kIndicesPerRow = 3.0;

double real(std::int64_t count) { return static_cast<double>(count); }

// What the parts of an MoE layer have in common.
struct MoeLayer {
  const Transformer& model;
  const Strategy& strategy;
  const Framework& framework;
  LinearContext linear;  // of routed and shared experts
  LayerWeights weights;
  ExpertShape shape;
  double element;  // bytes of an activation

  const Moe& moe() const { return *model.moe; }
  // Among which arrived rows are gathered.
  int expert_tensor() const { return shape.routes_shards ? strategy.expert_tensor_ranks() : 1; }

  // Values of the rows that are sent, that have arrived from other ranks, and that experts work on.
  double sent() const { return real(shape.sent) * expert_row_size(model); }
  double arrived() const { return rows() / expert_tensor(); }
  double rows() const { return real(shape.rows) * expert_row_size(model); }
  double token_values() const { return real(shape.tokens) * model.hidden_size; }
  double token_rows() const { return real(shape.tokens) * expert_row_size(model); }
  std::int64_t shared_tokens() const {
    return shape.routes_shards ? shape.tokens * strategy.tp : shape.tokens;
  }

  bool exchanges() const { return strategy.ep > 1; }
  bool deduplicates() const {
    return exchanges() && strategy.moe_dispatch == ExpertDispatch::Deduplicated;
  }
  bool gathers() const { return exchanges() && strategy.moe_dispatch == ExpertDispatch::AllGather; }
  bool is_low_precision() const { return sim::is_low_precision(matmul_dtype(linear.precision)); }
};

MoeLayer moe_layer(const Transformer& model, const Strategy& strategy, const Framework& framework,
                   const LinearContext& linear) {
  MoeLayer layer{.model = model,
                 .strategy = strategy,
                 .framework = framework,
                 .linear = linear,
                 .weights = layer_weights(model, LayerKind::Moe),
                 .shape = expert_shape(model, strategy, framework),
                 .element = size_of(activation_dtype(strategy.precision)).value()};
  layer.linear.frozen = linear.adapters.has_value();
  layer.linear.adapters.reset();
  return layer;
}

// GEMMs outside the experts multiply in the activation format.
LinearContext wide(const MoeLayer& layer) {
  LinearContext context = layer.linear;
  if (layer.is_low_precision()) context.precision = Precision::Bf16;
  return context;
}

// A collective and that of the gradients.
void add_pair(LayerBuilder& part, Module module, Operator forward, Operator backward) {
  part.add_forward(module, forward);
  part.add_backward(module, backward);
}
void add_gather(LayerBuilder& part, Module module, const char* label, GroupKind group,
                Bytes message) {
  add_pair(part, module, collective(label, CollectiveKind::AllGather, group, message),
           collective(label, CollectiveKind::ReduceScatter, group, message));
}
void add_scatter(LayerBuilder& part, Module module, const char* label, GroupKind group,
                 Bytes message) {
  add_pair(part, module, collective(label, CollectiveKind::ReduceScatter, group, message),
           collective(label, CollectiveKind::AllGather, group, message));
}

// All-to-alls of rows of which each element has `bytes` on its way there; gradients come back in
// the activation format.
void add_exchange(LayerBuilder& part, const MoeLayer& layer, const char* label, double bytes) {
  const double elements = std::max(layer.sent(), layer.arrived());
  const auto rows = [&](double size) {
    return collective(label, CollectiveKind::AllToAll, GroupKind::Expert, Bytes(elements * size));
  };
  add_pair(part, Module::Dispatch, rows(bytes), rows(layer.element));
}

void add_move(LayerBuilder& part, const MoeLayer& layer, Module module, const char* label,
              double elements) {
  part.add(OperatorKind::Copy, module, label, elements, permutation_traffic(layer.element));
}

// By expert, and back by token; a kernel that deduplicates does it as it sends and receives.
void add_permutation(LayerBuilder& part, const MoeLayer& layer, const char* label) {
  if (!layer.deduplicates())
    add_move(part, layer, Module::Dispatch, label,
             layer.gathers() ? layer.arrived() : layer.sent());
}

// Rows arrive by rank, and are wanted by expert.
void add_sort(LayerBuilder& part, const MoeLayer& layer, const char* label) {
  if (layer.shape.experts > 1 && !layer.deduplicates())
    add_move(part, layer, Module::Dispatch, label, layer.rows());
}

void add_activation(LayerBuilder& part, const MoeLayer& layer, Module module, const char* label,
                    std::int64_t elements) {
  part.add(OperatorKind::Activation, module, label, real(elements),
           activation_traffic(layer.model.gated_mlp, layer.framework, layer.element));
}

LayerOperators router(const MoeLayer& layer) {
  const LayerWeight weight = layer.weights[WeightName::Router];
  const double probabilities = real(layer.shape.tokens * weight.columns);
  LayerBuilder part;
  part.add(Module::Router, lower_linear(wide(layer), weight, layer.shape.tokens));
  part.add(OperatorKind::Softmax, Module::Router, "router_choice", probabilities,
           router_traffic(layer.framework, layer.element));
  return std::move(part).build();
}

// All tokens of the expert ranks, and on the way back the sum of what each rank has for them.
Bytes gathered_tokens(const MoeLayer& layer) {
  return Bytes(layer.token_rows() * layer.strategy.ep * layer.element);
}

double dispatched_bytes(const MoeLayer& layer) {
  if (!layer.framework.experts.dispatches_low_precision || !layer.is_low_precision())
    return layer.element;
  return low_precision_bytes(layer.framework.low_precision, layer.linear.precision, false);
}

LayerOperators dispatch(const MoeLayer& layer) {
  const bool sends_rows = layer.exchanges() && !layer.gathers();
  LayerBuilder part;
  if (layer.gathers())
    add_gather(part, Module::Dispatch, "expert_dispatch", GroupKind::Expert,
               gathered_tokens(layer));
  add_permutation(part, layer, "expert_dispatch");
  if (sends_rows) {
    part.add_forward(Module::Dispatch,
                     collective("expert_counts", CollectiveKind::AllToAll, GroupKind::Expert,
                                Bytes(kRowIndexBytes * layer.moe().num_experts)));
    add_exchange(part, layer, "expert_dispatch", dispatched_bytes(layer));
  }
  if (layer.expert_tensor() > 1)
    add_gather(part, Module::Dispatch, "expert_gather", GroupKind::ExpertTensor,
               Bytes(layer.rows() * layer.element));
  if (sends_rows) add_sort(part, layer, "expert_sort");
  return std::move(part).build();
}

// Low-precision GEMMs want a multiple of rows for each expert; a kernel that deduplicates sends
// them so.
bool pads_rows(const MoeLayer& layer) {
  return layer.framework.experts.copies_to_pad && layer.is_low_precision() && !layer.deduplicates();
}

// A GEMM whose result is weighted afterwards may have its bias in kernels of its own.
void add_expert_down(LayerBuilder& part, const MoeLayer& layer, LayerWeight down,
                     const ExpertRows& rows) {
  const bool one_by_one = down.biases > 0 && layer.framework.experts.biases_one_by_one;
  if (one_by_one) down.biases = 0;
  part.add(Module::ExpertDown, lower_expert_linear(layer.linear, down, rows));
  if (one_by_one)
    part.add(OperatorKind::Residual, Module::ExpertDown, "expert_bias", layer.rows(),
             weighted_bias_traffic(layer.element, static_cast<int>(rows.busy)));
}

LayerOperators experts(const MoeLayer& layer) {
  const ExpertShape& shape = layer.shape;
  const int ranks = layer.strategy.expert_tensor_ranks();
  const LayerWeight up = layer.weights[WeightName::ExpertUp].on_rank(ranks),
                    down = layer.weights[WeightName::ExpertDown].on_rank(ranks);
  const ExpertRows rows{.experts = shape.experts,
                        .busy = shape.busy_experts,
                        .rows = shape.rows,
                        .rows_per_expert = shape.rows_per_expert,
                        .one_kernel = layer.framework.experts.grouped_kernel};
  LayerBuilder part;
  if (pads_rows(layer)) add_move(part, layer, Module::ExpertUp, "expert_pad", layer.rows());
  part.add(Module::ExpertUp, lower_expert_linear(layer.linear, up, rows));
  add_activation(part, layer, Module::ExpertActivation, "expert_activation",
                 shape.rows * down.rows);
  add_expert_down(part, layer, down, rows);
  if (pads_rows(layer)) add_move(part, layer, Module::ExpertDown, "expert_unpad", layer.rows());
  return std::move(part).build();
}

LayerOperators give_back(const MoeLayer& layer) {
  const bool sends_rows = layer.exchanges() && !layer.gathers();
  LayerBuilder part;
  if (sends_rows) add_sort(part, layer, "expert_unsort");
  if (layer.expert_tensor() > 1)
    add_scatter(part, Module::Dispatch, "expert_scatter", GroupKind::ExpertTensor,
                Bytes(layer.rows() * layer.element));
  if (sends_rows) add_exchange(part, layer, "expert_combine", layer.element);
  add_permutation(part, layer, "expert_return");
  return std::move(part).build();
}

LayerOperators combine(const MoeLayer& layer) {
  LayerBuilder part;
  part.add(OperatorKind::Residual, Module::Combine, "expert_combination",
           layer.gathers() ? layer.arrived() : layer.sent(),
           combination_traffic(layer.framework, layer.element, layer.moe().top_k));
  if (layer.gathers())
    add_scatter(part, Module::Combine, "expert_combine", GroupKind::Expert, gathered_tokens(layer));
  if (layer.shape.shared_ffn > 0)
    part.add_forward(Module::Residual, memory_bound(OperatorKind::Residual, "shared_sum",
                                                    layer.token_values(), 3 * layer.element, 1));
  return std::move(part).build();
}

// The tokens of all tensor ranks, which share out the width of shared experts.
Bytes all_tokens(const MoeLayer& layer) {
  return Bytes(layer.token_values() * layer.strategy.tp * layer.element);
}

LayerOperators shared_up(const MoeLayer& layer) {
  const int tp = layer.strategy.tp;
  const std::int64_t tokens = layer.shared_tokens();
  LayerBuilder part;
  if (layer.shape.routes_shards)
    add_gather(part, Module::SharedUp, "shared_input", GroupKind::Tensor, all_tokens(layer));
  part.add(Module::SharedUp,
           lower_linear(layer.linear, layer.weights[WeightName::SharedUp].on_rank(tp), tokens));
  add_activation(part, layer, Module::SharedActivation, "shared_activation",
                 tokens * layer.weights[WeightName::SharedDown].on_rank(tp).rows);
  if (layer.moe().shared_expert_gate)
    part.add(Module::SharedUp,
             lower_linear(wide(layer), layer.weights[WeightName::SharedGate], layer.shape.tokens));
  return std::move(part).build();
}

LayerOperators shared_down(const MoeLayer& layer) {
  const LayerWeight down = layer.weights[WeightName::SharedDown].on_rank(layer.strategy.tp);
  LayerBuilder part;
  part.add(Module::SharedDown, lower_linear(layer.linear, down, layer.shared_tokens()));
  if (layer.shape.routes_shards)
    add_scatter(part, Module::SharedDown, "shared_output", GroupKind::Tensor, all_tokens(layer));
  if (layer.moe().shared_expert_gate)
    part.add_backward(Module::SharedDown, memory_bound(OperatorKind::Residual, "shared_gate",
                                                       layer.token_values(), 7 * layer.element, 4));
  return std::move(part).build();
}

// Everything on rows, as many as the router sends.
LayerOperators routed(const MoeLayer& layer) {
  const bool shared = layer.shape.shared_ffn > 0;
  LayerBuilder parts;
  parts.add(dispatch(layer));
  if (shared) parts.add(shared_up(layer));
  parts.add(experts(layer));
  parts.add(give_back(layer));
  if (shared) parts.add(shared_down(layer));
  parts.add(combine(layer));
  LayerOperators rows = std::move(parts).build();
  for (OperatorList* pass : {&rows.forward, &rows.backward}) {
    for (Operator& op : *pass) op.ragged = true;
  }
  return rows;
}

// Between the hidden size and the values that experts work on.
void add_latent(LayerBuilder& parts, const MoeLayer& layer, Module module, WeightName name) {
  if (layer.moe().latent_size)
    parts.add(module, lower_linear(layer.linear, layer.weights[name], layer.shape.tokens));
}

}  // namespace

bool routes_shards(const Strategy& strategy, const Framework& framework) {
  const bool divides = strategy.tp > 1 && strategy.sequence_parallel;
  return divides &&
         (framework.experts.routes_shards || strategy.expert_tensor_ranks() != strategy.tp);
}

double expected_imbalance(const Moe& moe, int expert_ranks, double load_spread) {
  if (expert_ranks == 1) return 1.0;
  return 1.0 +
         load_spread * expected_largest(expert_ranks) *
             std::sqrt(static_cast<double>(expert_ranks) / static_cast<double>(moe.num_experts));
}

ExpertShape expert_shape(const Transformer& model, const Strategy& strategy,
                         const Framework& framework) {
  const Moe& moe = *model.moe;
  ExpertShape shape;
  shape.routes_shards = routes_shards(strategy, framework);
  shape.tokens = static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp;
  if (shape.routes_shards) shape.tokens /= strategy.tp;
  shape.sent = shape.tokens * moe.top_k;
  shape.rows = shape.routes_shards ? shape.sent * strategy.expert_tensor_ranks() : shape.sent;
  const double imbalance = strategy.moe_imbalance.value_or(
      expected_imbalance(moe, strategy.ep, framework.experts.load_spread));
  const double busiest = std::min<double>(imbalance, strategy.ep);
  const double load = strategy.moe_capacity.value_or(busiest);
  if (load != 1.0) shape.rows = static_cast<std::int64_t>(std::ceil(real(shape.rows) * load));
  shape.experts = moe.num_experts / strategy.ep;
  shape.busy_experts = std::min(shape.experts, shape.rows);
  shape.rows_per_expert = (shape.rows + shape.busy_experts - 1) / shape.busy_experts;
  shape.ffn = moe.expert_ffn_size / strategy.expert_tensor_ranks();
  shape.shared_ffn =
      static_cast<std::int64_t>(moe.num_shared_experts) * moe.shared_expert_ffn_size / strategy.tp;
  return shape;
}

LayerOperators lower_experts(const Transformer& model, const Strategy& strategy,
                             const Framework& framework, const LinearContext& linear) {
  const MoeLayer layer = moe_layer(model, strategy, framework, linear);
  LayerBuilder parts;
  parts.add(router(layer));
  add_latent(parts, layer, Module::MoeInput, WeightName::LatentDown);
  parts.add(routed(layer));
  add_latent(parts, layer, Module::Combine, WeightName::LatentUp);
  return std::move(parts).build();
}

}  // namespace llmsim::sim
