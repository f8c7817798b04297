#include "sim/memory/footprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/memory/shards.h"
#include "sim/pipeline/stage_order.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

Memory footprint(const TrainingRun& run) {
  const LayerPrices prices = layer_prices(run);
  Memory memory = memory_footprint(run, prices);
  explain_peaks(memory, run, prices);
  return memory;
}

// The highest point of a phase of stage `stage`.
MemoryPhase phase(const TrainingRun& run, const std::string& name, int stage = 0) {
  for (const MemoryPhase& one : memory_timeline(run, layer_prices(run), stage)) {
    if (name == one.phase) return one;
  }
  ADD_FAILURE() << name;
  return {};
}

double term(const StageMemory& stage, const std::string& name) {
  for (const MemoryTerm& t : stage.terms) {
    if (name == t.name) return t.size.value();
  }
  return 0.0;
}

// What a norm saves beside its input: 2 values of 2 bytes for each of 1024 tokens.

TEST(Footprint, MixedPrecisionAdamHoldsSixteenBytesPerParameter) {
  // 2 weights + 2 gradients + 4 master + 8 states; accumulation keeps gradients through the step.
  const TrainingRun run = small_run();
  const StageMemory stage = footprint(run).stages[0];
  const double states = term(stage, "weights") + term(stage, "gradients") +
                        term(stage, "master_weights") + term(stage, "optimizer_states");
  EXPECT_DOUBLE_EQ(states, 16.0 * parameter_count(run));
}

// 8 blocks of 12 h^2 + 13 h parameters and the head's table, cast once for the step's micro-batch.
TEST(Footprint, AutocastHoldsSixteenBitWeightsToTheirBackwardPass) {
  TrainingRun run = small_run();
  run.strategy.global_batch = 1;
  run.framework.fusion = ElementwiseFusion::Eager;
  run.framework.casts_weights_per_microbatch = true;
  run.framework.storage = {.weight_bytes = 4, .gradient_bytes = 4, .master_bytes = 0};
  const auto cast = [&](const char* name) {
    return term({.terms = phase(run, name).terms}, "cast_weights");
  };
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  EXPECT_DOUBLE_EQ(cast("loss"), 2.0 * (8.0 * rank.without_divided(0) +
                                        (rank.tied ? rank.embedding : rank.head)));
  EXPECT_DOUBLE_EQ(cast("update"), 0.0);
  run.strategy.recompute = {RecomputeKind::Full, 1};
  EXPECT_DOUBLE_EQ(cast("loss"), 2.0 * (8.0 * rank.without_divided(0) +
                                        (rank.tied ? rank.embedding : rank.head)));
  EXPECT_DOUBLE_EQ(cast("backward"), 2.0 * rank.without_divided(0));
  run.strategy.compile = true;  // compiled blocks cast where they read
  EXPECT_DOUBLE_EQ(cast("loss"), 0.0);
}

TEST(Footprint, TermsAddUpToThePeak) {
  for (const auto sharding : {Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3}) {
    TrainingRun run = small_run(8);
    run.strategy.sharding = sharding;
    const StageMemory stage = footprint(run).stages[0];
    double sum = 0.0;
    for (const MemoryTerm& t : stage.terms) sum += t.size.value();
    EXPECT_DOUBLE_EQ(sum, stage.peak.value());
  }
}

TEST(Footprint, ShardingDividesItsStatesByTheRanks) {
  TrainingRun run = small_run(8);
  const double n = parameter_count(run);
  const auto shares = [&](Sharding sharding) {
    run.strategy.sharding = sharding;
    const StageMemory stage = footprint(run).stages[0];
    return std::array<double, 3>{
        term(stage, "weights") / n, term(stage, "gradients") / n,
        (term(stage, "optimizer_states") + term(stage, "master_weights")) / n};
  };
  EXPECT_EQ(shares(Sharding::None), (std::array<double, 3>{2.0, 2.0, 12.0}));
  EXPECT_EQ(shares(Sharding::Zero1), (std::array<double, 3>{2.0, 2.0, 1.5}));
  EXPECT_EQ(shares(Sharding::Zero3), (std::array<double, 3>{0.25, 0.25, 1.5}));
  // A rank has its share of gradients after a reduction; the peak is before the step's only one.
  EXPECT_EQ(shares(Sharding::Zero2), (std::array<double, 3>{2.0, 0.0, 1.5}));
  run.framework.gradients.reduced_every_microbatch = true;
  EXPECT_EQ(shares(Sharding::Zero2), (std::array<double, 3>{2.0, 0.25, 1.5}));
}

