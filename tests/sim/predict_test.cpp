#include "sim/predict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "sim/base/error.h"
#include "sim/model/flops.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

double term(const Prediction& p, const std::string& name) {
  for (const TimeTerm& t : p.breakdown) {
    if (name == t.name) return t.time.value();
  }
  return 0.0;
}

TEST(Predict, AnIdealDeviceTakesItsFlopsOverItsPeak) {
  // Eight micro-batches of eight layers: 12 h^2 weights per layer, 6 FLOPs per weight and token.
  const Prediction p = predict(small_run());
  const double tokens = 8.0 * 1024.0, h = 1024.0;
  // Loading overlaps, but adds (load / compute)^3 / 3, below 0.5 % here.
  const double forward = 2.0 * 12.0 * h * h * 8.0 * tokens / 100e12;
  EXPECT_NEAR(term(p, "forward_gemm"), forward, 0.005 * forward);
  EXPECT_NEAR(term(p, "backward_gemm"), 2.0 * forward, 0.005 * 2.0 * forward);
}

TEST(Predict, TheModelFlopsEqualTheClosedForm) {
  const TrainingRun run = small_run();
  const Prediction p = predict(run);
  const double tokens = 8.0 * 1024.0;
  EXPECT_NEAR(p.model_flops.value(),
              3.0 * tokens * forward_flops_per_token(run.model, true).value(),
              1e-9 * p.model_flops.value());
}

double closed_form(const TrainingRun& run) {
  const double tokens = static_cast<double>(run.strategy.global_batch) * run.model.seq_len;
  return 3.0 * tokens * forward_flops_per_token(run.model, true).value();
}

// 64 devices, with few key/value heads and a vocabulary that is padded.
TrainingRun on_64(Transformer model, int tensor, int pipeline, int context) {
  TrainingRun run = small_run(64);
  run.model = std::move(model);
  run.model.num_kv_heads = 2;
  run.model.vocab_size = 32000;
  run.framework.vocab_multiple = 128;
  run.strategy.tp = tensor, run.strategy.pp = pipeline, run.strategy.cp = context;
  run.strategy.dp = 64 / tensor / pipeline / context;
  run.strategy.global_batch = 128;
  return run;
}

void expect_model_flops(const TrainingRun& run) {
  const Prediction p = predict(run);
  ASSERT_FALSE(p.infeasible && p.infeasible->rule != "out of memory") << p.infeasible->message;
  EXPECT_DOUBLE_EQ(p.model_flops.value(), closed_form(run));
  EXPECT_DOUBLE_EQ(p.mfu, closed_form(run) / 64.0 / 100e12 / p.step_time.value());
  EXPECT_GT(p.mfu, 0.0);
  EXPECT_LE(p.mfu, 1.0);
  EXPECT_GE(p.hfu, p.mfu * (1.0 - 1e-12));
}

TEST(Predict, ModelFlopsFollowFromModelAndBatchWhateverTheLayout) {
  for (const int tensor : {1, 2, 8}) {
    for (const int pipeline : {1, 4}) {
      for (const int context : {1, 2}) {
        for (const bool fused : {true, false}) {
          TrainingRun run = on_64(small_model(), tensor, pipeline, context);
          run.strategy.flash_attention = fused || context > 1;
          for (const auto recompute :
               {RecomputeKind::None, RecomputeKind::Selective, RecomputeKind::Full}) {
            run.strategy.recompute.kind = recompute;
            expect_model_flops(run);
          }
        }
      }
    }
  }
}

TEST(Predict, NorDoTheyCountWhatExpertRanksWaitFor) {
  for (const int tensor : {1, 2}) {
    for (const int context : {1, 2}) {
      for (const int expert : {1, 2, 8}) {
        for (const double imbalance : {1.0, 1.7}) {
          TrainingRun run = on_64(small_moe(), tensor, 2, context);
          run.strategy.ep = expert;
          run.strategy.moe_imbalance = imbalance;
          expect_model_flops(run);
          run.strategy.moe_capacity = 1.25;
          expect_model_flops(run);
        }
      }
    }
  }
}

