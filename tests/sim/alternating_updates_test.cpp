// AltUp and LAuReL as Gemma 3n has them: weights, operators, tensors.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/model/flops.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/predict.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Width 1024, four streams, a bottleneck of 64.
TrainingRun streams_run(int num_devices = 1) {
  TrainingRun run = small_run(num_devices);
  run.model.norm = Norm::RmsNorm, run.model.bias = {};
  run.model.residual_streams = 4;
  run.model.alternating_updates = true;
  run.model.laurel_rank = 64;
  return run;
}

TrainingRun plain_run(int num_devices = 1) {
  TrainingRun run = streams_run(num_devices);
  run.model.residual_streams = 1, run.model.alternating_updates = false;
  run.model.laurel_rank.reset();
  return run;
}

LayerGraph block_of(const TrainingRun& run) {
  return lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
}

// A layer: (h, 4), 4 * 4 and 4 * 16 coefficients, a norm and a scale; (h, 64), (64, h) and a norm.
// The model: three (h, h) behind the embedding, and three before the head.
TEST(AlternatingUpdates, HaveTheirWeights) {
  const std::int64_t layer = block_parameters(streams_run().model, 0).total() -
                             block_parameters(plain_run().model, 0).total();
  EXPECT_EQ(layer, 4 * 1024 + 16 + 64 + 2 * 1024 + 2 * 64 * 1024 + 1024);
  EXPECT_EQ(parameters(streams_run().model).total() - parameters(plain_run().model).total(),
            streams_run().model.num_layers * layer + 6 * 1024 * 1024);
  EXPECT_EQ(parameters(streams_run().model).inactive, 0);
}

// The router multiplies twice, before and after the layer.
TEST(AlternatingUpdates, MultiplyOneStream) {
  const double tokens = 1024.0;
  EXPECT_DOUBLE_EQ(
      gemm_flops(block_of(streams_run()).forward) - gemm_flops(block_of(plain_run()).forward),
      2.0 * tokens * (2 * 4 * 1024 + 2 * 64 * 1024));
  const TrainingRun streams = streams_run(), plain = plain_run();
  EXPECT_DOUBLE_EQ(
      gemm_flops(lower_head(streams.model, streams.strategy, streams.framework).forward) -
          gemm_flops(lower_head(plain.model, plain.strategy, plain.framework).forward),
      2.0 * tokens * 3 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(
      gemm_flops(lower_embedding(streams.model, streams.strategy, streams.framework).forward),
      2.0 * tokens * 3 * 1024 * 1024);
  EXPECT_NEAR(predict(streams).hardware_flops / predict(streams).model_flops, 1.0, 1e-9);
}

// Four streams of 2 bytes a value go from stage to stage, and are kept in the place of one.
TEST(AlternatingUpdates, KeepAllStreams) {
  EXPECT_GE(saved_bytes(block_of(streams_run())) - saved_bytes(block_of(plain_run())),
            Bytes(4.0 * 1024 * 1024 * 2));
  EXPECT_EQ(stream_size(streams_run().model), 4096);
  EXPECT_GT(predict(streams_run()).memory.peak, predict(plain_run()).memory.peak);
}

// Each tensor rank works on its own tokens where these are divided.
TEST(AlternatingUpdates, AreNotDivided) {
  TrainingRun run = streams_run(8);
  run.strategy.tp = 8, run.strategy.dp = 1;
  const Operator whole = named(block_of(run).forward, "laurel_down");
  EXPECT_EQ(whole.m, 1024);
  run.strategy.sequence_parallel = true;
  EXPECT_EQ(named(block_of(run).forward, "laurel_down").m, 128);
}

TEST(AlternatingUpdates, NeedStreamsAndAttention) {
  TrainingRun run = streams_run();
  run.model.residual_streams = 1;
  EXPECT_THROW(run.model.validate(), Error);
  run = streams_run();
  run.model.parallel_block = true;
  EXPECT_THROW(run.model.validate(), Error);
}

}  // namespace
}  // namespace llmsim::sim
