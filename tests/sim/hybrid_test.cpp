// Hybrids of attention, Mamba-2 and gated delta nets: kinds of layer, weights, operators, tensors,
// stages.
#include <numeric>
#include <string>

#include "gtest/gtest.h"
#include "sim/cost/layer_prices.h"
#include "sim/memory/shards.h"
#include "sim/model/flops.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/gated_delta_net.h"
#include "sim/operators/mamba1.h"
#include "sim/operators/mamba2.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"
#include "tests/error_of.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr LayerKind kMambaAlone{.mixer = Mixer::Mamba2, .mlp = LayerMlp::None};
constexpr LayerKind kAttentionAlone{.mixer = Mixer::Attention, .mlp = LayerMlp::None};
constexpr LayerKind kMlpAlone{.mixer = Mixer::None, .mlp = LayerMlp::Dense};

// Eight layers, each one of the three; 32 heads of 64 values: twice the width of 1024.
Transformer small_hybrid() {
  Transformer model = small_model();
  model.layer_pattern = "M-M*M-M-";
  model.mamba = Mamba{.num_heads = 32, .head_dim = 64, .num_groups = 8, .state_size = 128};
  return model;
}

TrainingRun hybrid_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model = small_hybrid();
  return run;
}

std::string complaint(const Transformer& model) {
  return error_of([&] { model.validate(); });
}

TEST(LayerKinds, FollowTheLettersOfAPattern) {
  const Transformer model = small_hybrid();
  EXPECT_EQ(kind_of_layer(model, 0), kMambaAlone);
  EXPECT_EQ(kind_of_layer(model, 1), kMlpAlone);
  EXPECT_EQ(kind_of_layer(model, 3), kAttentionAlone);
  const LayerKinds kinds = layer_kinds(model);
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(kinds[0], kMambaAlone);
  EXPECT_EQ(kinds[2], kAttentionAlone);
  EXPECT_EQ(count_layers(model, 0, 8), (LayerCounts{4, 3, 1}));
  EXPECT_EQ(count_layers(model, 2, 2), (LayerCounts{1, 0, 1}));
}

TEST(LayerKinds, MixersAloneInAPatternStandBeforeTheModelsMlps) {
  Transformer model = small_hybrid();
  model.layer_pattern = "MMM*";  // repeats
  EXPECT_EQ(kind_of_layer(model, 4), (LayerKind{.mixer = Mixer::Mamba2, .mlp = LayerMlp::Dense}));
  EXPECT_EQ(kind_of_layer(model, 7), LayerKind::Dense);
  EXPECT_EQ(count_layers(model, 0, 8), (LayerCounts{6, 2}));
  model.moe = Moe{.num_experts = 8,
                  .top_k = 2,
                  .expert_ffn_size = 512,
                  .num_dense_layers = 1,
                  .layer_interval = 2};
  EXPECT_EQ(kind_of_layer(model, 3), LayerKind::Moe);
  EXPECT_EQ(count_moe_layers(model, 0, 8), 4);
  model.moe.reset(), model.ffn_size = 0;
  EXPECT_EQ(kind_of_layer(model, 0), kMambaAlone);
}

// Multi-token prediction has attention, and experts where the model has them.
TEST(LayerKinds, OfPredictionHaveAttention) {
  Transformer model = small_hybrid();
  model.layer_pattern = "ME*E";
  model.moe = Moe{.num_experts = 8, .top_k = 2, .expert_ffn_size = 512};
  model.mtp_layers = 1;
  EXPECT_EQ(kind_of_layer(model, 8), LayerKind::Moe);
  EXPECT_EQ(layer_kinds(model).size(), 4u);
}

TEST(LayerKinds, SharesAddUpToOne) {
  const KindTable<double> shares = shares_of({1, 0, 5, 1});
  EXPECT_DOUBLE_EQ(shares[2], 5.0 / 7.0);
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0.0), 1.0);
  EXPECT_EQ(shares_of({}), KindTable<double>{});
}

