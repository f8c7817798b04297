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

// Of routed and shared experts: adapters leave them frozen.
LinearContext experts_context(const LayerBuilder& b) {
  LinearContext linear = b.linear;
  linear.frozen = linear.adapters.has_value();
  linear.adapters.reset();
  return linear;
}

// What the parts of an MoE layer have in common.
struct MoeLayer {
  LayerBuilder& b;
  const Moe& moe = *b.model.moe;
  ExpertShape shape = expert_shape(b.model, b.strategy, b.framework);
  LayerWeights weights = layer_weights(b.model, LayerKind::Moe);
  LinearContext linear = experts_context(b);
  double element = b.element, row_size = expert_row_size(b.model);
  double tokens = real(shape.tokens), rows = real(shape.rows), sent = real(shape.sent);

  // Among which arrived rows are gathered.
  int expert_tensor() const { return shape.routes_shards ? b.strategy.expert_tensor_ranks() : 1; }
  // Of GEMMs outside the experts.
  LinearContext high_precision() const {
    LinearContext context = linear;
    if (is_low_precision()) context.precision = Precision::Bf16;
    return context;
  }
  // Values of the rows that are sent, that have arrived from other ranks, and that experts work on.
  double sent_values() const { return sent * row_size; }
  double arrived_values() const { return row_values() / expert_tensor(); }
  double row_values() const { return rows * row_size; }
  double token_values() const { return tokens * b.model.hidden_size; }
  std::int64_t shared_tokens() const {
    return shape.routes_shards ? shape.tokens * b.strategy.tp : shape.tokens;
  }
  TensorShape rows_of(double count) const { return {count, row_size, element}; }
  TensorShape tokens_of(double count) const { return {count, real(b.model.hidden_size), element}; }

  bool sends_to_ranks() const { return b.strategy.ep > 1; }
  bool deduplicates() const {
    return sends_to_ranks() && b.strategy.moe_dispatch == ExpertDispatch::Deduplicated;
  }
  bool sorts_rows() const { return shape.experts > 1 || deduplicates(); }
  bool gathers_tokens() const {
    return sends_to_ranks() && b.strategy.moe_dispatch == ExpertDispatch::AllGather;
  }
  bool sends_rows() const { return sends_to_ranks() && !gathers_tokens(); }
  bool is_low_precision() const { return sim::is_low_precision(matmul_dtype(linear.precision)); }
  bool eager_gate() const { return b.model.gated_mlp && b.eager(); }

  LayerWeight expert_weight(WeightName name) const {
    return weights[name].on_rank(b.strategy.expert_tensor_ranks());
  }
  LayerWeight shared_weight(WeightName name) const { return weights[name].on_rank(b.strategy.tp); }
  LayerBuilder::Linear shared_linear(Module module, WeightName name) const {
    return {module, shared_weight(name),
            lower_linear(linear, shared_weight(name), shared_tokens())};
  }
};

// A collective and that of the gradients.
LayerOperators pair_of(Operator forward, Operator backward) {
  return {.forward = {forward}, .backward = {backward}};
}
LayerOperators gather(const char* label, GroupKind group, Bytes message) {
  return pair_of(collective(label, CollectiveKind::AllGather, group, message),
                 collective(label, CollectiveKind::ReduceScatter, group, message));
}
LayerOperators scatter(const char* label, GroupKind group, Bytes message) {
  return pair_of(collective(label, CollectiveKind::ReduceScatter, group, message),
                 collective(label, CollectiveKind::AllGather, group, message));
}

// All-to-alls of rows of which each element has `bytes` on its way there; gradients come back in
// the activation format.
LayerOperators all_to_all(const MoeLayer& moe, const char* label, double bytes) {
  const double elements = std::max(moe.sent_values(), moe.arrived_values());
  const auto rows = [&](double size) {
    return collective(label, CollectiveKind::AllToAll, GroupKind::Expert, Bytes(elements * size));
  };
  return pair_of(rows(bytes), rows(moe.element));
}

