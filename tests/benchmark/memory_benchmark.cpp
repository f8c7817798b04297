// What one strategy costs a search: the walk over its passes, and the prices that all strategies of
// one combination of widths share.
#include <benchmark/benchmark.h>

#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "tests/catalogue.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// llama-3-8b over data * tensor * stages devices, `micro_batches` of one sequence each.
Run memory_run(int data, int tensor, int stages, Sharding sharding, int micro_batches) {
  Run run = small_run(data * tensor * stages);
  run.model = find_model("llama-3-8b")->model;
  run.strategy.dp = data, run.strategy.tp = tensor, run.strategy.pp = stages;
  run.strategy.sequence_parallel = tensor > 1;
  run.strategy.sharding = sharding;
  run.strategy.global_batch = micro_batches * data;
  return run;
}

void footprint(benchmark::State& state, const Run& run) {
  const LayerPrices prices = layer_prices(run);
  for (auto _ : state) benchmark::DoNotOptimize(memory_footprint(run, prices));
}

void explained(benchmark::State& state, const Run& run) {
  const LayerPrices prices = layer_prices(run);
  Memory memory = memory_footprint(run, prices);
  for (auto _ : state) benchmark::DoNotOptimize(explain_peaks(memory, run, prices));
}

void curve(benchmark::State& state, const Run& run) {
  const LayerPrices prices = layer_prices(run);
  for (auto _ : state) benchmark::DoNotOptimize(memory_curve(run, prices, 0, false));
}

void shared_prices(benchmark::State& state, const Run& run) {
  for (auto _ : state) benchmark::DoNotOptimize(layer_prices(run));
}

const Run kZero3 = memory_run(8, 1, 1, Sharding::Zero3, 8);
const Run kPipeline = memory_run(1, 4, 8, Sharding::None, 32);
const Run kLongPipeline = memory_run(1, 4, 8, Sharding::None, 256);
const Run kDeepPipeline = [] {
  Run run = memory_run(1, 1, 1024, Sharding::None, 2048);
  run.model.num_layers = 1024;
  return run;
}();

BENCHMARK_CAPTURE(footprint, zero3_8, kZero3)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(footprint, tp_4_pp_8, kPipeline)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(footprint, tp_4_pp_8_256_micro_batches, kLongPipeline)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(explained, pp_1024, kDeepPipeline)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(curve, zero3_8, kZero3)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(curve, tp_4_pp_8_one_stage, kPipeline)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(shared_prices, tp_4, kPipeline)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace llmsim::sim
