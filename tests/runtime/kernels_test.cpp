// Each kernel's backward pass against the library's automatic differentiation of the same function,
// written out plainly.
#include <cmath>
#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "runtime/kernels/activation.h"
#include "runtime/kernels/adamw.h"
#include "runtime/kernels/attention.h"
#include "runtime/kernels/cross_entropy.h"
#include "runtime/kernels/embedding.h"
#include "runtime/kernels/linear.h"
#include "runtime/kernels/norm.h"
#include "runtime/kernels/rotary.h"
#include "tests/runtime/expect_close.h"

namespace llmsim::runtime {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor random(std::vector<std::int64_t> sizes) {
  return at::randn(sizes, at::TensorOptions(at::kDouble)).to(at::kFloat);
}
at::Tensor zeros(const at::Tensor& like) { return at::zeros_like(like); }

// Gradients of sum(f(inputs) * weights) by automatic differentiation.
Tensors reference_gradients(const std::function<at::Tensor(const Tensors&)>& f,
                            const Tensors& inputs, const at::Tensor& weights) {
  Tensors leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.detach().clone().requires_grad_(true));
  (f(leaves) * weights).sum().backward();
  Tensors gradients;
  for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
  return gradients;
}

TEST(LinearKernel, GradientsAreThoseOfTheGemm) {
  at::manual_seed(1);
  const at::Tensor x = random({6, 5}), w = random({4, 5}), b = random({4}), dy = random({6, 4});
  const auto expected = reference_gradients(
      [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); }, {x, w, b}, dy);
  const at::Tensor dw = zeros(w), db = zeros(b);
  expect_close(linear_forward(x, w, b), at::linear(x, w, b));
  expect_close(linear_data_gradient(dy, w), expected[0]);
  add_linear_weight_gradient(dy, x, dw, db);
  expect_close(dw, expected[1]);
  expect_close(db, expected[2]);
  add_linear_weight_gradient(dy, x, dw, db);
  expect_close(dw, 2 * expected[1]);  // gradients add up
}

class NormKernel : public testing::TestWithParam<sim::Norm> {};

at::Tensor plain_norm(sim::Norm kind, const Tensors& in) {
  if (kind == sim::Norm::LayerNorm)
    return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2], 1e-5);
  return in[0] * (in[0].square().mean(-1, true) + 1e-5).rsqrt() * in[1];
}

TEST_P(NormKernel, GradientsAreThoseOfTheFormula) {
  at::manual_seed(2);
  const bool biased = GetParam() == sim::Norm::LayerNorm;
  const at::Tensor x = random({7, 12}), w = random({12}), b = biased ? random({12}) : at::Tensor(),
                   dy = random({7, 12});
  Tensors inputs{x, w};
  if (biased) inputs.push_back(b);
  const auto expected =
      reference_gradients([](const Tensors& in) { return plain_norm(GetParam(), in); }, inputs, dy);
  const NormOutput forward = norm(GetParam(), x, w, b);
  expect_close(forward.y, plain_norm(GetParam(), inputs));
  const at::Tensor dw = zeros(w), db = biased ? zeros(b) : at::Tensor();
  expect_close(norm_backward(GetParam(), dy.clone(), x, forward, w, b, dw, db), expected[0]);
  expect_close(dw, expected[1]);
  if (biased) expect_close(db, expected[2]);
}

INSTANTIATE_TEST_SUITE_P(Both, NormKernel,
                         testing::Values(sim::Norm::LayerNorm, sim::Norm::RmsNorm),
                         [](const auto& tested) {
                           return std::string(sim::name_of(tested.param));
                         });

TEST(ActivationKernel, GeluAndSwiGluHaveTheirGradients) {
  at::manual_seed(3);
  for (const bool gated : {false, true}) {
    const at::Tensor x = random({5, 8}), dy = random({5, gated ? 4 : 8});
    const auto plain = [gated](const Tensors& in) {
      return gated ? at::silu(in[0].narrow(1, 0, 4)) * in[0].narrow(1, 4, 4)
                   : at::gelu(in[0], "tanh");
    };
    const ActivationOutput forward = activation(gated, x);
    expect_close(forward.y, plain({x}));
    expect_close(activation_backward(gated, dy.clone(), x, forward.silu),
                 reference_gradients(plain, {x}, dy)[0]);
  }
}

