#include "calibrate/ablation.h"

#include <cmath>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using sim::Seconds;

hwdb::RunRecord timed(const std::string& id, double seconds) {
  hwdb::RunRecord record;
  record.id = id;
  record.group = "study";
  record.model.fields["num_layers"] = 4;
  record.training.strategy["global_batch"] = 64;
  record.training.framework = "fsdp1";
  record.measured.emplace();
  record.measured->step_time = Seconds(seconds);
  record.scored.step_time = true;
  return record;
}

hwdb::RunRecord compiled(const std::string& id, double seconds, bool on) {
  hwdb::RunRecord record = timed(id, seconds);
  record.training.strategy["compile"] = on;
  return record;
}

hwdb::RunRecord batched(const std::string& id, double seconds, int micro_batch) {
  hwdb::RunRecord record = timed(id, seconds);
  record.training.strategy["micro_batch"] = micro_batch;
  return record;
}

// Predicts `with` seconds for compiled runs, 10 for others.
Predictor compiled_takes(double with) {
  return [with](const hwdb::RunRecord& record) {
    sim::Prediction prediction;
    prediction.step_time = Seconds(
        sim::stated<bool>(record.training.strategy, "compile").value_or(false) ? with : 10.0);
    return prediction;
  };
}

Ablations of(const std::vector<hwdb::RunRecord>& runs, const Predictor& predict,
             const std::vector<hwdb::Comparison>& comparisons = {}) {
  const std::vector<hwdb::RunFile> files{
      {.file = "f", .group = "study", .description = {}, .runs = runs, .rejected = {}}};
  return ablations(files, comparisons, backtest(files, Scope::All, predict), predict);
}

// Measured 8 / 10, predicted 9 / 10.
TEST(Ablations, ComparesTheRatioOnToOff) {
  const Ablations result =
      of({compiled("off", 10.0, false), compiled("on", 8.0, true)}, compiled_takes(9.0));
  ASSERT_EQ(result.pairs.size(), 1u);
  const AblationPair& pair = result.pairs.front();
  EXPECT_EQ(pair.setting, "compile");
  EXPECT_EQ(pair.off_id, "off");
  EXPECT_NEAR(*pair.measured_time, 0.8, 1e-12);
  EXPECT_NEAR(*pair.predicted_time, 0.9, 1e-12);
  EXPECT_NEAR(*pair.time_error(), std::log(0.9 / 0.8), 1e-12);
  EXPECT_TRUE(pair.decides());
  EXPECT_TRUE(pair.right());
  EXPECT_EQ(result.all.right, 1);
  EXPECT_NEAR(*result.all.median_error, std::log(9.0 / 8.0), 1e-12);
}

TEST(Ablations, APredictionOnTheOtherSideOfOneOrOfNoEffectIsAWrongSign) {
  for (const double predicted : {11.0, 10.0}) {
    const Ablations result =
        of({compiled("off", 10.0, false), compiled("on", 8.0, true)}, compiled_takes(predicted));
    EXPECT_EQ(result.all.decided, 1);
    EXPECT_EQ(result.all.right, 0);
  }
}

// Five steps on a straight line over the batch, each at two micro-batches: 2 + 0.5 n/8 and 1 + 0.4
// n/8 seconds.  A measured pair of another study stands beside the five.
TEST(Ablations, SumsMeasuredTimesApartFromComputedOnes) {
  std::vector<hwdb::RunRecord> runs{compiled("off", 10.0, false), compiled("on", 8.0, true)};
  for (const int batch : {8, 16, 32, 64, 128}) {
    runs.push_back(
        batched("one" + std::to_string(batch), 2.000000011 + 0.500000013 * batch / 8, 1));
    runs.push_back(
        batched("two" + std::to_string(batch), 1.000000011 + 0.400000013 * batch / 8, 2));
    for (std::size_t i = runs.size() - 2; i < runs.size(); ++i)
      runs[i].training.strategy["global_batch"] = batch, runs[i].group = "computed";
  }
  const Ablations result = of(runs, compiled_takes(9.0));
  EXPECT_EQ(result.all.pairs, 6);
  EXPECT_EQ(result.measured.pairs, 1);
  EXPECT_NEAR(*result.measured.median_error, std::log(9.0 / 8.0), 1e-12);
}