TEST(HybridShapes, AreRefusedWithTheRuleThatTheyBreak) {
  Transformer model = small_hybrid();
  model.layer_pattern = "M-Mx";
  EXPECT_EQ(
      complaint(model),
      "layer_pattern = M-Mx: x is no kind of layer (*-EWFAZHVUMPGSLC: attention, MLP, experts, "
      "windowed attention, attention to keys that another layer has chosen, attention to all keys, "
      "compressed attention, heavily compressed attention, windowed attention to keys of another "
      "layer, attention to keys of another layer, Mamba-2, attention beside Mamba-2, gated "
      "delta net, Mamba-1, lightning attention, short convolution)");
  model.layer_pattern = "M-*";
  EXPECT_EQ(complaint(model),
            "layer_pattern = M-* has 3 letters, which do not divide num_layers = 8");
  model.layer_pattern = "M-*E";
  EXPECT_EQ(complaint(model), "layer_pattern = M-*E: E needs the sizes of moe");
  model.layer_pattern = "*-";
  EXPECT_EQ(complaint(model), "layer_pattern = *-: no layer has the mamba that is given");
  model.layer_pattern.reset();
  EXPECT_EQ(complaint(model), "mamba is given, but layer_pattern says of no layer that it has one");
  model = small_hybrid(), model.mamba->num_groups = 3;
  EXPECT_EQ(complaint(model),
            "mamba.num_groups = 3 does not divide mamba.num_heads = 32 (1, 2, 4, 8, 16, 32 do)");
}

// Width 1024, inner width 2048, 2 * 8 * 128 values of B and C:
//   norm 1024; input 1024 * (2 * 2048 + 2048 + 32); convolution 4096 * (4 + 1); 3 * 32; norm 2048;
//   output 2048 * 1024
TEST(MambaWeights, AreThoseOfTheMixer) {
  const Transformer model = small_hybrid();
  std::int64_t sum = 0;
  for (const LayerWeight& weight : layer_weights(model, kMambaAlone)) sum += weight.parameters();
  EXPECT_EQ(sum, 1024 + 1024 * 6176 + 4096 * 5 + 96 + 2048 + 2048 * 1024);
  const LayerWeight input = layer_weights(model, kMambaAlone)[WeightName::MixerInput].on_rank(8);
  EXPECT_EQ(input.columns, 6176 / 8);
  // Of eight tensor ranks each has all of the first norm, and an eighth of all else.
  TrainingRun run = hybrid_run(8);
  run.strategy.tp = 8, run.strategy.dp = 1;
  EXPECT_DOUBLE_EQ(rank_parameters(run.model, run.strategy).kinds[0].own,
                   1024.0 + (static_cast<double>(sum) - 1024.0) / 8.0);
}

// By hand: 8 groups * 128 * 128 within chunks, 32 * 128 * 64 of their values, 4 * 32 * 64 * 128.
TEST(MambaFlops, AreThoseOfTheChunkedAlgorithm) {
  const Transformer model = small_hybrid();
  EXPECT_EQ(scan_flops_per_token(*model.mamba),
            (8 * 128 * 128 + 32 * 128 * 64 + 4 * 32 * 64 * 128) * FLOP);
  const LayerOperators block =
      lower_block(model, Strategy{}, Framework{}, RecomputeKind::None, kMambaAlone);
  const double tokens = static_cast<double>(Strategy{}.micro_batch) * model.seq_len;
  EXPECT_DOUBLE_EQ(named(block.forward, "scan").flops.value(),
                   tokens * scan_flops_per_token(*model.mamba).value());
  EXPECT_DOUBLE_EQ(named(block.backward, "scan_backward").flops.value(),
                   2.0 * named(block.forward, "scan").flops.value());
  // The weights of layer_weights, each once.
  EXPECT_DOUBLE_EQ(gemm_flops(block.forward), tokens * 2.0 * (1024.0 * 6176 + 2048.0 * 1024));
}

// Per token and head in 16 bits: x, z and y five times 64 values, four times 128 / 4 of B and C, of
// a state of 64 * 128 / 128 values 8 + 4 bytes, 128 / 4 scores twice in fp32.
TEST(ScanBytes, AreWhatTheKernelsLoadAndStore) {
  const ScanBytes bytes = scan_bytes(*small_hybrid().mamba, 2.0);
  EXPECT_DOUBLE_EQ(bytes.forward, 5 * 128.0 + 4 * 64.0 + 12 * 64.0 + 8 * 32.0);
  EXPECT_DOUBLE_EQ(bytes.backward, 17 * 128.0 + 38 * 32.0 + 34 * 64.0 + 24 * 32.0);
}

// Longer chunks have fewer states, and more scores.
TEST(ScanBytes, OfLongChunksAreScores) {
  Mamba mamba = *small_hybrid().mamba;
  mamba.num_groups = 1;
  const double usual = scan_bytes(mamba, 2.0).forward;
  mamba.chunk_size = 256;
  EXPECT_LT(scan_bytes(mamba, 2.0).forward, usual);
  mamba.chunk_size = 1 << 16;
  EXPECT_GT(scan_bytes(mamba, 2.0).forward, usual);
}