// Nothing recomputed, padded or held twice: the ranks execute what the model needs, whatever
// divides it.  (Every tensor rank has a router of its own.)
TEST(Predict, WithoutWasteHardwareFlopsAreModelFlops) {
  for (const int tensor : {1, 2}) {
    for (const int pipeline : {1, 2}) {
      for (const int context : {1, 2, 4}) {
        for (const Transformer& model : {small_model(), small_moe()}) {
          if (model.moe && tensor > 1) continue;
          TrainingRun run = on_64(model, tensor, pipeline, context);
          run.framework.vocab_multiple = 1;
          const Prediction p = predict(run);
          EXPECT_NEAR(p.hardware_flops / p.model_flops, 1.0, 1e-12)
              << tensor << " " << pipeline << " " << context;
        }
      }
    }
  }
}

// On 8 tensor ranks each has one of 2 key/value heads: 6 more of 128 columns each for keys and for
// values.
TEST(Predict, CopiedKeyAndValueHeadsAreHardwareFlops) {
  TrainingRun run = on_64(small_model(), 8, 1, 1);
  run.framework.vocab_multiple = 1;
  const Prediction p = predict(run);
  const double tokens = 128.0 * 1024.0, copies = 6.0 * tokens * 8 * 1024.0 * 2 * 6 * 128;
  EXPECT_NEAR((p.hardware_flops - p.model_flops).value(), copies, 1e-9 * copies);
}

// 32000 columns on 8 ranks are padded to 32 * 1024.
TEST(Predict, PaddedColumnsOfTheHeadAreHardwareFlops) {
  TrainingRun run = on_64(small_model(), 8, 1, 1);
  run.model.num_kv_heads = 8;
  const Prediction p = predict(run);
  const double tokens = 128.0 * 1024.0, padding = 6.0 * tokens * 1024.0 * (32768 - 32000);
  EXPECT_NEAR((p.hardware_flops - p.model_flops).value(), padding, 1e-9 * padding);
}

// Frozen weights have no gradients: 2 of 3 GEMMs each.  Adapters of rank 4 on the GEMMs of a block
// of width h and 4 h: queries, keys, values and output 4 (h + h) each, up and down 4 (h + 4 h)
// each.
TEST(Predict, AdaptersLeaveOutTheGradientsOfFrozenWeights) {
  TrainingRun run = small_run();
  run.strategy.adapters = Adapters{.rank = 4, .layers = all_adapted_layers(run.model)};
  const double tokens = 8.0 * 1024.0, h = 1024.0;
  const double weights = 8 * 12 * h * h + 32768 * h, attention = 8 * 2 * 2 * h * 512;
  const double adapters = 8 * 4 * (4 * 2 + 2 * 5) * h;
  EXPECT_DOUBLE_EQ(predict(run).model_flops.value(),
                   tokens * (2 * 2 * weights + 3 * attention + 6 * adapters));
}

TEST(Predict, RecomputationCostsAThirdMoreHardwareFlops) {
  TrainingRun run = small_run();
  const Prediction none = predict(run);
  EXPECT_DOUBLE_EQ(none.hardware_flops.value(), none.model_flops.value());
  run.strategy.recompute = {RecomputeKind::Full, 1};
  const Prediction full = predict(run);
  EXPECT_EQ(full.model_flops, none.model_flops);
  EXPECT_GT(full.step_time, none.step_time);
  EXPECT_GT(full.hardware_flops / full.model_flops, 1.25);
  EXPECT_LT(full.hardware_flops / full.model_flops, 1.34);
}

