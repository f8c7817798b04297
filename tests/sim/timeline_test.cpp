#include "sim/schedule/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/predict.h"
#include "sim/schedule/pass_operators.h"
#include "sim/schedule/step.h"
#include "sim/strategy/stages.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

using enum PipelineSchedule;

struct Case {
  const char* name;
  void (*change)(TrainingRun& run);
};

void pipeline(TrainingRun& run, PipelineSchedule schedule, int pp, int virtual_stages = 1) {
  run.strategy.pipeline_schedule = schedule, run.strategy.pp = pp,
  run.strategy.virtual_stages = virtual_stages;
}

// 16 devices; what a case leaves over is data parallel.  16 micro-batches.
const Case kCases[] = {
    {"data", [](TrainingRun&) {}},
    {"zero1", [](TrainingRun& run) { run.strategy.sharding = Sharding::Zero1; }},
    {"zero3", [](TrainingRun& run) { run.strategy.sharding = Sharding::Zero3; }},
    {"hsdp",
     [](TrainingRun& run) { run.strategy.sharding = Sharding::Hsdp, run.strategy.shard_size = 4; }},
    {"tensor",
     [](TrainingRun& run) { run.strategy.tp = 4, run.strategy.sequence_parallel = true; }},
    {"context", [](TrainingRun& run) { run.strategy.cp = 4; }},
    {"experts", [](TrainingRun& run) { run.model = small_moe(), run.strategy.ep = 4; }},
    {"overlapped_experts",
     [](TrainingRun& run) {
       run.model = small_moe(), run.strategy.ep = 4, run.strategy.moe_overlap = true;
     }},
    {"gpipe", [](TrainingRun& run) { pipeline(run, GPipe, 4); }},
    {"1f1b",
     [](TrainingRun& run) {
       pipeline(run, OneForwardOneBackward, 4), run.strategy.sharding = Sharding::Zero1;
     }},
    {"interleaved",
     [](TrainingRun& run) { pipeline(run, Interleaved, 4, 2), run.strategy.tp = 2; }},
    {"tied_embeddings",
     [](TrainingRun& run) {
       run.model.tied_embeddings = true, run.model.vocab_size = 200000;
       pipeline(run, OneForwardOneBackward, 4);
     }},
    {"zb-h1",
     [](TrainingRun& run) { pipeline(run, ZbH1, 4), run.strategy.sharding = Sharding::Zero1; }},
    {"zb-v", [](TrainingRun& run) { pipeline(run, ZbV, 4, 2), run.strategy.tp = 2; }},
    {"v-half", [](TrainingRun& run) { pipeline(run, VHalf, 4, 2), run.strategy.tp = 2; }},
    {"v-min", [](TrainingRun& run) { pipeline(run, VMin, 4, 2); }},
    {"hierarchical_context",
     [](TrainingRun& run) {
       run.strategy.cp = 8, run.strategy.cp_inner = 4;
       run.strategy.cp_scheme = ContextScheme::AllToAllRing;
     }},
    {"dualpipe",
     [](TrainingRun& run) {
       run.model = small_moe(), run.strategy.ep = 4;
       pipeline(run, DualPipe, 4);
     }},
    {"all",
     [](TrainingRun& run) {
       run.model = small_moe();
       run.strategy.tp = run.strategy.cp = run.strategy.ep = 2;
       run.strategy.sharding = Sharding::Zero3;
       run.strategy.recompute.kind = RecomputeKind::Full;
       pipeline(run, Interleaved, 2, 2);
     }},
    {"offload",
     [](TrainingRun& run) {
       run.strategy.sharding = Sharding::Zero1, run.strategy.offload.optimizer = true;
     }},
};

TrainingRun run_of(const Case& one) {
  TrainingRun run = small_run(16);
  one.change(run);
  Strategy& s = run.strategy;
  s.dp = 16 / (s.tp * s.pp * s.cp);
  s.global_batch = 16 * s.dp;
  run.cluster.device.achieved.device_spread = 0.01;
  run.framework.host.per_kernel = Seconds(5e-6);
  run.framework.host.per_step = Seconds(1e-3);
  return run;
}

