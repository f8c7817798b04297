#include "calibrate/profile/step_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "hwdb/profile/kineto_trace.h"
#include "hwdb/runs/run_resolver.h"
#include "sim/predict.h"
#include "tests/calibrate/profile/kineto_writer.h"
#include "tests/calibrate/sample_runs.h"
#include "tests/sim/random_run.h"

namespace llmsim::calibrate {
namespace {

using sim::Seconds;

const sim::Prediction& prediction() {
  static const sim::Prediction predicted = [] {
    const hwdb::Database database(":memory:");
    hwdb::RunRecord record = sample_record("a", "h100_sxm", "fsdp2", 16);
    record.hardware.num_devices = 8;
    return sim::predict(hwdb::RunResolver(database).resolve(record));
  }();
  return predicted;
}

StepDifference difference_with(const PlantedFaults& faults, int ranks = 1,
                               const sim::Prediction& of = prediction()) {
  const PredictedStep predicted = predicted_step(of, ranks > 1);
  std::vector<hwdb::ProfileTrace> traces;
  for (int rank = 0; rank < ranks; ++rank) {
    std::istringstream stream(KinetoWriter(predicted, rank, faults).trace());
    for (hwdb::ProfileTrace& trace : hwdb::parse_trace(stream, "t.json"))
      traces.push_back(std::move(trace));
  }
  return step_difference(profiled_steps(traces), of);
}

Seconds difference_of(const StepDifference& difference, const std::string& key) {
  for (const DifferenceLine& line : difference.lines)
    if (key == key_of(line)) return line.difference();
  return Seconds(0.0);
}

// Whatever is in it: the lines are the whole difference, and nothing twice.
void expect_whole(const StepDifference& difference) {
  Seconds lines, measured, predicted;
  for (const DifferenceLine& line : difference.lines) {
    lines += line.difference();
    measured += line.measured;
    predicted += line.predicted;
  }
  const double step = difference.step.value();
  EXPECT_NEAR(measured.value(), step, 1e-12 * step);
  EXPECT_NEAR(predicted.value(), difference.predicted_step.value(), 1e-12 * step);
  EXPECT_NEAR(lines.value(), (difference.step - difference.predicted_step).value(), 1e-12 * step);
}

// The line `key` has what was planted, within a tenth, and no other line has more than a hundredth
// of the step.
void expect_found(const StepDifference& difference, const std::string& key, Seconds planted) {
  expect_whole(difference);
  EXPECT_NEAR(difference_of(difference, key) / planted, 1.0, 0.1) << key;
  EXPECT_STREQ(key_of(difference.lines.front()), key.c_str());
  for (const DifferenceLine& line : difference.lines) {
    if (key != key_of(line)) {
      EXPECT_LT(std::abs(line.difference() / difference.step), 0.01) << key_of(line);
    }
  }
}

TEST(PredictedStep, HasPartsThatAddUpToTheStep) {
  for (const bool several : {false, true}) {
    const PredictedStep step = predicted_step(prediction(), several);
    EXPECT_NEAR(step.parts.total() / prediction().step_time, 1.0, 1e-12);
    EXPECT_GT(step.parts[StepPart::Gemms], 0.4 * step.step);
    EXPECT_LT(std::abs(step.parts[StepPart::Remainder] / step.step), 1e-9);
    EXPECT_EQ(step.parts[StepPart::Waiting] > Seconds(0.0), several);
  }
}

// Runs of all kinds that have a step.
std::vector<sim::Prediction> random_predictions(unsigned seeds) {
  std::vector<sim::Prediction> predictions;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const std::optional<sim::Run> run = sim::random_run(seed);
    if (!run) continue;
    sim::Prediction predicted = sim::predict_without_terms(*run);
    if (predicted.step_time > Seconds(0.0)) predictions.push_back(std::move(predicted));
  }
  return predictions;
}

TEST(PredictedStep, AddsUpForRandomRuns) {
  const std::vector<sim::Prediction> predictions = random_predictions(400);
  EXPECT_GT(predictions.size(), 100u);
  for (const sim::Prediction& predicted : predictions) {
    for (const PredictedStep& step : {predicted_step(predicted, true), drawn_step(predicted)}) {
      EXPECT_NEAR(step.parts.total() / predicted.step_time, 1.0, 1e-9);
      EXPECT_LT(std::abs(step.parts[StepPart::Remainder] / step.step), 0.02);
    }
  }
}

TEST(StepDifference, IsNoneWhereAllIsAsPredicted) {
  for (const int ranks : {1, 3}) {
    const StepDifference difference = difference_with({}, ranks);
    expect_whole(difference);
    for (const DifferenceLine& line : difference.lines)
      EXPECT_LT(std::abs(line.difference() / difference.step), 1e-4) << key_of(line);
    EXPECT_NEAR(difference.percentile, 0.5, 1e-3);
  }
}

TEST(StepDifference, FindsASlowWire) {
  const Seconds data = predicted_step(prediction(), true).parts[StepPart::Data];
  ASSERT_GT(data, Seconds(0.0));
  expect_found(difference_with({.wire = 1.6}, 3), "data_collectives", 0.6 * data);
}

// Of runs of all kinds: what the ranks of each group wait for is that group's.
TEST(StepDifference, FindsTheWireOfEachGroup) {
  int groups = 0;
  for (const sim::Prediction& of : random_predictions(60)) {
    const PredictedStep predicted = predicted_step(of, false);
    const StepDifference difference = difference_with({.wire = 1.6}, 1, of);
    for (const StepPart part :
         {StepPart::Tensor, StepPart::Context, StepPart::Expert, StepPart::Data}) {
      const Seconds planted = 0.6 * predicted.parts[part];
      if (planted < 1e-3 * predicted.step) continue;
      ++groups;
      EXPECT_NEAR(difference_of(difference, sim::name_of(part)) / planted, 1.0, 0.1);
    }
  }
  EXPECT_GT(groups, 20);
}

TEST(StepDifference, FindsKernelsThatAreNotFused) {
  const PredictedStep predicted = predicted_step(prediction(), false);
  const StepDifference difference = difference_with({.elementwise = 3.0});
  expect_found(difference, "memory_bound", 2.0 * predicted.parts[StepPart::MemoryBound]);
  EXPECT_NEAR(*difference.lines.front().kernels, 3.0 * predicted.memory_bound_kernels, 1.0);
  EXPECT_EQ(difference.lines.front().predicted_kernels, predicted.memory_bound_kernels);
}

// Five milliseconds, of which the wire has none.
TEST(StepDifference, TellsALateRankFromASlowWire) {
  const Seconds late(5e-3);
  const StepDifference difference = difference_with({.late = late}, 3);
  expect_whole(difference);
  EXPECT_NEAR(difference_of(difference, "waiting") / late, 1.0, 0.1);
  EXPECT_NEAR(difference_of(difference, "data_collectives") / late, 0.0, 0.1);
  ASSERT_EQ(difference.ranks.size(), 3u);
  EXPECT_GT(difference.ranks[0].late, 0.9 * late);
  EXPECT_EQ(difference.ranks[1].late, Seconds(0.0));
}

TEST(StepDifference, FindsGapsAndWaitingForData) {
  const Seconds long_gap = 0.1 * prediction().step_time;
  expect_found(difference_with({.gap = long_gap}), "idle", long_gap);
  expect_found(difference_with({.loading = long_gap}), "data_loading", long_gap);
}

TEST(StepDifference, FindsBlocksThatAreRecomputedUnasked) {
  const PredictedStep predicted = predicted_step(prediction(), false);
  const Seconds attention = predicted.attention_calls /
                            (2.0 * predicted.attention_calls + predicted.recomputed_calls) *
                            predicted.parts[StepPart::Attention];
  const StepDifference difference = difference_with({.recomputes = true});
  expect_found(difference, "recomputation",
               predicted.forward_gemms + attention + predicted.forward_memory_bound);
  EXPECT_NEAR(difference.unasked_recomputation, 1.0, 1e-9);
}

// Ten calls of a predicted shape, its operands the other way round, each 1 ms longer than predicted.
TEST(StepDifference, ComparesGemmsByTheirSizes) {
  const PredictedStep predicted = predicted_step(prediction(), false);
  const PredictedGemm& gemm = predicted.gemms.back();
  const Seconds each = gemm.time / gemm.calls, longer(1e-3);
  ProfiledStep step;
  step.step = prediction().step_time;
  step.gemms = {{.shape = {.batch = gemm.shape.batch,
                           .m = gemm.shape.k,
                           .n = gemm.shape.m,
                           .k = gemm.shape.n},
                 .total = {.kernels = 10.0, .busy = 10.0 * (each + longer)}}};
  const StepDifference difference = step_difference(std::span(&step, 1), prediction());
  ASSERT_EQ(difference.gemms.size(), 1u);
  EXPECT_NEAR(difference.gemms.front().lost() / (10.0 * longer), 1.0, 1e-9);
  EXPECT_EQ(difference.gemms.front().predicted_calls, gemm.calls);
}

// The ends of the 90 % interval are at 5 and 95 %.
TEST(StepPercentile, IsThatOfTheInterval) {
  const sim::Prediction& p = prediction();
  EXPECT_NEAR(step_percentile(p, p.step_time), 0.5, 1e-12);
  EXPECT_NEAR(step_percentile(p, p.interval.first), 0.05, 1e-6);
  EXPECT_NEAR(step_percentile(p, p.interval.second), 0.95, 1e-6);
  EXPECT_GT(step_percentile(p, 2.0 * p.step_time), 0.95);
}

// 10 s of which GEMMs are 8 and the data collectives 1: of 12 s GEMMs would have to take 10 / 8,
// collectives 3 / 1; 2.2 and 2.1 of their deviations.
TEST(PartFactors, AreWorkedOutByHand) {
  PredictedStep step{.step = Seconds(10.0)};
  step.parts[StepPart::Gemms] = Seconds(8.0);
  step.parts[StepPart::Data] = Seconds(1.0);
  const std::vector<PartFactor> factors = part_factors(step, Seconds(12.0));
  ASSERT_EQ(factors.size(), 2u);
  EXPECT_EQ(factors[0].part, StepPart::Data);
  EXPECT_NEAR(factors[0].factor, 3.0, 1e-12);
  EXPECT_NEAR(factors[0].deviations, std::log(3.0) / 0.53, 1e-12);
  EXPECT_NEAR(factors[1].factor, 1.25, 1e-12);
  // A step 5 s shorter can be no matter of collectives that take 1 s.
  ASSERT_EQ(part_factors(step, Seconds(5.0)).size(), 1u);
}

}  // namespace
}  // namespace llmsim::calibrate