// 9.4 of 10 is 6 % less; a study that states 5 % of noise cannot tell: twice that is 10 %.
TEST(Ablations, PairsWithinTheStatedNoiseHaveNoSign) {
  std::vector runs{compiled("off", 10.0, false), compiled("on", 9.4, true)};
  EXPECT_EQ(of(runs, compiled_takes(9.0)).all.decided, 1);
  runs.front().noise = 0.05;
  EXPECT_EQ(of(runs, compiled_takes(9.0)).all.decided, 0);
  EXPECT_EQ(of(runs, compiled_takes(9.0)).all.pairs, 1);
}

TEST(Ablations, RunsThatDifferInTwoSettingsOrInAnUnknownOneAreNoPair) {
  hwdb::RunRecord two = compiled("two", 8.0, true);
  two.training.strategy["flash_attention"] = true;
  EXPECT_TRUE(of({compiled("off", 10.0, false), two}, compiled_takes(9.0)).pairs.empty());
  EXPECT_TRUE(
      of({timed("unknown", 10.0), compiled("on", 8.0, true)}, compiled_takes(9.0)).pairs.empty());
}

TEST(Ablations, OfMicroBatchesNeighboursArePaired) {
  const Ablations result =
      of({batched("four", 8.0, 4), batched("one", 10.0, 1), batched("two", 9.0, 2)},
         compiled_takes(9.0));
  ASSERT_EQ(result.pairs.size(), 2u);
  EXPECT_EQ(result.pairs[0].off_id + " " + result.pairs[0].on_id, "one two");
  EXPECT_EQ(result.pairs[1].off_id + " " + result.pairs[1].on_id, "two four");
}

TEST(Ablations, TimesThatAreNotScoredAreNoPair) {
  hwdb::RunRecord off = compiled("off", 10.0, false), on = compiled("on", 8.0, true);
  off.scored.step_time = on.scored.step_time = false;
  EXPECT_TRUE(of({off, on}, compiled_takes(9.0)).pairs.empty());
}

// Of peaks those of one kind and of one device, or of the fullest.
TEST(Ablations, PeaksOfOtherDevicesAreNoPair) {
  hwdb::RunRecord off = compiled("off", 10.0, false), on = compiled("on", 8.0, true);
  for (hwdb::RunRecord* run : {&off, &on}) {
    run->scored = {}, run->scored.memory = true;
    run->measured->peak_memory = sim::Bytes(run == &off ? 40e9 : 30e9);
  }
  const Ablations same = of({off, on}, compiled_takes(9.0));
  ASSERT_EQ(same.pairs.size(), 1u);
  EXPECT_NEAR(*same.pairs[0].measured_peak, 0.75, 1e-12);
  on.measured->memory_scope = "last-stage";
  EXPECT_TRUE(of({off, on}, compiled_takes(9.0)).pairs.empty());
}

TEST(Ablations, OfRepeatsTheFastestCounts) {
  const Ablations result =
      of({compiled("off", 10.0, false), compiled("slow", 12.0, true), compiled("on", 8.0, true)},
         compiled_takes(9.0));
  ASSERT_EQ(result.pairs.size(), 1u);
  EXPECT_EQ(result.pairs.front().on_id, "on");
}

TEST(Ablations, RecipesOfOneFormatAreApartFromFormats) {
  hwdb::RunRecord bf16 = timed("bf16", 10.0), rows = timed("rows", 9.0),
                  tensors = timed("tensors", 8.0);
  bf16.training.strategy["precision"] = "bf16";
  rows.training.strategy["precision"] = tensors.training.strategy["precision"] = "fp8";
  rows.training.settings["fp8_recipe"] = std::string("rowwise");
  tensors.training.settings["fp8_recipe"] = std::string("current");
  const Ablations result = of({bf16, rows, tensors}, compiled_takes(9.0));
  ASSERT_EQ(result.settings.size(), 2u);
  EXPECT_EQ(result.settings[0].setting, "precision");
  EXPECT_EQ(result.settings[0].pairs, 2);
  EXPECT_EQ(result.settings[1].setting, "recipe");
  EXPECT_EQ(result.settings[1].pairs, 1);
}

TEST(Ablations, AmountsAreNotSwitched) {
  const Ablations result = of({batched("four", 8.0, 4), batched("two", 9.0, 2),
                               compiled("off", 10.0, false), compiled("on", 8.0, true)},
                              compiled_takes(9.0));
  EXPECT_EQ(result.all.pairs, 2);
  EXPECT_EQ(result.switched.pairs, 1);
}