TEST(Predict, APipelineWaitsForItsBubble) {
  // Equal stages: (p - 1) / m of the busy time; the ends make the stages a little unequal.
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.global_batch = 32;
  run.model.vocab_size = 128;
  run.cluster.fabric.device_bandwidth = 1000.0 * TBps;
  run.model.position = Position::Rope;
  const Prediction p = predict(run);
  const double busy = p.step_time.value() - term(p, "pipeline_bubble") - term(p, "optimizer");
  EXPECT_NEAR(term(p, "pipeline_bubble") / busy, 3.0 / 32.0, 0.02);
}

// Four stages of equal work, 32 micro-batches, nothing but GEMMs.
TrainingRun four_stages(PipelineSchedule schedule) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.global_batch = 32;
  run.strategy.pipeline_schedule = schedule,
  run.strategy.virtual_stages = is_v_shaped(schedule) ? 2 : 1;
  run.model.vocab_size = 128;
  run.model.position = Position::Rope;
  run.cluster.fabric.device_bandwidth = run.cluster.fabric.pair_bandwidth = 1000.0 * TBps;
  return run;
}

TEST(Predict, WeightGradientsFillTheBubble) {
  const Prediction usual = predict(four_stages(PipelineSchedule::OneForwardOneBackward));
  const Prediction split = predict(four_stages(PipelineSchedule::ZbH1));
  // Three bubbles less of 2 W each: (p - 1)(F + B + W) against (p - 1)(F + B - W); W is half of the
  // backward GEMMs, and the sums of gradients over micro-batches.
  const double weights =
      (term(usual, "backward_gemm") / 2.0 + term(usual, "gradient_copies")) / 32.0;
  EXPECT_NEAR(term(usual, "pipeline_bubble") - term(split, "pipeline_bubble"), 3.0 * 2.0 * weights,
              0.03 * 6.0 * weights);
  EXPECT_EQ(term(usual, "backward_gemm"), term(split, "backward_gemm"));
  EXPECT_LT(predict(four_stages(PipelineSchedule::ZbV)).bubble, 0.5 * split.bubble);
  EXPECT_LT(predict(four_stages(PipelineSchedule::DualPipe)).bubble, split.bubble);
}

TEST(Predict, VsOfFewerActivationsWaitLonger) {
  const Prediction usual = predict(four_stages(PipelineSchedule::OneForwardOneBackward)),
                   all = predict(four_stages(PipelineSchedule::ZbV)),
                   half = predict(four_stages(PipelineSchedule::VHalf)),
                   least = predict(four_stages(PipelineSchedule::VMin));
  EXPECT_LT(all.bubble, half.bubble);
  EXPECT_LT(half.bubble, least.bubble);
  EXPECT_LT(half.bubble, 0.75 * usual.bubble);
  // Of 8 layers a stage has two chunks of one, of which 8, 6 and 4 micro-batches are in flight.
  const auto saved = [](const Prediction& p) { return p.memory.stages[1].peak; };
  EXPECT_LT(saved(half), saved(all));
  EXPECT_LT(saved(least), saved(half));
}

TEST(Predict, WaitingWeightGradientsLeaveNothingForTensorCollectivesToHideBehind) {
  TrainingRun run = four_stages(PipelineSchedule::OneForwardOneBackward);
  run.cluster = ideal_cluster(8);
  run.strategy.tp = 2, run.framework.hides_column_gradients = true;
  const Prediction usual = predict(run);
  run.strategy.pipeline_schedule = PipelineSchedule::ZbH1;
  EXPECT_GT(term(predict(run), "tensor_parallel_exposed"), term(usual, "tensor_parallel_exposed"));
}

