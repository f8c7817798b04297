// Attention of other shapes: values of another size than keys, gates, values that are keys, windowed
// layers with heads of their own, two mixers side by side.
#include "gtest/gtest.h"
#include "sim/base/error.h"
#include "sim/model/flops.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

std::int64_t qkv_columns(const Transformer& model) {
  return layer_weights(model, LayerKind::Dense)[WeightName::Qkv].columns;
}

// Eight heads of 128 for queries and keys and of 64 for values: (8 + 8) 128 + 8 64, and 512 rows of
// the output.
TEST(ValueHeads, OfTheirOwnSize) {
  TrainingRun run = small_run();
  const double core =
      named(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward,
            "attention")
          .flops.value();
  run.model.value_head_dim = 64;
  EXPECT_EQ(qkv_columns(run.model), 2048 + 512);
  EXPECT_EQ(layer_weights(run.model, LayerKind::Dense)[WeightName::AttentionOutput].rows, 512);
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(named(block.forward, "attention").flops.value(), core * 0.75);
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
}

TEST(ValueHeads, OfTheSizeOfKeysAreTheOrdinaryOnes) {
  TrainingRun run = small_run();
  const Prediction plain = predict(run);
  run.model.value_head_dim = run.model.head_dim;
  EXPECT_EQ(predict(run).step_time, plain.step_time);
  EXPECT_EQ(predict(run).memory.peak, plain.memory.peak);
}

// No columns for values, which are saved all the same.
TEST(ValueHeads, ThatAreKeysHaveNoWeights) {
  TrainingRun run = small_run();
  const double saved = saved_by_block(run).value();
  run.model.keys_as_values = true;
  EXPECT_EQ(qkv_columns(run.model), 2 * 1024);
  EXPECT_DOUBLE_EQ(saved_by_block(run).value(), saved);
  run.model.value_head_dim = 64;
  EXPECT_THROW(run.model.validate(), Error);
}

// One value for each of eight heads.
TEST(AttentionGate, OfAHeadIsOneColumn) {
  TrainingRun run = small_run();
  const double saved = saved_by_block(run).value();
  run.model.attention_head_gate = true;
  EXPECT_EQ(qkv_columns(run.model), 3 * 1024 + 8);
  const double t = run.strategy.micro_batch * static_cast<double>(run.model.seq_len);
  EXPECT_DOUBLE_EQ(saved_by_block(run).value(), saved + 2.0 * t * (8 + 1024.0));
  run.model.attention_gate = true;
  EXPECT_THROW(run.model.validate(), Error);
}

// Eight query heads of 128 from 256 values with a norm, two of keys and values from the stream.
TEST(QueryBottleneck, IsFactoredOutOfQueries) {
  TrainingRun run = small_run();
  run.model.num_kv_heads = 2;
  const auto block = [&] {
    return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  };
  const std::int64_t plain = block_parameters(run.model, 0).attention;
  const double flops = gemm_flops(block().forward);
  run.model.query_rank = 256;
  run.model.validate();
  EXPECT_EQ(qkv_columns(run.model), 2 * 2 * 128);
  EXPECT_EQ(block_parameters(run.model, 0).attention - plain,
            1024 * 256 + 256 + 256 * 1024 - 1024 * 1024);
  EXPECT_DOUBLE_EQ(gemm_flops(block().forward) - flops,
                   2.0 * kTokens * (1024.0 * 256 + 256.0 * 1024 - 1024.0 * 1024));
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  run.model.bias.qkv = true;
  EXPECT_THROW(run.model.validate(), Error);
}

// Tensor ranks divide the heads, not the bottleneck.
TEST(QueryBottleneck, IsTheSameOnAllTensorRanks) {
  TrainingRun run = small_run(8);
  run.model.query_rank = 256;
  run.strategy.tp = 4, run.strategy.dp = 2;
  const LayerGraph block = lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_EQ(named(block.forward, "query_down").n, 256);
  EXPECT_EQ(named(block.forward, "query_up").n, 256);
  EXPECT_EQ(named(block.forward, "qkv").n, 2 * 256);
}

TEST(LayerScalars, AreParametersOfEveryLayer) {
  Transformer model = small_model();
  const std::int64_t plain = parameters(model).total();
  model.layer_scalars = 2;
  EXPECT_EQ(parameters(model).total(), plain + 8 * 2);
}

// A window of 256 in three of four layers.
Transformer windowed(bool by_pattern) {
  Transformer model = small_model();
  if (by_pattern) {
    model.layer_pattern = "WWW*";
    model.window_attention =
        WindowAttention{.num_heads = 8, .num_kv_heads = 8, .head_dim = 128, .window = 256};
  } else {
    model.sliding_window = 256, model.sliding_window_interval = 4;
  }
  return model;
}

// The same layers, described by an interval and as layers of their own.
TEST(WindowAttention, OfTheSameShapeIsASlidingWindow) {
  TrainingRun run = small_run();
  run.model = windowed(false);
  const Prediction interval = predict(run);
  const std::int64_t count = parameters(run.model).total();
  run.model = windowed(true);
  run.model.validate();
  EXPECT_EQ(parameters(run.model).total(), count);
  EXPECT_NEAR(predict(run).step_time / interval.step_time, 1.0, 1e-9);
  EXPECT_NEAR(predict(run).memory.peak / interval.memory.peak, 1.0, 1e-9);
  EXPECT_NEAR(predict(run).model_flops / interval.model_flops, 1.0, 1e-12);
}

