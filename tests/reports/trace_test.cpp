#include "reports/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::reports {
namespace {

using Json = nlohmann::json;

// Two tensor ranks, four stages, two data ranks that divide the optimizer; four micro-batches.
sim::Run sample() {
  sim::Run run = sim::small_run(16);
  run.strategy.tp = 2, run.strategy.pp = 4, run.strategy.dp = 2;
  run.strategy.global_batch = 8, run.strategy.sharding = sim::Sharding::Zero1;
  return run;
}

Json trace_of(const sim::Run& run, const sim::TimelineOptions& options = {}) {
  std::string text;
  write_trace(run, sim::layer_prices(run), options, {.database = "test"},
              [&](std::string_view piece) { text += piece; });
  return Json::parse(text);
}

TEST(Trace, NamesStagesAndStreams) {
  const Json trace = trace_of(sample());
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(processes.size(), 4U);
  EXPECT_EQ(processes[3], "stage 3");
  for (const Json& event : trace["traceEvents"])
    EXPECT_TRUE(threads.contains({event["pid"], event["tid"]})) << event;
  EXPECT_EQ((threads[{1, 0}]), "compute");
}

TEST(Trace, EventsOfOneThreadNeverOverlapToTheNanosecond) {
  const Json trace = trace_of(sample(), {.operator_microbatches = 4});
  std::map<std::pair<int, int>, long long> end;
  int count = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const long long start = std::llround(event["ts"].get<double>() * 1e3);
    long long& before = end[{event["pid"], event["tid"]}];
    EXPECT_GE(start, before) << event;
    before = start + std::llround(event["dur"].get<double>() * 1e3);
    ++count;
  }
  EXPECT_GT(count, 4 * 8 * 2);
}

// All micro-batches' operators of all stages: the FLOPs of the model on each of tp ranks, dp times.
TEST(Trace, OperatorsHaveTheFlopsOfTheStep) {
  const sim::Run run = sample();
  const Json trace = trace_of(run, {.operator_microbatches = 1000});
  double flops = 0.0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || !event["args"].contains("flops")) continue;
    flops += event["args"]["flops"].get<double>();
  }
  const sim::Strategy& s = run.strategy;
  const double model = sim::predict(run).model_flops.value();
  EXPECT_NEAR(flops * s.tp * s.dp, model, 1e-9 * model);
}

// The complete event that is under way on a track at a time in nanoseconds; null: none is.
Json under_way(const Json& trace, int process, int thread, long long time) {
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != process || event["tid"] != thread) continue;
    const long long start = std::llround(event["ts"].get<double>() * 1e3);
    if (start <= time && time < start + std::llround(event["dur"].get<double>() * 1e3))
      return event;
  }
  return nullptr;
}

struct Arrow {
  std::vector<Json> starts, ends;
};

std::map<long long, Arrow> arrows_of(const Json& trace) {
  std::map<long long, Arrow> arrows;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "s") arrows[event["id"]].starts.push_back(event);
    if (event["ph"] == "f") arrows[event["id"]].ends.push_back(event);
  }
  return arrows;
}

// What lies under an end of an arrow.
Json event_under(const Json& trace, const Json& end) {
  return under_way(trace, end["pid"], end["tid"], std::llround(end["ts"].get<double>() * 1e3));
}

// "F3" of "F3", "F3 chunk 1" and "B1 & F3".
bool has_pass(const std::string& name, const std::string& pass) {
  return (" " + name + " ").find(" " + pass + " ") != std::string::npos;
}

// `parts`: of the model.
void expect_whole_arrows(const Json& trace, int parts) {
  for (const auto& [id, arrow] : arrows_of(trace)) {
    ASSERT_EQ(arrow.starts.size(), 1U) << id;
    ASSERT_EQ(arrow.ends.size(), 1U) << id;
    const Json &start = arrow.starts[0], &end = arrow.ends[0];
    EXPECT_EQ(start["name"], end["name"]);
    EXPECT_NE(start["pid"], end["pid"]);
    EXPECT_LE(start["ts"].get<double>(), end["ts"].get<double>()) << id;
    const Json sent = event_under(trace, start), needed = event_under(trace, end);
    ASSERT_FALSE(sent.is_null()) << start;
    ASSERT_FALSE(needed.is_null()) << end;
    EXPECT_EQ(start["tid"], static_cast<int>(sim::Stream::Compute));
    EXPECT_EQ(end["tid"], static_cast<int>(sim::Stream::Compute));
    const std::string kind = start["name"] == "activations" ? "F" : "B";
    const std::string pass = kind + std::to_string(id / 2 / parts);  // of the same micro-batch
    EXPECT_TRUE(has_pass(sent["name"], pass)) << sent << pass;
    EXPECT_TRUE(has_pass(needed["name"], pass)) << needed << pass;
  }
}

struct Schedule {
  const char* name;
  sim::PipelineSchedule schedule;
  int virtual_stages;
  int crossed;  // borders between parts of the model that are borders between stages
};

class TraceOf : public testing::TestWithParam<Schedule> {
 protected:
  static sim::Run run() {
    sim::Run run = sample();
    sim::Strategy& s = run.strategy;
    s.pipeline_schedule = GetParam().schedule, s.virtual_stages = GetParam().virtual_stages;
    s.global_batch = 16;
    return run;
  }
};

// Forward and backward, of each of eight micro-batches, over each border between stages.
TEST_P(TraceOf, HasAnArrowForEveryMessageBetweenStages) {
  const Json trace = trace_of(run());
  EXPECT_EQ(arrows_of(trace).size(), 2U * 8U * static_cast<std::size_t>(GetParam().crossed));
  expect_whole_arrows(trace, 4 * GetParam().virtual_stages);
}

