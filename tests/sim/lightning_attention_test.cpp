// Lightning attention as MiniMax-01 has it: weights, FLOPs, operators, tensors.
#include "sim/operators/lightning_attention.h"
#include "gtest/gtest.h"
#include "sim/memory/shards.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"
#include "tests/catalogue.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr LayerKind kLightning{.mixer = Mixer::LightningAttention, .mlp = LayerMlp::None};

// Width 1024; seven layers of eight with 16 heads of 64, and no MLPs.
TrainingRun lightning_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model = small_model();
  run.model.norm = Norm::RmsNorm;
  run.model.layer_pattern = "LLLLLLL*";
  run.model.ffn_size = 0;
  run.model.lightning_attention = LightningAttention{.num_heads = 16, .head_dim = 64};
  return run;
}

LayerOperators block_of(const TrainingRun& run) {
  return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kLightning);
}

// The norm of the layer; q, k, v and the gate; the norm of all heads; the output.
TEST(LightningAttentionWeights, AreThoseOfTheMixer) {
  TrainingRun run = lightning_run(8);
  std::int64_t sum = 0;
  for (const LayerWeight& weight : layer_weights(run.model, kLightning)) sum += weight.parameters();
  EXPECT_EQ(sum, 1024 + 1024 * 4096 + 1024 + 1024 * 1024);
  run.strategy.tp = 8, run.strategy.dp = 1;
  EXPECT_DOUBLE_EQ(rank_parameters(run.model, run.strategy).kinds[0].own,
                   1024.0 + static_cast<double>(sum - 1024) / 8.0);
}

// Width 6144, of 80 layers 70 with lightning attention, 10 with attention:
//   lightning   70 * (6144 * 4 * 8192 + 8192 + 8192 * 6144)                = 17,616,650,240
//   attention   10 * (6144 * (64 + 2 * 8) * 128 + 8192 * 6144)             =  1,132,462,080
//   experts     80 * 32 * 3 * 6144 * 9216, routers 80 * 6144 * 32          = 434,881,167,360
//   norms       (2 * 80 + 1) * 6144, embedding and head 2 * 200064 * 6144  =  2,459,375,616
TEST(MiniMax, HasItsPublishedParameters) {
  const Parameters counts = parameters(find_model("minimax-text-01")->model);
  EXPECT_EQ(counts.mixers, 17'616'650'240);
  EXPECT_EQ(counts.attention, 1'132'462'080);
  EXPECT_EQ(counts.experts + counts.router, 434'881'167'360);
  EXPECT_EQ(counts.norms + counts.embedding + counts.head, 2'459'375'616);
  EXPECT_NEAR(static_cast<double>(counts.total()), 456e9, 0.5e9);  // "456 billion"
  const auto tables = static_cast<double>(counts.embedding + counts.head);
  EXPECT_NEAR(static_cast<double>(counts.active()) - tables, 45.9e9, 0.1e9);  // "45.9 billion"
}

// 2 C d + 4 d^2 for each head; the chunks of a token are the same whatever the sequence.
TEST(LightningAttentionFlops, AreThoseOfTheChunks) {
  const TrainingRun run = lightning_run();
  const double each = 2.0 * 64 * 64 + 4.0 * 64 * 64;
  EXPECT_DOUBLE_EQ(scan_flops_per_token(*run.model.lightning_attention).value(), 16 * each);
  const double tokens = static_cast<double>(run.strategy.micro_batch) * run.model.seq_len;
  const LayerOperators block = block_of(run);
  EXPECT_DOUBLE_EQ(named(block.forward, "lightning_attention").flops.value(), tokens * 16 * each);
  EXPECT_DOUBLE_EQ(gemm_flops(block.forward), tokens * 2.0 * (1024.0 * 4096 + 1024.0 * 1024));
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
}

// Heads of 64 values, whose states have 64 values a token of a chunk of 64: in 16 bits six values
// and two states forward; fourteen values and five states of fp32 backward.
TEST(LightningAttentionBytes, AreWhatTheKernelsLoadAndStore) {
  const ScanBytes bytes = scan_bytes(*lightning_run().model.lightning_attention, 2.0);
  EXPECT_DOUBLE_EQ(bytes.forward, 6 * 64 * 2 + 2 * 2 * 64.0);
  EXPECT_DOUBLE_EQ(bytes.backward, 14 * 64 * 2 + 5 * 4 * 64.0);
  EXPECT_DOUBLE_EQ(bytes.backward_workspace, 2 * 4 * 64.0);
}

TEST(LightningAttentionOperators, AreDividedByTensorRanks) {
  TrainingRun run = lightning_run(8);
  const LayerOperators whole = block_of(run);
  run.strategy.tp = 8, run.strategy.dp = 1;
  const LayerOperators divided = block_of(run);
  for (const char* label : {"lightning_attention", "silu", "attention_norm", "output_gate"})
    EXPECT_DOUBLE_EQ(named(divided.forward, label).moved.value(),
                     named(whole.forward, label).moved.value() / 8.0)
        << label;
}

// Saved of t tokens in 16 bits: the input of the norm and of the projection (1024 values each), what
// the projection gives (4096), q, k and v after silu (3072), the output of attention, normalised,
// and gated (1024 each); 4 bytes a row for both norms.
TEST(LightningAttentionTensors, ThatAreSavedAreThoseOfAutograd) {
  TrainingRun run = lightning_run();
  run.strategy.micro_batch = 1;
  const double t = run.model.seq_len;
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::None, kLightning).value(),
                   2.0 * t * (2 * 1024 + 4096 + 3072 + 3 * 1024) + 2 * 4.0 * t);
  run.strategy.recompute.kind = RecomputeKind::Full;
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::Full, kLightning).value(), 2.0 * t * 1024.0);
}

TEST(LightningAttentionRules, TensorRanksDivideTheHeads) {
  TrainingRun run = lightning_run(16);
  run.strategy.tp = 16, run.strategy.dp = 1;
  run.model.num_heads = run.model.num_kv_heads = 16;
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  run.model.lightning_attention->num_heads = 24;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "tp = 16 does not divide lightning_attention.num_heads = 24 (nearest: 12 or 24)");
}

}  // namespace
}  // namespace llmsim::sim
