#include "sim/operators/live_tensors.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

// Three tensors, 10, 20 and 40 bytes; the last one are logits.
struct Three {
  LayerGraph graph;
  TensorId a = graph.tensor("a", {10.0}), b = graph.tensor("b", {20.0}),
           logits = graph.tensor("logits", {40.0}, TensorRole::Logits);
};

TEST(LiveTensors, TheMostIsThatOfAllKindsAtOneTime) {
  const Three layer;
  LiveTensors live(layer.graph);
  live.write(layer.a, &LiveBytes::activations);
  live.use_workspace(&LiveBytes::gradients, Bytes(25.0), Module::Norm);  // 10 + 25
  live.free(layer.a);
  live.write(layer.b, &LiveBytes::recomputed);  // 20 alone is less
  EXPECT_EQ(live.bytes().rise.total(), Bytes(35.0));
  EXPECT_EQ(live.bytes().rise.activations, Bytes(10.0));
  EXPECT_EQ(live.bytes().rise.recomputed, Bytes(0.0));
  EXPECT_EQ(live.bytes().net.total(), Bytes(20.0));
}

TEST(LiveTensors, LogitsAreLogitsWhateverTheyAreWrittenFor) {
  const Three layer;
  LiveTensors live(layer.graph);
  live.write(layer.logits, &LiveBytes::recomputed);
  live.begin_gradient(layer.logits);
  live.take_gradient(layer.logits);
  EXPECT_EQ(live.bytes().net.logits, Bytes(80.0));
  EXPECT_EQ(live.bytes().net.total(), Bytes(80.0));
}

TEST(LiveTensors, WhatWasHeldIsFreedBelowTheStart) {
  const Three layer;
  LiveTensors live(layer.graph);
  live.hold(layer.a);
  EXPECT_TRUE(live.has(layer.a));
  EXPECT_EQ(live.bytes().net.total(), Bytes(0.0));
  live.free(layer.a);
  EXPECT_EQ(live.bytes().net.total(), Bytes(-10.0));
  EXPECT_EQ(live.bytes().rise.total(), Bytes(0.0));
}

TEST(LiveTensors, ASharedGradientGoesWithTheLastThatHasIt) {
  const Three layer;
  LiveTensors live(layer.graph);
  live.begin_gradient(layer.a);
  live.take_gradient(layer.a);
  live.share_gradient(layer.a, layer.b);
  live.free_gradient(layer.a, false);
  EXPECT_EQ(live.bytes().net.gradients, Bytes(10.0));
  EXPECT_TRUE(live.has_gradient(layer.b));
  live.free_gradient(layer.b, false);
  EXPECT_EQ(live.bytes().net.gradients, Bytes(0.0));
  live.free_gradient(layer.b, false);  // there is none any more
  EXPECT_EQ(live.bytes().net.gradients, Bytes(0.0));
}

TEST(LiveTensors, AGradientThatReplacesATensorRaisesNothing) {
  const Three layer;
  LiveTensors live(layer.graph);
  live.write(layer.b, &LiveBytes::activations);
  live.replace_by_gradient(layer.b, layer.b);
  EXPECT_FALSE(live.has(layer.b));
  EXPECT_EQ(live.bytes().net.gradients, Bytes(20.0));
  EXPECT_EQ(live.bytes().net.activations, Bytes(0.0));
  EXPECT_EQ(live.bytes().rise.total(), Bytes(20.0));
}

}  // namespace
}  // namespace llmsim::sim
