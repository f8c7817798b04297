// MLA: its heads and backward pass against the library's automatic differentiation of the formula.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "runtime/kernels/attention.h"
#include "runtime/model/block.h"
#include "runtime/model/layer_parameters.h"
#include "runtime/model/mla_inputs.h"
#include "sim/base/error.h"
#include "sim/model/layer_kinds.h"
#include "tests/runtime/expect_close.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

// Two sequences of 32 tokens, with random parameters and the same as leaves of a graph.
class Latents {
 public:
  explicit Latents(Family family) {
    TrainingSetup setup = small_training(family);
    setup.strategy.micro_batch = 2;
    context_.model = setup.model;
    context_.shape = rank_shape(setup.model, setup.strategy, {});
    context_.rotary = rotary_table(32, 8, at::TensorOptions(at::kFloat));
    unit_ = std::make_unique<ParameterUnit>(
        "block", block_parameters(context_, sim::LayerKind::Dense, ""), 1);
    unit_->weights = at::randn({unit_->numel()}).mul_(0.3);
    unit_->gradients = at::zeros({unit_->numel()});
    leaves_ = unit_->weights.detach().clone().requires_grad_(true);
  }

  MlaInputs inputs() const {
    std::size_t next = 1;  // behind the norm
    return {context_, *unit_, next};
  }
  const at::Tensor& gradients() const { return unit_->gradients; }
  const at::Tensor& leaves() const { return leaves_; }

  // q = [q_n, R q_r], k = [k_n, R k_r] with one k_r for all heads.
  Heads formula(const at::Tensor& x) const {
    const bool direct = !leaf("query_down").defined();
    const at::Tensor input =
        direct ? x : normed(at::linear(x, leaf("query_down")), leaf("query_norm"));
    const at::Tensor q = by_heads(at::linear(input, leaf("query_up"))),
                     latents = at::linear(x, leaf("mla_down"));
    const at::Tensor kv =
        by_heads(at::linear(normed(latents.narrow(1, 0, 20), leaf("mla_norm")), leaf("mla_up")));
    const at::Tensor shared =
        turned(latents.narrow(1, 20, 8).reshape({2, 1, 32, 8})).expand({2, 4, 32, 8});
    return {.q = at::cat({q.narrow(3, 0, 12), turned(q.narrow(3, 12, 8))}, 3),
            .k = at::cat({kv.narrow(3, 0, 12), shared}, 3),
            .v = kv.narrow(3, 12, 16)};
  }

 private:
  at::Tensor leaf(const std::string& name) const {
    for (std::size_t i = 0; i < unit_->shapes().size(); ++i) {
      const ParameterShape& shape = unit_->shapes()[i];
      if (shape.name == name + ".weight")
        return leaves_.narrow(0, unit_->offset(i), unit_->weight(i).numel()).view(shape.sizes);
    }
    return {};
  }

  static at::Tensor normed(const at::Tensor& x, const at::Tensor& w) {
    return x * (x.square().mean(-1, true) + 1e-5).rsqrt() * w;
  }
  static at::Tensor by_heads(const at::Tensor& rows) {
    return rows.reshape({2, 32, 4, -1}).transpose(1, 2);
  }

  // Values i and i + 4 of 8 turn by 10000^(-i / 4) a position.
  static at::Tensor turned(const at::Tensor& x) {
    const at::Tensor frequencies =
        at::pow(10000.0, -at::arange(0, 4, at::TensorOptions(at::kFloat)) / 4.0);
    const at::Tensor angles =
        at::arange(0, 32, at::TensorOptions(at::kFloat)).unsqueeze(1) * frequencies;
    const at::Tensor a = x.narrow(3, 0, 4), b = x.narrow(3, 4, 4);
    return at::cat({a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()}, 3);
  }

  BlockContext context_;
  std::unique_ptr<ParameterUnit> unit_;
  at::Tensor leaves_;
};

class MlaGradient : public testing::TestWithParam<Family> {};

