// The experts' output and backward pass against the library's automatic differentiation of the
// formula, token by token.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "runtime/model/block.h"
#include "runtime/model/experts.h"
#include "runtime/model/layer_parameters.h"
#include "sim/model/layer_kinds.h"
#include "tests/runtime/expect_close.h"
#include "tests/runtime/experts_setup.h"

namespace llmsim::runtime {
namespace {

constexpr std::int64_t kTokens = 12;

// One process's experts with random parameters, and the same as leaves of a graph.
class Moe {
 public:
  explicit Moe(const MoeForm& form) {
    const TrainingSetup setup = small_moe(form);
    context_.model = setup.model;
    context_.shape = rank_shape(setup.model, setup.strategy, {});
    std::vector<ParameterShape> shapes = block_parameters(context_, sim::LayerKind::Moe, "");
    const std::vector<ParameterShape> experts = expert_parameters(context_, "");
    first_expert_ = shapes.size();
    while (shapes[router_].name != "router.weight") ++router_;
    shapes.insert(shapes.end(), experts.begin(), experts.end());
    unit_ = std::make_unique<ParameterUnit>("block", std::move(shapes), 1);
    unit_->weights = at::randn({unit_->numel()}).mul_(0.3);
    unit_->gradients = at::zeros({unit_->numel()});
    leaves_ = unit_->weights.detach().clone().requires_grad_(true);
  }

  Experts experts() const { return {context_, *unit_, router_, *unit_, first_expert_}; }
  const at::Tensor& gradients() const { return unit_->gradients; }
  const at::Tensor& leaves() const { return leaves_; }

  // sum over the chosen experts of probability times expert, and the shared one.
  at::Tensor formula(const at::Tensor& x) const {
    const sim::Moe& moe = *context_.model.moe;
    const at::Tensor probabilities =
        at::softmax(at::linear(x, leaf("router.weight"), leaf("router.bias")), 1);
    const at::Tensor chosen = std::get<1>(at::topk(probabilities.detach(), moe.top_k, 1));
    std::vector<at::Tensor> tokens;
    for (std::int64_t token = 0; token < x.size(0); ++token) {
      at::Tensor sum = shared(x[token]);
      for (std::int64_t k = 0; k < moe.top_k; ++k) {
        const std::int64_t expert = chosen[token][k].item<std::int64_t>();
        sum = sum + probabilities[token][expert] * one_expert(x[token], expert);
      }
      tokens.push_back(sum);
    }
    return at::stack(tokens);
  }

 private:
  at::Tensor leaf(const std::string& name) const {
    for (std::size_t i = 0; i < unit_->shapes().size(); ++i) {
      const ParameterShape& shape = unit_->shapes()[i];
      if (shape.name == name)
        return leaves_.narrow(0, unit_->offset(i), unit_->weight(i).numel()).view(shape.sizes);
    }
    return {};
  }

  at::Tensor activated(const at::Tensor& up) const {
    if (!context_.model.gated_mlp) return at::gelu(up, "tanh");
    const std::int64_t half = up.size(0) / 2;
    return at::silu(up.narrow(0, 0, half)) * up.narrow(0, half, half);
  }

  at::Tensor one_expert(const at::Tensor& x, std::int64_t expert) const {
    at::Tensor up = at::mv(leaf("expert_up.weight")[expert], x);
    if (leaf("expert_up.bias").defined()) up = up + leaf("expert_up.bias")[expert];
    const at::Tensor down = at::mv(leaf("expert_down.weight")[expert], activated(up));
    return leaf("expert_down.bias").defined() ? down + leaf("expert_down.bias")[expert] : down;
  }

  at::Tensor shared(const at::Tensor& x) const {
    if (!leaf("shared_up.weight").defined()) return at::zeros_like(x);
    at::Tensor up = at::mv(leaf("shared_up.weight"), x);
    if (leaf("shared_up.bias").defined()) up = up + leaf("shared_up.bias");
    at::Tensor y = at::mv(leaf("shared_down.weight"), activated(up));
    if (leaf("shared_down.bias").defined()) y = y + leaf("shared_down.bias");
    return leaf("shared_gate.weight").defined()
               ? y * at::sigmoid(at::mv(leaf("shared_gate.weight"), x))
               : y;
  }

  BlockContext context_;
  std::size_t router_ = 0, first_expert_ = 0;
  std::unique_ptr<ParameterUnit> unit_;
  at::Tensor leaves_;
};

class ExpertsGradient : public testing::TestWithParam<MoeForm> {};

TEST_P(ExpertsGradient, IsThatOfTheFormula) {
  at::manual_seed(3);
  const Moe moe(GetParam());
  const at::Tensor x = at::randn({kTokens, 64}), dy = at::randn({kTokens, 64});
  const at::Tensor leaf = x.detach().clone().requires_grad_(true);
  const at::Tensor y = moe.formula(leaf);
  (y * dy).sum().backward();

  const Experts experts = moe.experts();
  ExpertsTape tape;
  experts.inner(x, tape, Experts::Keep::Tape);
  expect_close(experts.outer(tape, Experts::Keep::Tape), y.detach());
  expect_close(experts.backward(dy, x, tape), leaf.grad());
  expect_close(moe.gradients(), moe.leaves().grad());
}

// Whatever is dropped comes back, and what is not kept gives the same output.
TEST_P(ExpertsGradient, IsTheSameWhenExpertsAreMadeAgain) {
  at::manual_seed(4);
  const Moe moe(GetParam());
  const at::Tensor x = at::randn({kTokens, 64}), dy = at::randn({kTokens, 64});
  const Experts experts = moe.experts();
  ExpertsTape kept, passing;
  experts.inner(x, kept, Experts::Keep::Tape);
  experts.inner(x, passing, Experts::Keep::Nothing);
  EXPECT_TRUE(at::equal(experts.outer(kept, Experts::Keep::Tape),
                        experts.outer(passing, Experts::Keep::Nothing)));
  std::vector<at::Tensor> gradients;
  const std::vector<sim::RecomputedModules> choices{
      {.core_attention = false, .expert_activation = true},
      {.core_attention = false, .activation = true},
      {.core_attention = false, .shared_experts = true},
      {.core_attention = false, .activation = true, .shared_experts = true},
      {.core_attention = false, .moe = true, .activation = true}};
  for (const sim::RecomputedModules& dropped : choices) {
    ExpertsTape tape;
    experts.inner(x, tape, Experts::Keep::Tape);
    Experts::drop(tape, dropped);
    experts.restore(x, tape);
    gradients.push_back(experts.backward(dy, x, tape));
  }
  const at::Tensor plain = experts.backward(dy, x, kept);
  for (const at::Tensor& gradient : gradients) EXPECT_TRUE(at::equal(gradient, plain));
}

INSTANTIATE_TEST_SUITE_P(Forms, ExpertsGradient, testing::ValuesIn(moe_forms()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace llmsim::runtime
