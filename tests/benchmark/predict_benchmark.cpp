#include <benchmark/benchmark.h>

#include "sim/plan.h"
#include "sim/predict.h"
#include "tests/catalogue.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// An 80-layer model on 256 devices: tp 8, pp 8, dp 4, 128 micro-batches.
Run large_run() {
  Run run = small_run(256);
  run.model = find_model("llama-3-70b")->model;
  run.strategy.tp = 8, run.strategy.pp = 8, run.strategy.dp = 4;
  run.strategy.sequence_parallel = true;
  run.strategy.sharding = Sharding::Zero1;
  run.strategy.global_batch = 512;
  run.framework.errors.collectives = 0.5, run.framework.errors.hosts = 0.3;
  return run;
}

void predict_80_layers(benchmark::State& state) {
  const Run run = large_run();
  for (auto _ : state) benchmark::DoNotOptimize(predict(run));
}
BENCHMARK(predict_80_layers)->Unit(benchmark::kMicrosecond);

void predict_by_layers(benchmark::State& state) {
  Run run = large_run();
  run.model.num_layers = static_cast<int>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(predict(run));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(predict_by_layers)
    ->RangeMultiplier(2)
    ->Range(8, 256)
    ->Unit(benchmark::kMicrosecond)
    ->Complexity();

void predict_by_micro_batches(benchmark::State& state) {
  Run run = large_run();
  run.strategy.global_batch = static_cast<int>(state.range(0)) * run.strategy.dp;
  for (auto _ : state) benchmark::DoNotOptimize(predict(run));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(predict_by_micro_batches)
    ->RangeMultiplier(4)
    ->Range(8, 2048)
    ->Unit(benchmark::kMicrosecond)
    ->Complexity();

// DeepSeek-V3 with its prediction layer on 2,048 devices: pp 16, dp 128, ep 64, 120 micro-batches.
void predict_deepseek_v3(benchmark::State& state, PipelineSchedule schedule) {
  Run run = small_run(2048);
  run.model = find_model("deepseek-v3-mtp")->model;
  run.strategy.pp = 16, run.strategy.dp = 128, run.strategy.ep = 64;
  run.strategy.pipeline_schedule = schedule;
  run.strategy.moe_dispatch = ExpertDispatch::Deduplicated;
  run.strategy.precision = Precision::Fp8;
  run.strategy.sharding = Sharding::Zero1;
  run.strategy.global_batch = 15360;
  run.framework.errors.collectives = 0.5, run.framework.errors.hosts = 0.3;
  for (auto _ : state) benchmark::DoNotOptimize(predict(run));
}
BENCHMARK_CAPTURE(predict_deepseek_v3, 1f1b, PipelineSchedule::OneForwardOneBackward)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict_deepseek_v3, dualpipe, PipelineSchedule::DualPipe)
    ->Unit(benchmark::kMicrosecond);

// Strategies a second: all, and those whose step was simulated.
void plan_with(benchmark::State& state, const PlanQuery& query) {
  std::size_t evaluated = 0, priced = 0;
  for (auto _ : state) {
    const Plan result = plan(query);
    evaluated += result.evaluated, priced += result.priced;
    benchmark::DoNotOptimize(result);
  }
  const auto rate = [](std::size_t count) {
    return benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsRate);
  };
  state.counters["strategies"] = rate(evaluated);
  state.counters["priced"] = rate(priced);
}

void plan_256_devices(benchmark::State& state) {
  PlanQuery query;
  query.base = large_run();
  plan_with(state, query);
}
BENCHMARK(plan_256_devices)->Unit(benchmark::kMillisecond);

void plan_by_layers(benchmark::State& state) {
  PlanQuery query;
  query.base = large_run();
  query.base.model.num_layers = static_cast<int>(state.range(0));
  plan_with(state, query);
}
BENCHMARK(plan_by_layers)->RangeMultiplier(2)->Range(10, 160)->Unit(benchmark::kMillisecond);

void plan_by_devices(benchmark::State& state) {
  PlanQuery query;
  query.base = large_run();
  query.base.cluster.num_devices = static_cast<int>(state.range(0));
  plan_with(state, query);
}
BENCHMARK(plan_by_devices)->RangeMultiplier(4)->Range(64, 4096)->Unit(benchmark::kMillisecond);

void plan_by_batch(benchmark::State& state) {
  PlanQuery query;
  query.base = large_run();
  query.base.strategy.global_batch = static_cast<int>(state.range(0));
  plan_with(state, query);
}
BENCHMARK(plan_by_batch)->RangeMultiplier(4)->Range(256, 4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmsim::sim
