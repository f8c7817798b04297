#include "sim/operators/dataflow/layer.h"

#include "sim/model/parameters.h"
#include "sim/operators/experts.h"

namespace llmsim::sim {
namespace {

using Tensor = Dataflow::Tensor;
using Role = Dataflow::Role;

class MoeDataflow {
 public:
  MoeDataflow(LayerDataflow& layer, Tensor input)
      : layer_(layer),
        model_(layer.model()),
        moe_(*model_.moe),
        strategy_(layer.strategy()),
        framework_(layer.framework()),
        weights_(layer_weights(model_, LayerKind::Moe)),
        shape_(expert_shape(model_, strategy_, framework_)),
        e_(layer.element),
        tokens_(static_cast<double>(shape_.tokens)),
        input_(input) {}

  Tensor output() {
    whole_ = input_;
    if (layer_.gathers && !shape_.routes_shards) {
      whole_ = layer_.add(ranks() * layer_.size(input_).value());
      layer_.flow.step(Module::MoeInput).reads(input_).writes(whole_);
    }
    route();
    dispatch();
    const bool shares = shape_.shared_ffn > 0;
    if (shares) shared_up();
    experts();
    give_back();
    Tensor shared = shares ? activate(Module::SharedActivation, shared_) : Dataflow::kNone;
    if (!moe_.shared_expert_gate) layer_.flow.end_of_needed();
    if (shares) shared = shared_down(shared);
    if (moe_.shared_expert_gate) layer_.flow.end_of_needed();
    const Tensor sum = combine();
    if (shared != Dataflow::kNone) layer_.flow.add_in_place(shared, sum);
    return layer_.gathers && !shape_.routes_shards ? layer_.reduce(Module::Combine, sum) : sum;
  }

 private:
  double ranks() const { return layer_.ranks; }
  bool exchanges() const { return strategy_.ep > 1; }
  double rows() const { return static_cast<double>(shape_.rows); }
  double sent() const { return static_cast<double>(shape_.sent); }
  double row_bytes(double count) const { return count * model_.hidden_size * e_; }
  bool eager_gate() const {
    return model_.gated_mlp && framework_.fusion == ElementwiseFusion::Eager;
  }

  Tensor replaced(Module module, Tensor tensor, double bytes) {
    const Tensor next = layer_.add(bytes);
    layer_.flow.step(module).reads(tensor).writes(next);
    return next;
  }

  LayerWeight expert_weight(WeightName name) const {
    return weights_[name].on_rank(strategy_.expert_tensor_ranks());
  }
  LayerWeight shared_weight(WeightName name) const { return weights_[name].on_rank(strategy_.tp); }

  // What the first GEMM of an MLP gives: the values, and beside them those of a gate.
  struct Up {
    Tensor gate = Dataflow::kNone, values = Dataflow::kNone;
    double elements = 0.0;  // of each
  };

  Up up(Module module, Tensor x, double rows, const LayerWeight& weight, Tensor saved,
        Bytes again = {}) {
    Up y{.elements = rows * static_cast<double>(weight.columns / weight.side_by_side)};
    if (model_.gated_mlp) y.gate = layer_.add(y.elements * e_);
    y.values = layer_.add(y.elements * e_);
    layer_.gemm(module, x, {y.gate, y.values}, weight, saved, again);
    return y;
  }

  Tensor activate(Module module, const Up& up) {
    if (eager_gate()) layer_.save_extra(module, Bytes(up.elements * e_));  // silu(gate)
    const Tensor inner = layer_.add(up.elements * e_);
    layer_.flow.step(module).reads(up.gate).reads(up.values).writes(inner).saves(up.gate).saves(
        up.values);
    return inner;
  }

  // Logits, probabilities in fp32, the choice, its weights and where the rows go.
  void route() {
    const LayerWeight router = weights_[WeightName::Router];
    const double logits = tokens_ * static_cast<double>(router.columns);
    const Tensor raw = layer_.add(logits * e_);
    layer_.flow.step(Module::Router)
        .reads(whole_)
        .writes(raw)
        .gemm()
        .saves(input_)
        .backward_workspace(layer_.weight_gradient_workspace(Module::Router, router));
    const Tensor high = e_ < kFp32Bytes ? replaced(Module::Router, raw, logits * kFp32Bytes) : raw;
    const Tensor probabilities = layer_.add(logits * kFp32Bytes);
    layer_.flow.step(Module::Router).reads(high).writes(probabilities).saves(probabilities);
    choice_ = layer_.add(sent() * e_);
    indices_ = layer_.add(3.0 * sent() * kRowIndexBytes, Role::Statistic);
    layer_.flow.step(Module::Router)
        .reads(probabilities)
        .writes(choice_)
        .writes(indices_)
        .saves(indices_)
        .forward_workspace(Bytes(sent() * std::max(kFp32Bytes, kRowIndexBytes)));
  }

