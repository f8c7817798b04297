#include <benchmark/benchmark.h>

#include "sim/base/quantity.h"

namespace llmsim::sim {
namespace {

// A roofline must cost as much as on plain doubles: a few divisions, no more.
void roofline(benchmark::State& state) {
  Flops work = 1 * TFLOP;
  Bytes moved = 1 * GB;
  for (auto _ : state) {
    benchmark::DoNotOptimize(work);
    benchmark::DoNotOptimize(moved);
    Seconds time = work / (989.4 * TFLOPS) + moved / (3.35 * TBps);
    benchmark::DoNotOptimize(time);
  }
}
BENCHMARK(roofline);

}  // namespace
}  // namespace llmsim::sim
