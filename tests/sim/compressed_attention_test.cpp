// Compressed attention and several residual streams, as DeepSeek-V4 has them.
#include "sim/operators/compressed_attention.h"
#include "gtest/gtest.h"
#include "sim/base/error.h"
#include "sim/model/flops.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/predict.h"
#include "sim/strategy/stages.h"
#include "sim/strategy/validity.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr LayerKind kChosen{.mixer = Mixer::CompressedAttention, .mlp = LayerMlp::Dense},
    kHeavy{.mixer = Mixer::HeavilyCompressedAttention, .mlp = LayerMlp::Dense};

// Eight heads of 128 on one key of 128, a window of 128; in layers Z 64 of the entries of 4 tokens
// by an indexer of two heads of 32, in layers H all entries of 64 tokens.
TrainingRun compressed_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.norm = Norm::RmsNorm;
  run.model.position = Position::Rope;
  run.model.num_kv_heads = 1;
  run.model.attention_sinks = true;
  run.model.layer_pattern = "*ZHZ";
  run.model.compressed_attention = CompressedAttention{.q_lora_rank = 256,
                                                       .output_groups = 4,
                                                       .output_rank = 192,
                                                       .window = 128,
                                                       .ratio = 4,
                                                       .heavy_ratio = 64,
                                                       .index_heads = 2,
                                                       .index_dim = 32,
                                                       .top_k = 64};
  return run;
}

std::int64_t attention_parameters(const Transformer& model, Mixer mixer) {
  std::int64_t sum = 0;
  for (const LayerWeight& weight : layer_weights(model, {.mixer = mixer, .mlp = LayerMlp::Dense}))
    if (weight.part == LayerPart::Attention) sum += weight.parameters();
  return sum;
}

LayerOperators compressed_block(const TrainingRun& run, LayerKind kind) {
  return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kind);
}

// Queries 1024 to 256, a norm, to 1024; the key; four groups of 256 values to 192; 768 to 1024; a
// sink for each head.
TEST(CompressedAttentionWeights, AreThoseOfEachKindOfLayer) {
  const Transformer model = compressed_run().model;
  const std::int64_t plain = attention_parameters(model, Mixer::Attention);
  EXPECT_EQ(plain, 1024 * 256 + 256 + 256 * 1024 + 1024 * 128 + 128 + 1024 * 192 + 768 * 1024 + 8);
  EXPECT_EQ(attention_parameters(model, Mixer::HeavilyCompressedAttention) - plain,
            1024 * 256 + 64 * 128 + 128);
  const std::int64_t indexer = 256 * 64 + 1024 * 128 + 4 * 64 + 32 + 1024 * 2;
  EXPECT_EQ(attention_parameters(model, Mixer::CompressedAttention) - plain,
            1024 * 512 + 4 * 256 + 128 + indexer);
}

// Of a window of 128 a query sees 128 - 128^2 / 2048 tokens; of 16 entries of 64 tokens 8; of 256
// entries of 4 tokens 64 - 64^2 / 512, after scores of 128.
TEST(CompressedAttentionFlops, AreOfWindowAndEntries) {
  const Transformer model = compressed_run().model;
  const auto of = [&](double keys) { return 2.0 * 8 * 256 * keys; };
  EXPECT_DOUBLE_EQ(attention_flops_per_token(model, 0, true).value(), of(120));
  EXPECT_DOUBLE_EQ(attention_flops_per_token(model, 2, true).value(), of(120 + 8));
  EXPECT_DOUBLE_EQ(attention_flops_per_token(model, 1, true).value(),
                   of(120 + 56) + 2.0 * 2 * 32 * 128);
}

TEST(CompressedAttentionOperators, DoTheWorkOfTheModel) {
  const TrainingRun run = compressed_run();
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  const double t = run.strategy.micro_batch * 1024.0;
  const LayerOperators block = compressed_block(run, kChosen);
  EXPECT_DOUBLE_EQ(named(block.forward, "attention").flops.value(), t * 2.0 * 8 * 256 * 176);
  EXPECT_DOUBLE_EQ(named(block.forward, "output_groups").flops.value(), 2.0 * t * 1024 * 192);
  EXPECT_DOUBLE_EQ(named(block.forward, "compressor_input").flops.value(), 2.0 * t * 1024 * 512);
}

// Heads and groups are divided, the key is not.
TEST(CompressedAttentionOperators, AreDividedByTensorRanks) {
  TrainingRun run = compressed_run(4);
  const LayerOperators whole = compressed_block(run, kHeavy);
  run.strategy.tp = 4, run.strategy.dp = 1;
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  const LayerOperators divided = compressed_block(run, kHeavy);
  for (const char* label : {"attention", "output_groups", "query_up", "attention_output"})
    EXPECT_DOUBLE_EQ(named(divided.forward, label).flops.value(),
                     named(whole.forward, label).flops.value() / 4.0)
        << label;
  EXPECT_DOUBLE_EQ(named(divided.forward, "mla_down").flops.value(),
                   named(whole.forward, "mla_down").flops.value());
  run.model.num_heads = 12, run.model.compressed_attention->output_groups = 6;
  EXPECT_STREQ(broken_rule_name(run.model, run.strategy, 4),
               "tp does not divide compressed_attention.output_groups");
}

TEST(CompressedAttention, IsRefusedWhereItDoesNotFit) {
  Transformer model = compressed_run().model;
  model.num_kv_heads = 8;
  EXPECT_THROW(model.validate(), Error);
  model = compressed_run().model, model.layer_pattern.reset();
  EXPECT_THROW(model.validate(), Error);
  model = compressed_run().model, model.compressed_attention.reset();
  EXPECT_THROW(model.validate(), Error);
  model = compressed_run().model, model.compressed_attention->output_groups = 3;
  EXPECT_THROW(model.validate(), Error);
}

// Four streams: two products of 4096 values to 24 with a bias and six factors in each layer, one to
// four before the head; what a layer reads and a stage sends is four times as wide.
TEST(ResidualStreams, AreMixedAroundEachHalf) {
  TrainingRun run = compressed_run();
  const std::int64_t one = parameters(run.model).total();
  const double sent = stage_output(run.model, run.strategy).value();
  run.model.residual_streams = 4;
  run.model.validate();
  EXPECT_EQ(parameters(run.model).total() - one, 8 * (2 * (4096 * 24 + 24) + 6) + 4 * 4096 + 4 + 1);
  EXPECT_DOUBLE_EQ(stage_output(run.model, run.strategy).value(), 4.0 * sent);
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  const double t = run.strategy.micro_batch * 1024.0;
  run.strategy.recompute.kind = RecomputeKind::Full;
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::Full, kHeavy).value(), 2.0 * t * 4096);
}

}  // namespace
}  // namespace llmsim::sim
