#include "runtime/measure/sharing_bench.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "runtime/library/device.h"
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

class SharingBench {
 public:
  SharingBench(Communicator& world, const SharingBenchOptions& options)
      : world_(world), options_(options) {}

  void measure(const Call& call, Seconds budget) {
    const std::string key = std::string("sharing/") + call.kind;
    if (known(key)) return;
    calls_ = calls_in_a_batch(call);
    const Seconds pair = alone(call) + together(call);
    const int pairs =
        std::clamp(static_cast<int>(budget / (static_cast<double>(options_.local_ranks) * pair)),
                   kLeastPairs, kMostPairs);
    std::vector<Seconds> alone_times, together_times, ratios;
    for (int i = 0; i < pairs; ++i) {
      alone_times.push_back(alone(call));
      together_times.push_back(together(call));
      ratios.push_back(Seconds(together_times.back() / alone_times.back()));
    }
    const Timing ratio = summary(std::move(ratios));
    if (world_.rank() != 0) return;
    options_.record({{"type", "sharing"},
                     {"key", key},
                     {"kind", call.kind},
                     {"ranks", options_.local_ranks},
                     {"bytes", call.moved.value()},
                     {"outcome", "ok"},
                     {"alone_s", (summary(std::move(alone_times)).median / calls_).value()},
                     {"together_s", (summary(std::move(together_times)).median / calls_).value()},
                     {"slowdown", ratio.median.value()},
                     {"spread", ratio.spread},
                     {"repeats_n", ratio.repeats}});
  }

 private:
  // The largest of all ranks; they go on together.
  Seconds slowest(Seconds own) {
    const at::Tensor largest = at::full({1}, own.value(), at::kDouble);
    world_.all_reduce(largest, Reduction::Max);
    return Seconds(largest.item<double>());
  }

  int calls_in_a_batch(const Call& call) {
    call.run();
    return static_cast<int>(
        std::clamp(std::ceil(kBatch / slowest(timed(at::kCPU, call.run))), 1.0, 1e6));
  }

  void run(const Call& call, int times) const {
    for (int i = 0; i < times; ++i) call.run();
  }

  Seconds batch(const Call& call) const {
    return timed(at::kCPU, [&] { run(call, calls_); });
  }

  // One rank of each node after the other.
  Seconds alone(const Call& call) {
    Seconds longest;
    for (int turn = 0; turn < options_.local_ranks; ++turn)
      longest =
          std::max(longest, slowest(turn == options_.local_rank ? batch(call) : Seconds(0.0)));
    return longest;
  }

  // The first and the last calls, beside which a rank may not have begun or may have ended, are not
  // timed.
  Seconds together(const Call& call) {
    const int edge = std::max(1, calls_ / 4);
    slowest(Seconds(0.0));
    run(call, edge);
    const Seconds own = batch(call);
    run(call, edge);
    return slowest(own);
  }

  // Rank 0 knows.
  bool known(const std::string& key) {
    const at::Tensor answer =
        at::full({1}, world_.rank() == 0 && options_.has(key) ? 1 : 0, at::kLong);
    world_.broadcast(answer, 0);
    return answer.item<std::int64_t>() == 1;
  }

  Communicator& world_;
  const SharingBenchOptions& options_;
  int calls_ = 1;
};

}  // namespace

void bench_sharing(Communicator& world, const SharingBenchOptions& options) {
  const Bytes cache = options.cache > Bytes(0.0) ? options.cache : kUnknownCache;
  SharingBench bench(world, options);
  constexpr double kCalls = 3.0;
  bench.measure(gemm(), options.budget / kCalls);
  bench.measure(copy("copy", std::min(sim::kCopyOfMemory * cache, options.memory)),
                options.budget / kCalls);
  bench.measure(copy("cached_copy", kCached * cache), options.budget / kCalls);
}

}  // namespace llmsim::runtime