TEST(Ablations, TopologyIsScoredApart) {
  hwdb::RunRecord wide = timed("wide", 10.0), deep = timed("deep", 8.0);
  wide.training.strategy["tp"] = 2;
  deep.training.strategy["pp"] = 2;
  const Ablations result = of({wide, deep}, compiled_takes(9.0));
  EXPECT_EQ(result.topology.pairs, 1);
  EXPECT_EQ(result.all.pairs, 0);
  EXPECT_TRUE(result.settings.empty());
}

// Many pairs of one study and one of another: 0, 0, 0 and ln(1.25).
TEST(Ablations, EachStudyCountsOnceInTheStudyError) {
  std::vector runs{compiled("off", 10.0, false), compiled("on", 8.0, true)};
  for (int layers = 5; layers < 8; ++layers) {
    for (hwdb::RunRecord run : {compiled("off", 10.0, false), compiled("on", 10.0, true)}) {
      run.group = "other";
      run.id += std::to_string(layers);
      run.model.fields["num_layers"] = layers;
      runs.push_back(run);
    }
  }
  const Ablations result = of(runs, compiled_takes(10.0));
  EXPECT_EQ(result.all.pairs, 4);
  EXPECT_NEAR(*result.all.median_error, 0.0, 1e-12);
  EXPECT_NEAR(*result.study_median_error, std::log(1.25) / 2.0, 1e-12);
}

// +25 % of speed is a step of 0.8.
TEST(Ablations, StatedSpeedUpsAreComparedWithBothEndsPredicted) {
  hwdb::Comparison stated;
  stated.setting = "compile";
  stated.group = "log";
  stated.off = compiled("x", 1.0, false);
  stated.on = compiled("x", 1.0, true);
  stated.speedup = 0.25;
  const Ablations result = of({timed("other", 1.0)}, compiled_takes(9.0), {stated});
  ASSERT_EQ(result.pairs.size(), 1u);
  EXPECT_NEAR(*result.pairs.front().measured_time, 0.8, 1e-12);
  EXPECT_NEAR(*result.pairs.front().predicted_time, 0.9, 1e-12);
}

TEST(Ablations, NamedPairsHaveTheValuesThatAreGivenOrThoseOfTheirRuns) {
  hwdb::Comparison named;
  named.setting = "compile";
  named.off_id = "slow";
  named.on_id = "fast";
  const std::vector runs{compiled("slow", 10.0, false), compiled("fast", 8.0, true)};
  const auto values = [&] {
    const AblationPair pair = of(runs, compiled_takes(9.0), {named}).pairs.front();
    return pair.off + " " + pair.on;
  };
  EXPECT_EQ(values(), "off on");
  named.values = {"eager", "graph"};
  EXPECT_EQ(values(), "eager graph");
  // The pair that the study itself has is that of the name, once, whichever way round.
  EXPECT_EQ(of(runs, compiled_takes(9.0), {named}).pairs.size(), 1u);
  std::swap(named.off_id, named.on_id);
  EXPECT_EQ(of(runs, compiled_takes(9.0), {named}).pairs.size(), 1u);
}

TEST(Ablations, NamedPairsNeedRunsThatAreThere) {
  hwdb::Comparison named;
  named.setting = "transport";
  named.off_id = "slow";
  named.on_id = "fast";
  const Ablations result =
      of({timed("slow", 10.0), timed("fast", 8.0)}, compiled_takes(9.0), {named});
  ASSERT_EQ(result.pairs.size(), 1u);
  EXPECT_EQ(result.pairs.front().off + " " + result.pairs.front().on, "off on");
  EXPECT_THROW(of({timed("slow", 10.0)}, compiled_takes(9.0), {named}), Error);
}