TEST(Footprint, DividedGradientsAreWholeUntilTheStepsOnlyReduction) {
  TrainingRun run = small_run(8);
  run.model.vocab_size = 64;  // logits that weigh nothing
  run.strategy.sharding = Sharding::Zero2;
  const auto buffers = [&](const char* name) {
    return term({.terms = phase(run, name).terms}, "gradient_buffers");
  };
  const double whole = 2.0 * parameter_count(run);
  EXPECT_DOUBLE_EQ(buffers("loss"), whole);  // of the second micro-batch
  EXPECT_DOUBLE_EQ(buffers("backward"), whole);
  EXPECT_EQ(buffers("update"), 0.0);
  run.framework.gradients.reduced_every_microbatch = true;
  EXPECT_EQ(buffers("loss"), 0.0);
  // Of weights that are gathered for each pass too, where they wait: in the format of the reduction.
  run.strategy.sharding = Sharding::Zero3;
  run.framework.gradients.reduced_in_fp32 = true;
  EXPECT_EQ(buffers("loss"), 0.0);
  run.framework.gradients.reduced_every_microbatch = std::nullopt;
  EXPECT_EQ(buffers("loss"), 0.0);
  run.framework.gradients.reduced_every_microbatch = false;
  EXPECT_DOUBLE_EQ(buffers("loss"), 2.0 * whole);
  EXPECT_EQ(buffers("update"), 0.0);
}

TEST(Footprint, LogitsLiveInSixteenAndTwiceThirtyTwoBits) {
  // t V (2 + 4 + 4) bytes: 1024 * 32768 * 10.
  const TrainingRun run = small_run();
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "logits"), 1024.0 * 32768.0 * 10.0);
}

TEST(Footprint, AnOptimizerInTheBackwardPassHoldsOneGradient) {
  TrainingRun run = small_run();
  run.strategy.global_batch = 1;
  run.strategy.fused_cross_entropy = true;
  run.strategy.recompute = {RecomputeKind::Full, 1};
  run.framework.update.temporary_bytes = 100.0;  // the update is the peak
  const auto at_update = [&] {
    const StageMemory stage = footprint(run).stages[0];
    EXPECT_STREQ(stage.phase, "update");
    return std::pair{term(stage, "gradients"), term(stage, "optimizer_temporaries")};
  };
  EXPECT_EQ(at_update(), std::pair(2.0 * parameter_count(run), 100.0 * parameter_count(run)));
  run.framework.update.in_backward = true;
  const double largest = rank_parameters(run.model, run.strategy).embedding;  // 33792 * 1024
  const auto [gradients, temporaries] = at_update();
  EXPECT_NEAR(gradients, 2.0 * largest, 1.0);
  EXPECT_NEAR(temporaries, 100.0 * largest, 100.0);
}

TEST(Footprint, AnUpdateUnitByUnitHasTheTemporariesOfTheLargest) {
  TrainingRun run = small_run(8);
  run.framework.update.fused = false;  // a denominator of 4 bytes
  const auto temporaries = [&](Sharding sharding) {
    run.strategy.sharding = sharding;
    return term({.terms = phase(run, "update").terms}, "optimizer_temporaries");
  };
  EXPECT_DOUBLE_EQ(temporaries(Sharding::None), 4.0 * parameter_count(run));
  run.framework.update.unit_by_unit = true;
  const double embedding = (32768.0 + 1024.0) * 1024.0;
  EXPECT_DOUBLE_EQ(temporaries(Sharding::None), 4.0 * embedding);
  EXPECT_DOUBLE_EQ(temporaries(Sharding::Zero1), 4.0 * embedding / 8.0);
}