class TimelineOf : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    run_ = run_of(GetParam());
    ASSERT_FALSE(broken_rule(run_.model, run_.strategy, run_.cluster))
        << broken_rule(run_.model, run_.strategy, run_.cluster)->message;
    prices_ = layer_prices(run_);
    step_ = simulate_step(run_, prices_);
  }

  std::vector<TimelineEvent> busiest_events(const TimelineOptions& options = {}) const {
    const Timeline timeline = step_timeline(run_, prices_, options);
    return timeline.stages[static_cast<std::size_t>(timeline.busiest)].events;
  }

  double term(const std::string& name) const {
    for (const TimeTerm& t : step_.breakdown) {
      if (name == t.name) return t.time.value();
    }
    return 0.0;
  }

  // Of the busiest stage every term adds up to that of the breakdown.
  void expect_breakdown(const std::vector<TimelineEvent>& events) const {
    Terms sum;
    for (const TimelineEvent& event : events) sum += event.terms;
    for (int i = 0; i < kNumTerms; ++i) {
      const auto t = static_cast<Term>(i);
      EXPECT_NEAR(sum[t].value(), term(name_of(t)), 1e-9 * step_.total.value()) << name_of(t);
    }
  }

  TrainingRun run_;
  LayerPrices prices_;
  StepTimes step_;
};

TEST_P(TimelineOf, HasTheTermsOfTheBreakdown) { expect_breakdown(busiest_events()); }

TEST_P(TimelineOf, HasThemHoweverManyMicroBatchesAreDrawn) {
  for (const int shown : {1, 3}) expect_breakdown(busiest_events({.microbatches = shown}));
}

// Exposed communication of each kind, on its own stream.
TEST_P(TimelineOf, ExposesWhatTheBreakdownExposes) {
  std::map<Term, double> exposed;
  for (const TimelineEvent& event : busiest_events()) {
    if (event.exposed_as) exposed[*event.exposed_as] += event.exposed.value();
    EXPECT_LE(event.exposed, event.time + Seconds(1e-15));
  }
  for (const Term t : {Term::TensorExposed, Term::ContextExposed, Term::ExpertExposed,
                       Term::GatherExposed, Term::ReduceExposed, Term::OffloadExposed}) {
    EXPECT_NEAR(exposed[t], term(name_of(t)), 1e-9 * step_.total.value()) << name_of(t);
  }
}

// Every stage does, unless it updates without waiting for the others: then the busiest.
TEST_P(TimelineOf, SpansTheStep) {
  const Timeline timeline = step_timeline(run_, prices_, {});
  for (const StageTimeline& stage : timeline.stages) {
    if (updates_unsynchronised(run_.strategy.pipeline_schedule) && stage.stage != timeline.busiest)
      continue;
    Seconds first = stage.events.front().start, last;
    for (const TimelineEvent& event : stage.events) {
      first = std::min(first, event.start);
      last = std::max(last, event.start + event.duration);
    }
    EXPECT_NEAR((last - first).value(), step_.total.value(), 1e-9 * step_.total.value())
        << stage.stage;
  }
}

TEST_P(TimelineOf, EventsOfAStreamNeverOverlap) {
  const Timeline timeline = step_timeline(run_, prices_, {.operator_microbatches = 100});
  for (const StageTimeline& stage : timeline.stages) {
    std::map<Stream, Seconds> end;
    for (const TimelineEvent& event : stage.events) {
      EXPECT_GE(event.start.value(), end[event.stream].value() - 1e-12)
          << event.name << " on " << name_of(event.stream);
      EXPECT_GE(event.duration, Seconds(0.0));
      end[event.stream] = event.start + event.duration;
    }
  }
}

// Every pass of every micro-batch through every chunk is there once.
TEST_P(TimelineOf, DrawsAllPasses) {
  const Timeline timeline = step_timeline(run_, prices_);
  const StageLayout layout = stage_layout(run_.strategy);
  for (const StageTimeline& stage : timeline.stages) {
    double forwards = 0;
    for (const TimelineEvent& event : stage.events) {
      if (event.stream != Stream::Compute) continue;
      forwards += std::string(event.category) == "forward" ||
                          std::string(event.category) == "forward_and_backward"
                      ? 1
                      : 0;
    }
    EXPECT_EQ(forwards, layout.chunks() * layout.chunk_microbatches());
  }
}

