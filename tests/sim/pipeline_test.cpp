#include "sim/pipeline/pipeline.h"

#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

std::vector<ChunkTimes> equal_chunks(int count, double forward, double backward) {
  return std::vector<ChunkTimes>(static_cast<std::size_t>(count),
                                 {.forward = Seconds(forward), .backward = Seconds(backward)});
}

double makespan(const PipelineShape& shape, const std::vector<ChunkTimes>& chunks) {
  return simulate_pipeline(shape, chunks).makespan.value();
}

TEST(Pipeline, OneStageIsTheSumOfItsPasses) {
  EXPECT_DOUBLE_EQ(makespan({.stages = 1, .num_microbatches = 5}, equal_chunks(1, 1.0, 2.0)), 15.0);
}

TEST(Pipeline, EqualStagesTakeTheClosedForm) {
  // (m + p - 1)(F + B) for both GPipe and 1F1B.
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward}) {
    for (const int p : {2, 4, 8}) {
      for (const int m : {8, 16, 64, 129}) {
        const PipelineShape shape{.schedule = schedule, .stages = p, .num_microbatches = m};
        EXPECT_NEAR(makespan(shape, equal_chunks(p, 1.0, 2.0)), 3.0 * (m + p - 1), 1e-9)
            << p << " stages, " << m;
      }
    }
  }
}

TEST(Pipeline, InterleavingDividesTheBubbleByTheChunks) {
  // m (F + B) + (p - 1)(F + B) / v, with F + B of the whole stage.
  for (const int v : {2, 4}) {
    for (const int m : {8, 16, 128}) {
      const PipelineShape shape{.schedule = PipelineSchedule::Interleaved,
                                .stages = 4,
                                .virtual_stages = v,
                                .num_microbatches = m};
      EXPECT_NEAR(makespan(shape, equal_chunks(4 * v, 1.0 / v, 2.0 / v)), 3.0 * m + 3.0 * 3.0 / v,
                  1e-9)
          << v << ", " << m;
    }
  }
}

TEST(Pipeline, InterleavingTakesNumbersThatAreNoMultipleOfTheStages) {
  // Every pass runs, and the bubble stays below that of the schedule without interleaving, (p -
  // 1)(F + B).
  for (const int m : {5, 6, 7, 10, 13, 23}) {
    const PipelineShape shape{.schedule = PipelineSchedule::Interleaved,
                              .stages = 4,
                              .virtual_stages = 3,
                              .num_microbatches = m};
    EXPECT_GE(makespan(shape, equal_chunks(12, 1.0, 2.0)), 9.0 * m + 9.0 * 3 / 3 - 1e-9) << m;
    EXPECT_LE(makespan(shape, equal_chunks(12, 1.0, 2.0)), 9.0 * (m + 3)) << m;
  }
}

TEST(Pipeline, TheSlowestStageSetsThePeriod) {
  std::vector<ChunkTimes> chunks = equal_chunks(4, 1.0, 2.0);
  chunks[2] = {.forward = Seconds(2.0), .backward = Seconds(4.0)};
  const auto at = [&](int m) { return makespan({.stages = 4, .num_microbatches = m}, chunks); };
  EXPECT_NEAR(at(101) - at(100), 6.0, 1e-9);
}

TEST(Pipeline, InFlightMicroBatchesFollowTheSchedule) {
  const PipelineShape gpipe{
      .schedule = PipelineSchedule::GPipe, .stages = 4, .num_microbatches = 16};
  const PipelineShape one{.stages = 4, .num_microbatches = 16};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(peak_in_flight(gpipe, stage), 16);
    EXPECT_EQ(peak_in_flight(one, stage), 4 - stage);
  }
  EXPECT_EQ(peak_in_flight({.stages = 4, .num_microbatches = 2}, 0), 2);
}

TEST(Pipeline, MoreMicroBatchesNeverTakeLess) {
  const std::vector<ChunkTimes> chunks = equal_chunks(4, 1.0, 2.0);
  double last = 0.0;
  for (int m = 1; m <= 200; ++m) {
    const double time = makespan({.stages = 4,
                                  .num_microbatches = m,
                                  .forward_transfer = Seconds(0.1),
                                  .backward_transfer = Seconds(0.1)},
                                 chunks);
    EXPECT_GT(time, last);
    last = time;
  }
}

// "F0" and "B0": micro-batch 0 forward and back; with chunks "F0.1".
std::string text_of(const PipelineShape& shape, int stage) {
  std::string text;
  for (const PipelinePass& pass : stage_order(shape, stage)) {
    text += (text.empty() ? "" : " ") + std::string(pass.backward() ? "B" : "F") +
            std::to_string(pass.microbatch);
    if (shape.virtual_stages > 1) text += "." + std::to_string(pass.chunk);
  }
  return text;
}