TEST(Footprint, TheFirstStageOfAPipelineHoldsMostMicroBatches) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4;
  const Memory memory = footprint(run);
  const double block = layer_prices(run).blocks[0].saved.value();
  // 2 blocks a stage; 4, 3, 2, 1 micro-batches in flight.
  EXPECT_DOUBLE_EQ(term(memory.stages[0], "activations"), 4 * 2 * block);
  EXPECT_DOUBLE_EQ(term(memory.stages[2], "activations"), 2 * 2 * block);
  EXPECT_GT(term(memory.stages[1], "activations"), term(memory.stages[2], "activations"));
}

TEST(Footprint, RecomputationShrinksActivations) {
  TrainingRun run = small_run();
  const auto activations = [&](Recompute recompute) {
    run.strategy.recompute = recompute;
    return term(footprint(run).stages[0], "activations");
  };
  const double none = activations({RecomputeKind::None, 1}),
               half = activations({RecomputeKind::EveryN, 2});
  const double full = activations({RecomputeKind::Full, 1});
  EXPECT_LT(full, half);
  EXPECT_LT(half, none);
  EXPECT_DOUBLE_EQ(activations({RecomputeKind::EveryN, 1}), full);
}

TEST(Footprint, AdaptersTrainOnlyTheirOwnParameters) {
  TrainingRun run = small_run();
  run.strategy.adapters = Adapters{.rank = 8};
  const StageMemory stage = footprint(run).stages[0];
  // q and v of 8 layers: rank * (in + out) = 8 * 2048 each.
  const double trained = 8.0 * 2.0 * 8.0 * 2048.0;
  EXPECT_DOUBLE_EQ(term(stage, "optimizer_states"), 8.0 * trained);
  EXPECT_DOUBLE_EQ(term(stage, "weights"), 2.0 * parameter_count(run) + 2.0 * trained);
}

TEST(Footprint, OffloadMovesTheOptimizerToTheHost) {
  TrainingRun run = small_run();
  run.strategy.offload.optimizer = true;
  const Memory memory = footprint(run);
  EXPECT_EQ(term(memory.stages[0], "optimizer_states"), 0.0);
  // And fp32 gradients.
  EXPECT_DOUBLE_EQ(memory.host.device.value(), (12.0 + 4.0) * parameter_count(run));
}

TEST(Footprint, ThePeakIsTheHighestPhaseOfTheTimeline) {
  for (const auto recompute : {RecomputeKind::None, RecomputeKind::Full}) {
    TrainingRun run = small_run(8);
    run.strategy.dp = 2, run.strategy.pp = 4;
    run.strategy.recompute.kind = recompute;
    const LayerPrices prices = layer_prices(run);
    const Memory memory = memory_footprint(run, prices);
    ASSERT_EQ(memory.stages.size(), 4u);
    for (const StageMemory& stage : memory.stages) {
      Bytes highest{};
      for (const MemoryPhase& one : memory_timeline(run, prices, stage.stage)) {
        highest = std::max(highest, one.allocated);
        Bytes sum{};
        for (const MemoryTerm& t : one.terms) sum += t.size;
        EXPECT_DOUBLE_EQ(sum.value(), one.allocated.value());
      }
      EXPECT_EQ(stage.peak, highest);
    }
  }
}

TEST(Footprint, TheTimelineHasThePhasesOfAStepAndOnlyTheLastStageHasALoss) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4;
  const auto names = [&](int stage) {
    std::string all;
    for (const MemoryPhase& one : memory_timeline(run, layer_prices(run), stage))
      all += std::string(one.phase) + " ";
    return all;
  };
  EXPECT_EQ(names(0), "idle forward backward update ");
  EXPECT_EQ(names(3), "idle forward loss backward update ");
}

