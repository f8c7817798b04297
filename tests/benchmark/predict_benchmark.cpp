#include <benchmark/benchmark.h>

#include "sim/model/catalogue.h"
#include "sim/plan.h"
#include "sim/predict.h"
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
  return run;
}

void predict_80_layers(benchmark::State& state) {
  const Run run = large_run();
  for (auto _ : state) benchmark::DoNotOptimize(predict(run));
}
BENCHMARK(predict_80_layers)->Unit(benchmark::kMicrosecond);

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
  for (auto _ : state) benchmark::DoNotOptimize(predict(run));
}
BENCHMARK_CAPTURE(predict_deepseek_v3, 1f1b, PipelineSchedule::OneForwardOneBackward)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict_deepseek_v3, dualpipe, PipelineSchedule::DualPipe)
    ->Unit(benchmark::kMicrosecond);

void plan_256_devices(benchmark::State& state) {
  PlanQuery query;
  query.base = large_run();
  std::size_t evaluated = 0;
  for (auto _ : state) {
    const Plan result = plan(query);
    evaluated += result.evaluated;
    benchmark::DoNotOptimize(result);
  }
  state.counters["strategies"] =
      benchmark::Counter(static_cast<double>(evaluated), benchmark::Counter::kIsRate);
}
BENCHMARK(plan_256_devices)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmsim::sim