// Right, wrong, 1 % that no sign is told from, and one without a prediction: |ln| of 0.9 / 0.8, 0.9 /
// 1.25 and 0.9 / 0.99, and 1.
TEST(Ablations, ErrorsCountEveryPairAndSignsThoseThatAreDecided) {
  std::vector<hwdb::RunRecord> runs;
  int layers = 4;
  for (const double seconds : {8.0, 12.5, 9.9, 5.0}) {
    for (hwdb::RunRecord run : {compiled("off", 10.0, false), compiled("on", seconds, true)}) {
      run.id += std::to_string(layers);
      run.model.fields["num_layers"] = layers;
      runs.push_back(run);
    }
    ++layers;
  }
  const Ablations result = of(runs, [](const hwdb::RunRecord& record) {
    if (record.id == "on7") throw Error("unknown");
    return compiled_takes(9.0)(record);
  });
  const AblationErrors& all = result.all;
  EXPECT_EQ(all.pairs, 4);
  EXPECT_EQ(all.decided, 3);
  EXPECT_EQ(all.right, 1);
  EXPECT_NEAR(*all.sign_accuracy(), 1.0 / 3.0, 1e-12);
  EXPECT_NEAR(*all.median_error, (std::log(9.0 / 8.0) + std::log(12.5 / 9.0)) / 2.0, 1e-12);
  EXPECT_EQ(*all.worst_error, 1.0);
  EXPECT_EQ(all.memory_pairs, 0);
  EXPECT_FALSE(all.memory_median_error);
  EXPECT_NEAR(*result.study_sign_accuracy, 1.0 / 3.0, 1e-12);
}

TEST(Ablations, WithoutDecidedPairsThereIsNoAccuracy) {
  const Ablations result =
      of({compiled("off", 10.0, false), compiled("on", 9.9, true)}, compiled_takes(9.0));
  EXPECT_EQ(result.all.pairs, 1);
  EXPECT_FALSE(result.all.sign_accuracy());
  EXPECT_FALSE(result.study_sign_accuracy);
  EXPECT_NEAR(*result.study_median_error, std::log(9.9 / 9.0), 1e-12);
  EXPECT_FALSE(of({}, compiled_takes(9.0)).study_median_error);
}

// Printed to tenths, 1.0 and 1.1 may be 1.05 and 1.05: 5 and 4.5 %, together more than ln 1.1.
TEST(Ablations, RoundingOfBothTimesIsNoise) {
  const auto decided = [](double off, double on) {
    return of({compiled("off", off, false), compiled("on", on, true)}, compiled_takes(9.0))
        .all.decided;
  };
  EXPECT_EQ(decided(1.0, 1.1), 0);
  EXPECT_EQ(decided(1.0, 1.2), 1);
  EXPECT_EQ(decided(1.0, 1.1234), 1);  // 5 % alone
}

// Twice 5 %, whichever run states them.
TEST(Ablations, TheLargerStatedNoiseCounts) {
  for (const std::size_t noisy : {0u, 1u}) {
    std::vector runs{compiled("off", 10.0, false), compiled("on", 9.4, true)};
    runs[noisy].noise = 0.05, runs[1 - noisy].noise = 0.001;
    EXPECT_NEAR(of(runs, compiled_takes(9.0)).pairs.front().noise, 0.1, 1e-12);
  }
}

hwdb::RunRecord with_peak(hwdb::RunRecord run, double bytes) {
  run.measured->peak_memory = sim::Bytes(bytes);
  run.scored.memory = true;
  return run;
}

// Measured 30 / 40, predicted 36 / 40.
TEST(Ablations, PeaksHaveErrorsOfTheirOwn) {
  const Predictor predict = [](const hwdb::RunRecord& record) {
    sim::Prediction prediction = compiled_takes(9.0)(record);
    prediction.memory.peak = sim::Bytes(record.id == "on" ? 36e9 : 40e9);
    return prediction;
  };
  hwdb::RunRecord off = with_peak(compiled("off", 10.0, false), 40e9),
                  on = with_peak(compiled("on", 8.0, true), 30e9);
  const Ablations both = of({off, on}, predict);
  ASSERT_EQ(both.pairs.size(), 1u);
  EXPECT_EQ(both.all.pairs, 1);
  EXPECT_EQ(both.all.memory_pairs, 1);
  EXPECT_NEAR(*both.all.memory_median_error, std::log(36.0 / 30.0), 1e-12);
  off.scored.step_time = on.scored.step_time = false;
  const Ablations alone = of({off, on}, predict);
  EXPECT_EQ(alone.all.pairs, 0);
  EXPECT_EQ(alone.all.decided, 0);
  EXPECT_EQ(alone.all.memory_pairs, 1);
  EXPECT_FALSE(alone.pairs.front().measured_time);
  // Nothing is predicted: an error of one.
  EXPECT_EQ(*of({off, on}, compiled_takes(9.0)).all.memory_median_error, 1.0);
  // Of one run alone, or of another kind, there is no ratio.
  hwdb::RunRecord other = on;
  other.measured->memory_kind = "allocated";
  EXPECT_TRUE(of({off, other}, predict).pairs.empty());
  other = on;
  other.scored.memory = false;
  EXPECT_TRUE(of({off, other}, predict).pairs.empty());
}