TEST_P(MlaGradient, IsThatOfTheFormula) {
  at::manual_seed(5);
  const Latents latents(GetParam());
  const at::Tensor x = at::randn({64, 64});
  const Heads weights{.q = at::randn({2, 4, 32, 20}),
                      .k = at::randn({2, 4, 32, 20}),
                      .v = at::randn({2, 4, 32, 16})};
  const at::Tensor leaf = x.detach().clone().requires_grad_(true);
  const Heads expected = latents.formula(leaf);
  ((expected.q * weights.q).sum() + (expected.k * weights.k).sum() + (expected.v * weights.v).sum())
      .backward();

  const MlaInputs inputs = latents.inputs();
  MlaTape tape;
  inputs.down(x, tape);
  const Heads heads = inputs.up(x, tape);
  expect_close(heads.q, expected.q.detach());
  expect_close(heads.k, expected.k.detach());
  expect_close(heads.v, expected.v.detach());
  expect_close(inputs.backward(weights, x, tape), leaf.grad());
  expect_close(latents.gradients(), latents.leaves().grad());
}

INSTANTIATE_TEST_SUITE_P(Queries, MlaGradient, testing::Values(Family::Mla, Family::MlaDirect),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

// 130 tokens: one block of queries and two more.
at::Tensor plain_attention(const Heads& heads) {
  const at::Tensor mask = at::ones({130, 130}, at::TensorOptions(at::kBool)).triu(1);
  const at::Tensor scores =
      (at::matmul(heads.q, heads.k.transpose(2, 3)) / std::sqrt(12.0)).masked_fill(mask, -INFINITY);
  return at::matmul(at::softmax(scores, -1), heads.v).transpose(1, 2).reshape({260, 24});
}

TEST(Mla, ValuesMayBeOfAnotherSizeThanQueries) {
  at::manual_seed(6);
  const Heads heads{.q = at::randn({2, 3, 130, 12}),
                    .k = at::randn({2, 3, 130, 12}),
                    .v = at::randn({2, 3, 130, 8})};
  const at::Tensor dout = at::randn({260, 24});
  const auto leaf = [](const at::Tensor& x) { return x.detach().clone().requires_grad_(true); };
  const Heads leaves{.q = leaf(heads.q), .k = leaf(heads.k), .v = leaf(heads.v)};
  const at::Tensor expected = plain_attention(leaves);
  (expected * dout).sum().backward();
  const at::Tensor whole = causal_mask(130, 130, at::TensorOptions()),
                   block = causal_mask(128, 128, at::TensorOptions());
  const AttentionOutput unfused = unfused_attention(heads, whole),
                        blockwise = blockwise_attention(heads, block);
  expect_close(unfused.o, expected.detach());
  expect_close(blockwise.o, expected.detach());
  for (const Heads& gradients : {unfused_attention_backward(dout, heads, unfused.probabilities),
                                 blockwise_attention_backward(dout, heads, blockwise, block)}) {
    expect_close(gradients.q, leaves.q.grad());
    expect_close(gradients.k, leaves.k.grad());
    expect_close(gradients.v, leaves.v.grad());
  }
}

struct Refused {
  std::string names;  // what the message does
  void (*change)(TrainingSetup&);
};

class MlaRefusal : public testing::TestWithParam<Refused> {};

TEST_P(MlaRefusal, NamesTheField) {
  TrainingSetup setup = small_training(Family::Mla);
  GetParam().change(setup);
  try {
    rank_shape(setup.model, setup.strategy, {});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().names), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MlaRefusal,
    testing::Values(Refused{"norm = layernorm",
                            [](TrainingSetup& s) { s.model.norm = sim::Norm::LayerNorm; }},
                    Refused{"position = learned",
                            [](TrainingSetup& s) { s.model.position = sim::Position::Learned; }},
                    Refused{"bias.qkv", [](TrainingSetup& s) { s.model.bias.qkv = true; }},
                    Refused{"mla.qk_rope_head_dim = 7",
                            [](TrainingSetup& s) { s.model.mla->qk_rope_head_dim = 7; }}));

}  // namespace
}  // namespace llmsim::runtime