LayerOperators move(const MoeLayer& moe, const char* label, double elements) {
  return elementwise(OperatorKind::Copy, label, elements, permutation_traffic(moe.element));
}

// By expert, and back by token; a dispatch that deduplicates sends tokens as they are.
LayerOperators permutation(const MoeLayer& moe, const char* label) {
  if (moe.deduplicates()) return {};
  return move(moe, label, moe.gathers_tokens() ? moe.arrived_values() : moe.sent_values());
}

// Rows arrive by rank, and are wanted by expert; tokens that were sent once become rows.
LayerOperators sort(const MoeLayer& moe, const char* label) {
  if (!moe.sorts_rows()) return {};
  return move(moe, label, moe.row_values());
}

// All tokens of the expert ranks, and on the way back the sum of what each rank has for them.
Bytes gathered_tokens(const MoeLayer& moe) {
  return Bytes(moe.tokens * moe.row_size * moe.b.strategy.ep * moe.element);
}

double dispatched_bytes(const MoeLayer& moe) {
  if (!moe.b.framework.experts.dispatches_low_precision || !moe.is_low_precision())
    return moe.element;
  return low_precision_bytes(moe.b.framework.low_precision, moe.linear.precision, false);
}

// What the first GEMM of an MLP gives: the values, and with them those of a gate.
struct Up {
  TensorId gate = kNoTensor, values = kNoTensor;
  TensorShape shape;  // of each
};

// A tensor in the place of another.
TensorId replaced(const MoeLayer& moe, Module module, const char* name, TensorId tensor,
                  TensorShape shape, LayerOperators operators = {}) {
  const TensorId next = moe.b.tensor(name, shape);
  moe.b.layer.add(module, std::move(operators)).reads(tensor).writes(next);
  return next;
}

TensorId activate(const MoeLayer& moe, Module gemm, Module module, const Up& up,
                  const char* label) {
  if (moe.eager_gate()) moe.b.save_extra(module, "silu(gate)", up.shape);
  const TensorId inner = moe.b.tensor("activation output", up.shape);
  moe.b.activation(
      gemm, module, up.gate, up.values, inner,
      elementwise(OperatorKind::Activation, label, up.shape.rows * up.shape.columns,
                  activation_traffic(moe.b.model.gated_mlp, moe.b.framework, moe.element)));
  return inner;
}

Up add_up(const MoeLayer& moe, LayerBuilder::Linear linear, TensorId x, double rows, TensorId saved,
          Bytes again = {}) {
  const double width = real(linear.weight.columns / linear.weight.side_by_side);
  Up y{.shape = {rows, width, moe.element}};
  if (moe.b.model.gated_mlp) y.gate = moe.b.tensor("gate", y.shape);
  y.values = moe.b.tensor("up", y.shape);
  moe.b.gemm(std::move(linear), x, {y.gate, y.values}, saved, again);
  return y;
}

// Logits, probabilities in fp32, the choice, its weights and where the rows go; gives the choice.
// `input`: of this rank, of which `whole` are the tokens of all tensor ranks.
TensorId route(const MoeLayer& moe, TensorId input, TensorId whole) {
  const LayerWeight router = moe.weights[WeightName::Router];
  const TensorShape logits{moe.tokens, real(router.columns), moe.element},
      high{logits.rows, logits.columns, kFp32Bytes};
  const TensorId raw = moe.b.tensor("router logits", logits);
  moe.b.layer.add(Module::Router, lower_linear(moe.high_precision(), router, moe.shape.tokens))
      .reads(whole)
      .writes(raw)
      .gemm()
      .saves(input)
      .backward_workspace(moe.b.weight_gradient_workspace(Module::Router, router));
  const TensorId in_fp32 = moe.element < kFp32Bytes
                               ? replaced(moe, Module::Router, "router logits in fp32", raw, high)
                               : raw;
  const TensorId probabilities = moe.b.tensor("router probabilities", high);
  moe.b.layer
      .add(Module::Router,
           elementwise(OperatorKind::Softmax, "router_choice", logits.rows * logits.columns,
                       router_traffic(moe.b.framework, moe.element)))
      .reads(in_fp32)
      .writes(probabilities)
      .saves(probabilities);
  const TensorId choice = moe.b.tensor("expert weights", {moe.sent, 1.0, moe.element});
  const TensorId indices = moe.b.tensor("row indices", {moe.sent, kIndicesPerRow, kRowIndexBytes},
                                        TensorRole::Statistic);
  moe.b.layer.add(Module::Router)
      .reads(probabilities)
      .writes(choice, indices)
      .saves(indices)
      .forward_workspace(Bytes(moe.sent * std::max(kFp32Bytes, kRowIndexBytes)));
  return choice;
}

