#include "sim/memory/chunk_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/share.h"
#include "tests/sim/random_run.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr double kRounding = 1e-12;

// Equal blocks of a middle stage: each allocates 10 forward, of which 4 stay, and 7 backward.
ChunkLayers equal_blocks(const LayerMemory& memory, int blocks) {
  ChunkLayers chunk({.blocks = blocks}, false);
  chunk.add(
      {.memory = &memory, .units = {.shared = {.whole = Bytes(100.0), .gradients = Bytes(200.0)}}},
      0);
  for (int i = 1; i < blocks; ++i) chunk.add_again(0, i);
  return chunk;
}
ChunkLayers three_blocks(const LayerMemory& memory) { return equal_blocks(memory, 3); }

LayerMemory ten_forward_seven_backward() {
  LayerMemory memory;
  memory.forward = {.rise = {.activations = Bytes(10.0)}, .net = {.activations = Bytes(4.0)}};
  memory.backward = {.rise = {.gradients = Bytes(7.0)}, .net = {.activations = Bytes(-4.0)}};
  return memory;
}

TEST(ChunkPasses, AForwardPassReceivesAndLeavesWhatItsLayersSave) {
  const LayerMemory memory = ten_forward_seven_backward();
  const ChunkPass<double> pass =
      forward_pass<double>(three_blocks(memory), {.residual = Bytes(1.0)}, {});
  EXPECT_EQ(pass.net, 3.0 * 4.0);                  // what it received has been sent
  EXPECT_EQ(pass.rise().total, 1.0 + 8.0 + 10.0);  // the last block, beside what two have saved
  EXPECT_EQ(pass.rise().layer, 2);
}

TEST(ChunkPasses, ShardedWeightsAreGatheredAheadAndFreed) {
  const LayerMemory memory = ten_forward_seven_backward();
  const ChunkLayers chunk = three_blocks(memory);
  PassRules rules{.units = {.freed = true, .shards_weights = true, .shards_gradients = true}};
  EXPECT_EQ(forward_pass<double>(chunk, rules, {}).rise().total, 8.0 + 10.0 + 100.0);
  rules.units.ahead = 1;
  const ChunkPass<double> forward = forward_pass<double>(chunk, rules, {});
  // The second block, the third one's weights on their way.
  EXPECT_EQ(forward.rise().total, 4.0 + 10.0 + 2.0 * 100.0);
  EXPECT_EQ(forward.net, 3.0 * 4.0);
  // Backward the second block has the third one's gradients under reduction beside its own.
  const ChunkPass<double> backward =
      backward_pass<double>(chunk, rules, {}, {.first = true, .last = true});
  EXPECT_EQ(backward.rise().total, -4.0 + 2.0 * 100.0 + 2.0 * 200.0 + 7.0);
  EXPECT_EQ(backward.rise().layer, 1);
  EXPECT_EQ(backward.under_reduction, Bytes(200.0));
  EXPECT_EQ(backward.net, -3.0 * 4.0 + 200.0);
}

// Weights of later blocks are there until the last one's have been gathered.
TEST(ChunkPasses, TheLastBlockThatGathersAheadIsThePeak) {
  const LayerMemory memory = ten_forward_seven_backward();
  PassRules rules{.units = {.freed = true, .shards_weights = true, .shards_gradients = true}};
  for (const int blocks : {3, 4, 5, 6, 12, 40}) {
    for (const int ahead : {0, 1, 2}) {
      rules.units.ahead = ahead;
      const auto peak = forward_pass<double>(equal_blocks(memory, blocks), rules, {}).rise();
      EXPECT_EQ(peak.layer, blocks - 1 - ahead);
      EXPECT_EQ(peak.total, 4.0 * peak.layer + 10.0 + 100.0 * (1 + ahead));
    }
  }
}

// Of any run.

// The same layers, none of which is known to be equal to another.
ChunkLayers with_distinct_layers(const ChunkLayers& chunk, bool tied) {
  ChunkLayers distinct(chunk.model_chunk(), tied);
  for (int i = 0; i < chunk.size(); ++i) distinct.add(chunk[i], chunk.index(i));
  return distinct;
}

// Sums in another order, of terms as large as what they rise or come to.
void expect_same(const ChunkPass<double>& one, const ChunkPass<double>& other) {
  const double rounding = kRounding * std::max(other.rise().total, std::abs(other.net));
  EXPECT_NEAR(one.rise().total, other.rise().total, rounding);
  EXPECT_EQ(one.of_loss.is_there(), other.of_loss.is_there());
  if (one.of_loss.is_there()) {
    EXPECT_NEAR(one.of_loss.total, other.of_loss.total, rounding);
  }
  EXPECT_NEAR(one.net, other.net, rounding);
  EXPECT_EQ(one.under_reduction, other.under_reduction);
}

void expect_same_passes(const ChunkLayers& one, const ChunkLayers& other, const PassRules& rules) {
  for (const bool whole : {false, true}) {
    for (const bool lent : {false, true}) {
      const UnitState state{.whole = whole, .head_gradient_begun = lent};
      expect_same(forward_pass<double>(one, rules, state),
                  forward_pass<double>(other, rules, state));
      for (const BackwardTurn turn :
           {BackwardTurn{}, {.first = true}, {.last = true}, {.first = true, .last = true}})
        expect_same(backward_pass<double>(one, rules, state, turn),
                    backward_pass<double>(other, rules, state, turn));
    }
  }
}

template <class Check>
void for_each_stage(const Check& check) {
  for (unsigned seed = 0; seed < share_of(4000) && !testing::Test::HasFailure(); ++seed) {
    const std::optional<TrainingRun> run = random_run(seed);
    if (!run) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const LayerPrices prices = layer_bytes(*run);
    const StageContents contents(*run);
    for (int stage = 0; stage < run->strategy.pp; ++stage) {
      check(*run, prices, contents, stage,
            pass_rules(*run, stage_bytes(*run, contents, stage), contents.blocks(stage)));
    }
  }
}

TEST(ChunkPasses, EqualLayersMayBeLeftOut) {
  for_each_stage([](const auto& run, const auto& prices, const auto& contents, int stage,
                    const PassRules& rules) {
    for (int i = 0; i < contents.chunks(); ++i) {
      const ChunkLayers chunk =
          chunk_layers(run, prices, contents.rank(), contents.chunk(stage, i));
      expect_same_passes(chunk, with_distinct_layers(chunk, contents.rank().tied), rules);
    }
  });
}

TEST(ChunkPasses, PartsWithTheSameLayersHaveTheSame) {
  for_each_stage([](const auto& run, const auto& prices, const auto& contents, int stage,
                    const PassRules& rules) {
    const ModelChunk& first = contents.chunk(stage, 0);
    for (int i = 1; i < contents.chunks(); ++i) {
      const ModelChunk& part = contents.chunk(stage, i);
      const EqualStages& stages = contents.stages();
      if (stages.chunk_kind(stage, i) != stages.chunk_kind(stage, 0)) continue;
      expect_same_passes(chunk_layers(run, prices, contents.rank(), first),
                         chunk_layers(run, prices, contents.rank(), part), rules);
    }
  });
}

}  // namespace
}  // namespace llmsim::sim
