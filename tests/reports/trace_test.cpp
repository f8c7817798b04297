#include "reports/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

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