TEST(Footprint, MainGradientsLiveOnlyWhileTheOptimizerRuns) {
  TrainingRun run = small_run();
  run.framework.storage.main_gradient_bytes = 4.0;
  for (const MemoryPhase& one : memory_timeline(run, layer_prices(run), 0)) {
    const double main = term({.terms = one.terms}, "main_gradients");
    EXPECT_EQ(main, std::string(one.phase) == "update" ? 4.0 * parameter_count(run) : 0.0)
        << one.phase;
  }
}

TEST(Footprint, TheHeadCountsOnceUnderAnInterleavedSchedule) {
  // 4 stages of 2 chunks of 1 block: the last stage holds (2 - 1) * 4 + 1 = 5 forward passes, one
  // of them through the head.
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.virtual_stages = 2;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  const LayerPrices prices = layer_prices(run);
  const double input = 2.0 * kTokens * kHidden;  // of the head
  EXPECT_DOUBLE_EQ(
      term({.terms = phase(run, "loss", 3).terms}, "activations"),
      input + (5.0 * prices.blocks[0].saved + prices.head.memory.forward.net.activations).value());
}

TrainingRun four_stages(PipelineSchedule schedule) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.pipeline_schedule = schedule;
  run.strategy.virtual_stages = is_v_shaped(schedule) ? 2 : 1;
  return run;
}

TEST(Footprint, WaitingWeightGradientsKeepTheFactorsOfTheirGemms) {
  // Two blocks a stage.  Stage 2 of ZB-H1 has 2 micro-batches whole and 2 waiting.
  const TrainingRun run = four_stages(PipelineSchedule::ZbH1);
  const LayerPrices prices = layer_prices(run);
  // While the last block of a forward pass runs, its output, which is then sent, is there too.
  const Bytes whole = prices.blocks[0].saved, waiting = prices.blocks[0].weight_inputs;
  const Bytes output(1024.0 * 1024.0 * 2.0);
  EXPECT_EQ(term({.terms = phase(run, "forward", 2).terms}, "activations"),
            (2.0 * 2.0 * (whole + waiting) + output).value());
  // Inputs of qkv, output, up and down, h h h 4h, and the gradients 3h h 4h h of what they give: 16
  // h, times 1024 tokens in bf16.
  EXPECT_DOUBLE_EQ(prices.blocks[0].weight_inputs.value(), 16.0 * 1024.0 * 1024.0 * 2.0);
}

// Each of two chunks a stage has one block.
TEST(Footprint, VsHoldTheActivationsOfTheirChunksInFlight) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::ZbV, PipelineSchedule::VHalf, PipelineSchedule::VMin}) {
    TrainingRun run = four_stages(schedule);
    run.strategy.global_batch = 16;
    const LayerPrices prices = layer_prices(run);
    const int chunks = peak_in_flight(pipeline_shape(run.strategy), 1);
    // What the last block of a forward pass gives, and then sends, is there too.
    const Bytes output(1024.0 * 1024.0 * 2.0), most = chunks * prices.blocks[0].saved + output;
    EXPECT_NEAR(term({.terms = phase(run, "forward", 1).terms}, "activations"), most.value(),
                0.2 * output.value())
        << name_of(schedule);
  }
}

TEST(Footprint, DualPipeHoldsItsParametersTwice) {
  const Memory usual = footprint(four_stages(PipelineSchedule::OneForwardOneBackward));
  const Memory dual = footprint(four_stages(PipelineSchedule::DualPipe));
  // Stage 0 has the parts of stages 0 and 3, stage 1 those of 1 and 2; stages 3 and 2 the same.
  EXPECT_DOUBLE_EQ(term(dual.stages[0], "weights"),
                   term(usual.stages[0], "weights") + term(usual.stages[3], "weights"));
  EXPECT_DOUBLE_EQ(term(dual.stages[1], "weights"),
                   term(usual.stages[1], "weights") + term(usual.stages[2], "weights"));
  EXPECT_DOUBLE_EQ(term(dual.stages[2], "weights"), term(dual.stages[1], "weights"));
  EXPECT_DOUBLE_EQ(term(dual.stages[3], "optimizer_states"),
                   term(dual.stages[0], "optimizer_states"));
}

