#include "sim/operators/layer_memory.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

// A layer of bytes that can be counted on paper: x 10 -> norm -> y 10 -> up -> z 40 -> activation
// -> a 40 -> down -> o 10, + x.  The norm saves x, the GEMMs their inputs, the activation its own.
struct Small {
  LayerGraph graph;
  TensorId x, y, z, a, o;

  Small() {
    x = graph.tensor("x", {10.0}), y = graph.tensor("y", {10.0}), z = graph.tensor("z", {40.0});
    a = graph.tensor("a", {40.0}), o = graph.tensor("o", {10.0});
    graph.set_input(x);
    graph.add(Module::Norm).reads(x).writes(y).saves(x);
    graph.add(Module::MlpUp).reads(y).writes(z).saves(y);
    graph.add(Module::Activation).reads(z).writes(a).saves(z);
    graph.end_of_needed();
    graph.add(Module::MlpDown).reads(a).writes(o).saves(a);
    graph.add_in_place(x, o);
    graph.set_output(o);
  }
};

void expect(const PassBytes& pass, double rise, double net) {
  EXPECT_EQ(pass.rise.total(), Bytes(rise));
  EXPECT_EQ(pass.net.total(), Bytes(net));
}

TEST(LayerMemory, AForwardPassLeavesWhatIsSavedAndTheOutput) {
  const Small layer;
  expect(forward_bytes(layer.graph, no_recomputation(layer.graph)), 10.0 + 40.0 + 40.0 + 10.0,
         100.0);
  EXPECT_EQ(saved_bytes(layer.graph), Bytes(10.0 + 10.0 + 40.0 + 40.0));  // x, y, z, a
}

// da +40; a goes; dz +40 beside da: 40 above the start.  Then z, da, y, dz, dy go, and the sum of
// x's two gradients stays one.
TEST(LayerMemory, ABackwardPassFreesASavedTensorWithItsFirstReader) {
  const Small layer;
  expect(backward_bytes(layer.graph, no_recomputation(layer.graph)), 40.0, -100.0);
}

// z beside a is the most; only o stays, and x, which is the caller's.
TEST(LayerMemory, ARecomputedLayerHoldsWhatTheNextStepReads) {
  const Small layer;
  expect(forward_bytes(layer.graph, recompute_all(layer.graph, true)), 80.0, 10.0);
}

// y, z, a again, da beside them.  With the last GEMM again its output stays to the end.
TEST(LayerMemory, ARecomputationThatStopsEarlyWritesNoOutput) {
  const Small layer;
  expect(backward_bytes(layer.graph, recompute_all(layer.graph, true)), 10.0 + 40.0 + 40.0 + 40.0,
         -10.0);
  expect(backward_bytes(layer.graph, recompute_all(layer.graph, false)), 140.0, -10.0);
}

// The activation's output goes at the end of the forward pass, and is there again when the backward
// pass begins.
TEST(LayerMemory, ARecomputedModuleGivesUpItsOutput) {
  const Small layer;
  const auto plan = recompute_modules(layer.graph, {Module::Activation}, {});
  expect(forward_bytes(layer.graph, plan), 100.0, 60.0);
  expect(backward_bytes(layer.graph, plan), 40.0 + 40.0, -60.0);
  EXPECT_EQ(saved_bytes(layer.graph, plan), Bytes(60.0));
}

// One that keeps its output gives up what it saves within, here nothing.
TEST(LayerMemory, ACheckpointWithinALayerKeepsWhatOthersRead) {
  const Small layer;
  const auto plan = recompute_modules(layer.graph, {Module::Activation}, {Module::Activation});
  expect(forward_bytes(layer.graph, plan), 100.0, 100.0);
}

// Of two GEMMs the first one's output, z, is kept beside the input x; all else is written again.
TEST(LayerMemory, APolicyKeepsEverySecondGemm) {
  LayerGraph layer;
  const auto x = layer.tensor("x", {10.0}), y = layer.tensor("y", {10.0}),
             z = layer.tensor("z", {40.0}), o = layer.tensor("o", {10.0});
  layer.set_input(x);
  layer.set_output(o);
  layer.add(Module::Norm).reads(x).writes(y).saves(x);
  layer.add(Module::MlpUp).reads(y).writes(z).saves(y).gemm();
  layer.add(Module::MlpDown).reads(z).writes(o).saves(z).gemm();
  const auto plan = recompute_by_operator(layer, SavedGemms{}, false);
  EXPECT_EQ(saved_bytes(layer, plan), Bytes(50.0));
  EXPECT_EQ(repeated_share(layer, plan, 1), 0.0);
  EXPECT_EQ(repeated_share(layer, plan, 2), 1.0);
  expect(forward_bytes(layer, plan), 50.0, 50.0);  // y goes when z is there
  // y 10 and o 10 are written again, dz 40; dy 10 in the place of the freed dz and z; x goes when
  // dx is there.
  expect(backward_bytes(layer, plan), 60.0, -50.0);
}

TEST(LayerMemory, AWorkspaceIsThereWhileItsStepRuns) {
  LayerGraph layer;
  const auto x = layer.tensor("x", {10.0}), y = layer.tensor("y", {20.0});
  layer.set_input(x);
  layer.set_output(y);
  layer.add(Module::Norm)
      .reads(x)
      .writes(y)
      .saves(x)
      .forward_workspace(Bytes(5.0))
      .backward_workspace(Bytes(7.0));
  expect(forward_bytes(layer, no_recomputation(layer)), 25.0, 20.0);
  // dx +10, 7 on top; then dy 20 and x 10 go.
  expect(backward_bytes(layer, no_recomputation(layer)), 17.0, 10.0 - 20.0 - 10.0);
}

TEST(LayerMemory, AGradientInPlaceTakesNoOther) {
  const auto rise = [](bool in_place) {
    LayerGraph layer;
    const auto x = layer.tensor("x", {10.0}), y = layer.tensor("y", {10.0});
    layer.set_input(x);
    layer.set_output(y);
    auto& step = layer.add(Module::CoreAttention).reads(x).writes(y);
    if (in_place) step.gradient_in_place();
    return backward_bytes(layer, no_recomputation(layer)).rise.total();
  };
  EXPECT_EQ(rise(false), Bytes(10.0));
  EXPECT_EQ(rise(true), Bytes(0.0));
}

TEST(LayerMemory, StatisticsHaveNoGradient) {
  LayerGraph layer;
  const auto x = layer.tensor("x", {10.0}),
             mask = layer.tensor("mask", {3.0}, TensorRole::Statistic);
  layer.set_input(x);
  layer.set_output(x);
  layer.add(Module::Residual).reads(x).writes(mask).saves(mask);
  expect(forward_bytes(layer, no_recomputation(layer)), 3.0, 3.0);
  EXPECT_EQ(backward_bytes(layer, no_recomputation(layer)).net.total(), Bytes(-3.0));
}

}  // namespace
}  // namespace llmsim::sim
