#include "sim/schedule/step.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "sim/strategy/validity.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

using enum PipelineSchedule;

struct Layout {
  PipelineSchedule schedule;
  int tensor, pipeline, virtual_stages;
  Sharding sharding;
};

TrainingRun on_64(const Layout& layout) {
  TrainingRun run = small_run(64);
  Strategy& s = run.strategy;
  s.pipeline_schedule = layout.schedule, s.virtual_stages = layout.virtual_stages;
  s.tp = layout.tensor, s.pp = layout.pipeline;
  s.dp = 64 / layout.tensor / layout.pipeline;
  s.sequence_parallel = layout.tensor > 1;
  s.sharding = layout.sharding, s.global_batch = 512;
  run.framework.host.per_kernel = Seconds(2e-6);
  return run;
}

std::vector<Layout> layouts() {
  std::vector<Layout> list;
  for (const auto sharding : {Sharding::None, Sharding::Zero1}) {
    for (const int tensor : {1, 2, 8}) {
      for (const PipelineSchedule schedule : {GPipe, OneForwardOneBackward, ZbH1, DualPipe})
        for (const int pipeline : {2, 4}) list.push_back({schedule, tensor, pipeline, 1, sharding});
      for (const PipelineSchedule schedule : {Interleaved, ZbV, VHalf, VMin})
        list.push_back({schedule, tensor, 4, 2, sharding});
      list.push_back({OneForwardOneBackward, tensor, 1, 1, sharding});
    }
  }
  return list;
}

std::string text(const Layout& l) {
  return "schedule " + std::to_string(static_cast<int>(l.schedule)) + ", tp " +
         std::to_string(l.tensor) + ", pp " + std::to_string(l.pipeline) + ", v " +
         std::to_string(l.virtual_stages) + ", sharding " +
         std::to_string(static_cast<int>(l.sharding));
}

// A stage by its events: from where its step begins until its last pass has ended, and what it
// works in between.  The first forward and the last backward pass of a chunk exchange weights and
// gradients, which the events do not know.
struct StageTimes {
  Seconds span{};
  Seconds work{};
};

StageTimes times_of(const StepSimulation& simulation, const std::vector<PassEvent>& events,
                    int stage) {
  StageTimes times;
  const bool alone = updates_unsynchronised(simulation.shape().schedule);
  times.span = events.back().end - (alone ? events.front().start : Seconds(0.0));
  Seconds until;
  for (const PassEvent& event : events) {
    if (event.start >= until) times.work += event.end - event.start;  // joined passes are one time
    until = event.end;
  }
  for (int chunk = 0; chunk < simulation.shape().layout().chunks(); ++chunk) {
    const ChunkPassTimes& part = simulation.passes(stage, chunk);
    const Seconds exchanged = part.first_forward.total() - part.forward.total() +
                              part.last_backward.total() - part.backward.total();
    times.span += exchanged, times.work += exchanged;
  }
  return times;
}

// What the busiest stage waits for between its own passes and for the stage that ends last, its
// closing collectives included.
TEST(StepSimulation, TheBubbleIsWhatTheBusiestStageIdlesByItsEvents) {
  for (const Layout& layout : layouts()) {
    const TrainingRun run = on_64(layout);
    ASSERT_FALSE(broken_rule(run.model, run.strategy, run.cluster)) << text(layout);
    const LayerPrices prices = layer_prices(run);
    const StepSimulation simulation(run, prices);
    const auto events = pipeline_events(simulation.shape(), simulation.chunks());
    Seconds longest, closing;
    StageTimes busiest;
    for (int stage = 0; stage < run.strategy.pp; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      const StageTimes times = times_of(simulation, events[s], stage);
      longest = std::max(longest, times.span + simulation.closing_time(stage));
      if (times.work > busiest.work) busiest = times, closing = simulation.closing_time(stage);
    }
    longest -= closing;
    EXPECT_NEAR((simulation.terms()[Term::PipelineBubble] / longest),
                (longest - busiest.work) / longest, 1e-9)
        << text(layout);
    EXPECT_NEAR(simulation.bubble(), (longest - busiest.work) / longest, 1e-9) << text(layout);
  }
}

// Dense and MoE runs whose stages are and are not equal, of every schedule, with few and many
// micro-batches.
std::vector<TrainingRun> varied_runs() {
  std::vector<TrainingRun> runs;
  const std::vector<Layout> all = layouts();
  const std::vector<RecomputeKind> recomputes{RecomputeKind::None, RecomputeKind::Full,
                                              RecomputeKind::Selective};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const bool moe : {false, true}) {
      for (const bool uneven : {false, true}) {
        for (const int batch : {256, 512, 4096}) {
          TrainingRun run = on_64(all[i]);
          Strategy& s = run.strategy;
          if (moe) run.model = small_moe(), s.ep = s.dp % 4 == 0 ? 4 : 1;
          if (uneven) run.model.num_layers = 11, s.embeddings_as_layers = i % 2 == 0;
          s.global_batch = batch, s.recompute.kind = recomputes[i % recomputes.size()];
          run.cluster.network.latency = Seconds(5e-6);
          run.cluster.device.achieved.device_spread = 0.01;
          runs.push_back(run);
        }
      }
    }
  }
  return runs;
}

