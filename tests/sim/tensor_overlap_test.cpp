#include "sim/cost/tensor_overlap.h"

#include <gtest/gtest.h>

#include "sim/cost/layer_prices.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Four pieces of a GEMM of `whole`, each `piece`; `messages` of them 3 (a ring of copies) or 4 (scattered sums).
BesideTimes four_pieces(double collective, double whole, double piece, int messages, double loss) {
  return pipelined(Seconds(collective), {.whole = Seconds(whole), .piece = Seconds(piece)}, 4, messages, loss);
}
double shown(double collective, double whole, double piece, int messages = 3) {
  return four_pieces(collective, whole, piece, messages, 0.0).exposed.value();
}

TEST(TensorOverlap, APipelineShowsWhatItsPiecesCannotHide) {
  // A GEMM of 8 computes 2 + 3 * 2.  Messages of 1 each hide; of 3 each set the pace: 2 + 3 * 3 - 8 = 3.
  EXPECT_DOUBLE_EQ(shown(3.0, 8.0, 2.0), 0.0);
  EXPECT_DOUBLE_EQ(shown(9.0, 8.0, 2.0), 3.0);
}

TEST(TensorOverlap, TheLastScatteredPieceShows) {
  // Four messages of 1: three hide beside pieces of 2, the last has nothing left to hide behind.
  EXPECT_DOUBLE_EQ(shown(4.0, 8.0, 2.0, 4), 1.0);
  // Of 3 each: 2 + 3 * 3 + 3 - 8 = 6.
  EXPECT_DOUBLE_EQ(shown(12.0, 8.0, 2.0, 4), 6.0);
}

TEST(TensorOverlap, SmallPiecesOfAGemmRunLessWell) {
  // Pieces of 2.5 instead of 2: 2.5 + 3 * 2.5 - 8 = 2.  Never more than the collective by itself.
  EXPECT_DOUBLE_EQ(shown(3.0, 8.0, 2.5), 2.0);
  EXPECT_DOUBLE_EQ(shown(3.0, 8.0, 100.0), 3.0);
}

TEST(TensorOverlap, PiecesBesideAMessageAreSlowedDown) {
  // Loss 0.25.  Messages of 1 each beside pieces of 2: while one travels 0.75 of the piece is done, so it takes 0.25 longer.
  const BesideTimes hidden = four_pieces(3.0, 8.0, 2.0, 3, 0.25);
  EXPECT_DOUBLE_EQ(hidden.slowdown.value(), 3 * 0.25);
  EXPECT_DOUBLE_EQ(hidden.exposed.value(), 0.0);
  // Messages of 4 outlast pieces of 2 / 0.75: what the pieces lose the messages show less.
  const BesideTimes paced = four_pieces(12.0, 8.0, 2.0, 3, 0.25);
  EXPECT_NEAR(paced.slowdown.value(), 3 * (2.0 / 0.75 - 2.0), 1e-12);
  EXPECT_NEAR((paced.exposed + paced.slowdown).value(), 2.0 + 3 * 4.0 - 8.0, 1e-12);
}

// Two ranks, 8192 tokens, and a fabric so fast that every collective is far shorter than its GEMM.
TrainingRun tensor_run() {
  TrainingRun run = small_run(2);
  run.strategy.tp = 2;
  run.strategy.dp = 1;
  run.strategy.sequence_parallel = true;
  run.strategy.micro_batch = run.strategy.global_batch = 8;
  run.cluster.fabric.device_bandwidth = 10.0 * TBps;
  return run;
}

TEST(TensorOverlap, WithoutItEveryCollectiveShows) {
  const BlockPrice block = layer_prices(tensor_run()).block;
  EXPECT_GT(block.forward.collective, Seconds(0.0));
  EXPECT_EQ(block.forward.collective_exposed, block.forward.collective);
  EXPECT_EQ(block.backward.collective_exposed, block.backward.collective);
}

TEST(TensorOverlap, GradientsThatNeedNothingOfThemHideFourOfSixBackwardCollectives) {
  // Two blocks halves, each: input gathered again (beside dgrad), column gradient scattered (beside wgrad), row gradient gathered
  // (needed by all GEMMs).  Gathers and scatters of the same message take the same time.
  TrainingRun run = tensor_run();
  run.framework.hides_column_gradients = true;
  const BlockPrice block = layer_prices(run).block;
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 2.0 / 6.0, 1e-9);
  EXPECT_EQ(block.forward.collective_exposed, block.forward.collective);
}

TEST(TensorOverlap, RingsOfCopiesHideThemAll) {
  // GEMMs of this device cost flops / peak however small, so pieces add up to the whole.
  TrainingRun run = tensor_run();
  run.strategy.tp_overlap = true;
  const BlockPrice block = layer_prices(run).block;
  EXPECT_NEAR(block.forward.collective_exposed / block.forward.collective, 0.0, 1e-9);
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 0.0, 1e-9);
}

TEST(TensorOverlap, TransformerEngineShowsTheLastScatteredPiece) {
  TrainingRun run = tensor_run();
  run.strategy.tp_overlap = true;
  run.framework.reserve.transformer_engine = true;
  const BlockPrice block = layer_prices(run).block;
  // Half of the collectives gather before a GEMM and hide; half scatter its sums in four pieces, of which the last shows.
  EXPECT_NEAR(block.forward.collective_exposed / block.forward.collective, 0.5 * 0.25, 1e-9);
  EXPECT_NEAR(block.backward.collective_exposed / block.backward.collective, 0.0, 1e-9);
  EXPECT_EQ(block.forward.contention, Seconds(0.0));
}

TEST(TensorOverlap, CopiesTakeNoUnitsButScatteredSumsDo) {
  // 16 of 64 units: GEMMs lose 1/4 of their rate beside three of four messages of the scatters, half of the collectives.
  TrainingRun run = tensor_run();
  run.strategy.tp_overlap = true;
  run.framework.reserve.transformer_engine = true;
  run.cluster.device.compute_units = 64;
  run.cluster.device.achieved.collective_unit_bandwidth = 12.5 * GBps;
  const BlockPrice block = layer_prices(run).block;
  EXPECT_NEAR(block.forward.contention / block.forward.collective, 0.5 * 0.75 * 0.25, 1e-9);
}

}  // namespace
}  // namespace llmsim::sim