TEST(Predict, DualPipeHidesTokensOnTheirWayToExperts) {
  TrainingRun run = four_stages(PipelineSchedule::OneForwardOneBackward);
  run.model = small_moe();
  run.model.vocab_size = 128;
  run.cluster = ideal_cluster(8);
  run.strategy.dp = run.strategy.ep = 2, run.strategy.global_batch = 64;
  const Prediction usual = predict(run);
  run.strategy.pipeline_schedule = PipelineSchedule::DualPipe;
  const Prediction dual = predict(run);
  // 16 micro-batches from each end; those of warm-up and drain, 4 or 5 in each direction, run
  // alone.
  EXPECT_LT(term(dual, "expert_parallel_exposed"), 0.4 * term(usual, "expert_parallel_exposed"));
  EXPECT_GT(term(dual, "expert_parallel_exposed"), 0.1 * term(usual, "expert_parallel_exposed"));
  double hidden = 0.0;
  for (const CommunicationTerm& c : dual.communication) {
    if (std::string(c.group) == "ep") hidden += (c.time - c.exposed).value();
  }
  EXPECT_NEAR(hidden,
              term(usual, "expert_parallel_exposed") - term(dual, "expert_parallel_exposed"), 1e-9);
}

TEST(Predict, MoreDevicesAreNeverSlowerAtTheSameWorkPerDevice) {
  // Weak scaling: the compute is equal, the exchange can only grow.
  Seconds last;
  for (const int devices : {1, 2, 8, 16, 64, 256}) {
    const Prediction p = predict(small_run(devices));
    EXPECT_GE(p.step_time.value(), last.value() * (1.0 - 1e-9)) << devices;
    last = p.step_time;
  }
}

TEST(Predict, SlowHostsDelaySmallKernels) {
  TrainingRun run = small_run();
  EXPECT_EQ(term(predict(run), "launch_wait"), 0.0);
  run.framework.host.per_kernel = Seconds(1e-3);
  const Prediction slow = predict(run);
  EXPECT_GT(term(slow, "launch_wait"), 0.0);
  run.strategy.cuda_graph = true;
  EXPECT_EQ(term(predict(run), "launch_wait"), 0.0);
}

const CommunicationTerm* communication(const Prediction& p, const std::string& collective,
                                       const std::string& group) {
  for (const CommunicationTerm& t : p.communication) {
    if (t.collective == collective && t.group == group) return &t;
  }
  return nullptr;
}

TEST(Predict, CommunicationVolumesFollowTheSharding) {
  // N parameters in 16 bits: an all-reduce of 2 N bytes; ZeRO-1 a scatter and a gather of 2 N;
  // ZeRO-3 two gathers and a scatter of 2 N for each of 8 micro-batches.
  TrainingRun run = small_run(8);
  const double bytes = 2.0 * static_cast<double>(parameters(run.model).total());
  const Prediction none = predict(run);
  ASSERT_NE(communication(none, "all_reduce", "dp"), nullptr);
  EXPECT_NEAR(communication(none, "all_reduce", "dp")->size.value(), bytes, 1e-3 * bytes);
  run.strategy.sharding = Sharding::Zero1;
  const Prediction one = predict(run);
  EXPECT_NEAR(communication(one, "reduce_scatter", "dp")->size.value(), bytes, 1e-3 * bytes);
  EXPECT_NEAR(communication(one, "all_gather", "dp")->size.value(), bytes, 1e-3 * bytes);
  run.strategy.sharding = Sharding::Zero3;
  const Prediction three = predict(run);
  EXPECT_NEAR(communication(three, "reduce_scatter", "dp")->size.value(), 8.0 * bytes,
              8e-3 * bytes);
  EXPECT_NEAR(communication(three, "all_gather", "dp")->size.value(), 16.0 * bytes, 16e-3 * bytes);
}

