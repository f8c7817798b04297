#include "runtime/measure/kernel_bench.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <string_view>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "runtime/library/accelerator.h"
#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "sim/base/error.h"
#include "sim/cost/kernels.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

json description(const KernelCase& one) {
  const sim::Operator& op = one.op;
  json record{{"type", "kernel"},
              {"key", one.key()},
              {"kind", sim::name_of(op.kind)},
              {"label", op.label},
              {"pass", pass_name(one.backward)},
              {"dtype", sim::name_of(one.dtype)},
              {"flops", op.flops.value()},
              {"moved_bytes", op.moved.value()},
              {"kernels", op.kernels}};
  if (is_memory_bound(op.kind))
    record["kernel"] =
        name_of(memory_bound_kernel(op, memory_bound_forms(one.model, one.strategy)));
  const bool attention = op.kind == sim::OperatorKind::Attention;
  if (op.kind == sim::OperatorKind::Gemm || attention) {
    record.update({{"batch", op.batch},
                   {"m", op.m},
                   {"n", op.n},
                   {"k", op.k},
                   {"weight_gradient", op.weight_gradient},
                   {"transposed", op.transposed}});
  }
  if (attention)
    record.update({{"causal", op.causal}, {"repeats", op.repeats}, {"attention", "blockwise"}});
  return record;
}

constexpr sim::Seconds kCallsInARow{2e-3};  // of calls in a row
constexpr double kMostCalls = 1000.0;

// Calls in a row on an accelerator, from the time of some; on a CPU none waits for another.
int calls_in_a_row(c10::Device device, const std::function<void()>& work) {
  if (!device.is_cuda()) return 1;
  constexpr int kTried = 3;
  const sim::Seconds tried = timed(device, [&] {
    for (int i = 0; i < kTried; ++i) work();
  });
  const double calls = kTried * (kCallsInARow / std::max(tried, sim::Seconds(1e-9)));
  return static_cast<int>(std::clamp(std::round(calls), 1.0, kMostCalls));
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// A kernel that fails for good leaves a device on which every call fails.
void require_working(c10::Device device, const std::string& reason) {
  try {
    synchronize(device);
    timed(device, [] {});
  } catch (const std::exception&) {
    throw Error("the device takes no more work after: " + reason);
  }
}

bool says_out_of_memory(std::string_view message) {
  return message.find("out of memory") != std::string_view::npos ||
         message.find("can't allocate memory") != std::string_view::npos;
}

}  // namespace

Timing timed_calls(c10::Device device, const std::function<void()>& work,
                   const RepeatOptions& options) {
  work();  // what a library prepares for a shape, and memory that it takes
  const int calls = calls_in_a_row(device, work);
  Timing timing = repeated(
      [&] {
        return timed(device, [&] {
          for (int i = 0; i < calls; ++i) work();
        });
      },
      options);
  timing.median /= calls;
  timing.calls = calls;
  return timing;
}

void add_timing(json& record, const Timing& timing) {
  record["median_s"] = timing.median.value();
  record["mean_s"] = timing.mean.value();
  record["spread"] = timing.spread;
  record["half_width"] = timing.half_width;
  record["repeats_n"] = timing.repeats;
  if (timing.calls > 1) record["calls"] = timing.calls;
}

void add_clock(json& record, const ClockSummary& clock) {
  const auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) record[key] = *value;
  };
  put("clock_hz", clock.clock_hz);
  put("watts", clock.watts);
  put("celsius", clock.temperature);
  if (clock.lowest_clock_hz < clock.clock_hz) put("lowest_clock_hz", clock.lowest_clock_hz);
  if (const auto names = throttle_names(clock.throttle_reasons); !names.empty())
    record["throttled_by"] = names;
}

void with_outcome(json& record, c10::Device device, const std::function<void()>& measure,
                  bool alone) {
  const bool recorded = alone && device.is_cuda();
  record["outcome"] = "ok";
  std::string refusal;
  try {
    measure();
  } catch (const std::bad_alloc&) {
    record["outcome"] = "oom";
  } catch (const c10::Error& error) {
    if (says_out_of_memory(error.what())) {
      record["outcome"] = "oom";
    } else if (!recorded) {
      throw;
    } else {
      refusal = first_line(error.what());
    }
  } catch (const std::exception& error) {
    if (!recorded) throw;
    refusal = first_line(error.what());
  }
  if (record["outcome"] == "oom") empty_cache(device);
  if (refusal.empty()) return;
  require_working(device, refusal);
  record["outcome"] = "refused";
  record["reason"] = refusal;
}

json measure_kernel(const KernelCase& one, c10::Device device, sim::Bytes cache,
                    const RepeatOptions& options) {
  json record = description(one);
  with_outcome(record, device, [&] {
    const std::optional<Work> work = work_of(one, device, cache);
    if (!work) return;
    ClockLog clock(device);
    Timing timing = timed_calls(device, work->run, options);
    const ClockSummary clocks = clock.stop();
    if (work->overhead) {
      const Timing overhead = timed_calls(device, work->overhead, options);
      timing.median = std::max(sim::Seconds(0.0), timing.median - overhead.median);
    }
    add_timing(record, timing);
    add_clock(record, clocks);
  });
  return record;
}

}  // namespace llmsim::runtime