// Of five micro-batches the second has a peak alone and the third nothing that is scored: the times of
// the first and fourth are neighbours.
TEST(Ablations, RunsWithoutATimeDoNotPartThoseThatHaveOne) {
  hwdb::RunRecord peak = with_peak(batched("two", 1.0, 2), 40e9);
  peak.scored.step_time = false;
  hwdb::RunRecord unscored = batched("three", 1.0, 3);
  unscored.scored.step_time = false;
  const Ablations result = of(
      {batched("one", 10.0, 1), peak, unscored, batched("four", 9.0, 4), batched("eight", 8.0, 8)},
      compiled_takes(9.0));
  ASSERT_EQ(result.pairs.size(), 2u);
  EXPECT_EQ(result.pairs[0].off_id + " " + result.pairs[0].on_id, "four eight");
  EXPECT_EQ(result.pairs[1].off_id + " " + result.pairs[1].on_id, "one four");
}

// Of the three values of a setting that is no scale any two are a pair.
TEST(Ablations, KindsArePairedWithEachOther) {
  std::vector<hwdb::RunRecord> runs;
  for (const char* kind : {"none", "selective", "full"}) {
    runs.push_back(timed(kind, 10.0));
    runs.back().training.strategy["recompute.kind"] = kind;
  }
  const Ablations result = of(runs, compiled_takes(9.0));
  EXPECT_EQ(result.pairs.size(), 3u);
  for (const AblationPair& pair : result.pairs)
    EXPECT_LT(pair.off == "full", pair.on == "full" || pair.on == "selective") << pair.off;
}

TEST(Ablations, AStatedSpeedUpHasNoiseOfItsOwnAndMayHaveNoPrediction) {
  hwdb::Comparison stated;
  stated.setting = "compile";
  stated.off = compiled("x", 1.0, false);
  stated.on = compiled("x", 1.0, true);
  stated.speedup = 0.25;
  const AblationPair pair = of({}, compiled_takes(9.0), {stated}).pairs.front();
  EXPECT_EQ(pair.off_id, "x without");
  EXPECT_EQ(pair.on_id, "x");
  EXPECT_EQ(pair.noise, 0.02);
  stated.noise = 0.15;
  EXPECT_NEAR(of({}, compiled_takes(9.0), {stated}).pairs.front().noise, 0.3, 1e-12);
  // A step of 0 s is that of a run that cannot be.
  const Ablations without = of({}, compiled_takes(0.0), {stated});
  EXPECT_FALSE(without.pairs.front().predicted_time);
  EXPECT_EQ(*without.all.median_error, 1.0);
}

TEST(Rounding, IsHalfAUnitOfTheLastPrintedDigitOfTheSourcesFigure) {
  hwdb::Measured measured;
  measured.step_time = Seconds(4.369067);
  EXPECT_NEAR(rounding(measured), 0.5e-6 / 4.369067, 1e-12);
  measured.step_time_derived_from = "tokens_per_s_per_device";
  measured.tokens_per_second_per_device = 7500.0;
  EXPECT_NEAR(rounding(measured), 50.0 / 7500.0, 1e-12);
  measured.tokens_per_second_per_device = 60.0;  // at least two digits
  EXPECT_NEAR(rounding(measured), 0.5 / 60.0, 1e-12);
}

// The value that a study printed, not the step time that follows from it.
TEST(Rounding, IsThatOfTheRateThatWasPrinted) {
  hwdb::Measured measured;
  EXPECT_EQ(rounding(measured), 0.0);
  measured.step_time = Seconds(4.369067);
  measured.reported_mfu = 0.43;
  measured.reported_tflops_per_device = 425.5;
  measured.step_time_derived_from = "mfu";
  EXPECT_NEAR(rounding(measured), 0.005 / 0.43, 1e-12);
  measured.step_time_derived_from = "tflops_per_device";
  EXPECT_NEAR(rounding(measured), 0.05 / 425.5, 1e-12);
  // What is not there cannot have been printed.
  measured.step_time_derived_from = "tokens_per_s";
  EXPECT_NEAR(rounding(measured), 0.05 / 425.5, 1e-12);
  measured.reported_tflops_per_device.reset();
  EXPECT_NEAR(rounding(measured), 0.5e-6 / 4.369067, 1e-12);
}

}  // namespace
}  // namespace llmsim::calibrate
