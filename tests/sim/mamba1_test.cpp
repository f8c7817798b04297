// Mamba-1 mixers as Jamba has them: weights, operators, tensors.
#include "sim/operators/mamba1.h"
#include "gtest/gtest.h"
#include "sim/memory/shards.h"
#include "sim/model/flops.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"
#include "tests/catalogue.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr LayerKind kMamba{.mixer = Mixer::Mamba1, .mlp = LayerMlp::None};

// Seven layers of eight with 2048 channels, twice the width of 1024, and no MLPs.
Transformer small_mamba1() {
  Transformer model = small_model();
  model.layer_pattern = "SSSS*SSS";
  model.ffn_size = 0;
  model.mamba1 = Mamba1{.inner_size = 2048, .state_size = 16, .dt_rank = 64};
  return model;
}

TrainingRun mamba1_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model = small_mamba1();
  return run;
}

// norm; input; convolution and bias; dt, B and C from the channels, their norms; steps and bias;
// decays; skip; output
TEST(Mamba1Weights, AreThoseOfTheMixer) {
  const Transformer model = small_mamba1();
  std::int64_t sum = 0;
  for (const LayerWeight& weight : layer_weights(model, kMamba)) sum += weight.parameters();
  EXPECT_EQ(sum, 1024 + 1024 * 4096 + 2048 * 5 + 2048 * (64 + 2 * 16) + (64 + 2 * 16) +
                     (64 + 1) * 2048 + 2048 * 16 + 2048 + 2048 * 1024);
  // Of eight tensor ranks each has all of the norms, and an eighth of all else.
  TrainingRun run = mamba1_run(8);
  run.strategy.tp = 8, run.strategy.dp = 1;
  const double norms = 1024.0 + 96.0;
  EXPECT_DOUBLE_EQ(rank_parameters(run.model, run.strategy).kinds[0].own,
                   norms + (static_cast<double>(sum) - norms) / 8.0);
}