// Of DualPipe on two stages each holds the model whole, and one data rank has nothing to exchange:
// gradients of all parameters in 4 bytes go from stage to stage once, and a tied table is among
// them.
TEST(Predict, CopiesOfADualPipeSumTheirGradients) {
  TrainingRun run = four_stages(PipelineSchedule::DualPipe);
  run.cluster = ideal_cluster(2), run.strategy.pp = 2;
  run.framework.gradients.reduced_in_fp32 = true;
  for (const bool tied : {false, true}) {
    run.model.tied_embeddings = tied;
    const Prediction p = predict(run);
    ASSERT_NE(communication(p, "all_reduce", "pp_mirror"), nullptr);
    EXPECT_EQ(communication(p, "all_reduce", "pp_mirror")->ranks, 2);
    EXPECT_DOUBLE_EQ(communication(p, "all_reduce", "pp_mirror")->size.value(),
                     4.0 * static_cast<double>(parameters(run.model).total()));
    EXPECT_EQ(communication(p, "all_reduce", "embedding"), nullptr);
  }
}

TEST(Predict, HybridShardingReducesItsShardOverTheReplicas) {
  TrainingRun run = small_run(16);
  run.strategy.sharding = Sharding::Hsdp, run.strategy.shard_size = 8;
  const Prediction p = predict(run);
  const double bytes = 2.0 * static_cast<double>(parameters(run.model).total());
  ASSERT_NE(communication(p, "all_reduce", "dp_replicate"), nullptr);
  EXPECT_EQ(communication(p, "all_reduce", "dp_replicate")->ranks, 2);
  EXPECT_NEAR(communication(p, "all_reduce", "dp_replicate")->size.value(), 8.0 * bytes / 8.0,
              1e-2 * bytes);
}

TEST(Predict, ExposedCommunicationIsThatOfTheBreakdown) {
  TrainingRun run = small_run(64);
  run.strategy.tp = 4, run.strategy.pp = 2, run.strategy.dp = 8;
  run.strategy.sharding = Sharding::Zero1, run.strategy.sequence_parallel = true;
  const Prediction p = predict(run);
  double tensor = 0.0;
  for (const CommunicationTerm& t : p.communication)
    tensor += std::string(t.group) == "tp" ? t.exposed.value() : 0.0;
  EXPECT_NEAR(tensor, term(p, "tensor_parallel_exposed"), 1e-9);
}

TEST(Predict, ABrokenRuleIsAnAnswer) {
  TrainingRun run = small_run(8);
  run.strategy.tp = 3;
  const Prediction p = predict(run);
  ASSERT_FALSE(p.feasible());
  EXPECT_EQ(p.infeasible->rule, "dp * tp * pp * cp != devices");
  EXPECT_TRUE(p.breakdown.empty());
}

TEST(Predict, TooLittleMemoryIsAnAnswerWithAllFigures) {
  TrainingRun run = small_run();
  run.cluster.device.usable_memory = 1.0 * GiB;
  const Prediction p = predict(run);
  ASSERT_FALSE(p.feasible());
  EXPECT_EQ(p.infeasible->rule, "out of memory");
  EXPECT_GT(p.step_time, Seconds(0.0));
  EXPECT_GT(p.memory.peak, p.memory.capacity);
}

// Standard deviations of the logarithm add in squares: 2, 4, 5, 6 and 12 % to 15 %, with 13 for
// the 5 of a site to the root of 0.0369.
TEST(Predict, TheIntervalAddsTheErrorsInSquares) {
  TrainingRun run = small_run(8);
  run.cluster.device.achieved.training_rate_error = 0.02;
  run.framework.errors = {.efficiency = 0.04,
                          .site = 0.05,
                          .moe_site = 0.13,
                          .cell = 0.12,
                          .run = 0.06,
                          .faster = 2.0,
                          .slower = 3.0};
  const Prediction dense = predict(run);
  EXPECT_NEAR(std::log(dense.interval.first / dense.step_time), -2.0 * 0.15, 1e-12);
  EXPECT_NEAR(std::log(dense.interval.second / dense.step_time), 3.0 * 0.15, 1e-12);
  run.strategy.cp = 2;
  run.strategy.dp = 4;
  const Prediction context = predict(run);
  ASSERT_FALSE(context.infeasible);
  EXPECT_NEAR(std::log(context.interval.second / context.step_time), 3.0 * std::sqrt(0.0369),
              1e-12);
  run.strategy.cp = 1;
  run.strategy.dp = 8;
  run.model = small_moe();
  const Prediction moe = predict(run);
  EXPECT_NEAR(std::log(moe.interval.first / moe.step_time), -2.0 * std::sqrt(0.0369), 1e-12);
}

