// What a search pays for one complete strategy whose prices it knows, by part: passes and overlap,
// the events of the pipeline, the walk through memory; and what all strategies of a space cost that
// share what they have in common (sim/search/complete_search.h).
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>

#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "sim/schedule/step.h"
#include "sim/search/complete_search.h"
#include "tests/catalogue.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// llama-3-70b on 256 devices, 128 micro-batches of a sequence each, in `chunks` chunks a stage.
Run llama_run(int chunks) {
  Run run = small_run(256);
  run.model = find_model("llama-3-70b")->model;
  run.strategy.tp = 8, run.strategy.pp = 8, run.strategy.dp = 4;
  run.strategy.sequence_parallel = true;
  run.strategy.sharding = Sharding::Zero1;
  run.strategy.global_batch = 512;
  if (chunks == 1) return run;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  run.strategy.virtual_stages = chunks;
  return run;
}

// Without a pipeline.
Run sharded_run() {
  Run run = llama_run(1);
  run.strategy.pp = 1, run.strategy.dp = 32, run.strategy.sharding = Sharding::Zero3;
  return run;
}

// DeepSeek-V3 on 2,048 devices: pp 16, dp 128, ep 64, 120 micro-batches.
Run deepseek_run() {
  Run run = small_run(2048);
  run.model = find_model("deepseek-v3")->model;
  run.strategy.pp = 16, run.strategy.dp = 128, run.strategy.ep = 64;
  run.strategy.precision = Precision::Fp8;
  run.strategy.sharding = Sharding::Zero1;
  run.strategy.global_batch = 15360;
  return run;
}

void count_strategies(benchmark::State& state) {
  state.counters["strategies"] =
      benchmark::Counter(1.0, benchmark::Counter::kIsIterationInvariantRate);
}

void passes(benchmark::State& state, const Run& run) {
  const LayerPrices prices = layer_prices(run);
  for (auto _ : state) {
    const StepSimulation step(run, prices, StepSimulation::Passes{});
    benchmark::DoNotOptimize(step.bound());
  }
  count_strategies(state);
}

void pipeline(benchmark::State& state, const Run& run) {
  const LayerPrices prices = layer_prices(run);
  StepSimulation step(run, prices, StepSimulation::Passes{});
  for (auto _ : state) {
    step.simulate();
    benchmark::DoNotOptimize(step.terms());
  }
  count_strategies(state);
}

void memory(benchmark::State& state, const Run& run) {
  const LayerPrices prices = layer_prices(run);
  const StepSimulation step(run, prices, StepSimulation::Passes{});
  for (auto _ : state)
    benchmark::DoNotOptimize(memory_footprint(run, prices, step.contents(), MemoryStages::Fullest));
  count_strategies(state);
}

void complete(benchmark::State& state, const Run& run) {
  const LayerPrices prices = layer_prices(run);
  for (auto _ : state) {
    StepSimulation step(run, prices, StepSimulation::Passes{});
    benchmark::DoNotOptimize(memory_footprint(run, prices, step.contents(), MemoryStages::Fullest));
    step.simulate();
    benchmark::DoNotOptimize(step.terms());
  }
  count_strategies(state);
}

// Shardings of a framework that keeps whole gradients from step to step, as Megatron's buffers do,
// and of one whose gradients come and go (FSDP), whose memory is followed pass by pass.
PlanQuery whole_gradients() {
  PlanQuery query;
  query.base = llama_run(1);
  query.base.framework.gradients.persist = true;
  query.base.framework.offers = {.module_recompute = true, .mesh_order = true};
  query.restriction["sharding"] = {std::string("none"), std::string("zero1")};
  return query;
}

PlanQuery passing_gradients() {
  PlanQuery query;
  query.base = llama_run(1);
  query.restriction["sharding"] = {std::string("zero3")};
  return query;
}

// All strategies of a space that keep the rules, each with its memory and its time.
void complete_space(benchmark::State& state, const PlanQuery& query) {
  std::size_t strategies = 0;
  for (auto _ : state) {
    const PlanProblem problem(query);
    CompleteSearch search(problem, CompleteTimes::OfAll);
    for (const LayoutGroup& group : problem.groups)
      search.search(group, [&](const CompleteStrategy& one) {
        benchmark::DoNotOptimize(one.time);
        ++strategies;
      });
  }
  state.counters["strategies"] =
      benchmark::Counter(static_cast<double>(strategies), benchmark::Counter::kIsRate);
}

const Run kSharded = sharded_run(), kOneChunk = llama_run(1), kTenChunks = llama_run(10),
          kMoe = deepseek_run();

#define BENCHMARK_STRATEGY(part)                                                       \
  BENCHMARK_CAPTURE(part, zero3_tp_8, kSharded)->Unit(benchmark::kMicrosecond);        \
  BENCHMARK_CAPTURE(part, tp_8_pp_8, kOneChunk)->Unit(benchmark::kMicrosecond);        \
  BENCHMARK_CAPTURE(part, tp_8_pp_8_vp_10, kTenChunks)->Unit(benchmark::kMicrosecond); \
  BENCHMARK_CAPTURE(part, deepseek_v3_pp_16, kMoe)->Unit(benchmark::kMicrosecond)
BENCHMARK_STRATEGY(passes);
BENCHMARK_STRATEGY(pipeline);
BENCHMARK_STRATEGY(memory);
BENCHMARK_STRATEGY(complete);
BENCHMARK_CAPTURE(complete_space, llama_70b_on_256, whole_gradients())
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(complete_space, llama_70b_on_256_zero3, passing_gradients())
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmsim::sim