// Its second half of stages is not walked.
TEST(Footprint, ADualPipeHoldsTheSameFromBothEnds) {
  const TrainingRun run = four_stages(PipelineSchedule::DualPipe);
  const LayerPrices prices = layer_prices(run);
  const StageContents contents(run);
  const Memory memory = memory_footprint(run, prices);
  for (int stage = 0; stage < 4; ++stage) {
    const StageMemory& own = memory.stages[static_cast<std::size_t>(stage)];
    EXPECT_EQ(own.stage, stage);
    EXPECT_EQ(own.peak, stage_peak(run, prices, contents, stage).peak);
  }
}

TEST(Footprint, TheFirstStageOfAVMakesTheLogits) {
  const TrainingRun run = four_stages(PipelineSchedule::ZbV);
  const LayerPrices prices = layer_prices(run);
  const auto has_loss = [&](int stage) {
    const std::vector<MemoryPhase> timeline = memory_timeline(run, prices, stage);
    return std::any_of(timeline.begin(), timeline.end(),
                       [](const MemoryPhase& one) { return std::string("loss") == one.phase; });
  };
  EXPECT_TRUE(has_loss(0));
  EXPECT_FALSE(has_loss(3));
}

TEST(Footprint, StageOutputsAreKeptForEveryMicroBatchInFlight) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4;
  const double without = term(footprint(run).stages[0], "activations");
  run.framework.saved.stage_outputs = true;
  // 4 in flight of 1024 tokens x 1024 values x 2 bytes.
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "activations") - without,
                   4.0 * 1024.0 * 1024.0 * 2.0);
}

TEST(Footprint, PartitionedCheckpointsAreDividedByTheTensorRanksAndGatheredOneAtATime) {
  TrainingRun run = small_run(4);
  run.model.vocab_size = 64;  // logits that weigh nothing
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.recompute.kind = RecomputeKind::Full;
  run.strategy.micro_batch = 8;
  const MemoryPhase whole = phase(run, "backward");
  run.framework.saved.partitioned_checkpoints = true;
  const MemoryPhase divided = phase(run, "backward");
  // Eight checkpoints of t h 2 bytes: three quarters of each go, and come back of the block at
  // hand, whose input is whole.
  EXPECT_DOUBLE_EQ((whole.allocated - divided.allocated).value(),
                   (8.0 - 1.0) * 0.75 * 8.0 * 1024.0 * 1024.0 * 2.0);
}

TEST(Footprint, CheckpointsCountedInHalfBlocksBringBackHalfAsMuch) {
  TrainingRun run = small_run();
  run.model.vocab_size = 64;  // logits that weigh nothing
  run.strategy.recompute = {RecomputeKind::Full, 2};
  const Bytes everything = layer_prices(run).blocks[0].memory.everything;
  const auto restored = [&] {
    return term({.terms = phase(run, "backward").terms}, "recomputed_activations");
  };
  const double both = restored();
  run.framework.saved.parts_per_block = 2.0;
  EXPECT_DOUBLE_EQ(both - restored(), everything.value());
}

TEST(Footprint, GatheredWeightsStayUpToTheLiveLimit) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  const auto gathered = [&](double limit) {
    run.framework.sharded.live_parameters = limit;
    return term(footprint(run).stages[0], "gathered_weights");
  };
  EXPECT_DOUBLE_EQ(gathered(1e8), 2e8);                          // 16-bit copies of 1e8 parameters
  EXPECT_DOUBLE_EQ(gathered(1e12), 2.0 * parameter_count(run));  // never more than there are
  EXPECT_GE(gathered(1.0), 2.0 * 32768.0 * 1024.0);              // never less than the embedding
}

TEST(Footprint, WeightsThatAreNotFreedAfterForwardAreAllThere) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  run.framework.sharded.regathers_in_backward = false;
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "gathered_weights"), 2.0 * parameter_count(run));
}