std::string text(const TrainingRun& run) {
  const Strategy& s = run.strategy;
  return std::string(name_of(s.pipeline_schedule)) + ", pp " + std::to_string(s.pp) + ", v " +
         std::to_string(s.virtual_stages) + ", layers " + std::to_string(run.model.num_layers) +
         ", ep " + std::to_string(s.ep) + ", batch " + std::to_string(s.global_batch);
}

// The bubble is counted pass by pass while the pipeline is simulated, the other terms are sums over
// the passes of the stage: together they are the step.
TEST(StepSimulation, TermsLeaveNothingOfTheStep) {
  int pipelines = 0, bubbles = 0;
  for (const TrainingRun& run : varied_runs()) {
    if (broken_rule(run.model, run.strategy, run.cluster)) continue;
    const LayerPrices prices = layer_prices(run);
    const StepSimulation simulation(run, prices);
    const double remainder = simulation.terms()[Term::Remainder] / simulation.terms().total();
    EXPECT_LE(std::abs(remainder), 1e-9) << text(run);
    for (const TimeTerm& term : simulate_step(run, prices).breakdown)
      EXPECT_STRNE(term.name, "remainder") << text(run);
    pipelines += run.strategy.pp > 1;
    bubbles += simulation.terms()[Term::PipelineBubble] > Seconds(0.0);
  }
  EXPECT_GE(pipelines, 300);
  EXPECT_GE(bubbles, pipelines * 9 / 10);
}

// Every other term of the passes against its price alone: m micro-batches of as many blocks as the
// busiest stage has.
TEST(StepSimulation, GemmsOfAStepAreThoseOfItsBlocksAndMicroBatches) {
  for (const Layout& layout : layouts()) {
    const TrainingRun run = on_64(layout);
    const LayerPrices prices = layer_prices(run);
    const StepSimulation simulation(run, prices);
    const double m = 512.0 / run.strategy.dp, passes = m * 8.0 / layout.pipeline;
    const Terms& terms = simulation.terms();
    EXPECT_NEAR(terms[Term::ForwardGemm] / (passes * prices.blocks[0].forward.gemm), 1.0, 1e-9)
        << text(layout);
    EXPECT_NEAR(terms[Term::BackwardGemm] / (passes * prices.blocks[0].backward.gemm), 1.0, 1e-9)
        << text(layout);
    EXPECT_NEAR(terms[Term::ForwardAttention] / (passes * prices.blocks[0].forward.attention), 1.0,
                1e-9)
        << text(layout);
    for (int i = 0; i < kNumTerms; ++i) {
      const auto term = static_cast<Term>(i);
      const Seconds least(term == Term::Remainder ? -1e-9 * terms.total().value() : -1e-15);
      EXPECT_GE(terms[term], least) << name_of(term);
    }
  }
}

// Eight layers of 12 h^2 + 13 h on four stages.  The first adds positions and a table of V h, the
// last the final norm and another table, the two between them nothing: the first has most.
TEST(StepSimulation, AllWaitForTheStageThatUpdatesMost) {
  TrainingRun run = small_run(4);
  run.model.tied_embeddings = false;
  run.strategy.dp = 1, run.strategy.pp = 4;
  const LayerPrices prices = layer_prices(run);
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const double h = 1024.0, table = 32768.0 * h,
               first = 2.0 * rank.kinds[0].own + table + 1024.0 * h;
  const Seconds most = update_time(run, {.shared = first}),
                least = update_time(run, {.shared = 2.0 * rank.kinds[0].own});
  ASSERT_GT(most, 2.0 * least);
  EXPECT_DOUBLE_EQ(StepSimulation(run, prices).terms()[Term::Optimizer].value(), most.value());
}

// 1024 tokens of 1024 values in 2 bytes, M = 2 MiB, on two stages of one node at 100 GB/s.
TrainingRun two_stages(int tensor) {
  TrainingRun run = small_run(2 * tensor);
  run.strategy.dp = 1, run.strategy.pp = 2, run.strategy.tp = tensor;
  run.strategy.global_batch = 8;
  return run;
}

PipelineShape shape_of(const TrainingRun& run) {
  const LayerPrices prices = layer_prices(run);
  return StepSimulation(run, prices).shape();
}

