#include "runtime/measure/campaign.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/kernels/low_precision_linear.h"
#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "runtime/library/operator_call.h"
#include "runtime/measure/counted_step.h"
#include "runtime/measure/device_bench.h"
#include "runtime/measure/kernel_bench.h"
#include "runtime/measure/results.h"
#include "runtime/measure/shapes.h"
#include "runtime/measure/step_bench.h"
#include "runtime/measure/step_file.h"
#include "runtime/parallel/rank_groups.h"
#include "sim/cost/kernels.h"
#include "sim/strategy/mesh.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Of the budget.  Accelerators have library kernels of their own, which belong to the device.
struct Shares {
  double device, kernels, steps;
};
Shares shares_of(c10::Device device) {
  return device.is_cpu() ? Shares{0.05, 0.40, 0.55} : Shares{0.25, 0.20, 0.55};
}
constexpr double kSustainedShare = 0.04;  // of a budget, for one GEMM again and again
constexpr sim::Seconds kLongestSustained{60.0};
constexpr double kMemoryShare = 0.25;  // of what is free, for one case
constexpr double kCopyShare = 0.5;     // of what is free, for both buffers of the largest copy
// Of what is free, for the cache that cold operands go beyond.
constexpr double kColdShare = 0.0625;

// Rough rates of one core and of an accelerator, to choose shapes by.
constexpr sim::FlopsPerSecond kCoreRate{5e10}, kAcceleratorRate{2e14};
constexpr sim::BytesPerSecond kCoreBandwidth{5e9}, kAcceleratorBandwidth{1e12};

struct Measurement {
  std::string key;
  double seconds = 0.0;  // that it may take
  std::function<json()> measure;
};

RepeatOptions repeats(double seconds, bool quick) {
  return {.warm_up = quick ? 1 : 2,
          .least = quick ? 3 : 5,
          .most = 200,
          .precision = quick ? 0.03 : 0.01,
          .budget = sim::Seconds(seconds)};
}

json header_of(const CampaignOptions& options, const Environment& environment) {
  char started[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm calendar{};
  std::strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &calendar));
  return {{"type", "header"},
          {"schema", 2},
          {"started", started},
          {"accelerator", options.accelerator},
          {"device",
           {{"name", environment.device},
            {"kind", environment.kind},
            {"cores", environment.cores},
            {"threads", environment.threads},
            {"memory_bytes", environment.memory.value()},
            {"last_level_cache_bytes", environment.last_level_cache.value()},
            {"compute_units", environment.compute_units},
            {"bf16", environment.multiplies_bf16},
            {"fp8", has_low_precision_gemms(options.device)}}},
          {"library",
           {{"libtorch", environment.libtorch},
            {"blas", environment.blas},
            {"driver", environment.driver},
            {"device_runtime", environment.runtime_version},
            {"operating_system", environment.operating_system}}}};
}

sim::Bytes free_memory(c10::Device device, const Environment& environment) {
  return available_memory(device).value_or(environment.memory);
}

ShapeLimits shape_limits(const CampaignOptions& options, const Environment& environment) {
  const bool cpu = options.device.is_cpu();
  ShapeLimits limits;
  limits.precisions = {sim::Precision::Fp32};
  if (environment.multiplies_bf16) limits.precisions.push_back(sim::Precision::Bf16);
  limits.memory = kMemoryShare * free_memory(options.device, environment);
  limits.longest = sim::Seconds((options.quick ? 0.0005 : 0.002) * options.budget.value());
  limits.longest = std::min(limits.longest, sim::Seconds(1.0));
  limits.rate = cpu ? options.threads * kCoreRate : kAcceleratorRate;
  limits.bandwidth = cpu ? options.threads * kCoreBandwidth : kAcceleratorBandwidth;
  limits.cases_per_kind = options.quick ? 4 : 40;
  if (!cpu) limits.shortest_sequence = 512, limits.longest_sequence = 8192;
  return limits;
}

std::vector<std::int64_t> copies(const CampaignOptions& options, const Environment& environment) {
  const CopyLimits limits{.cache = environment.last_level_cache,
                          .usual = (options.quick ? 0.125 : 1.0) * sim::GiB,
                          .buffers = kCopyShare * free_memory(options.device, environment)};
  const std::vector<std::int64_t> sizes = copy_sizes(limits);
  if (!leave_cache(sizes, limits.cache)) {
    std::fprintf(stderr,
                 "llmsim-runtime: warning: a copy of %.0f times the last-level cache of %.0f MiB "
                 "does not fit the free memory "
                 "and is left out; the memory bandwidth will be that of %.0f MiB, which the cache "
                 "holds in part\n",
                 sim::kCopyOfMemory, limits.cache / sim::MiB,
                 2.0 * static_cast<double>(sizes.back()) / sim::MiB.value());
  }
  return sizes;
}