TEST(Footprint, AWholeModelAsOneUnitGathersAllItsBlocks) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  const auto gathered = [&](double unit) {
    run.framework.sharded.unit_blocks = unit;
    return term(footprint(run).stages[0], "gathered_weights");
  };
  // Two units of one block and the larger end; all eight blocks and the end.
  const double block = (gathered(0.0) - gathered(1.0)) / (run.model.num_layers - 2.0);
  EXPECT_DOUBLE_EQ(block, 2.0 * rank_parameters(run.model, run.strategy).kinds[0].own);
}

TEST(Footprint, BucketsThatCopyHoldReplicatedGradientsTwice) {
  TrainingRun run = small_run(8);
  run.framework.gradients.copied_into_buckets = true;
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "gradient_buckets"), 2.0 * parameter_count(run));
  run.strategy.sharding = Sharding::Zero1;
  EXPECT_EQ(term(footprint(run).stages[0], "gradient_buckets"), 0.0);
}

TEST(Footprint, FrozenWeightsThatNothingFreesStayGathered) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  run.strategy.adapters = Adapters{.rank = 8};
  run.framework.sharded.keeps_frozen = true;
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "gathered_weights"), 2.0 * parameter_count(run));
}

TEST(Footprint, ReservedBytesAreThoseThatLastAndTheOthersWithTheirGaps) {
  TrainingRun run = small_run();
  run.framework.reserve.fragmentation = 1.25;
  run.framework.update.temporary_bytes = 2.0;
  const LayerPrices prices = layer_prices(run);
  const StageMemory stage = footprint(run).stages[0];
  const Bytes idle = memory_timeline(run, prices, 0)[0].allocated;
  ASSERT_STREQ(stage.phase, "loss");
  EXPECT_DOUBLE_EQ(stage.reserved.value(),
                   (idle + 1.25 * (stage.peak - idle)).value() + 2.0 * parameter_count(run));
}

TEST(Footprint, AVerdictCountsTheGapsThatStayAndTheContext) {
  TrainingRun run = small_run();
  run.framework.reserve.fragmentation = 1.5;
  run.framework.reserve.unrecoverable_gaps = 0.5;
  run.cluster.device.context_memory = 1.0 * GiB;
  const Memory memory = footprint(run);
  EXPECT_EQ(memory.needed(), memory.peak + 0.5 * memory.stages[0].lost + 1.0 * GiB);
}

// With growth 0.4: of what a step allocates and frees two fifths more.
TEST(Footprint, GraphsOfWholePassesHoldMoreThanPasses) {
  TrainingRun run = small_run();
  run.model = small_moe();
  run.framework.reserve.fragmentation = 1.0;
  run.framework.reserve.captured_growth = 0.4;
  run.strategy.moe_captured = true;
  const Memory without = footprint(run);
  EXPECT_EQ(without.margin, Bytes(0.0));
  run.strategy.cuda_graph = true;
  const Memory with = footprint(run);
  const Bytes idle = memory_timeline(run, layer_prices(run), 0)[0].allocated;
  EXPECT_EQ(with.peak, without.peak);
  EXPECT_DOUBLE_EQ(with.margin.value(), (0.4 * (with.peak - idle)).value());
  EXPECT_EQ(with.needed(), with.peak + with.margin + with.context);
  EXPECT_EQ(with.reserved, without.reserved + with.margin);
  run.strategy.moe_captured = false;  // only modules of fixed shapes
  EXPECT_EQ(footprint(run).margin, Bytes(0.0));
}

TEST(Footprint, EveryKindOfGroupHasACommunicator) {
  TrainingRun run = small_run(8);
  run.cluster.device.communicator_memory = 100.0 * MiB;
  // One kind of group: the context has its communicator.
  EXPECT_EQ(context_memory(run), Bytes(0.0));
  run.strategy.dp = 2, run.strategy.tp = 2, run.strategy.pp = 2;
  EXPECT_EQ(context_memory(run), 300.0 * MiB);
}