LayerOperators gathered_rows(const MoeLayer& moe, bool there) {
  if (moe.expert_tensor() == 1) return {};
  const Bytes message(moe.row_values() * moe.element);
  return there ? gather("expert_gather", GroupKind::ExpertTensor, message)
               : scatter("expert_scatter", GroupKind::ExpertTensor, message);
}

// The way of rows to their experts: by expert, to other ranks, and there sorted by expert again.
TensorId dispatch(const MoeLayer& moe, TensorId tokens) {
  LayerOperators permute;
  if (moe.gathers_tokens())
    permute = gather("expert_dispatch", GroupKind::Expert, gathered_tokens(moe));
  permute.append(permutation(moe, "expert_dispatch"));
  LayerOperators send;
  if (moe.sends_rows()) {
    send.forward.push_back(collective("expert_counts", CollectiveKind::AllToAll, GroupKind::Expert,
                                      Bytes(kRowIndexBytes * moe.moe.num_experts)));
    send.append(all_to_all(moe, "expert_dispatch", dispatched_bytes(moe)));
  }
  send.append(gathered_rows(moe, true));
  const LayerOperators sorts = moe.sends_rows() ? sort(moe, "expert_sort") : LayerOperators{};
  const TensorShape arrived = moe.rows_of(moe.rows);
  if (!moe.sends_to_ranks()) {
    permute.append(send);
    return replaced(moe, Module::Dispatch, "expert rows", tokens, moe.rows_of(moe.sent),
                    std::move(permute));
  }
  TensorId rows = replaced(moe, Module::Dispatch, "rows by expert", tokens, moe.rows_of(moe.sent),
                           std::move(permute));
  rows = replaced(moe, Module::Dispatch, "expert rows", rows, arrived, std::move(send));
  return moe.sorts_rows() ? replaced(moe, Module::Dispatch, "expert rows", rows, arrived, sorts)
                          : rows;
}

TensorId give_back(const MoeLayer& moe, TensorId results) {
  LayerOperators unsort = moe.sends_rows() ? sort(moe, "expert_unsort") : LayerOperators{},
                 send = gathered_rows(moe, false);
  if (moe.sends_rows()) send.append(all_to_all(moe, "expert_combine", moe.element));
  LayerOperators back = permutation(moe, "expert_return");
  if (moe.sends_to_ranks()) {
    if (moe.sorts_rows())
      results = replaced(moe, Module::Dispatch, "expert results", results, moe.rows_of(moe.rows),
                         std::move(unsort));
    results = replaced(moe, Module::Dispatch, "returned rows", results, moe.rows_of(moe.sent),
                       std::move(send));
  } else {
    back = send.append(back);
  }
  return replaced(moe, Module::Dispatch, "rows by token", results, moe.rows_of(moe.sent),
                  std::move(back));
}

// Low-precision GEMMs want a multiple of rows for each expert; a kernel that deduplicates sends
// them so.
bool pads_rows(const MoeLayer& moe) {
  return moe.b.framework.experts.copies_to_pad && moe.is_low_precision() && !moe.deduplicates();
}