// Eight ranks of one node: what is exposed of the reduction has 0.5 of the network's error, launches
// that nothing waits for none, and a quarter of a step between steps a quarter of that error.
TEST(Predict, TheIntervalHoldsWhatTheRunDependsOn) {
  TrainingRun run = small_run(8);
  run.cluster.device.achieved.training_rate_error = 0.0;
  run.framework.errors = {.efficiency = 0.0, .site = 0.0, .cell = 0.0, .run = 0.0, .slower = 1.0};
  const auto width = [&] {
    const Prediction p = predict(run);
    return std::log(p.interval.second / p.step_time);
  };
  EXPECT_EQ(width(), 0.0);
  const Seconds quiet = predict(run).step_time;
  run.framework.host.per_step = quiet / 3.0 + run.framework.host.per_step;
  run.framework.errors.between_steps = 0.4;
  EXPECT_NEAR(width(), 0.4 * (run.framework.host.per_step / predict(run).step_time), 1e-12);
  run.framework.errors.between_steps = 0.0;
  run.framework.errors.collectives = 0.5;
  const double network = width();
  TrainingRun slower = run;
  slower.framework.collective_efficiency *= std::exp(-0.02);
  EXPECT_NEAR(network, 0.5 * std::log(predict(slower).step_time / predict(run).step_time) / 0.02,
              0.05 * network);
  run.framework.errors.collectives = 0.0;
  run.framework.errors.hosts = 0.3;
  run.framework.host.per_kernel = Seconds(1.0);  // nothing but launches
  EXPECT_NEAR(width(), 0.3, 0.01);
  run.framework.host.per_kernel = Seconds(0.0);
  EXPECT_NEAR(width(), 0.0, 0.001);
}

TEST(Predict, AnUncertainDeviceWidensTheInterval) {
  TrainingRun run = small_run();
  const Prediction known = predict(run);
  run.cluster.device.achieved.training_rate_error = 0.5;
  const Prediction unknown = predict(run);
  EXPECT_EQ(unknown.step_time, known.step_time);
  EXPECT_LT(unknown.interval.first, known.interval.first);
  EXPECT_GT(unknown.interval.second, known.interval.second);
}

TEST(Predict, ConventionsDifferByTheEmbeddingLookup) {
  // One layer and a large vocabulary, as in a one-layer proxy of a large model: 6N counts a lookup
  // that multiplies nothing.
  TrainingRun run = small_run();
  run.model.num_layers = 1;
  const Prediction p = predict(run);
  const auto mfu = [&](const std::string& name) {
    for (const Convention& c : p.conventions) {
      if (c.name == name) return c.mfu;
    }
    return 0.0;
  };
  // FLOPs of a token in h^2, with V = 32 h and s = h: 6 (12 + 32 + 32 + 1 of positions) + 12, and 6
  // (12 + 32) + 6.
  EXPECT_NEAR(mfu("palm") / mfu("gemm_causal"), 474.0 / 270.0, 1e-3);
}

TEST(Predict, ShapesThatAreNoneAreNamed) {
  TrainingRun run = small_run();
  run.model.mla =
      Mla{.kv_lora_rank = 0, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .v_head_dim = 128};
  EXPECT_THROW(predict(run), Error);
}

