#include "sim/schedule/passes.h"

#include <gtest/gtest.h>

#include "sim/model/parameters.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

struct Exposed {
  double gather = 0.0, reduce = 0.0;
};

// Of a sharded optimizer over two nodes.
Exposed exposed(bool gradient_overlap, bool gather_overlap) {
  TrainingRun run = small_run(16);
  run.strategy.sharding = Sharding::Zero1;
  run.strategy.gradient_overlap = gradient_overlap, run.strategy.gather_overlap = gather_overlap;
  Exposed times;
  for (const auto& [name, time] : predict(run).breakdown) {
    if (name == name_of(Term::GatherExposed)) times.gather = time.value();
    if (name == name_of(Term::ReduceExposed)) times.reduce = time.value();
  }
  return times;
}

// Of a gather over sixteen ranks on nodes that send 80 GB/s.
double wire_time(double bytes) { return 15.0 / 16.0 * bytes / 80e9; }

TEST(Passes, WeightsGatheredApartAreExposedWhole) {
  const double bytes = 2.0 * static_cast<double>(parameters(small_model()).total());
  // Latencies: one message a block, and the ends.
  EXPECT_NEAR(exposed(true, false).gather, wire_time(bytes), 9 * 10e-6);
  EXPECT_LT(exposed(true, true).gather, 0.5 * wire_time(bytes));
}

TEST(Passes, GatheringApartLeavesTheReductionsWhereTheyAre) {
  EXPECT_DOUBLE_EQ(exposed(true, false).reduce, exposed(true, true).reduce);
  EXPECT_DOUBLE_EQ(exposed(false, false).reduce, exposed(false, true).reduce);
}

TEST(Passes, ReducingApartLeavesTheGathersWhereTheyAre) {
  EXPECT_DOUBLE_EQ(exposed(false, true).gather, exposed(true, true).gather);
  EXPECT_DOUBLE_EQ(exposed(false, false).gather, exposed(true, false).gather);
  EXPECT_GT(exposed(false, true).reduce, exposed(true, true).reduce);
}

// Eight micro-batches, each with a gather before the forward and one before the backward pass, whose
// 2 bytes of a parameter are read and written once more, at 1 TB/s.
TEST(Passes, GatheredWeightsAreCopiedForEachPass) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  const auto copies = [&](double of_weights) {
    run.framework.sharded.weight_copies = of_weights;
    Seconds sum;
    for (const auto& [name, time] : predict(run).breakdown)
      if (name == name_of(Term::GradientCopies)) sum += time;
    return sum.value();
  };
  const double each = 2.0 * 2.0 * static_cast<double>(parameters(run.model).total()) / 1e12;
  EXPECT_NEAR((copies(1.0) - copies(0.0)) / (8.0 * 2.0 * each), 1.0, 1e-3);
}

}  // namespace
}  // namespace llmsim::sim