  void dispatch() {
    Tensor rows = layer_.add(row_bytes(sent()));
    layer_.flow.step(Module::Dispatch).reads(whole_).writes(rows);
    rows_ = moved(rows);
  }

  // To other ranks, and sorted by expert.
  Tensor moved(Tensor rows) {
    if (!exchanges()) return rows;
    rows = replaced(Module::Dispatch, rows, row_bytes(this->rows()));
    return shape_.experts > 1 ? replaced(Module::Dispatch, rows, row_bytes(this->rows())) : rows;
  }

  void experts() {
    const Up first =
        up(Module::ExpertUp, rows_, rows(), expert_weight(WeightName::ExpertUp), rows_);
    const Tensor inner = activate(Module::ExpertActivation, first);
    const bool unweighted =
        framework_.saved.weighted_in_experts && !(model_.gated_mlp && !eager_gate());
    if (unweighted) layer_.save_extra(Module::ExpertActivation, Bytes(first.elements * e_));
    results_ = layer_.add(row_bytes(rows()));
    layer_.gemm(Module::ExpertDown, inner, {results_}, expert_weight(WeightName::ExpertDown),
                inner);
  }

  void give_back() {
    if (exchanges()) {
      if (shape_.experts > 1) results_ = replaced(Module::Dispatch, results_, row_bytes(rows()));
      results_ = replaced(Module::Dispatch, results_, row_bytes(sent()));
    }
    results_ = replaced(Module::Dispatch, results_, row_bytes(sent()));  // by token
  }

  // The weighted sum of each token's rows, whose gradients are made in the place of the rows.
  Tensor combine() {
    const Tensor sum = layer_.add(row_bytes(tokens_));
    Dataflow::Step& step =
        layer_.flow.step(Module::Combine).reads(results_).reads(choice_).writes(sum).saves(choice_);
    if (!framework_.saved.weighted_in_experts) step.saves(results_);
    if (!layer_.autograd())
      step.gradient_in(results_).backward_workspace(Bytes(row_bytes(tokens_)));
    return sum;
  }

  void shared_up() {
    Tensor x = whole_;
    if (shape_.routes_shards) x = replaced(Module::SharedUp, input_, row_bytes(shared_tokens()));
    // The runtime keeps what it has gathered.
    const bool gathers_again = shape_.routes_shards && layer_.autograd();
    shared_ = up(Module::SharedUp, x, shared_tokens(), shared_weight(WeightName::SharedUp),
                 shape_.routes_shards && !gathers_again ? x : input_,
                 gathers_again ? layer_.size(x) : Bytes(0.0));
    if (moe_.shared_expert_gate) layer_.save_extra(Module::SharedUp, Bytes(tokens_ * e_));
  }

  // `inner`: the activation, whose backward pass is beside the first of the experts'.
  Tensor shared_down(Tensor inner) {
    Tensor sum = layer_.add(row_bytes(shared_tokens()));
    Dataflow::Step& step =
        layer_.gemm(Module::SharedDown, inner, {sum}, shared_weight(WeightName::SharedDown), inner)
            .row_parallel();
    // Without autograd the combination, which goes back first, is there already.
    const Bytes combined(layer_.autograd() || moe_.shared_expert_gate ? 0.0 : row_bytes(tokens_));
    step.forward_workspace(combined);
    if (shape_.routes_shards) {
      const Tensor part = layer_.add(row_bytes(tokens_));
      layer_.flow.step(Module::SharedDown).reads(sum).writes(part).forward_workspace(combined);
      sum = part;
    }
    if (!moe_.shared_expert_gate) return sum;
    // Without autograd it is multiplied as it is added, and its gradient takes its place.
    const Tensor gated = layer_.add(layer_.autograd() ? row_bytes(tokens_) : 0.0);
    Dataflow::Step& gate = layer_.flow.step(Module::SharedDown).reads(sum).writes(gated).saves(sum);
    if (!layer_.autograd()) gate.gradient_in(sum);
    return gated;
  }

  double shared_tokens() const { return shape_.routes_shards ? tokens_ * ranks() : tokens_; }

  LayerDataflow& layer_;
  const Transformer& model_;
  const Moe& moe_;
  const Strategy& strategy_;
  const Framework& framework_;
  LayerWeights weights_;
  ExpertShape shape_;
  double e_;
  double tokens_;
  Tensor input_;
  Tensor whole_ = Dataflow::kNone;
  Tensor choice_ = Dataflow::kNone, indices_ = Dataflow::kNone, rows_ = Dataflow::kNone,
         results_ = Dataflow::kNone;
  Up shared_;
};

}  // namespace

Dataflow::Tensor add_moe(LayerDataflow& layer, Dataflow::Tensor x) {
  return MoeDataflow(layer, x).output();
}

}  // namespace llmsim::sim