TEST_P(TraceOf, HasArrowsOfTheMicroBatchesThatAreDrawn) {
  const Json trace = trace_of(run(), {.microbatches = 3});
  EXPECT_EQ(arrows_of(trace).size(), 2U * 3U * static_cast<std::size_t>(GetParam().crossed));
  expect_whole_arrows(trace, 4 * GetParam().virtual_stages);
}

TEST_P(TraceOf, HasArrowsFromThePassWhereSendsBlock) {
  sim::Run run = this->run();
  run.framework.blocking_transfers = true;
  const Json trace = trace_of(run);
  EXPECT_EQ(arrows_of(trace).size(), 2U * 8U * static_cast<std::size_t>(GetParam().crossed));
  expect_whole_arrows(trace, 4 * GetParam().virtual_stages);
}

TEST_P(TraceOf, HasThePeakOfEveryStageAsTheMostOfItsMemory) {
  const sim::Run run = this->run();
  const sim::Prediction prediction = sim::predict(run);
  for (const int shown : {0, 2}) {
    std::map<int, double> most, time;
    const Json trace = trace_of(run, {.microbatches = shown});
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "C") continue;
      const int stage = event["pid"];
      EXPECT_GE(event["ts"].get<double>(), time[stage]);
      time[stage] = event["ts"];
      most[stage] = std::max(most[stage], event["args"]["allocated_bytes"].get<double>());
    }
    ASSERT_EQ(most.size(), prediction.memory.stages.size());
    for (const sim::StageMemory& stage : prediction.memory.stages)
      EXPECT_NEAR(most[stage.stage], stage.peak.value(), 1e-9 * stage.peak.value());
  }
}

// Memory rises and falls where passes begin: every sample between the ends of the step is at the
// start of a compute event.
TEST_P(TraceOf, ChangesMemoryWithTheEventsOfCompute) {
  const Json trace = trace_of(run());
  std::map<int, std::set<double>> starts;
  std::map<int, double> last;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] == 0)
      starts[event["pid"]].insert(event["ts"].get<double>());
    if (event["ph"] == "C") last[event["pid"]] = event["ts"];
  }
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "C" || event["ts"] == 0.0 || event["ts"] == last[event["pid"]]) continue;
    EXPECT_TRUE(starts[event["pid"]].contains(event["ts"].get<double>())) << event;
  }
}

using enum sim::PipelineSchedule;
INSTANTIATE_TEST_SUITE_P(Schedules, TraceOf,
                         testing::Values(Schedule{"gpipe", GPipe, 1, 3},
                                         Schedule{"one_f_one_b", OneForwardOneBackward, 1, 3},
                                         Schedule{"interleaved", Interleaved, 2, 7},
                                         Schedule{"zb_h1", ZbH1, 1, 3}, Schedule{"zb_v", ZbV, 2, 6},
                                         Schedule{"v_half", VHalf, 2, 6}),
                         [](const auto& one) { return one.param.name; });

TEST(Trace, HasNoArrowWithoutPipeline) {
  sim::Run run = sample();
  run.strategy.pp = 1, run.strategy.dp = 8;
  EXPECT_TRUE(arrows_of(trace_of(run)).empty());
}

// Both directions of DualPipe: half of the micro-batches each way, over three borders.
TEST(Trace, HasArrowsInBothDirectionsOfDualPipe) {
  sim::Run run = sample();
  run.model = sim::small_moe(), run.strategy.tp = 1, run.strategy.ep = 4, run.strategy.dp = 4;
  run.strategy.pipeline_schedule = DualPipe, run.strategy.virtual_stages = 1;
  run.strategy.global_batch = 4 * 16;
  const Json trace = trace_of(run);
  EXPECT_EQ(arrows_of(trace).size(), 2U * 16U * 3U);
  expect_whole_arrows(trace, 4);
}

TEST(Trace, PiecesAreStages) {
  const sim::Run run = sample();
  int pieces = 0;
  write_trace(run, sim::layer_prices(run), {}, {.database = "test"},
              [&](std::string_view) { ++pieces; });
  EXPECT_EQ(pieces, 1 + run.strategy.pp + 1);
}

TEST(Trace, ExposedTimesOfTheBusiestStageAreThoseOfThePrediction) {
  const sim::Run run = sample();
  const sim::Prediction prediction = sim::predict(run);
  const Json trace = trace_of(run);
  std::map<std::string, double> exposed;
  double terms = 0.0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != trace["otherData"]["busiest_stage"]) continue;
    if (event["args"].contains("exposed_s"))
      exposed[event["args"]["exposed_as"]] += event["args"]["exposed_s"].get<double>();
    if (!event["args"].contains("terms_s")) continue;
    for (const Json& term : event["args"]["terms_s"]) terms += term.get<double>();
  }
  for (const sim::TimeTerm& term : prediction.breakdown) {
    const std::string name = term.name;
    if (!name.ends_with("_exposed")) continue;
    EXPECT_NEAR(exposed[name], term.time.value(), 1e-12) << name;
  }
  EXPECT_GT(exposed["tensor_parallel_exposed"], 0.0);
  EXPECT_NEAR(terms, prediction.step_time.value(), 1e-12);
  EXPECT_EQ(trace["otherData"]["step_time_s"], prediction.step_time.value());
}

}  // namespace
}  // namespace llmsim::reports
