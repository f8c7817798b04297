#include "sim/memory/parameter_tape.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

// Four ranks; units of 10 and 6 parameters, padded to 12 and 8.  bf16: 2 bytes a weight and a gradient, 4 a master weight.
struct ParameterCase {
  Strategy strategy;
  Framework framework;
  Ledger ledger;

  explicit ParameterCase(Sharding sharding) {
    strategy.dp = 4;
    strategy.sharding = sharding;
    framework.update.fused = false;
  }
  ParameterTape tape() const { return ParameterTape(strategy, framework, strategy.shard_ranks(), {10.0, 6.0}); }
  Bytes now() const { return ledger.now(); }
};

TEST(ParameterTape, EachFormShardsOneKindMore) {
  const auto held = [](Sharding sharding) {
    const ParameterCase c(sharding);
    const ParameterTape tape = c.tape();
    return std::vector<Bytes>{tape.weights(), tape.gradients(), tape.master(), tape.states()};
  };
  EXPECT_EQ(held(Sharding::None), (std::vector<Bytes>{Bytes(32), Bytes(32), Bytes(64), Bytes(128)}));  // 16, no padding
  EXPECT_EQ(held(Sharding::Zero1), (std::vector<Bytes>{Bytes(40), Bytes(40), Bytes(20), Bytes(40)}));
  EXPECT_EQ(held(Sharding::Zero2), (std::vector<Bytes>{Bytes(40), Bytes(10), Bytes(20), Bytes(40)}));
  EXPECT_EQ(held(Sharding::Zero3), (std::vector<Bytes>{Bytes(10), Bytes(10), Bytes(20), Bytes(40)}));
}

TEST(ParameterTape, TheNextUnitIsGatheredWhileOneComputes) {
  ParameterCase c(Sharding::Zero3);
  ParameterTape tape = c.tape();
  tape.begin_pass(c.ledger, {0, 1});
  tape.before_forward(c.ledger, 0);
  EXPECT_EQ(c.now(), Bytes(24 + 16));
  tape.after_forward(c.ledger, 0);
  EXPECT_EQ(c.now(), Bytes(16));
  tape.before_forward(c.ledger, 1);
  EXPECT_EQ(c.now(), Bytes(16));
  tape.after_forward(c.ledger, 1);
  EXPECT_EQ(c.now(), Bytes(0));
}

TEST(ParameterTape, AReductionIsUnderWayWhileTheNextUnitComputes) {
  ParameterCase c(Sharding::Zero2);
  ParameterTape tape = c.tape();
  tape.begin_pass(c.ledger, {1, 0});
  tape.before_backward(c.ledger, 1);
  EXPECT_EQ(c.now(), Bytes(16));
  tape.after_backward(c.ledger, 1, true);
  tape.before_backward(c.ledger, 0);
  EXPECT_EQ(c.now(), Bytes(16 + 24));
  tape.after_backward(c.ledger, 0, true);
  EXPECT_EQ(c.now(), Bytes(24));
  tape.finish_gradients(c.ledger);
  EXPECT_EQ(c.now(), Bytes(0));
}

TEST(ParameterTape, WholeGradientsStayUntilTheLastMicroBatch) {
  ParameterCase c(Sharding::Zero2);
  ParameterTape tape = c.tape();
  tape.begin_pass(c.ledger, {1, 0});
  tape.before_backward(c.ledger, 1);
  tape.after_backward(c.ledger, 1, false);
  tape.begin_pass(c.ledger, {0, 1});
  EXPECT_EQ(c.now(), Bytes(16));
}

TEST(ParameterTape, TheUpdateTakesADenominatorAndAnFp32Gradient) {
  ParameterCase c(Sharding::Zero3);
  Ledger host;
  c.tape().update(c.ledger, host);
  EXPECT_EQ(c.ledger.peak(), Bytes(8 * (3 + 2)));  // all units at once: 12 / 4 and 8 / 4 parameters
  c.framework.update.unit_by_unit = true;
  Ledger one;
  c.tape().update(one, host);
  EXPECT_EQ(one.peak(), Bytes(8 * 3 + 4));
}

TEST(ParameterTape, OffloadedStatesAreOnTheHost) {
  ParameterCase c(Sharding::Zero3);
  c.strategy.offload.optimizer = true;
  EXPECT_EQ(c.tape().master() + c.tape().states(), Bytes(0));
  EXPECT_EQ(c.tape().on_host(), Bytes(12 * 5));
  Ledger host;
  c.tape().update(c.ledger, host);
  EXPECT_EQ(host.peak(), Bytes((2 + 4 + 4) * 3 + 4));  // the gradient, its cast, the denominator
}

}  // namespace
}  // namespace llmsim::sim