TEST(MambaOperators, AreDividedByTensorRanks) {
  TrainingRun run = hybrid_run(8);
  const auto scan = [&] {
    return named(
        lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kMambaAlone)
            .forward,
        "scan");
  };
  const Operator whole = scan();
  run.strategy.tp = 8, run.strategy.dp = 1;
  EXPECT_DOUBLE_EQ(scan().moved.value(), whole.moved.value() / 8.0);
  EXPECT_DOUBLE_EQ(scan().flops.value(), whole.flops.value() / 8.0);
}

// Saved of t tokens: the input of the norm and of the projection (2 t 1024 values each), what the
// scan reads (t 6176), y before and after its gate (2 t 2048), the norm's output, and 4 bytes a row
// for each norm.
TEST(MambaTensors, ThatAreSavedAreThoseOfTheFusedFunction) {
  TrainingRun run = hybrid_run();
  run.model.norm = Norm::RmsNorm;
  run.strategy.micro_batch = 1;
  const double t = run.model.seq_len;
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::None, kMambaAlone).value(),
                   2.0 * t * (2 * 1024.0 + 6176.0 + 3 * 2048.0) + 4.0 * t + 4.0 * t);
  // All of it is made again from the input.
  run.strategy.recompute.kind = RecomputeKind::Full;
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::Full, kMambaAlone).value(), 2.0 * t * 1024.0);
}

TEST(HybridStages, CountTheirKindsOfLayer) {
  TrainingRun run = hybrid_run(2);
  run.strategy.pp = 2, run.strategy.dp = 1;
  const std::vector<ModelChunk> parts = model_chunks(run.model, run.strategy);
  EXPECT_EQ(parts[0].of_kind, (LayerCounts{2, 1, 1}));
  EXPECT_EQ(parts[1].of_kind, (LayerCounts{2, 2, 0}));
  EXPECT_FALSE(parts[0] == parts[1]);
  // Their prices are means by numbers.
  const LayerPrices prices = layer_prices(run);
  const Seconds by_hand = 2.0 * prices.blocks[0].forward.total() +
                          prices.blocks[1].forward.total() + prices.blocks[2].forward.total();
  EXPECT_NEAR(4.0 * mean_block(run, prices, parts[0]).forward.total() / by_hand, 1.0, 1e-12);
}

// Without dropout and recomputation three times the forward pass is executed, but for the causal
// half of attention.
TEST(HybridPredictions, ExecuteTheModelsFlops) {
  const Prediction prediction = predict(hybrid_run());
  EXPECT_NEAR(prediction.hardware_flops / prediction.model_flops, 1.0, 1e-9);
}

double sent_between_context_ranks(const OperatorList& list) {
  Bytes sum;
  for (const Operator& op : list)
    if (op.group == GroupKind::Context) sum += op.message;
  return sum.value();
}

// z, x, B, C and steps of a rank's tokens go out as those of its heads, y comes back: widths 2048,
// 2048, 1024, 1024, 32 and 2048 of half of the tokens.
TEST(HybridOperators, ContextRanksExchangeTokensForHeads) {
  TrainingRun run = hybrid_run(2);
  const auto block = [&] {
    return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kMambaAlone);
  };
  const auto sent = sent_between_context_ranks;
  const LayerGraph alone = block();
  EXPECT_EQ(sent(alone.forward), 0.0);
  run.strategy.cp = 2, run.strategy.dp = 1;
  const LayerGraph divided = block();
  const double tokens = run.strategy.micro_batch * run.model.seq_len / 2.0;
  EXPECT_DOUBLE_EQ(sent(divided.forward), tokens * 2.0 * (2048 + 2048 + 1024 + 1024 + 32 + 2048));
  EXPECT_DOUBLE_EQ(sent(divided.backward), sent(divided.forward));
  EXPECT_DOUBLE_EQ(gemm_flops(divided.forward), gemm_flops(alone.forward) / 2.0);
  EXPECT_DOUBLE_EQ(named(divided.forward, "scan").moved.value(),
                   named(alone.forward, "scan").moved.value() / 2.0);
  EXPECT_EQ(saved_bytes(divided), saved_bytes(alone) * 0.5);
  // Two of 16 ranks have the B and C of one of 8 groups.
  run = hybrid_run(16);
  run.strategy.cp = 16, run.strategy.dp = 1;
  const double sixteenth = run.strategy.micro_batch * run.model.seq_len / 16.0;
  EXPECT_DOUBLE_EQ(sent(block().forward),
                   sixteenth * 2.0 * (2048 + 2048 + 2048 + 2048 + 32 + 2048));
}

