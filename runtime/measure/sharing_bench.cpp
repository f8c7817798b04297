#include "runtime/measure/sharing_bench.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "runtime/library/device.h"
#include "runtime/measure/agreement.h"
#include "sim/cost/kernels.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;
using sim::Bytes;
using sim::Seconds;

constexpr Bytes kUnknownCache = 32.0 * sim::MiB;
constexpr double kCached = 0.125;  // caches that a cached copy moves
constexpr std::int64_t kGemm = 512;
constexpr Seconds kBatch{0.02};  // of calls: what ranks differ in starting is little beside it
constexpr int kLeastPairs = 3, kMostPairs = 50;

struct Call {
  const char* kind;
  Bytes moved;
  std::function<void()> run;
};

Call copy(const char* kind, Bytes moved) {
  const auto values = static_cast<std::int64_t>(moved.value() / 8.0);
  const at::Tensor from = at::rand({values}), to = at::zeros({values});
  return {kind, Bytes(8.0 * static_cast<double>(values)), [=] { to.copy_(from); }};
}

Call gemm() {
  const at::Tensor a = at::rand({kGemm, kGemm}), b = at::rand_like(a), c = at::empty_like(a);
  const auto values = static_cast<double>(a.numel());
  return {"gemm", Bytes(3.0 * 4.0 * values), [=] {
            at::Tensor into = c;
            at::mm_out(into, a, b);
          }};
}

void run(const Call& call, int times) {
  for (int i = 0; i < times; ++i) call.run();
}

Seconds batch(const Call& call, int calls) {
  return timed(at::kCPU, [&] { run(call, calls); });
}

int calls_in_a_batch(Communicator& world, const Call& call) {
  call.run();
  const Seconds one = slowest(&world, timed(at::kCPU, call.run), at::kCPU);
  return static_cast<int>(std::clamp(std::ceil(kBatch / one), 1.0, 1e6));
}

// One rank of each node after the other.
Seconds alone(Communicator& world, const SharingBenchOptions& options, const Call& call,
              int calls) {
  Seconds longest;
  for (int turn = 0; turn < options.local_ranks; ++turn) {
    const Seconds own = turn == options.local_rank ? batch(call, calls) : Seconds(0.0);
    longest = std::max(longest, slowest(&world, own, at::kCPU));
  }
  return longest;
}

// The first and the last calls, beside which a rank may not have begun or may have ended, are not
// timed.
Seconds together(Communicator& world, const Call& call, int calls) {
  const int edge = std::max(1, calls / 4);
  slowest(&world, Seconds(0.0), at::kCPU);
  run(call, edge);
  const Seconds own = batch(call, calls);
  run(call, edge);
  return slowest(&world, own, at::kCPU);
}

void measure(Communicator& world, const SharingBenchOptions& options, const Call& call,
             Seconds budget) {
  const std::string key = std::string("sharing/") + call.kind;
  if (answer_of_first(world, options.has(key), at::kCPU)) return;
  const int calls = calls_in_a_batch(world, call);
  const Seconds pair = alone(world, options, call, calls) + together(world, call, calls);
  const int pairs =
      std::clamp(static_cast<int>(budget / (static_cast<double>(options.local_ranks) * pair)),
                 kLeastPairs, kMostPairs);
  std::vector<Seconds> alone_times, together_times, ratios;
  for (int i = 0; i < pairs; ++i) {
    alone_times.push_back(alone(world, options, call, calls));
    together_times.push_back(together(world, call, calls));
    ratios.push_back(Seconds(together_times.back() / alone_times.back()));
  }
  const Timing ratio = summary(std::move(ratios));
  if (world.rank() != 0) return;
  options.record({{"type", "sharing"},
                  {"key", key},
                  {"kind", call.kind},
                  {"ranks", options.local_ranks},
                  {"bytes", call.moved.value()},
                  {"outcome", "ok"},
                  {"alone_s", (summary(std::move(alone_times)).median / calls).value()},
                  {"together_s", (summary(std::move(together_times)).median / calls).value()},
                  {"slowdown", ratio.median.value()},
                  {"spread", ratio.spread},
                  {"repeats_n", ratio.repeats}});
}

}  // namespace

void bench_sharing(Communicator& world, const SharingBenchOptions& options) {
  const Bytes cache = options.cache > Bytes(0.0) ? options.cache : kUnknownCache;
  constexpr double kCalls = 3.0;
  measure(world, options, gemm(), options.budget / kCalls);
  measure(world, options, copy("copy", std::min(sim::kCopyOfMemory * cache, options.memory)),
          options.budget / kCalls);
  measure(world, options, copy("cached_copy", kCached * cache), options.budget / kCalls);
}

}  // namespace llmsim::runtime
