#include "sim/operators/dataflow.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

using Role = Dataflow::Role;

// A layer of bytes that can be counted on paper: x 10 -> norm -> y 10 -> up -> z 40 -> activation
// -> a 40 -> down -> o 10, + x.  The norm saves x, the GEMMs their inputs, the activation its own.
struct Small {
  Dataflow flow;
  Dataflow::Tensor x, y, z, a, o;

  Small() {
    x = flow.add(Bytes(10.0)), y = flow.add(Bytes(10.0)), z = flow.add(Bytes(40.0));
    a = flow.add(Bytes(40.0)), o = flow.add(Bytes(10.0));
    flow.set_input(x);
    flow.step(Module::Norm).reads(x).writes(y).saves(x);
    flow.step(Module::MlpUp).reads(y).writes(z).saves(y);
    flow.step(Module::Activation).reads(z).writes(a).saves(z);
    flow.end_of_needed();
    flow.step(Module::MlpDown).reads(a).writes(o).saves(a);
    flow.add_in_place(x, o);
    flow.set_output(o);
  }
};

void expect(const PassBytes& pass, double rise, double net) {
  EXPECT_EQ(pass.rise.total(), Bytes(rise));
  EXPECT_EQ(pass.net.total(), Bytes(net));
}

TEST(Dataflow, AForwardPassLeavesWhatIsSavedAndTheOutput) {
  const Small layer;
  expect(layer.flow.forward(), 10.0 + 40.0 + 40.0 + 10.0, 100.0);
  EXPECT_EQ(layer.flow.saved(), Bytes(10.0 + 10.0 + 40.0 + 40.0));  // x, y, z, a
}

// da +40; a goes; dz +40 beside da: 40 above the start.  Then z, da, y, dz, dy go, and the sum of
// x's two gradients stays one.
TEST(Dataflow, ABackwardPassFreesASavedTensorWithItsFirstReader) {
  const Small layer;
  expect(layer.flow.backward(), 40.0, -100.0);
}

// z beside a is the most; only o stays, and x, which is the caller's.
TEST(Dataflow, ARecomputedLayerHoldsWhatTheNextStepReads) {
  const Small layer;
  expect(layer.flow.forward(layer.flow.recompute_all(true)), 80.0, 10.0);
}

// y, z, a again, da beside them.  With the last GEMM again its output stays to the end.
TEST(Dataflow, ARecomputationThatStopsEarlyWritesNoOutput) {
  const Small layer;
  expect(layer.flow.backward(layer.flow.recompute_all(true)), 10.0 + 40.0 + 40.0 + 40.0, -10.0);
  expect(layer.flow.backward(layer.flow.recompute_all(false)), 140.0, -10.0);
}

// The activation's output goes at the end of the forward pass, and is there again when the backward
// pass begins.
TEST(Dataflow, ARecomputedModuleGivesUpItsOutput) {
  const Small layer;
  const auto plan = layer.flow.recompute({Module::Activation}, {});
  expect(layer.flow.forward(plan), 100.0, 60.0);
  expect(layer.flow.backward(plan), 40.0 + 40.0, -60.0);
  EXPECT_EQ(layer.flow.saved(plan), Bytes(60.0));
}

// One that keeps its output gives up what it saves within, here nothing.
TEST(Dataflow, ACheckpointWithinALayerKeepsWhatOthersRead) {
  const Small layer;
  const auto plan = layer.flow.recompute({Module::Activation}, {Module::Activation});
  expect(layer.flow.forward(plan), 100.0, 100.0);
}

// Of two GEMMs the first one's output, z, is kept beside the input x; all else is written again.
TEST(Dataflow, APolicyKeepsEverySecondGemm) {
  Dataflow flow;
  const auto x = flow.add(Bytes(10.0)), y = flow.add(Bytes(10.0)), z = flow.add(Bytes(40.0)),
             o = flow.add(Bytes(10.0));
  flow.set_input(x);
  flow.set_output(o);
  flow.step(Module::Norm).reads(x).writes(y).saves(x);
  flow.step(Module::MlpUp).reads(y).writes(z).saves(y).gemm();
  flow.step(Module::MlpDown).reads(z).writes(o).saves(z).gemm();
  const auto plan = flow.recompute_by_operator(SavedGemms::EverySecond, false);
  EXPECT_EQ(flow.saved(plan), Bytes(50.0));
  EXPECT_EQ(flow.repeated_share(plan, Module::MlpUp, 0), 0.0);
  EXPECT_EQ(flow.repeated_share(plan, Module::MlpDown, 0), 1.0);
  expect(flow.forward(plan), 50.0, 50.0);  // y goes when z is there
  // y 10 and o 10 are written again, dz 40; dy 10 in the place of the freed dz and z; x goes when
  // dx is there.
  expect(flow.backward(plan), 60.0, -50.0);
}

TEST(Dataflow, AWorkspaceIsThereWhileItsStepRuns) {
  Dataflow flow;
  const auto x = flow.add(Bytes(10.0)), y = flow.add(Bytes(20.0));
  flow.set_input(x);
  flow.set_output(y);
  flow.step(Module::Norm)
      .reads(x)
      .writes(y)
      .saves(x)
      .forward_workspace(Bytes(5.0))
      .backward_workspace(Bytes(7.0));
  expect(flow.forward(), 25.0, 20.0);
  // dx +10, 7 on top; then dy 20 and x 10 go.
  expect(flow.backward(), 17.0, 10.0 - 20.0 - 10.0);
}

TEST(Dataflow, AGradientInPlaceTakesNoOther) {
  const auto rise = [](bool in_place) {
    Dataflow flow;
    const auto x = flow.add(Bytes(10.0)), y = flow.add(Bytes(10.0));
    flow.set_input(x);
    flow.set_output(y);
    auto& step = flow.step(Module::CoreAttention).reads(x).writes(y);
    if (in_place) step.gradient_in_place();
    return flow.backward().rise.total();
  };
  EXPECT_EQ(rise(false), Bytes(10.0));
  EXPECT_EQ(rise(true), Bytes(0.0));
}

TEST(Dataflow, StatisticsHaveNoGradient) {
  Dataflow flow;
  const auto x = flow.add(Bytes(10.0)), mask = flow.add(Bytes(3.0), Role::Statistic);
  flow.set_input(x);
  flow.set_output(x);
  flow.step(Module::Residual).reads(x).writes(mask).saves(mask);
  expect(flow.forward(), 3.0, 3.0);
  EXPECT_EQ(flow.backward().net.total(), Bytes(-3.0));
}

}  // namespace
}  // namespace llmsim::sim
