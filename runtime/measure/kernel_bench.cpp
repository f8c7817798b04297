#include "runtime/measure/kernel_bench.h"

#include <new>
#include <string_view>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "runtime/library/device.h"
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

bool says_out_of_memory(std::string_view message) {
  return message.find("out of memory") != std::string_view::npos ||
         message.find("can't allocate memory") != std::string_view::npos;
}

}  // namespace

void add_timing(json& record, const Timing& timing) {
  record["median_s"] = timing.median.value();
  record["spread"] = timing.spread;
  record["half_width"] = timing.half_width;
  record["repeats_n"] = timing.repeats;
}

void with_outcome(json& record, const std::function<void()>& measure) {
  record["outcome"] = "ok";
  try {
    measure();
  } catch (const std::bad_alloc&) {
    record["outcome"] = "oom";
  } catch (const c10::Error& error) {
    if (!says_out_of_memory(error.what())) throw;
    record["outcome"] = "oom";
  }
}

json measure_kernel(const KernelCase& one, c10::Device device, sim::Bytes cache,
                    const RepeatOptions& options) {
  json record = description(one);
  with_outcome(record, [&] {
    const std::optional<Work> work = work_of(one, device, cache);
    if (!work) return;
    Timing timing = repeated([&] { return timed(device, work->run); }, options);
    if (work->overhead) {
      const Timing overhead = repeated([&] { return timed(device, work->overhead); }, options);
      timing.median = std::max(sim::Seconds(0.0), timing.median - overhead.median);
    }
    add_timing(record, timing);
    const PowerState power = power_state(device);
    if (power.clock_hz) record["clock_hz"] = *power.clock_hz;
    if (power.watts) record["watts"] = *power.watts;
  });
  return record;
}

}  // namespace llmsim::runtime