// The operators of a pass take what its terms of compute and of inner collectives do; what is left
// is waiting and copies.
// Of every micro-batch activations between two model chunks and their gradients back, unless one
// stage has both.
TEST_P(TimelineOf, EveryMessageLeavesOneStageAndArrivesAtAnother) {
  struct Message {
    std::vector<int> from, to;  // stages
    std::vector<bool> gradients;
    Seconds leaves{}, arrives{};
  };
  std::map<std::int64_t, Message> messages;
  for (const StageTimeline& stage : step_timeline(run_, prices_).stages) {
    for (const MessageEnd& end : stage.messages) {
      Message& message = messages[end.message];
      (end.arrives ? message.to : message.from).push_back(stage.stage);
      (end.arrives ? message.arrives : message.leaves) = end.time;
      message.gradients.push_back(end.gradients);
    }
  }
  const StageLayout layout = stage_layout(run_.strategy);
  std::size_t expected = 0;
  for (int stage = 0; stage < run_.strategy.pp; ++stage) {
    for (int chunk = 0; chunk < layout.chunks(); ++chunk)
      for (const bool backward : {false, true})
        if (layout.next_stage(stage, chunk, backward)) expected += 16;
  }
  // A DualPipe has both directions of half of the micro-batches each.
  if (run_.strategy.pipeline_schedule == DualPipe) expected /= 2;
  EXPECT_EQ(messages.size(), expected);
  for (const auto& [number, message] : messages) {
    ASSERT_EQ(message.from.size(), 1u) << number;
    ASSERT_EQ(message.to.size(), 1u) << number;
    EXPECT_NE(message.from[0], message.to[0]) << number;
    EXPECT_EQ(message.gradients[0], message.gradients[1]) << number;
    EXPECT_LE(message.leaves, message.arrives) << number;
    if (layout.chunks() == 1) {
      EXPECT_EQ(message.to[0] < message.from[0], message.gradients[0]);
    }
  }
}

TEST_P(TimelineOf, OperatorsFillTheirPass) {
  std::map<Term, double> sums;
  double operators = 0.0, work = 0.0;
  const int all = run_.strategy.num_microbatches();
  for (const TimelineEvent& event : busiest_events({.operator_microbatches = all})) {
    if (event.stream == Stream::Operators) operators += event.duration.value();
    if (event.stream != Stream::Compute || std::string(event.category) == "end_of_step") continue;
    for (const Term t :
         {Term::ForwardGemm, Term::ForwardAttention, Term::ForwardMemoryBound, Term::BackwardGemm,
          Term::BackwardAttention, Term::BackwardMemoryBound, Term::Recompute, Term::HeadAndLoss,
          Term::Embedding, Term::TensorExposed, Term::ContextExposed, Term::ExpertExposed}) {
      work += event.terms[t].value();
    }
  }
  EXPECT_GT(operators, 0.99 * work);
  EXPECT_LT(operators, 1.01 * work);
}