// 2 sequences of 130 tokens: one block of queries and two more; 4 heads on 2 keys.
constexpr HeadShape kShape{.batch = 2, .seq_len = 130, .heads = 4, .kv_heads = 2, .head_dim = 8};

at::Tensor plain_attention(const Tensors& in) {
  const at::Tensor k = in[1].repeat_interleave(2, 1), v = in[2].repeat_interleave(2, 1);
  const at::Tensor mask = at::ones({130, 130}, at::TensorOptions(at::kBool)).triu(1);
  const at::Tensor scores =
      (at::matmul(in[0], k.transpose(2, 3)) / std::sqrt(8.0)).masked_fill(mask, -INFINITY);
  return at::matmul(at::softmax(scores, -1), v).transpose(1, 2).reshape({260, 32});
}

TEST(AttentionKernel, UnfusedAndBlockwiseAreTheSameFunctionWithTheSameGradients) {
  at::manual_seed(4);
  const Heads heads{
      .q = random({2, 4, 130, 8}), .k = random({2, 2, 130, 8}), .v = random({2, 2, 130, 8})};
  const at::Tensor dout = random({260, 32});
  const auto expected = reference_gradients(plain_attention, {heads.q, heads.k, heads.v}, dout);
  const at::Tensor whole = causal_mask(130, 130, at::TensorOptions()),
                   block = causal_mask(128, 128, at::TensorOptions());
  const AttentionOutput unfused = unfused_attention(heads, whole),
                        blockwise = blockwise_attention(heads, block);
  expect_close(unfused.o, plain_attention({heads.q, heads.k, heads.v}));
  expect_close(blockwise.o, unfused.o);
  const Heads a = unfused_attention_backward(dout, heads, unfused.probabilities);
  const Heads b = blockwise_attention_backward(dout, heads, blockwise, block);
  for (const Heads& gradients : {a, b}) {
    expect_close(gradients.q, expected[0]);
    expect_close(gradients.k, expected[1]);
    expect_close(gradients.v, expected[2]);
  }
}

// As in an encoder: softmax over all keys.
TEST(AttentionKernel, WithoutAMaskEveryQuerySeesEveryKey) {
  at::manual_seed(5);
  const Heads heads{
      .q = random({2, 4, 130, 8}), .k = random({2, 4, 130, 8}), .v = random({2, 4, 130, 8})};
  const at::Tensor dout = random({260, 32});
  const auto plain = [](const Tensors& in) {
    const at::Tensor scores = at::matmul(in[0], in[1].transpose(2, 3)) / std::sqrt(8.0);
    return at::matmul(at::softmax(scores, -1), in[2]).transpose(1, 2).reshape({260, 32});
  };
  const auto expected = reference_gradients(plain, {heads.q, heads.k, heads.v}, dout);
  const AttentionOutput unfused = unfused_attention(heads, {}),
                        blockwise = blockwise_attention(heads, {});
  expect_close(unfused.o, plain({heads.q, heads.k, heads.v}));
  expect_close(blockwise.o, unfused.o);
  const Heads gradients = blockwise_attention_backward(dout, heads, blockwise, {});
  expect_close(gradients.q, expected[0]);
  expect_close(gradients.k, expected[1]);
  expect_close(gradients.v, expected[2]);
}

TEST(AttentionKernel, AWindowHidesTokensFurtherBack) {
  const at::Tensor mask = causal_mask(4, 2, at::TensorOptions());
  const bool expected[4][4] = {{false, true, true, true},
                               {false, false, true, true},
                               {true, false, false, true},
                               {true, true, false, false}};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j)
      EXPECT_EQ(mask[i][j].item<bool>(), expected[i][j]) << i << ", " << j;
  }
}