// A GEMM whose result is weighted afterwards may have its bias in kernels of its own.
LayerOperators expert_down(const MoeLayer& moe, LayerWeight down, const ExpertRows& rows) {
  const bool one_by_one = down.biases > 0 && moe.b.framework.experts.biases_one_by_one;
  if (one_by_one) down.biases = 0;
  LayerOperators operators = lower_expert_linear(moe.linear, down, rows);
  if (one_by_one)
    operators.append(elementwise(OperatorKind::Residual, "expert_bias", moe.row_values(),
                                 weighted_bias_traffic(moe.element, static_cast<int>(rows.busy))));
  if (pads_rows(moe)) operators.append(move(moe, "expert_unpad", moe.row_values()));
  return operators;
}

LayerOperators expert_up(const MoeLayer& moe, const LayerWeight& up, const ExpertRows& rows) {
  LayerOperators operators;
  if (pads_rows(moe)) operators = move(moe, "expert_pad", moe.row_values());
  return operators.append(lower_expert_linear(moe.linear, up, rows));
}

// What the rows that have arrived become.
TensorId experts(const MoeLayer& moe, TensorId arrived) {
  const ExpertRows& rows = moe.shape;
  const LayerWeight up = moe.expert_weight(WeightName::ExpertUp),
                    down = moe.expert_weight(WeightName::ExpertDown);
  const Up first =
      add_up(moe, {Module::ExpertUp, up, expert_up(moe, up, rows)}, arrived, moe.rows, arrived);
  const TensorId inner =
      activate(moe, Module::ExpertUp, Module::ExpertActivation, first, "expert_activation");
  const bool unweighted =
      moe.b.framework.saved.weighted_in_experts && !(moe.b.model.gated_mlp && !moe.eager_gate());
  if (unweighted)
    moe.b.save_extra(Module::ExpertActivation, "activation output before its weight", first.shape);
  const TensorId results = moe.b.tensor("expert results", moe.rows_of(moe.rows));
  moe.b.gemm({Module::ExpertDown, down, expert_down(moe, down, rows)}, inner, {results}, inner);
  return results;
}

// The weighted sum of each token's rows, whose gradients are made in the place of the rows.
TensorId combine(const MoeLayer& moe, TensorId results, TensorId choice) {
  LayerOperators operators =
      elementwise(OperatorKind::Residual, "expert_combination",
                  moe.gathers_tokens() ? moe.arrived_values() : moe.sent_values(),
                  combination_traffic(moe.b.framework, moe.element, visited_experts(moe.moe)));
  if (moe.gathers_tokens())
    operators.append(scatter("expert_combine", GroupKind::Expert, gathered_tokens(moe)));
  const TensorShape shape = moe.rows_of(moe.tokens);
  const TensorId sum = moe.b.tensor("combined rows", shape);
  Node& node = moe.b.layer.add(Module::Combine, std::move(operators))
                   .reads(results, choice)
                   .writes(sum)
                   .saves(choice);
  if (!moe.b.framework.saved.weighted_in_experts) node.saves(results);
  if (!moe.b.autograd()) node.gradient_in(results).backward_workspace(shape.size());
  return sum;
}

// The tokens of all tensor ranks, which share out the width of shared experts.
Bytes all_tokens(const MoeLayer& moe) {
  return Bytes(moe.token_values() * moe.b.strategy.tp * moe.element);
}

Up shared_up(const MoeLayer& moe, TensorId input, TensorId whole) {
  const bool shards = moe.shape.routes_shards;
  TensorId x = whole;
  if (shards)
    x = replaced(moe, Module::SharedUp, "shared experts' input", input,
                 moe.tokens_of(real(moe.shared_tokens())),
                 gather("shared_input", GroupKind::Tensor, all_tokens(moe)));
  // The runtime saves what it has gathered.
  const bool gathers_again = shards && moe.b.autograd();
  const Up values = add_up(moe, moe.shared_linear(Module::SharedUp, WeightName::SharedUp), x,
                           real(moe.shared_tokens()), shards && !gathers_again ? x : input,
                           gathers_again ? moe.b.layer.size(x) : Bytes(0.0));
  if (moe.moe.shared_expert_gate)
    moe.b.save_extra(
        Module::SharedUp, "shared experts' gate", {moe.tokens, 1.0, moe.element},
        lower_linear(moe.high_precision(), moe.weights[WeightName::SharedGate], moe.shape.tokens));
  return values;
}