TEST(HybridRules, NameWhatIsNotModelled) {
  TrainingRun run = hybrid_run(2);
  run.strategy.cp = 2, run.strategy.dp = 1;
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  run.model.mamba->num_heads = 17;
  run.model.mamba->num_groups = 17;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->rule,
            "cp * tp does not divide mamba.num_heads");
  run.model = small_hybrid();
  run.model.layer_pattern = "G-G*G-G-", run.model.mamba.reset();
  run.model.gated_delta_net = GatedDeltaNet{
      .num_key_heads = 8, .key_head_dim = 128, .num_value_heads = 16, .value_head_dim = 128};
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  run.model.gated_delta_net->num_key_heads = 1;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->rule,
            "cp * tp does not divide gated_delta_net.num_key_heads");
  run.model.gated_delta_net->num_key_heads = 8, run.model.gated_delta_net->gate_rank = 128;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "cp = 2: scans of Mamba-2 and of gated delta nets have context parallelism, those of "
            "gated delta net with gate_rank have not (nearest: cp = 1)");
  run = hybrid_run(16);
  run.strategy.tp = 16, run.strategy.dp = 1;
  run.model.num_heads = run.model.num_kv_heads = 16;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "tp = 16 does not divide mamba.num_groups = 8 (nearest: 8)");
}

constexpr LayerKind kDeltaNet{.mixer = Mixer::GatedDeltaNet, .mlp = LayerMlp::Dense};

// Three of four layers with states of 128 x 128 in 16 heads, of which two share a key.
Transformer small_delta_net() {
  Transformer model = small_model();
  model.layer_pattern = "GGG*";
  model.gated_delta_net = GatedDeltaNet{
      .num_key_heads = 8, .key_head_dim = 128, .num_value_heads = 16, .value_head_dim = 128};
  return model;
}

// Width 1024, keys 1024, values 2048: norm 1024; input 1024 * (2048 + 4096); gates 1024 * 32;
// convolution 4096 * 4; 2 * 16; norm of a head 128; output 2048 * 1024.
TEST(DeltaNetWeights, AreThoseOfTheMixer) {
  const Transformer model = small_delta_net();
  std::int64_t mixer = 0, norms = 0;
  for (const LayerWeight& weight : layer_weights(model, kDeltaNet)) {
    if (weight.part == LayerPart::Mixer) mixer += weight.parameters();
    if (weight.name == WeightName::MixerNorm) norms += weight.parameters();
  }
  EXPECT_EQ(norms, 1024 * (model.bias.norm ? 2 : 1));
  EXPECT_EQ(mixer, 1024 * 6144 + 1024 * 32 + 4096 * 4 + 32 + 128 + 2048 * 1024);
}

// By hand: 16 heads of 6 * 128 * 128, 64 * 5 * 128 within chunks, and 64 * 64 / 3 of the inverse.
TEST(DeltaNetFlops, AreThoseOfTheChunkedRule) {
  const Transformer model = small_delta_net();
  const double each = 6 * 128 * 128 + 64 * 5 * 128 + 64.0 * 64.0 / 3.0;
  EXPECT_DOUBLE_EQ(scan_flops_per_token(*model.gated_delta_net).value(), 16 * each);
  const LayerOperators block =
      lower_block(model, Strategy{}, Framework{}, RecomputeKind::None, kDeltaNet);
  const double tokens = static_cast<double>(Strategy{}.micro_batch) * model.seq_len;
  EXPECT_DOUBLE_EQ(named(block.forward, "delta_rule").flops.value(), tokens * 16 * each);
}

// In 16 bits: 11 + 6 times 128 values, a state of 128 * 128 / 64 twice, 64 numbers of 12 bytes.
TEST(DeltaNetBytes, AreWhatTheKernelsLoadAndStore) {
  const ScanBytes bytes = scan_bytes(*small_delta_net().gated_delta_net, 2.0);
  EXPECT_DOUBLE_EQ(bytes.forward, 17 * 256.0 + 4 * 256.0 + 12 * 64.0);
  EXPECT_DOUBLE_EQ(bytes.backward, 42 * 256.0 + 8 * 256.0 + 4 * 64.0);
}