TEST(StageOrder, IsThatOfThePapers) {
  using enum PipelineSchedule;
  EXPECT_EQ(text_of({.schedule = GPipe, .stages = 2, .num_microbatches = 3}, 0),
            "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text_of({.schedule = OneForwardOneBackward, .stages = 3, .num_microbatches = 4}, 0),
            "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text_of({.schedule = OneForwardOneBackward, .stages = 3, .num_microbatches = 4}, 2),
            "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(
      text_of({.schedule = Interleaved, .stages = 2, .virtual_stages = 2, .num_microbatches = 2},
              1),
      "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
}

// Stages whose sends wait for their receivers, at most `under_way` of one direction at once.
// Whether all come to an end.
class WaitingStages {
 public:
  WaitingStages(const PipelineShape& shape, int under_way) : shape_(shape), under_way_(under_way) {
    for (int stage = 0; stage < shape.stages; ++stage) programs_.push_back(program(stage));
    next_.resize(programs_.size(), 0);
  }

  bool end() {
    bool progressed = true;
    while (progressed) {
      progressed = false;
      for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
        while (next_[stage] < programs_[stage].size() && advance(static_cast<int>(stage)))
          progressed = true;
      }
    }
    for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
      if (next_[stage] < programs_[stage].size()) return false;
    }
    return true;
  }

 private:
  struct Action {
    enum Kind { Receive, Send, Wait } kind;
    bool back;
    int count;  // Receive: from this stage; Wait: until so many sends have been received
  };

  std::vector<Action> program(int stage) const {
    std::vector<Action> actions;
    int sent[2] = {0, 0};
    for (const PipelinePass& pass : stage_order(shape_, stage)) {
      const bool first = stage == 0 && pass.chunk == 0;
      const bool last = stage == shape_.stages - 1 && pass.chunk == shape_.virtual_stages - 1;
      const int from = (stage + (pass.backward() ? 1 : shape_.stages - 1)) % shape_.stages;
      if (!(pass.backward() ? last : first))
        actions.push_back({Action::Receive, pass.backward(), from});
      if (pass.backward() ? first : last) continue;
      int& count = sent[pass.backward() ? 1 : 0];
      if (count >= under_way_)
        actions.push_back({Action::Wait, pass.backward(), count - under_way_ + 1});
      actions.push_back({Action::Send, pass.backward(), ++count});
    }
    return actions;
  }

  bool advance(int stage) {
    const Action& action =
        programs_[static_cast<std::size_t>(stage)][next_[static_cast<std::size_t>(stage)]];
    if (action.kind == Action::Wait && received_[{stage, action.back}] < action.count) return false;
    if (action.kind == Action::Send) ++sent_[{stage, action.back}];
    if (action.kind == Action::Receive) {
      if (sent_[{action.count, action.back}] <= received_[{action.count, action.back}])
        return false;
      ++received_[{action.count, action.back}];
    }
    ++next_[static_cast<std::size_t>(stage)];
    return true;
  }

  const PipelineShape& shape_;
  int under_way_;
  std::vector<std::vector<Action>> programs_;
  std::vector<std::size_t> next_;
  std::map<std::pair<int, bool>, int> sent_, received_;  // by sender and direction
};

TEST(MessagesUnderWay, AreEnoughThatNoStagesWaitForOneAnother) {
  using enum PipelineSchedule;
  for (int stages = 2; stages <= 6; ++stages) {
    for (int m = 1; m <= 24; ++m) {
      for (const auto schedule : {GPipe, OneForwardOneBackward, Interleaved}) {
        for (const int v : {1, 2, 3}) {
          if (v > 1 && (schedule == OneForwardOneBackward || m < stages)) continue;
          const PipelineShape shape{
              .schedule = schedule, .stages = stages, .virtual_stages = v, .num_microbatches = m};
          EXPECT_TRUE(WaitingStages(shape, messages_under_way(shape)).end())
              << stages << " stages, " << m << ", " << v;
        }
      }
    }
  }
}

// Five micro-batches on two stages go in groups of 3 and 2: with one message at a time both wait.
TEST(MessagesUnderWay, OneIsTooFewForUnevenGroups) {
  const PipelineShape shape{.schedule = PipelineSchedule::Interleaved,
                            .stages = 2,
                            .virtual_stages = 2,
                            .num_microbatches = 5};
  EXPECT_EQ(messages_under_way(shape), 2);
  EXPECT_FALSE(WaitingStages(shape, 1).end());
}

}  // namespace
}  // namespace llmsim::sim
