#include "sim/operators/dataflow/layer.h"

#include "sim/model/parameters.h"
#include "sim/operators/experts.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Role = Dataflow::Role;

// What the parts of an MoE layer have in common.
struct MoeTensors {
  LayerDataflow& layer;
  LayerWeights weights;
  ExpertShape shape;

  const Transformer& model() const { return layer.model(); }
  const Moe& moe() const { return *model().moe; }
  const Framework& framework() const { return layer.framework(); }
  double element() const { return layer.element; }
  bool exchanges() const { return layer.strategy().ep > 1; }
  bool eager_gate() const {
    return model().gated_mlp && framework().fusion == ElementwiseFusion::Eager;
  }

  double tokens() const { return static_cast<double>(shape.tokens); }
  double rows() const { return static_cast<double>(shape.rows); }
  double sent() const { return static_cast<double>(shape.sent); }
  double shared_tokens() const { return shape.routes_shards ? tokens() * layer.ranks : tokens(); }
  double row_bytes(double count) const { return count * expert_row_size(model()) * element(); }
  double token_bytes(double count) const { return count * model().hidden_size * element(); }

  LayerWeight expert_weight(WeightName name) const {
    return weights[name].on_rank(layer.strategy().expert_tensor_ranks());
  }
  LayerWeight shared_weight(WeightName name) const {
    return weights[name].on_rank(layer.strategy().tp);
  }
};

// What the first GEMM of an MLP gives: the values, and beside them those of a gate.
struct Up {
  Tensor gate = Dataflow::kNone, values = Dataflow::kNone;
  double elements = 0.0;  // of each
};

Tensor activate(const MoeTensors& moe, Module gemm, Module module, const Up& up) {
  if (moe.eager_gate())
    moe.layer.save_extra(module, Bytes(up.elements * moe.element()));  // silu(gate)
  const Tensor inner = moe.layer.add(up.elements * moe.element());
  moe.layer.activation(gemm, module, up.gate, up.values, inner);
  return inner;
}

// The weighted sum of each token's rows, whose gradients are made in the place of the rows.
Tensor combine(const MoeTensors& moe, Tensor results, Tensor choice) {
  const Tensor sum = moe.layer.add(moe.row_bytes(moe.tokens()));
  Dataflow::Step& step =
      moe.layer.flow.step(Module::Combine).reads(results).reads(choice).writes(sum).saves(choice);
  if (!moe.framework().saved.weighted_in_experts) step.saves(results);
  if (!moe.layer.autograd())
    step.gradient_in(results).backward_workspace(Bytes(moe.row_bytes(moe.tokens())));
  return sum;
}

Tensor replaced(const MoeTensors& moe, Module module, Tensor tensor, double bytes) {
  const Tensor next = moe.layer.add(bytes);
  moe.layer.flow.step(module).reads(tensor).writes(next);
  return next;
}

// To other ranks, and sorted by expert.
Tensor moved(const MoeTensors& moe, Tensor rows) {
  if (!moe.exchanges()) return rows;
  rows = replaced(moe, Module::Dispatch, rows, moe.row_bytes(moe.rows()));
  return moe.shape.experts > 1 ? replaced(moe, Module::Dispatch, rows, moe.row_bytes(moe.rows()))
                               : rows;
}

Tensor dispatch(const MoeTensors& moe, Tensor tokens) {
  Tensor rows = moe.layer.add(moe.row_bytes(moe.sent()));
  moe.layer.flow.step(Module::Dispatch).reads(tokens).writes(rows);
  return moved(moe, rows);
}

Up up(const MoeTensors& moe, Module module, Tensor x, double rows, const LayerWeight& weight,
      Tensor saved, Bytes again = {}) {
  Up y{.elements = rows * static_cast<double>(weight.columns / weight.side_by_side)};
  if (moe.model().gated_mlp) y.gate = moe.layer.add(y.elements * moe.element());
  y.values = moe.layer.add(y.elements * moe.element());
  moe.layer.gemm(module, x, {y.gate, y.values}, weight, saved, again);
  return y;
}

// What the rows that have arrived become.
Tensor experts(const MoeTensors& moe, Tensor arrived) {
  const Up first = up(moe, Module::ExpertUp, arrived, moe.rows(),
                      moe.expert_weight(WeightName::ExpertUp), arrived);
  const Tensor inner = activate(moe, Module::ExpertUp, Module::ExpertActivation, first);
  const bool unweighted =
      moe.framework().saved.weighted_in_experts && !(moe.model().gated_mlp && !moe.eager_gate());
  if (unweighted)
    moe.layer.save_extra(Module::ExpertActivation, Bytes(first.elements * moe.element()));
  const Tensor results = moe.layer.add(moe.row_bytes(moe.rows()));
  moe.layer.gemm(Module::ExpertDown, inner, {results}, moe.expert_weight(WeightName::ExpertDown),
                 inner);
  return results;
}

Tensor give_back(const MoeTensors& moe, Tensor results) {
  if (moe.exchanges()) {
    if (moe.shape.experts > 1)
      results = replaced(moe, Module::Dispatch, results, moe.row_bytes(moe.rows()));
    results = replaced(moe, Module::Dispatch, results, moe.row_bytes(moe.sent()));
  }
  return replaced(moe, Module::Dispatch, results, moe.row_bytes(moe.sent()));  // by token
}