TEST(Predict, ANetworkOfTwoStatesWidensTheIntervalUpwards) {
  // One block's worth of compute against 8 nodes of gathers: with a tenth of the bandwidth the step
  // is longer than the interval.
  TrainingRun run = small_run(64);
  run.strategy.sharding = Sharding::Zero3;
  const Prediction fast = predict(run);
  EXPECT_FALSE(fast.slow_step_time);
  run.cluster.network.slow_fraction = 0.01;
  const Prediction two = predict(run);
  EXPECT_EQ(two.step_time, fast.step_time);
  ASSERT_TRUE(two.slow_step_time);
  EXPECT_GT(*two.slow_step_time, fast.interval.second);
  EXPECT_EQ(two.interval.second, *two.slow_step_time);
  EXPECT_EQ(two.interval.first, fast.interval.first);
}

TEST(Predict, AMoeMultipliesWhatATokenVisits) {
  TrainingRun run = small_run();
  run.model = small_moe();
  const Prediction p = predict(run);
  ASSERT_FALSE(p.infeasible);
  const double tokens = 8.0 * 1024.0;
  EXPECT_NEAR(p.model_flops / FLOP,
              3.0 * tokens * (forward_flops_per_token(run.model, true) / FLOP),
              1e-6 * (p.model_flops / FLOP));
}

// Experts on other ranks: less memory, tokens on the way, and their gradients among fewer ranks.
TEST(Predict, ExpertRanksTakeMemoryOffAndSendTokens) {
  TrainingRun run = small_run(8);
  run.model = small_moe();
  run.model.moe->expert_ffn_size = 4096;
  const Prediction whole = predict(run);
  run.strategy.ep = 4;
  const Prediction divided = predict(run);
  EXPECT_LT(divided.memory.peak, whole.memory.peak);
  const auto bytes = [](const Prediction& p, const std::string& group,
                        const std::string& collective) {
    for (const CommunicationTerm& term : p.communication) {
      if (group == term.group && collective == term.collective) return term.size.value();
    }
    return 0.0;
  };
  EXPECT_EQ(bytes(whole, "ep", "all_to_all"), 0.0);
  // 8 micro-batches of 8 layers: four times the 2048 rows of 1024 in bf16, and the counts of 8
  // experts.
  EXPECT_EQ(bytes(divided, "ep", "all_to_all"), 8.0 * 8.0 * (4.0 * 2048 * 1024 * 2 + 8.0 * 8.0));
  // a quarter of all experts.
  EXPECT_EQ(bytes(divided, "edp", "all_reduce"), 8.0 * 2.0 * 2.0 * 1024 * 4096 * 2.0);
}

// What a framework has not is predicted all the same, and said.
TEST(Predict, WarnsOfWhatAFrameworkHasNot) {
  TrainingRun run = small_run(8);
  run.framework.id = "ddp";
  FrameworkOffers& offers = run.framework.offers;
  offers.tensor_ranks = offers.pipelines = offers.zero1 = offers.zero3_in_pipelines = false;
  run.strategy.tp = 2, run.strategy.pp = 2, run.strategy.dp = 2;
  run.strategy.sharding = Sharding::Zero1;
  EXPECT_EQ(predict(run).warnings,
            (std::vector<std::string>{"tp = 2: ddp has no tensor ranks; predicted as if it had",
                                      "pp = 2: ddp has no pipelines; predicted as if it had",
                                      "sharding = zero1: ddp has no such sharding; predicted as "
                                      "if it had"}));
  offers = {};
  EXPECT_TRUE(predict(run).warnings.empty());
  offers.interleaving = offers.sequence_parallel = false;
  EXPECT_TRUE(predict(run).warnings.empty());
  run.strategy.sequence_parallel = true;
  EXPECT_EQ(predict(run).warnings.front(),
            "sequence_parallel = true: ddp has no sequence parallelism; predicted as if it had");
  run.strategy.sequence_parallel = false;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved, run.strategy.virtual_stages = 2;
  EXPECT_EQ(predict(run).warnings.front(),
            "virtual_stages = 2: ddp has no interleaved stages; predicted as if it had");
}

}  // namespace
}  // namespace llmsim::sim
