#include "sim/operators/moe_dataflow.h"

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
        shape_(expert_shape(model_, strategy_, framework_)),
        e_(layer.element),
        tokens_(static_cast<double>(shape_.tokens)),
        width_(model_.gated_mlp ? 2.0 : 1.0),
        input_(input) {}

  Tensor output() {
    whole_ = input_;
    if (layer_.gathers && !shape_.routes_shards) {
      whole_ = layer_.add(ranks() * layer_.size(input_).value());
      layer_.flow.step(Module::MoeInput).reads(input_).writes(whole_);
    }
    route();
    dispatch();
    if (shape_.shared_ffn > 0) shared_up();
    experts();
    give_back();
    if (shape_.shared_ffn > 0) shared_activation();
    if (!moe_.shared_expert_gate) layer_.flow.end_of_needed();
    const Tensor shared = shape_.shared_ffn > 0 ? shared_down() : Dataflow::kNone;
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

  // What a gated MLP's first GEMM gives beside the values.
  Tensor gate_of(double elements) {
    return model_.gated_mlp ? layer_.add(elements * e_) : Dataflow::kNone;
  }
  Bytes gradient_workspace(double weights, double bias) const {
    return layer_.weight_gradient_workspace(weights, bias);
  }

  // Logits, probabilities in fp32, the choice, its weights and where the rows go.
  void route() {
    const double experts = moe_.num_experts, logits = tokens_ * experts;
    const Tensor raw = layer_.add(logits * e_);
    layer_.flow.step(Module::Router)
        .reads(whole_)
        .writes(raw)
        .gemm()
        .saves(input_)
        .backward_workspace(
            gradient_workspace(experts * model_.hidden_size, moe_.router_bias ? experts : 0.0));
    const Tensor high = e_ < kFp32Bytes ? replaced(Module::Router, raw, logits * kFp32Bytes) : raw;
    const Tensor probabilities = layer_.add(logits * kFp32Bytes);
    layer_.flow.step(Module::Router).reads(high).writes(probabilities).saves(probabilities);
    weights_ = layer_.add(sent() * e_);
    indices_ = layer_.add(3.0 * sent() * kRowIndexBytes, Role::Statistic);
    layer_.flow.step(Module::Router)
        .reads(probabilities)
        .writes(weights_)
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
    const double h = model_.hidden_size, f = static_cast<double>(shape_.ffn), count = rows() * f;
    const Tensor gate = gate_of(count), up = layer_.add(count * e_);
    Dataflow::Step& first = layer_.flow.step(Module::ExpertUp)
                                .reads(rows_)
                                .writes(gate)
                                .writes(up)
                                .gemm(layer_.policy_saves());
    layer_.save_input(first, rows_);
    first.backward_workspace(
        gradient_workspace(width_ * f * h, moe_.expert_bias ? width_ * f : 0.0));
    const Tensor inner = activate(Module::ExpertActivation, gate, up, count);
    const bool unweighted =
        framework_.saved.weighted_in_experts && !(model_.gated_mlp && !eager_gate());
    if (unweighted) layer_.save_extra(Module::ExpertActivation, Bytes(count * e_));
    results_ = layer_.add(row_bytes(rows()));
    Dataflow::Step& second = layer_.flow.step(Module::ExpertDown)
                                 .reads(inner)
                                 .writes(results_)
                                 .gemm(layer_.policy_saves());
    layer_.save_input(second, inner);
    second.backward_workspace(gradient_workspace(h * f, moe_.expert_bias ? h : 0.0));
  }

  Tensor activate(Module module, Tensor gate, Tensor up, double elements) {
    if (eager_gate()) layer_.save_extra(module, Bytes(elements * e_));  // silu(gate)
    const Tensor inner = layer_.add(elements * e_);
    layer_.flow.step(module).reads(gate).reads(up).writes(inner).saves(gate).saves(up);
    return inner;
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
    Dataflow::Step& step = layer_.flow.step(Module::Combine)
                               .reads(results_)
                               .reads(weights_)
                               .writes(sum)
                               .saves(weights_);
    if (!framework_.saved.weighted_in_experts) step.saves(results_);
    if (!layer_.autograd())
      step.gradient_in(results_).backward_workspace(Bytes(row_bytes(tokens_)));
    return sum;
  }

  void shared_up() {
    const double f = static_cast<double>(shape_.shared_ffn), count = shared_tokens() * f;
    Tensor x = whole_;
    if (shape_.routes_shards) x = replaced(Module::SharedUp, input_, row_bytes(shared_tokens()));
    const Tensor gate = gate_of(count), up = layer_.add(count * e_);
    Dataflow::Step& step = layer_.flow.step(Module::SharedUp)
                               .reads(x)
                               .writes(gate)
                               .writes(up)
                               .gemm(layer_.policy_saves());
    // The runtime keeps what it has gathered.
    const bool gathers_again = shape_.routes_shards && layer_.autograd();
    layer_.save_input(step, shape_.routes_shards && !gathers_again ? x : input_);
    step.backward_workspace(
        (gathers_again ? layer_.size(x) : Bytes(0.0)) +
        gradient_workspace(width_ * f * model_.hidden_size, model_.bias.mlp ? width_ * f : 0.0));
    shared_gate_ = gate, shared_ = up;
    if (moe_.shared_expert_gate) layer_.save_extra(Module::SharedUp, Bytes(tokens_ * e_));
  }

  // Where its backward pass is: beside the first of the experts'.
  void shared_activation() {
    shared_ = activate(Module::SharedActivation, shared_gate_, shared_,
                       shared_tokens() * static_cast<double>(shape_.shared_ffn));
  }

  Tensor shared_down() {
    const double f = static_cast<double>(shape_.shared_ffn);
    Tensor sum = layer_.add(row_bytes(shared_tokens()));
    Dataflow::Step& step = layer_.flow.step(Module::SharedDown)
                               .reads(shared_)
                               .writes(sum)
                               .gemm(layer_.policy_saves())
                               .row_parallel();
    layer_.save_input(step, shared_);
    step.backward_workspace(
        gradient_workspace(model_.hidden_size * f, model_.bias.mlp ? model_.hidden_size : 0.0));
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
  ExpertShape shape_;
  double e_;
  double tokens_;
  double width_;
  Tensor input_;
  Tensor whole_ = Dataflow::kNone;
  Tensor weights_ = Dataflow::kNone, indices_ = Dataflow::kNone, rows_ = Dataflow::kNone,
         results_ = Dataflow::kNone;
  Tensor shared_gate_ = Dataflow::kNone, shared_ = Dataflow::kNone;
};

}  // namespace

Dataflow::Tensor add_moe(LayerDataflow& layer, Dataflow::Tensor x) {
  return MoeDataflow(layer, x).output();
}

}  // namespace llmsim::sim