TEST(StageTransfer, IsWholeUnlessTheFrameworkDividesIt) {
  // 8.4 us of the protocol and 2 MiB.
  const double whole = 8.4e-6 + 2097152.0 / 100e9;
  for (const int tensor : {1, 4}) {
    EXPECT_NEAR(shape_of(two_stages(tensor)).forward_transfer.value(), whole, 1e-12);
    EXPECT_NEAR(shape_of(two_stages(tensor)).backward_transfer.value(), whole, 1e-12);
  }
}

// A quarter goes over; then the four ranks gather 3/4 of M, at (1 + 1.6/64) / (1 + 1.6/16) of 100
// GB/s.
TEST(StageTransfer, DividedAmongTensorRanksIsGatheredByItsReceivers) {
  const double whole = 8.4e-6 + 2097152.0 / 100e9;
  const double gather = 8.4e-6 + 0.75 * 2097152.0 / (100e9 * 1.025 / 1.1);
  const double divided = 8.4e-6 + 524288.0 / 100e9 + gather;
  TrainingRun run = two_stages(4);
  run.framework.divides_sent_activations = true;
  EXPECT_NEAR(shape_of(run).forward_transfer.value(), divided, 1e-12);
  EXPECT_NEAR(shape_of(run).backward_transfer.value(), whole, 1e-12);
  run.framework.divides_sent_activations = false, run.framework.divides_sent_gradients = true;
  EXPECT_NEAR(shape_of(run).forward_transfer.value(), whole, 1e-12);
  EXPECT_NEAR(shape_of(run).backward_transfer.value(), divided, 1e-12);
}

// Under sequence parallelism every rank has its own quarter anyway, and nothing is gathered here;
// one rank has nothing to divide.
TEST(StageTransfer, IsNotDividedTwice) {
  TrainingRun run = two_stages(4);
  run.strategy.sequence_parallel = true;
  const PipelineShape usual = shape_of(run);
  EXPECT_NEAR(usual.forward_transfer.value(), 8.4e-6 + 524288.0 / 100e9, 1e-12);
  run.framework.divides_sent_activations = run.framework.divides_sent_gradients = true;
  EXPECT_EQ(shape_of(run).forward_transfer, usual.forward_transfer);
  EXPECT_EQ(shape_of(run).backward_transfer, usual.backward_transfer);
  run = two_stages(1);
  run.framework.divides_sent_activations = true;
  EXPECT_NEAR(shape_of(run).forward_transfer.value(), 8.4e-6 + 2097152.0 / 100e9, 1e-12);
}

// On the busiest stage, the one with the head: 8 micro-batches come in, whose gradients go back.
TEST(StageTransfer, AppearsInTheCommunicationOfTheStep) {
  TrainingRun run = two_stages(4);
  run.framework.divides_sent_activations = run.framework.divides_sent_gradients = true;
  const LayerPrices prices = layer_prices(run);
  ASSERT_EQ(StepSimulation(run, prices).busiest(), 1);
  int found = 0;
  for (const CommunicationTerm& term : simulate_step(run, prices).communication) {
    if (std::string(term.collective) == "send_recv") {
      EXPECT_STREQ(term.group, "pp");
      EXPECT_EQ(term.count, 8.0);
      EXPECT_EQ(term.size, Bytes(8.0 * 524288.0));
      ++found;
    }
    if (std::string(term.collective) == "all_gather") {
      EXPECT_STREQ(term.group, "tp");
      EXPECT_EQ(term.ranks, 4);
      EXPECT_EQ(term.count, 8.0);
      EXPECT_EQ(term.size, Bytes(8.0 * 2097152.0));
      ++found;
    }
    EXPECT_LE(term.exposed, term.time + Seconds(1e-15)) << term.collective << " " << term.group;
  }
  EXPECT_EQ(found, 2);
}

// Sixteen ranks, shards over groups of four, of which two have the same experts; the sums of both
// are over the four groups.
TEST(StepSimulation, ShardsOfExpertsAreOverTheRanksOfAGroupThatHaveThem) {
  TrainingRun run = small_run(16);
  run.model = small_moe();
  run.strategy.ep = 2;
  run.strategy.sharding = Sharding::Hsdp, run.strategy.shard_size = 4;
  ASSERT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
  int seen = 0;
  for (const CommunicationTerm& term : simulate_step(run, layer_prices(run)).communication) {
    if (term.group == std::string_view(name_of(GroupKind::ExpertData))) {
      ++seen;
      EXPECT_EQ(term.ranks, 2);
    } else if (term.group == std::string_view(name_of(GroupKind::Replicate))) {
      EXPECT_EQ(term.ranks, 4);
    }
  }
  EXPECT_GE(seen, 2);  // gathers and reductions
}

}  // namespace
}  // namespace llmsim::sim
