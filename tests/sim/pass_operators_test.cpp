#include "sim/schedule/pass_operators.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/schedule/work_spans.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

std::vector<PricedOperator> operators_of(const TrainingRun& run, PassKind kind) {
  return pass_operators(run, layers_with_operators(run),
                        model_chunks(run.model, run.strategy).front(), kind);
}

// The layers in the order in which they come, each once; -1: embedding and LM head.
std::vector<int> layers_of(const std::vector<PricedOperator>& operators) {
  std::vector<int> layers;
  for (const PricedOperator& op : operators) layers.push_back(op.layer.value_or(-1));
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

TEST(PassOperators, GoThroughTheLayersThereAndBack) {
  const std::vector<PricedOperator> forward = operators_of(small_run(), PassKind::Forward),
                                    backward = operators_of(small_run(), PassKind::Backward);
  EXPECT_EQ(layers_of(forward), (std::vector<int>{-1, 0, 1, 2, 3, 4, 5, 6, 7, -1}));
  EXPECT_EQ(layers_of(backward), (std::vector<int>{-1, 7, 6, 5, 4, 3, 2, 1, 0, -1}));
  EXPECT_EQ(forward.front().kind, OperatorKind::Embedding);
  EXPECT_EQ(backward.back().kind, OperatorKind::Embedding);
}

TEST(PassOperators, GradientsOfDataAndOfWeightsAreABackwardPass) {
  const TrainingRun run = small_run();
  const auto data = operators_of(run, PassKind::DataGradient),
             weights = operators_of(run, PassKind::WeightGradient),
             both = operators_of(run, PassKind::Backward);
  EXPECT_EQ(data.size() + weights.size(), both.size());
  for (const PricedOperator& op : data) EXPECT_FALSE(op.weight_gradient) << op.label;
  for (const PricedOperator& op : weights) EXPECT_TRUE(op.weight_gradient) << op.label;
  // Four GEMMs of each block and that of the head.
  EXPECT_EQ(weights.size(), 8u * 4u + 1u);
}

// Before their gradients of data, not of weights.
TEST(PassOperators, BlocksThatAreRecomputedRunAgain) {
  TrainingRun run = small_run();
  const auto again = [](const std::vector<PricedOperator>& operators) {
    return std::count_if(operators.begin(), operators.end(),
                         [](const PricedOperator& op) { return op.recomputed && op.layer; });
  };
  run.strategy.recompute = {RecomputeKind::Full};
  const auto all = again(operators_of(run, PassKind::Backward));
  EXPECT_GT(all, 0);
  EXPECT_EQ(again(operators_of(run, PassKind::DataGradient)), all);
  EXPECT_EQ(again(operators_of(run, PassKind::WeightGradient)), 0);
  run.strategy.recompute = {RecomputeKind::None};
  EXPECT_EQ(again(operators_of(run, PassKind::Backward)), 0);
}

// Forward operators of 1 s and 3 s, backward ones of 2 s and 2 s: the one that is behind goes on,
// the forward pass first where they are even (0, 0; 1/4, 0; 1/4, 1/2; 1, 1/2).
TEST(JoinedOperators, ThePassThatIsBehindGoesOn) {
  const auto pass = [](double first, double second) {
    std::vector<PricedOperator> operators(2);
    operators[0].time = Seconds(first), operators[1].time = Seconds(second);
    return operators;
  };
  const ChunkTimes times{.forward = Seconds(4.0), .backward = Seconds(4.0)};
  std::vector<bool> backward;
  for (const JoinedOperator& one :
       joined_operators(pass(1.0, 3.0), pass(2.0, 2.0), times, times, 0.0))
    backward.push_back(one.backward);
  EXPECT_EQ(backward, (std::vector<bool>{false, true, false, true}));
}

TEST(WorkSpans, TheFirstMicroBatchesAreShown) {
  EXPECT_TRUE(is_shown({.microbatch = 2}, 3));
  EXPECT_FALSE(is_shown({.microbatch = 3}, 3));
  EXPECT_TRUE(is_shown({.microbatch = 3}, 0));  // all
}

}  // namespace
}  // namespace llmsim::sim