// A rotation keeps lengths, leaves position 0 alone, and its backward pass is its inverse.
TEST(SplitHeads, RotatesAndRotatesBack) {
  at::manual_seed(5);
  const at::Tensor z = random({260, 64});
  const RotaryTable table = rotary_table(130, 8, at::TensorOptions(at::kFloat));
  const Heads heads = split_heads(z, kShape, table);
  const at::Tensor q = z.narrow(1, 0, 32).reshape({2, 130, 4, 8}).transpose(1, 2);
  expect_close(heads.q.norm(2, {-1}), q.norm(2, {-1}));
  expect_close(heads.q.select(2, 0), q.select(2, 0));
  expect_close(heads.v, z.narrow(1, 48, 16).reshape({2, 130, 2, 8}).transpose(1, 2));
  expect_close(split_heads_backward(heads, kShape, table), z);
}

// Position 1 of a head of 2 turns by one radian: (1, 0) becomes (cos 1, sin 1).
TEST(SplitHeads, TheFirstFrequencyTurnsByOneRadianAPosition) {
  const HeadShape shape{.batch = 1, .seq_len = 2, .heads = 1, .kv_heads = 1, .head_dim = 2};
  const at::Tensor z = at::tensor({1.0F, 0.0F}).repeat({2, 3});
  const Heads heads = split_heads(z, shape, rotary_table(2, 2, at::TensorOptions(at::kFloat)));
  EXPECT_NEAR(heads.q[0][0][1][0].item<double>(), std::cos(1.0), 1e-6);
  EXPECT_NEAR(heads.q[0][0][1][1].item<double>(), std::sin(1.0), 1e-6);
}

TEST(CrossEntropyKernel, IsTheMeanNegativeLogLikelihood) {
  at::manual_seed(6);
  const at::Tensor logits = random({6, 9}),
                   targets = at::tensor({0, 3, 8, 1, 1, 5}, at::TensorOptions(at::kLong));
  const auto plain = [&](const Tensors& in) {
    return at::nll_loss(at::log_softmax(in[0], -1), targets, {}, at::Reduction::Mean);
  };
  const LossContext context{.tokens_of_step = 6.0, .shard = {}, .tensor = nullptr};
  LossOutput out = cross_entropy(logits.clone(), targets, context);
  expect_close(out.loss, plain({logits}));
  expect_close(cross_entropy_backward(out.saved, targets, context, at::kFloat),
               reference_gradients(plain, {logits}, at::ones({}))[0]);
}

TEST(EmbeddingKernel, GradientsOfOneTokenAddUp) {
  const at::Tensor table = random({5, 3}),
                   ids = at::tensor({4, 1, 4}, at::TensorOptions(at::kLong));
  expect_close(embed(ids, table, {}), table.index_select(0, ids));
  const at::Tensor gradient = zeros(table);
  add_embedding_gradient(at::ones({3, 3}), ids, gradient, {});
  EXPECT_EQ(gradient[4][0].item<double>(), 2.0);
  EXPECT_EQ(gradient[1][0].item<double>(), 1.0);
  EXPECT_EQ(gradient[0][0].item<double>(), 0.0);
}

// Rows 2 and 3 of a table of 6 on the second of three ranks: tokens of others give zeros.
TEST(EmbeddingKernel, AShardAnswersForItsOwnRows) {
  const at::Tensor shard = at::ones({2, 3}),
                   ids = at::tensor({0, 2, 5}, at::TensorOptions(at::kLong));
  const at::Tensor x = embed(ids, shard, {.first_row = 2, .divided = true});
  EXPECT_EQ(x.sum().item<double>(), 3.0);
  EXPECT_EQ(x[1][0].item<double>(), 1.0);
}

// First step from zero states: the corrected moments are g and g^2, so the step is lr (sign(g) +
// decay w).
TEST(AdamW, TheFirstStepHasTheSizeOfTheLearningRate) {
  const at::Tensor weight = at::tensor({1.0F, -2.0F}), gradient = at::tensor({0.5F, -4.0F});
  const AdamWSlice slice{.master = weight,
                         .gradient = gradient,
                         .first_moment = zeros(weight),
                         .second_moment = zeros(weight),
                         .weight = {}};
  adamw_steps({slice}, 1, {.learning_rate = 0.01, .weight_decay = 0.1});
  EXPECT_NEAR(weight[0].item<double>(), 1.0 - 0.01 * (1.0 + 0.1), 1e-6);
  EXPECT_NEAR(weight[1].item<double>(), -2.0 + 0.01 * (1.0 + 0.2), 1e-6);
}

}  // namespace
}  // namespace llmsim::runtime