TEST(Footprint, WorkspacesAreThoseOfTwoThreadsAndOfTheEngine) {
  TrainingRun run = small_run();
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "workspaces"), (2.0 * 8.125 * MiB).value());
  run.framework.reserve.transformer_engine = true;
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "workspaces"),
                   ((2.0 * 8.125 + 4.0) * MiB).value());
  run.cluster.device.matmul_workspace = 32.0 * MiB;
  EXPECT_DOUBLE_EQ(term(footprint(run).stages[0], "workspaces"), (96.0 * MiB).value());
}

Memory needing(Bytes needed, Bytes capacity, double error) {
  Memory memory;
  memory.peak = needed - 3.0 * GiB;
  memory.margin = 1.0 * GiB;
  memory.context = 2.0 * GiB;
  memory.capacity = capacity;
  memory.error = memory.needed_error = error;
  return memory;
}

// Room for e^0.2 of what is needed, at an error of 10 %: two deviations, of which Student's t with
// four degrees of freedom has 1/2 + 5/8 / sqrt 2 below it.
TEST(FitProbability, IsThatOfTheDeviationsToTheCapacity) {
  EXPECT_NEAR(needing(40.0 * GiB, std::exp(0.2) * 40.0 * GiB, 0.1).fit_probability(),
              0.5 + 0.625 / std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(needing(40.0 * GiB, std::exp(-0.2) * 40.0 * GiB, 0.1).fit_probability(),
              0.5 - 0.625 / std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(needing(40.0 * GiB, 40.0 * GiB, 0.1).fit_probability(), 0.5, 1e-9);
}

TEST(FitProbability, GrowsWithTheCapacityAndTheVerdictIsOneHalf) {
  double last = 0.0;
  for (double capacity = 10.0; capacity < 200.0; capacity *= 1.05) {
    const Memory memory = needing(40.0 * GiB, capacity * GiB, 0.08);
    EXPECT_GT(memory.fit_probability(), last);
    EXPECT_EQ(memory.fits(), memory.fit_probability() >= 0.5) << capacity;
    last = memory.fit_probability();
  }
  EXPECT_GT(last, 0.99);
}

TEST(FitProbability, WithoutAnErrorItIsCertain) {
  EXPECT_EQ(needing(40.0 * GiB, 41.0 * GiB, 0.0).fit_probability(), 1.0);
  EXPECT_EQ(needing(40.0 * GiB, 39.0 * GiB, 0.0).fit_probability(), 0.0);
}

// 2.1318 deviations on either side hold 90 %.
TEST(FitProbability, AnIntervalHoldsItsShare) {
  const auto [least, most] = needing(40.0 * GiB, 80.0 * GiB, 0.1).interval(10.0 * GiB, 0.9);
  EXPECT_NEAR(most / GiB, 10.0 * std::exp(0.21318), 1e-4);
  EXPECT_NEAR(least / GiB, 10.0 * std::exp(-0.21318), 1e-4);
}

TEST(FitProbability, ARunHasTheErrorOfItsFramework) {
  TrainingRun run = small_run();
  run.framework.errors.memory = 0.07;
  run.framework.errors.needed_memory = 0.09;
  EXPECT_EQ(footprint(run).error, 0.07);
  EXPECT_EQ(footprint(run).needed_error, 0.09);
}

// Gaps are what is reserved beyond what is allocated: half of them with a factor of one half.
TEST(Footprint, TheGapsFactorScalesTheGapsAlone) {
  TrainingRun run = small_run();
  run.framework.reserve.fragmentation = 1.4;
  const Memory whole = footprint(run);
  run.framework.reserve.gaps_factor = 0.5;
  const Memory half = footprint(run);
  EXPECT_EQ(half.peak, whole.peak);
  EXPECT_GT(whole.stages[0].lost, Bytes(0.0));
  EXPECT_NEAR(half.stages[0].lost / whole.stages[0].lost, 0.5, 1e-12);
}

}  // namespace
}  // namespace llmsim::sim
