#include "sim/strategy/peak_correction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/memory/footprint.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// v = 0.16^2 + 0.12^2 = 0.04; noise 0.05^2 = 0.0025.
constexpr PeakSpreads kSpreads{
    .site = 0.16, .layout = 0.12, .gaps = 0.5, .context = 0.5, .run = 0.05};
constexpr double kPrior = 0.04, kNoise = 0.0025;

PeakObservation observed(double residual, const LayoutTraits& layout = {},
                         const PeakSlopes& slopes = {}) {
  return {.id = "a",
          .kind = "allocated",
          .problem = {},
          .layout = layout,
          .slopes = slopes,
          .residual = residual,
          .noise = 0.05};
}

LayoutTraits traits(LayoutTrait trait, double value) {
  LayoutTraits traits{};
  traits[static_cast<std::size_t>(trait)] = value;
  return traits;
}

TEST(PeakCorrection, OnePeakMovesItsRunByPriorOverPriorAndNoise) {
  const PeakCorrection known = peak_correction({observed(0.2)}, kSpreads, {});
  EXPECT_NEAR(known.log_factor({}), 0.2 * kPrior / (kPrior + kNoise), 1e-12);
  EXPECT_NEAR(std::pow(known.error({}, {}), 2), kPrior * kNoise / (kPrior + kNoise) + kNoise,
              1e-12);
  EXPECT_EQ(known.log_gaps, 0.0);
  EXPECT_EQ(known.log_context, 0.0);
}

TEST(PeakCorrection, WithoutPeaksNothingMoves) {
  const PeakCorrection none = peak_correction({}, kSpreads, {});
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.log_factor({}), 0.0);
  EXPECT_NEAR(none.error({}, {}), std::sqrt(kPrior + kNoise), 1e-12);
  EXPECT_NEAR(none.largest_error({}), std::sqrt(kPrior + kNoise), 1e-12);
}

// Recomputation apart by 1: e^-0.4 of what layouts differ by.
TEST(PeakCorrection, OtherLayoutsMoveByWhatTheyShare) {
  const PeakCorrection known = peak_correction({observed(0.2)}, kSpreads, {});
  const LayoutTraits other = traits(LayoutTrait::Recomputation, 1.0);
  const double shared = 0.0256 + 0.0144 * std::exp(-0.4);
  EXPECT_NEAR(known.log_factor(other), 0.2 * shared / (kPrior + kNoise), 1e-12);
  EXPECT_GT(known.error(other, {}), known.error({}, {}));
  EXPECT_GT(known.largest_error({}), known.error(other, {}));
  EXPECT_NEAR(std::pow(known.largest_error({}), 2),
              kPrior + kNoise - 0.0256 * 0.0256 / (kPrior + kNoise), 1e-12);
}

// Another model: e^-0.15.
TEST(PeakCorrection, OtherProblemsMoveByWhatTheyShare) {
  PeakProblem other;
  other.model = "other";
  const PeakCorrection known = peak_correction({observed(0.2)}, kSpreads, other);
  EXPECT_NEAR(known.log_factor({}), 0.2 * (0.0256 + 0.0144 * std::exp(-0.15)) / (kPrior + kNoise),
              1e-12);
}

TEST(PeakCorrection, TwoPeaksOfOneRunCountTwice) {
  const PeakCorrection known = peak_correction({observed(0.1), observed(0.3)}, kSpreads, {});
  EXPECT_NEAR(known.log_factor({}), 0.2 * kPrior / (kPrior + kNoise / 2.0), 1e-12);
}

// Gaps of a tenth: 0.1^2 0.5^2 of the variance is theirs; context alike.
TEST(PeakCorrection, GapsAndContextTakeTheirShareOfAResidual) {
  const PeakSlopes slopes{.allocated = 1.0, .gaps = 0.1, .context = 0.2};
  const PeakCorrection known = peak_correction({observed(0.2, {}, slopes)}, kSpreads, {});
  const double all = kPrior + 0.01 * 0.25 + 0.04 * 0.25 + kNoise;
  EXPECT_NEAR(known.log_gaps, 0.2 * 0.1 * 0.25 / all, 1e-12);
  EXPECT_NEAR(known.log_context, 0.2 * 0.2 * 0.25 / all, 1e-12);
  EXPECT_NEAR(known.log_factor({}), 0.2 * kPrior / all, 1e-12);
}

TEST(PeakCorrection, TheLeastFactorIsBelowThatOfEveryRecomputation) {
  const PeakCorrection known =
      peak_correction({observed(0.3, traits(LayoutTrait::Recomputation, 1.0)), observed(-0.4),
                       observed(0.1, traits(LayoutTrait::TensorRanks, 2.0))},
                      kSpreads, {});
  for (const double tensor_ranks : {0.0, 1.0, 3.0}) {
    LayoutTraits layout = traits(LayoutTrait::TensorRanks, tensor_ranks);
    const double least = known.least_log_factor(layout);
    for (const double recompute : {0.0, 0.5, 1.0}) {
      for (const double virtual_stages : {0.0, 1.0, 4.0}) {
        layout[static_cast<std::size_t>(LayoutTrait::Recomputation)] = recompute;
        layout[static_cast<std::size_t>(LayoutTrait::VirtualStages)] = virtual_stages;
        EXPECT_LE(least, known.log_factor(layout));
      }
    }
  }
}

TrainingRun corrected(double residual) {
  TrainingRun run = small_run();
  PeakObservation peak = observed(residual, traits_of(run.strategy));
  peak.problem = peak_problem(run);
  run.measured_peaks = peak_correction({peak}, kSpreads, peak.problem);
  return run;
}

TEST(PeakCorrection, ScalesWhatIsAllocatedAndTermsStillAddUp) {
  const Prediction before = predict(small_run());
  for (const double residual : {0.2, -0.2}) {
    const Prediction after = predict(corrected(residual));
    const double factor = std::exp(residual * kPrior / (kPrior + kNoise));
    EXPECT_NEAR(after.memory.peak / before.memory.peak, factor, 1e-9);
    EXPECT_NEAR(after.memory.reserved / before.memory.reserved, factor, 1e-9);
    EXPECT_EQ(after.memory.context, before.memory.context);
    Bytes sum{};
    for (const MemoryTerm& term : after.memory.fullest().terms) sum += term.size;
    EXPECT_NEAR(sum / after.memory.peak, 1.0, 1e-9);
    EXPECT_STREQ(after.memory.fullest().terms.back().name, "measured_correction");
    const MemoryCurve curve = memory_curve(after.run, layer_prices(after.run), 0);
    EXPECT_NEAR(curve.peak().allocated / after.memory.peak, 1.0, 1e-9);
    EXPECT_GE(after.memory.error,
              after.run.measured_peaks.error(traits_of(after.run.strategy), {}));
    EXPECT_LE(after.memory.error, std::sqrt(kPrior + kNoise));
  }
}

}  // namespace
}  // namespace llmsim::sim