// Logits, probabilities in fp32, the choice, its weights and where the rows go; gives the choice.
// `input`: of this rank, of which `whole` are the tokens of all tensor ranks.
Tensor route(const MoeTensors& moe, Tensor input, Tensor whole) {
  const LayerWeight router = moe.weights[WeightName::Router];
  const double logits = moe.tokens() * static_cast<double>(router.columns);
  const Tensor raw = moe.layer.add(logits * moe.element());
  moe.layer.flow.step(Module::Router)
      .reads(whole)
      .writes(raw)
      .gemm()
      .saves(input)
      .backward_workspace(moe.layer.weight_gradient_workspace(Module::Router, router));
  const Tensor high =
      moe.element() < kFp32Bytes ? replaced(moe, Module::Router, raw, logits * kFp32Bytes) : raw;
  const Tensor probabilities = moe.layer.add(logits * kFp32Bytes);
  moe.layer.flow.step(Module::Router).reads(high).writes(probabilities).saves(probabilities);
  const Tensor choice = moe.layer.add(moe.sent() * moe.element());
  const Tensor indices = moe.layer.add(3.0 * moe.sent() * kRowIndexBytes, Role::Statistic);
  moe.layer.flow.step(Module::Router)
      .reads(probabilities)
      .writes(choice)
      .writes(indices)
      .saves(indices)
      .forward_workspace(Bytes(moe.sent() * std::max(kFp32Bytes, kRowIndexBytes)));
  return choice;
}

// `inner`: the activation, whose backward pass is beside the first of the experts'.
Tensor shared_down(const MoeTensors& moe, Tensor inner) {
  Tensor sum = moe.layer.add(moe.token_bytes(moe.shared_tokens()));
  Dataflow::Step& step =
      moe.layer
          .gemm(Module::SharedDown, inner, {sum}, moe.shared_weight(WeightName::SharedDown), inner)
          .row_parallel();
  // Without autograd the combination, which goes back first, is there already.
  const Bytes combined(
      moe.layer.autograd() || moe.moe().shared_expert_gate ? 0.0 : moe.row_bytes(moe.tokens()));
  step.forward_workspace(combined);
  if (moe.shape.routes_shards) {
    const Tensor part = moe.layer.add(moe.token_bytes(moe.tokens()));
    moe.layer.flow.step(Module::SharedDown).reads(sum).writes(part).forward_workspace(combined);
    sum = part;
  }
  if (!moe.moe().shared_expert_gate) return sum;
  // Without autograd it is multiplied as it is added, and its gradient takes its place.
  const Tensor gated = moe.layer.add(moe.layer.autograd() ? moe.token_bytes(moe.tokens()) : 0.0);
  Dataflow::Step& gate =
      moe.layer.flow.step(Module::SharedDown).reads(sum).writes(gated).saves(sum);
  if (!moe.layer.autograd()) gate.gradient_in(sum);
  return gated;
}

Up shared_up(const MoeTensors& moe, Tensor input, Tensor whole) {
  Tensor x = whole;
  if (moe.shape.routes_shards)
    x = replaced(moe, Module::SharedUp, input, moe.token_bytes(moe.shared_tokens()));
  // The runtime keeps what it has gathered.
  const bool gathers_again = moe.shape.routes_shards && moe.layer.autograd();
  const Up values =
      up(moe, Module::SharedUp, x, moe.shared_tokens(), moe.shared_weight(WeightName::SharedUp),
         moe.shape.routes_shards && !gathers_again ? x : input,
         gathers_again ? moe.layer.size(x) : Bytes(0.0));
  if (moe.moe().shared_expert_gate)
    moe.layer.save_extra(Module::SharedUp, Bytes(moe.tokens() * moe.element()));
  return values;
}

// Between the hidden size and the values that experts work on.
Tensor latent(const MoeTensors& moe, Module module, WeightName name, Tensor x) {
  if (!moe.moe().latent_size) return x;
  const LayerWeight weight = moe.weights[name];
  const Tensor y =
      moe.layer.add(moe.tokens() * static_cast<double>(weight.columns) * moe.element());
  moe.layer.gemm(module, x, {y}, weight, x);
  return y;
}

}  // namespace

Dataflow::Tensor add_moe(LayerDataflow& layer, Dataflow::Tensor x) {
  const MoeTensors moe{.layer = layer,
                       .weights = layer_weights(layer.model(), LayerKind::Moe),
                       .shape = expert_shape(layer.model(), layer.strategy(), layer.framework())};
  const bool gathers = layer.gathers && !moe.shape.routes_shards, shares = moe.shape.shared_ffn > 0,
             gated = moe.moe().shared_expert_gate;
  const Tensor whole =
      gathers ? replaced(moe, Module::MoeInput, x, layer.ranks * layer.size(x).value()) : x;
  const Tensor choice = route(moe, x, whole);
  const Tensor arrived =
      dispatch(moe, latent(moe, Module::MoeInput, WeightName::LatentDown, whole));
  const Up shared_values = shares ? shared_up(moe, x, whole) : Up{};
  const Tensor results = give_back(moe, experts(moe, arrived));
  Tensor shared = shares ? activate(moe, Module::SharedUp, Module::SharedActivation, shared_values)
                         : Dataflow::kNone;
  if (!gated) layer.flow.end_of_needed();
  if (shares) shared = shared_down(moe, shared);
  if (gated) layer.flow.end_of_needed();
  const Tensor sum =
      latent(moe, Module::Combine, WeightName::LatentUp, combine(moe, results, choice));
  if (shared != Dataflow::kNone) layer.flow.add_in_place(shared, sum);
  return gathers ? layer.reduce(Module::Combine, sum) : sum;
}

}  // namespace llmsim::sim