INSTANTIATE_TEST_SUITE_P(Strategies, TimelineOf, testing::ValuesIn(kCases), [](const auto& one) {
  std::string name = one.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Timeline, DrawsAPipelineByHand) {
  // Two stages, two micro-batches, 1F1B: stage 0 is F0 F1, a bubble, B0, a bubble, B1.
  TrainingRun run = small_run(2);
  run.strategy.dp = 1, run.strategy.pp = 2, run.strategy.global_batch = 2;
  const Timeline timeline = step_timeline(run, layer_prices(run), {.operator_microbatches = 0});
  const auto names = [&](std::size_t stage) {
    std::string text;
    for (const TimelineEvent& event : timeline.stages[stage].events) {
      if (event.stream == Stream::Compute) text += event.name + ", ";
    }
    return text;
  };
  EXPECT_EQ(names(0), "F0, F1, bubble, B0, bubble, B1, all_reduce over pp, optimizer, ");
  EXPECT_EQ(names(1), "bubble, F0, B0, F1, B1, bubble, all_reduce over pp, optimizer, ");
}

// Two stages, four micro-batches, an expert rank on each of two data ranks.
TrainingRun dualpipe() {
  TrainingRun run = small_run(4);
  run.model = small_moe();
  pipeline(run, DualPipe, 2);
  run.strategy.dp = run.strategy.ep = 2, run.strategy.global_batch = 8;
  return run;
}

// F3 of the chunk that goes up beside B0 of the one that goes down: the operators of both, each
// once and in its own order.
TEST(Timeline, JoinedPassesHaveTheOperatorsOfBoth) {
  const TrainingRun run = dualpipe();
  const Timeline timeline = step_timeline(run, layer_prices(run));
  std::map<std::string, std::vector<std::string>> drawn;
  std::string order;
  for (const TimelineEvent& event : timeline.stages[0].events) {
    if (event.stream != Stream::Operators || event.name.find(" chunk ") == std::string::npos)
      continue;
    const std::size_t pass = std::string("F3 chunk 1 ").size();
    drawn[event.name.substr(0, pass - 1)].push_back(event.name.substr(pass));
    order += event.name[0];
  }
  ASSERT_EQ(drawn.size(), 2U);
  const auto labels = [&](std::size_t part, PassKind kind) {
    std::vector<std::string> list;
    for (const PricedOperator& op : pass_operators(
             run, layers_with_operators(run), model_chunks(run.model, run.strategy)[part], kind))
      list.push_back((op.layer ? "L" + std::to_string(*op.layer) + " " : "") + op.label);
    return list;
  };
  EXPECT_EQ(drawn["F3 chunk 1"], labels(1, PassKind::Forward));
  EXPECT_EQ(drawn["B0 chunk 0"], labels(0, PassKind::Backward));
  // Neither waits for the other to end.
  EXPECT_LT(order.find('B'), order.rfind('F'));
  EXPECT_LT(order.find('F'), order.rfind('B'));
}

// Collectives take a part of the device, so that compute is slower beside them.  No host: all time
// of a pass is its operators', but for the sums of gradients.
TEST(Timeline, JoinedOperatorsFillTheirPass) {
  TrainingRun run = dualpipe();
  run.cluster.device.achieved.collective_unit_bandwidth = 10.0 * GBps;
  const Timeline timeline = step_timeline(run, layer_prices(run));
  const std::vector<TimelineEvent>& events = timeline.stages[0].events;
  const auto joined = std::find_if(events.begin(), events.end(), [](const TimelineEvent& event) {
    return std::string(event.category) == "forward_and_backward";
  });
  ASSERT_NE(joined, events.end());
  EXPECT_EQ(joined->name, "F3 chunk 1 & B0 chunk 0");
  EXPECT_GT(joined->terms[Term::Contention], Seconds(0.0));
  const Seconds end = joined->start + joined->duration;
  double operators = 0.0;
  for (const TimelineEvent& event : events) {
    const bool within = event.start >= joined->start && event.start < end;
    if (event.stream == Stream::Operators && within) operators += event.duration.value();
  }
  const double copies = joined->terms[Term::GradientCopies].value();
  EXPECT_GT(operators, joined->duration.value() - 1.1 * copies);  // they are slower too
  EXPECT_LT(operators, joined->duration.value() - copies);
}

TEST(Timeline, MicroBatchesThatAreNotDrawnAreOneEventBetween) {
  TrainingRun run = small_run(1);
  run.strategy.global_batch = 8;
  const Timeline timeline =
      step_timeline(run, layer_prices(run), {.microbatches = 1, .operator_microbatches = 0});
  std::string text;
  for (const TimelineEvent& event : timeline.stages[0].events) text += event.name + ", ";
  EXPECT_EQ(text, "F0, B0, other micro-batches, optimizer, ");
}

TEST(Timeline, OperatorsAreThoseOfALayer) {
  TrainingRun run = small_run(1);
  run.strategy.global_batch = 1;
  std::string text;
  const Timeline timeline = step_timeline(run, layer_prices(run));
  for (const TimelineEvent& event : timeline.stages[0].events) {
    if (event.stream == Stream::Operators && event.name.starts_with("L3 ") && text.size() < 60)
      text += event.name.substr(3) + " ";
  }
  // Learned positions: no rotary kernel between the GEMM and attention.
  EXPECT_TRUE(text.starts_with("attention_norm qkv attention attention_output attention_residual "))
      << text;
}

}  // namespace
}  // namespace llmsim::sim