std::vector<Measurement> device_phase(const CampaignOptions& options,
                                      const Environment& environment) {
  std::vector<Measurement> all;
  const DeviceLimits limits{
      .copies = copies(options, environment),
      .sustained = std::min(kLongestSustained, kSustainedShare * options.budget),
      .longest = std::min(sim::Seconds(1.0), 0.0003 * options.budget)};
  std::vector<DeviceMeasurement> list = device_measurements(options.device, limits);
  const double each =
      shares_of(options.device).device * options.budget.value() / static_cast<double>(list.size());
  for (DeviceMeasurement& one : list) {
    all.push_back({one.key, each, [=, measure = std::move(one.measure)] {
                     return measure(repeats(each, options.quick));
                   }});
  }
  return all;
}

std::vector<Measurement> kernel_phase(const CampaignOptions& options,
                                      const Environment& environment) {
  std::vector<Measurement> all;
  const std::vector<KernelCase> cases = kernel_cases(shape_limits(options, environment));
  const double each = shares_of(options.device).kernels * options.budget.value() /
                      static_cast<double>(std::max<std::size_t>(1, cases.size()));
  // Cold operands rotate through copies of twice the cache: on a small part of a machine with a
  // large one these would not fit.
  const sim::Bytes cache =
      std::min(environment.last_level_cache, kColdShare * free_memory(options.device, environment));
  for (const KernelCase& one : cases) {
    all.push_back({one.key(), each, [=, &options] {
                     return measure_kernel(one, options.device, cache,
                                           repeats(each, options.quick));
                   }});
  }
  return all;
}

std::vector<Measurement> step_phase(const CampaignOptions& options,
                                    const Environment& environment) {
  std::vector<Measurement> all;
  const std::vector<StepCase> cases =
      options.step_file.empty()
          ? step_cases(options.device, environment.multiplies_bf16)
          : std::vector<StepCase>{read_step_file(options.step_file, options.device)};
  const double each = shares_of(options.device).steps * options.budget.value() /
                      static_cast<double>(std::max<std::size_t>(1, cases.size()));
  RepeatOptions repeated = repeats(each, options.quick);
  if (!options.device.is_cpu() || !options.step_file.empty()) repeated.least = 3;
  for (const StepCase& one : cases) {
    all.push_back({one.key, each, [=, &options] {
                     const RankGroups groups = counting_groups(one.setup.strategy, 0);
                     return measure_step(one, groups, options.accelerator, repeated);
                   }});
  }
  return all;
}

// What a campaign consists of: each phase may take its share of the budget, and what the phases
// before it left.
struct Phase {
  double share = 0.0;
  std::vector<Measurement> measurements;
};

double seconds_of(const Phase& phase, const ResultFile& file) {
  double work = 0.0;
  for (const Measurement& one : phase.measurements)
    work += file.contains(one.key) ? 0.0 : one.seconds;
  return work;
}

// Goes through the phases; false where the budget of one was spent before its end.
bool measure_all(const std::vector<Phase>& phases, ResultFile& file, sim::Seconds budget) {
  double work = 0.0, shares = 0.0, deadline = 0.0;
  for (const Phase& phase : phases) work += seconds_of(phase, file), shares += phase.share;
  Progress progress(work);
  const auto start = Clock::now();
  bool finished = true;
  for (const Phase& phase : phases) {
    deadline += phase.share / shares * budget.value();
    for (const Measurement& one : phase.measurements) {
      if (file.contains(one.key)) continue;
      const bool late = std::chrono::duration<double>(Clock::now() - start).count() > deadline;
      finished = finished && !late;
      if (!late) file.append(one.measure());
      progress.advance(one.seconds, one.key);
    }
  }
  return finished;
}

}  // namespace

json campaign_header(const CampaignOptions& options) {
  return header_of(options, environment(options.device));
}

std::vector<json> counted_records(const CampaignOptions& options) {
  std::vector<json> records;
  if (options.step_file.empty()) return records;
  install_meta_kernels();
  const StepCase one = read_step_file(options.step_file, c10::kMeta);
  const sim::Strategy& strategy = one.setup.strategy;
  const int stride = sim::group_stride(strategy, sim::GroupKind::Pipeline);
  for (int stage = 0; stage < strategy.pp; ++stage)
    records.push_back(counted_record(one, stage * stride));
  return records;
}

void run_campaign(const CampaignOptions& options) {
  keep_freed_memory();
  install_memory_meter();
  use_threads(options.threads);
  const Environment machine = environment(options.device);
  ResultFile file(options.output, options.resume ? Opening::Resume : Opening::Fresh,
                  header_of(options, machine));
  const sim::Seconds left = options.budget - sim::Seconds(file.elapsed());
  std::vector<Phase> phases;
  const Shares shares = shares_of(options.device);
  if (options.kernels) phases.push_back({shares.device, device_phase(options, machine)});
  if (options.kernels) phases.push_back({shares.kernels, kernel_phase(options, machine)});
  if (options.steps) phases.push_back({shares.steps, step_phase(options, machine)});
  for (const json& record : counted_records(options))
    if (!file.contains(record.at("key"))) file.append(record);
  const bool finished = measure_all(phases, file, left);
  std::fprintf(
      stderr, "llmsim-runtime: %zu records in %s%s\n", file.size(), options.output.c_str(),
      finished ? "" : "; the budget is spent, --resume with a larger --budget goes on from here");
}

}  // namespace llmsim::runtime