// By hand, width 4096, channels 8192, of 32 layers 28 with Mamba, 4 with attention, 16 with
// experts:
//   Mamba       28 * (4096 * 16384 + 8192 * 5 + 8192 * 288 + 288 + 257 * 8192 + 8192 * 17 +
//                     8192 * 4096)                                        =  2,948,636,544
//   attention   4 * (2 * 4096 * 4096 + 2 * 4096 * 1024)                   =    167,772,160
//   MLPs        16 * 3 * 4096 * 14336                                     =  2,818,572,288
//   experts     16 * that, router 16 * 4096 * 16                          = 45,098,205,184
//   norms       (2 * 32 + 1) * 4096, embedding and head 2 * 65536 * 4096  =    537,137,152
TEST(Jamba, MiniHasItsPublishedParameters) {
  const Parameters counts = parameters(find_model("jamba-mini")->model);
  EXPECT_EQ(counts.mixers, 2'948'636'544);
  EXPECT_EQ(counts.attention, 167'772'160);
  EXPECT_EQ(counts.mlp, 2'818'572'288);
  EXPECT_EQ(counts.experts + counts.router, 45'098'205'184);
  EXPECT_EQ(counts.norms + counts.embedding + counts.head, 537'137'152);
  EXPECT_EQ(counts.total(), 51'570'323'328);
  EXPECT_NEAR(static_cast<double>(counts.active()), 12e9, 0.5e9);  // "12B active"
}

// Width 8192, channels 16384, of 72 layers 63 with Mamba, 9 with attention, 36 with experts:
//   63 * 420,332,064 + 9 * 150,994,944 + 36 * 17 * 603,979,776 + 36 * 131,072 + 145 * 8192 +
//   2 * 65536 * 8192
TEST(Jamba, LargeHasItsPublishedParameters) {
  const Parameters counts = parameters(find_model("jamba-1.5-large")->model);
  EXPECT_EQ(counts.mixers, 63LL * 420'332'064);
  EXPECT_EQ(counts.total(), 398'555'145'696);
  EXPECT_NEAR(static_cast<double>(counts.active()), 94e9, 0.5e9);  // "94B active"
}

// Experts in the odd layers, attention in the fifth of eight: three kinds.
TEST(Jamba, HasExpertsInEverySecondLayer) {
  const Transformer& model = find_model("jamba-mini")->model;
  EXPECT_EQ(kind_of_layer(model, 0), (LayerKind{.mixer = Mixer::Mamba1, .mlp = LayerMlp::Dense}));
  EXPECT_EQ(kind_of_layer(model, 1), (LayerKind{.mixer = Mixer::Mamba1, .mlp = LayerMlp::Experts}));
  EXPECT_EQ(kind_of_layer(model, 4), LayerKind::Dense);
  EXPECT_EQ(count_layers(model, 0, 32), (LayerCounts{12, 16, 4}));
}

// Norms of 64 + 2 * 16 values, a bias of 2048 channels; of what comes in and goes out.
TEST(Mamba1, MayBeWithoutNormsAndWithOtherBiases) {
  Transformer model = small_mamba1();
  const auto weights = [&] {
    std::int64_t sum = 0;
    for (const LayerWeight& weight : layer_weights(model, kMamba)) sum += weight.parameters();
    return sum;
  };
  const auto kernels = [&] {
    return count_of(
        lower_block(model, Strategy{}, Framework{}, RecomputeKind::None, kMamba).forward,
        OperatorKind::Norm);
  };
  const std::int64_t all = weights();
  const int norms = kernels();
  model.mamba1->norms = false;
  EXPECT_EQ(all - weights(), 96);
  EXPECT_EQ(norms - kernels(), 1);
  model.mamba1->conv_bias = false;
  EXPECT_EQ(all - weights(), 96 + 2048);
  model.mamba1->projection_bias = true;
  EXPECT_EQ(all - weights(), 96 + 2048 - (2 * 2048 + 1024));
}

// Two multiply-adds for each state of each channel.
TEST(Mamba1Flops, AreThoseOfTheRecurrence) {
  const Transformer model = small_mamba1();
  EXPECT_EQ(scan_flops_per_token(*model.mamba1), 4.0 * 2048 * 16 * FLOP);
  const LayerOperators block =
      lower_block(model, Strategy{}, Framework{}, RecomputeKind::None, kMamba);
  const double tokens = static_cast<double>(Strategy{}.micro_batch) * model.seq_len;
  EXPECT_DOUBLE_EQ(named(block.forward, "selective_scan").flops.value(), tokens * 4 * 2048 * 16);
  EXPECT_DOUBLE_EQ(gemm_flops(block.forward),
                   tokens * 2.0 * (1024.0 * 4096 + 2048.0 * 96 + 64.0 * 2048 + 2048.0 * 1024));
  EXPECT_NEAR(predict(mamba1_run()).hardware_flops / predict(mamba1_run()).model_flops, 1.0, 1e-9);
}

// Per token and channel in 16 bits: five values, 16 of B and of C; nine, B and C again and their
// gradients in fp32, read and written; 16 states and decays in fp32 for 2048 tokens.
TEST(Mamba1Bytes, AreWhatTheKernelLoadsAndStores) {
  const Mamba1 mamba = *small_mamba1().mamba1;
  const ScanBytes bytes = scan_bytes(mamba, 4096, 2.0);
  EXPECT_DOUBLE_EQ(bytes.forward, 5 * 2 + 2 * 16 * 2 + 16 * 8 / 2048.0);
  EXPECT_DOUBLE_EQ(bytes.backward, 9 * 2 + 2 * 16 * 2 + 2 * 16 * 8 + 16 * 8 / 2048.0);
  // A short sequence is a chunk.
  EXPECT_DOUBLE_EQ(scan_bytes(mamba, 512, 2.0).forward - bytes.forward,
                   16 * 8 / 512.0 - 16 * 8 / 2048.0);
}

// Channels are divided; dt, B and C of all tokens are summed, as is their gradient.
TEST(Mamba1Operators, AreDividedByTensorRanks) {
  TrainingRun run = mamba1_run(8);
  const auto block = [&] {
    return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kMamba);
  };
  const LayerOperators whole = block();
  run.strategy.tp = 8, run.strategy.dp = 1;
  const LayerOperators part = block();
  for (const char* label : {"selective_scan", "conv1d", "scan_order"})
    EXPECT_DOUBLE_EQ(named(part.forward, label).moved.value(),
                     named(whole.forward, label).moved.value() / 8.0);
  EXPECT_EQ(named(part.forward, "selection_norms").moved,
            named(whole.forward, "selection_norms").moved);
  const Bytes message(96.0 * 2.0 * run.strategy.micro_batch * run.model.seq_len);
  EXPECT_EQ(named(part.forward, "selection").message, message);
  EXPECT_EQ(named(part.backward, "selection_gradient").message, message);
}

// Saved of t tokens in 16 bits: the input of the norm and of the projection (1024 values each),
// what the projection gives (4096), the channels for theirs (2048), dt, B and C before and after
// their norms (2 * 96), steps (2048), x and z in the kernel's order and y before the gate (3 *
// 2048), y after it (2048); decays and states once in a sequence; 4 bytes a row for the norm.
TEST(Mamba1Tensors, ThatAreSavedAreThoseOfAutograd) {
  TrainingRun run = mamba1_run();
  run.model.norm = Norm::RmsNorm;
  run.strategy.micro_batch = 1;
  const double t = run.model.seq_len;
  ASSERT_LE(t, 2048);
  EXPECT_DOUBLE_EQ(
      saved_by_block(run, RecomputeKind::None, kMamba).value(),
      2.0 * t * (2 * 1024 + 4096 + 2 * 2048 + 2 * 96 + 4 * 2048) + 2048.0 * 16 * 8 + 4.0 * t);
  run.strategy.recompute.kind = RecomputeKind::Full;
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::Full, kMamba).value(), 2.0 * t * 1024.0);
}

TEST(Mamba1Rules, TensorRanksDivideTheChannels) {
  TrainingRun run = mamba1_run(16);
  run.strategy.tp = 16, run.strategy.dp = 1;
  run.model.num_heads = run.model.num_kv_heads = 16;
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  run.model.mamba1->inner_size = 2040;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "tp = 16 does not divide mamba1.inner_size = 2040 (nearest: 15 or 17)");
}

}  // namespace
}  // namespace llmsim::sim