// Without autograd the sum is multiplied by its gate as it is added, and its gradient takes its
// place.
TensorId gated_sum(const MoeLayer& moe, TensorId sum) {
  TensorShape shape = moe.tokens_of(moe.tokens);
  if (!moe.b.autograd()) shape.rows = 0.0;
  const TensorId gated = moe.b.tensor("gated shared experts' sum", shape);
  LayerOperators operators;
  operators.backward = {
      memory_bound(OperatorKind::Residual, "shared_gate", moe.token_values(), 7 * moe.element, 4)};
  Node& gate =
      moe.b.layer.add(Module::SharedDown, std::move(operators)).reads(sum).writes(gated).saves(sum);
  if (!moe.b.autograd()) gate.gradient_in(sum);
  return gated;
}

// `inner`: the activation, whose backward pass follows the first of the experts'.
TensorId shared_down(const MoeLayer& moe, TensorId inner) {
  TensorId sum = moe.b.tensor("shared experts' sum", moe.tokens_of(real(moe.shared_tokens())));
  Node& node =
      moe.b.gemm(moe.shared_linear(Module::SharedDown, WeightName::SharedDown), inner, {sum}, inner)
          .row_parallel();
  // Without autograd the combination, which goes back first, is there already.
  const Bytes combined =
      moe.b.autograd() || moe.moe.shared_expert_gate ? Bytes(0.0) : moe.rows_of(moe.tokens).size();
  node.forward_workspace(combined);
  if (moe.shape.routes_shards) {
    const TensorId own = moe.b.tensor("shared experts' sum", moe.tokens_of(moe.tokens));
    moe.b.layer
        .add(Module::SharedDown, scatter("shared_output", GroupKind::Tensor, all_tokens(moe)))
        .reads(sum)
        .writes(own)
        .forward_workspace(combined);
    sum = own;
  }
  return moe.moe.shared_expert_gate ? gated_sum(moe, sum) : sum;
}

// Between the hidden size and the values that experts work on.
TensorId latent(const MoeLayer& moe, Module module, WeightName name, TensorId x) {
  if (!moe.moe.latent_size) return x;
  const LayerWeight weight = moe.weights[name];
  const TensorId y = moe.b.tensor("latents", {moe.tokens, real(weight.columns), moe.element});
  moe.b.gemm({module, weight, lower_linear(moe.linear, weight, moe.shape.tokens)}, x, {y}, x);
  return y;
}

// Everything on rows, as many as the router sends; gives the combination of routed experts and the
// sum of shared ones, if any.
struct Results {
  TensorId combined = kNoTensor, shared = kNoTensor;
};

Results add_rows(const MoeLayer& moe, TensorId x, TensorId whole, TensorId rows_input,
                 TensorId choice) {
  LayerGraph& layer = moe.b.layer;
  const std::size_t first_forward = layer.forward.size(), first_backward = layer.backward_place();
  const bool shares = moe.shape.shared_ffn > 0, gated = moe.moe.shared_expert_gate;
  const TensorId arrived = dispatch(moe, rows_input);
  const Up shared_values = shares ? shared_up(moe, x, whole) : Up{};
  const TensorId results = give_back(moe, experts(moe, arrived));
  Results sums;
  if (shares)
    sums.shared = activate(moe, Module::SharedUp, Module::SharedActivation, shared_values,
                           "shared_activation");
  if (!gated) layer.end_of_needed();
  if (shares) sums.shared = shared_down(moe, sums.shared);
  if (gated) layer.end_of_needed();
  sums.combined = combine(moe, results, choice);
  layer.set_ragged(first_forward, first_backward);
  return sums;
}

}  // namespace