// Sixteen heads of 64 with two for keys, and a learned logit each, where others have eight of 128.
TEST(WindowAttention, HasAShapeOfItsOwn) {
  TrainingRun run = small_run(16);
  run.model = windowed(true);
  run.model.window_attention = WindowAttention{
      .num_heads = 16, .num_kv_heads = 2, .head_dim = 64, .window = 256, .sinks = true};
  const LayerWeights weights =
      layer_weights(run.model, {.mixer = Mixer::WindowAttention, .mlp = LayerMlp::Dense});
  EXPECT_EQ(weights[WeightName::Qkv].columns, 1024 + 2 * 2 * 64);
  EXPECT_EQ(weights[WeightName::AttentionSinks].columns, 16);
  EXPECT_EQ(qkv_columns(run.model), 3 * 1024);
  // 2 (64 + 64) 16 heads over 256 - 256^2 / 2048 keys.
  EXPECT_DOUBLE_EQ(attention_flops_per_token(run.model, 0, true).value(), 2.0 * 128 * 16 * 224);
  EXPECT_DOUBLE_EQ(attention_flops_per_token(run.model, 3, true).value(), 2.0 * 256 * 8 * 512);
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  run.strategy.tp = 16, run.strategy.dp = 1;
  run.model.num_heads = run.model.num_kv_heads = 16;
  run.model.window_attention->num_heads = 24, run.model.window_attention->num_kv_heads = 24;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "tp = 16 does not divide window_attention.num_heads = 24 (nearest: 8)");
}

TEST(WindowAttention, AndItsLetterGoTogether) {
  Transformer model = windowed(true);
  model.layer_pattern.reset();
  EXPECT_THROW(model.validate(), Error);
  model = windowed(true), model.window_attention.reset();
  EXPECT_THROW(model.validate(), Error);
}

// Attention and Mamba-2 with the weights of each, one norm before both, and the work of both.
TEST(SideBySide, BothReadOneNorm) {
  TrainingRun run = small_run();
  run.model.norm = Norm::RmsNorm;
  run.model.layer_pattern = "P";
  run.model.mamba = Mamba{.num_heads = 16, .head_dim = 64, .num_groups = 8, .state_size = 64};
  run.model.validate();
  const auto parameters_of = [&](Mixer mixer) {
    std::int64_t sum = 0;
    for (const LayerWeight& weight :
         layer_weights(run.model, {.mixer = mixer, .mlp = LayerMlp::Dense}))
      sum += weight.parameters();
    return sum;
  };
  const std::int64_t mlp = 2 * 1024 * 4096 + 1024;
  EXPECT_EQ(parameters_of(Mixer::AttentionAndMamba2),
            parameters_of(Mixer::Attention) + parameters_of(Mixer::Mamba2) - mlp - 1024);
  const auto flops_of = [&](Mixer mixer) {
    return total_flops(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None,
                                   {.mixer = mixer, .mlp = LayerMlp::None})
                           .forward)
        .value();
  };
  EXPECT_NEAR(flops_of(Mixer::AttentionAndMamba2),
              flops_of(Mixer::Attention) + flops_of(Mixer::Mamba2),
              1e-9 * flops_of(Mixer::Attention));
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  const std::int64_t with_norm = parameters(run.model).total();
  run.model.mamba->gated_norm = false;
  EXPECT_EQ(parameters(run.model).total(), with_norm - 8 * 1024);
}

// The last four of eight layers have no keys of their own, one norm of heads in place of two, and a
// wider MLP.
TEST(SharedKeys, AreThoseOfAnEarlierLayer) {
  TrainingRun run = small_run();
  run.model = windowed(true);
  run.model.norm = Norm::RmsNorm;
  run.model.qk_norm = QkNorm::PerHead;
  const std::int64_t own = parameters(run.model).total();
  run.model.layer_pattern = "WWW*VVVU";
  run.model.validate();
  EXPECT_EQ(own - parameters(run.model).total(), 4 * (1024 * 2 * 8 * 128 + 128));
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  const LayerKind sharing{.mixer = Mixer::SharingAttention, .mlp = LayerMlp::Dense};
  const double t = run.strategy.micro_batch * 1024.0;
  EXPECT_DOUBLE_EQ(
      saved_by_block(run).value() - saved_by_block(run, RecomputeKind::None, sharing).value(),
      2.0 * t * 3 * 1024);  // keys, before and after their norm, and values
  const std::int64_t narrow = parameters(run.model).total();
  run.model.sharing_ffn_size = 8192;
  EXPECT_EQ(parameters(run.model).total() - narrow, 4 * 2 * 1024 * 4096);
}

// Eight layers with 64 values of each of 1000 ids: the table, a projection to all of them and its
// norm; in each layer down to 64, up again, and a norm.
TEST(LayerEmbeddings, AreATableAndTwoGemmsOfEachLayer) {
  TrainingRun run = small_run();
  run.model.norm = Norm::RmsNorm;
  const std::int64_t plain = parameters(run.model).total();
  run.model.layer_embedding = LayerEmbedding{.vocab_size = 1000, .width = 64};
  EXPECT_EQ(parameters(run.model).total() - plain,
            (1000 + 1024) * 8 * 64 + 64 + 8 * (2 * 1024 * 64 + 1024));
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
}

}  // namespace
}  // namespace llmsim::sim