// q, k, v, z and two gates of 16 heads go out, in one message, the gated output of 2048 comes back.
TEST(DeltaNetOperators, ContextRanksExchangeTokensForHeads) {
  TrainingRun run = small_run(2);
  run.model = small_delta_net();
  const auto block = [&] {
    return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kDeltaNet);
  };
  const LayerGraph alone = block();
  EXPECT_EQ(sent_between_context_ranks(alone.forward), 0.0);
  run.strategy.cp = 2, run.strategy.dp = 1;
  const LayerGraph divided = block();
  const double tokens = run.strategy.micro_batch * run.model.seq_len / 2.0;
  EXPECT_DOUBLE_EQ(sent_between_context_ranks(divided.forward),
                   tokens * 2.0 * (4096 + 2048 + 2 * 16 + 2048));
  EXPECT_DOUBLE_EQ(sent_between_context_ranks(divided.backward),
                   sent_between_context_ranks(divided.forward));
  EXPECT_DOUBLE_EQ(gemm_flops(divided.forward), gemm_flops(alone.forward) / 2.0);
  EXPECT_DOUBLE_EQ(named(divided.forward, "delta_rule").moved.value(),
                   named(alone.forward, "delta_rule").moved.value() / 2.0);
  EXPECT_EQ(saved_bytes(divided), saved_bytes(alone) * 0.5);
}

// Kimi delta attention: no gate in the input, one step a head, and from two bottlenecks of 64 a
// decay for each channel of a key and the gate of the output.
TEST(DeltaNetWeights, WithBottlenecksHaveADecayForEachChannel) {
  Transformer model = small_delta_net();
  model.gated_delta_net->gate_rank = 64;
  std::int64_t mixer = 0;
  for (const LayerWeight& weight : layer_weights(model, kDeltaNet))
    if (weight.part == LayerPart::Mixer) mixer += weight.parameters();
  EXPECT_EQ(mixer, 1024 * 4096 + 1024 * 16 + 1024 * 128 + 64 * (1024 + 2048) + 4096 * 4 + 16 +
                       1024 + 128 + 2048 * 1024);
  TrainingRun run = small_run();
  run.model = model;
  EXPECT_NEAR(predict(run).hardware_flops / predict(run).model_flops, 1.0, 1e-9);
  const ScanBytes whole = scan_bytes(*small_delta_net().gated_delta_net, 2.0),
                  channels = scan_bytes(*model.gated_delta_net, 2.0);
  EXPECT_DOUBLE_EQ(channels.forward - whole.forward, 128 * (2.0 + 16.0));
}

// The gate is as wide as the queries: a d columns more; it and the output behind it are saved too.
TEST(AttentionGate, IsProjectedBesideTheQueries) {
  TrainingRun run = small_run();
  const std::int64_t plain = layer_weights(run.model, LayerKind::Dense)[WeightName::Qkv].columns;
  const double saved = saved_by_block(run).value();
  run.model.attention_gate = true;
  EXPECT_EQ(layer_weights(run.model, LayerKind::Dense)[WeightName::Qkv].columns, plain + 1024);
  const double t = run.strategy.micro_batch * static_cast<double>(run.model.seq_len);
  EXPECT_DOUBLE_EQ(saved_by_block(run).value(), saved + 2.0 * t * 2 * 1024.0);
}

// Rows of 256 values instead of 1024: two GEMMs of all tokens more, and an expert a quarter as
// deep.
TEST(LatentExperts, WorkOnNarrowRows) {
  Transformer model = small_moe();
  const auto experts = [&] {
    return lower_block(model, Strategy{}, Framework{}, RecomputeKind::None, LayerKind::Moe).forward;
  };
  const OperatorList wide = experts();
  model.moe->latent_size = 256;
  const OperatorList narrow = experts();
  EXPECT_DOUBLE_EQ(named(narrow, "expert_up").flops.value(),
                   named(wide, "expert_up").flops.value() / 4.0);
  EXPECT_DOUBLE_EQ(named(narrow, "expert_dispatch").moved.value(),
                   named(wide, "expert_dispatch").moved.value() / 4.0);
  const double tokens = static_cast<double>(Strategy{}.micro_batch) * model.seq_len;
  EXPECT_DOUBLE_EQ(named(narrow, "latent_down").flops.value(), 2.0 * tokens * 1024 * 256);
  EXPECT_DOUBLE_EQ(named(narrow, "latent_up").flops.value(), 2.0 * tokens * 256 * 1024);
}

}  // namespace
}  // namespace llmsim::sim