bool routes_shards(const Strategy& strategy, const Framework& framework) {
  const bool divides = strategy.tp > 1 && strategy.sequence_parallel;
  return divides &&
         (framework.experts.routes_shards || strategy.expert_tensor_ranks() != strategy.tp);
}

double expected_imbalance(const Moe& moe, int expert_ranks, double load_spread) {
  if (expert_ranks == 1) return 1.0;
  return 1.0 + load_spread * expected_largest(expert_ranks) *
                   std::sqrt(real(expert_ranks) / real(moe.num_experts));
}

ExpertShape expert_shape(const Transformer& model, const Strategy& strategy,
                         const Framework& framework) {
  const Moe& moe = *model.moe;
  ExpertShape shape;
  shape.routes_shards = routes_shards(strategy, framework);
  shape.tokens = static_cast<std::int64_t>(strategy.micro_batch) * model.seq_len / strategy.cp;
  if (shape.routes_shards) shape.tokens /= strategy.tp;
  shape.sent = shape.tokens * visited_experts(moe);
  shape.rows = shape.routes_shards ? shape.sent * strategy.expert_tensor_ranks() : shape.sent;
  const double imbalance = strategy.moe_imbalance.value_or(
      expected_imbalance(moe, strategy.ep, framework.experts.load_spread));
  const double busiest = std::min<double>(imbalance, strategy.ep);
  const double load = strategy.moe_capacity.value_or(busiest);
  if (load != 1.0) shape.rows = static_cast<std::int64_t>(std::ceil(real(shape.rows) * load));
  shape.experts = moe.num_experts / strategy.ep;
  shape.busy = std::min(shape.experts, shape.rows);
  shape.rows_per_expert = (shape.rows + shape.busy - 1) / shape.busy;
  shape.one_kernel = framework.experts.grouped_kernel;
  shape.ffn = moe.expert_ffn_size / strategy.expert_tensor_ranks();
  shape.shared_ffn =
      static_cast<std::int64_t>(moe.num_shared_experts) * moe.shared_expert_ffn_size / strategy.tp;
  return shape;
}

TensorId add_experts(LayerBuilder& b, TensorId normed) {
  const MoeLayer moe{b};
  if (moe.moe.branch_norms)
    b.save_extra(Module::Norm, "inputs of the branches' norms",
                 {b.own_tokens(), 3.0 * b.model.hidden_size, b.element},
                 elementwise(OperatorKind::Norm, "branch_norms", 3.0 * b.residual_elements(),
                             norm_traffic(b.model.norm, b.framework, b.element)));
  const bool gathers = b.gathers && !moe.shape.routes_shards;
  SharedInput input;
  if (!b.model.parallel_block && !moe.shape.routes_shards)
    input = b.shared_residual(Module::MoeInput);
  const std::size_t place = b.layer.backward_place();
  const TensorId whole = gathers ? b.gathered(Module::MoeInput, "tokens of all tensor ranks",
                                              b.of_all_ranks(normed), normed, input)
                                 : normed;
  const TensorId choice = route(moe, normed, whole);
  const TensorId rows_input = latent(moe, Module::MoeInput, WeightName::LatentDown, whole);
  const Results sums = add_rows(moe, normed, whole, rows_input, choice);
  const TensorId sum = latent(moe, Module::Combine, WeightName::LatentUp, sums.combined);
  if (sums.shared != kNoTensor) {
    LayerOperators add;
    add.forward = {
        memory_bound(OperatorKind::Residual, "shared_sum", moe.token_values(), 3 * moe.element, 1)};
    add.forward.front().ragged = true;
    b.layer.add_in_place(sums.shared, sum, std::move(add));
  }
  b.layer.share_gradient(place, input);
  return sum;
}

}  // namespace llmsim::sim
