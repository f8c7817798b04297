#include "sim/strategy/layout_errors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/model/parameters.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

LayoutErrors sample_errors() {
  LayoutErrors errors{.error = 0.1, .recompute = 0.5, .sharding = 2.0};
  errors.doublings[static_cast<std::size_t>(LayoutAxis::MicroBatch)] = 2.0;
  return errors;
}

TEST(LayoutErrors, ALayoutHasTheWholeVarianceWithItself) {
  EXPECT_DOUBLE_EQ(sample_errors().covariance({}, {}), 0.01);
}

// Micro-batches of 1 and 8 are 3 doublings apart, 1.5 lengths; another recomputation is 0.5 more,
// another sharding 2: d^2 = 2.25 + 0.25 + 4.
TEST(LayoutErrors, DistancesAddInSquares) {
  LayoutPoint one, other;
  other.log2[static_cast<std::size_t>(LayoutAxis::MicroBatch)] = 3.0;
  EXPECT_NEAR(sample_errors().covariance(one, other), 0.01 * std::exp(-1.125), 1e-15);
  other.recompute = RecomputeKind::Full, other.sharding = Sharding::Zero3;
  EXPECT_NEAR(sample_errors().covariance(one, other), 0.01 * std::exp(-3.25), 1e-15);
  EXPECT_EQ(sample_errors().covariance(one, other), sample_errors().covariance(other, one));
}

TEST(LayoutErrors, APointIsWhereItsLayoutLies) {
  TrainingRun run = small_run(16);
  run.strategy.tp = 4, run.strategy.pp = 2, run.strategy.micro_batch = 8;
  run.strategy.sharding = Sharding::Zero1;
  run.strategy.recompute.kind = RecomputeKind::Selective;
  const LayoutPoint point = layout_point(run.model, run.strategy, 16);
  const auto at = [&](LayoutAxis axis) { return point.log2[static_cast<std::size_t>(axis)]; };
  EXPECT_EQ(at(LayoutAxis::MicroBatch), 3.0);
  EXPECT_EQ(at(LayoutAxis::TensorRanks), 2.0);
  EXPECT_EQ(at(LayoutAxis::Stages), 1.0);
  EXPECT_EQ(at(LayoutAxis::ExpertRanks), 0.0);
  EXPECT_EQ(at(LayoutAxis::Devices), 4.0);
  EXPECT_EQ(at(LayoutAxis::SeqLen), std::log2(run.model.seq_len));
  EXPECT_EQ(at(LayoutAxis::Parameters),
            std::log2(static_cast<double>(parameters(run.model).total())));
  EXPECT_EQ(point.recompute, RecomputeKind::Selective);
  EXPECT_EQ(point.sharding, Sharding::Zero1);
}

TEST(LayoutErrors, EveryNumberHasAKeyOfItsOwn) {
  LayoutErrors errors;
  for (std::size_t k = 0; k < kLayoutNumbers; ++k)
    layout_number(errors, k) = static_cast<double>(k) + 10.0;
  EXPECT_EQ(errors.error, 10.0);
  EXPECT_EQ(errors.run, 11.0);
  EXPECT_EQ(errors.doublings[0], 12.0);
  EXPECT_EQ(errors.recompute, 20.0);
  EXPECT_EQ(errors.sharding, 21.0);
  EXPECT_EQ(layout_key(2), "doublings.micro_batch");
  EXPECT_EQ(layout_key(9), "doublings.parameters");
  EXPECT_EQ(layout_key(20 - 10), "recompute");
}

}  // namespace
}  // namespace llmsim::sim
