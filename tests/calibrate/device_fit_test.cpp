#include "calibrate/device_fit.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "calibrate/collective_fit.h"
#include "calibrate/measured_runs.h"
#include "hwdb/hardware/coefficients.h"
#include "sim/base/error.h"
#include "sim/cost/kernels.h"

namespace llmsim::calibrate {
namespace {

using hwdb::MeasuredKernel;
using sim::DType;
using sim::OperatorKind;

// A CPU of 100 GFLOP/s and 10 GB/s with 32 MB of cache, 2 us a kernel, whose norms stream at 0.5
// and, from the cache, 2.
sim::Device planted() {
  sim::Device device;
  device.matrix_peak[static_cast<std::size_t>(DType::Fp32)] = sim::FlopsPerSecond(1e11);
  device.memory_bandwidth = 10.0 * sim::GBps;
  device.cache = 32.0 * sim::MB;
  device.achieved.memory_fraction = 1.0;
  device.achieved.kernel_time = 2.0 * sim::us;
  sim::GemmCoefficients& gemm = device.achieved.gemm[static_cast<std::size_t>(DType::Fp32)];
  gemm = {.max_efficiency = 0.9,
          .k_half = 40.0,
          .wave_quantisation = 0.1,
          .alignment = 1,
          .weight_gradient_factor = 0.8};
  gemm.kernel_time = 4.0 * sim::us;
  device.achieved.memory_bound[static_cast<std::size_t>(DType::Fp32)]
      .backward[static_cast<std::size_t>(sim::MemoryBoundKernel::LayerNorm)] = {.cached = 2.0,
                                                                                .streamed = 0.5};
  return device;
}

MeasuredKernel measured_norm(double megabytes) {
  MeasuredKernel kernel;
  kernel.op = memory_bound(OperatorKind::Norm, "norm", megabytes * 1e6, 1.0, 2);
  kernel.op.dtype = DType::Fp32;
  kernel.backward = true;
  kernel.memory_bound = sim::MemoryBoundKernel::LayerNorm;
  kernel.median = memory_bound_time(kernel.op, true,
                                    sim::memory_bound_machine(planted(), {.dtype = DType::Fp32}));
  return kernel;
}

MeasuredKernel measured_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool weight_gradient) {
  MeasuredKernel kernel;
  kernel.op = gemm("", 1, m, n, k, DType::Fp32, DType::Fp32);
  kernel.op.weight_gradient = weight_gradient;
  kernel.median = gemm_time(kernel.op, sim::gemm_machine(planted(), DType::Fp32));
  return kernel;
}

MeasuredKernel measured_call(const char* library, double bytes, int kernels, sim::Seconds time) {
  MeasuredKernel kernel;
  kernel.library = library;
  kernel.op.moved = sim::Bytes(bytes);
  kernel.op.kernels = kernels;
  kernel.median = time;
  return kernel;
}

hwdb::RuntimeResults planted_results() {
  hwdb::RuntimeResults results{.file = "planted"};
  results.machine = {
      .id = "planted_cpu", .name = "planted", .kind = "cpu", .last_level_cache = 32.0 * sim::MB};
  results.kernels.push_back(measured_call("launch", 0.0, 100, 200.0 * sim::us));
  results.kernels.push_back(measured_call("stream_copy", 1e6, 1, 0.02 * sim::ms));
  results.kernels.push_back(measured_call("stream_copy", 2e8, 1, 20.0 * sim::ms));
  for (const double megabytes : {1.0, 4.0, 15.0, 65.0, 200.0})
    results.kernels.push_back(measured_norm(megabytes));
  for (const std::int64_t size : {64, 128, 192, 256, 512, 768, 1024}) {
    results.kernels.push_back(measured_gemm(512, size, 256, false));
    results.kernels.push_back(measured_gemm(256, 512, size, false));
    results.kernels.push_back(measured_gemm(size, 256, 512, true));
  }
  return results;
}

TEST(DeviceFit, FindsAPlantedDeviceAgain) {
  const DeviceFit fit = fit_device(planted_results());
  EXPECT_EQ(fit.device.id, "planted_cpu");
  EXPECT_NEAR(fit.device.memory_bandwidth / sim::GBps, 10.0, 1e-9);
  EXPECT_NEAR(fit.device.achieved.kernel_time / sim::us, 2.0, 1e-9);
  const sim::MemoryBoundRate norm =
      fit.device.achieved.memory_bound[static_cast<std::size_t>(DType::Fp32)]
          .backward[static_cast<std::size_t>(sim::MemoryBoundKernel::LayerNorm)];
  EXPECT_NEAR(norm.cached, 2.0, 1e-6);
  EXPECT_NEAR(norm.streamed, 0.5, 1e-6);
  const auto value_of = [&](const std::string& key) {
    for (const hwdb::Coefficient& row : fit.coefficients)
      if (row.key == key) return row.value;
    return 0.0;
  };
  EXPECT_NEAR(value_of("memory_bound.fp32.layer_norm.backward"), 0.5, 1e-6);
  EXPECT_NEAR(value_of("memory_bound.fp32.layer_norm.backward_cached"), 2.0, 1e-6);
  for (const FitQuality& row : fit.quality) EXPECT_LT(row.median_error, 0.02) << row.what;
}

// On an accelerator the efficiency that predictions will multiply by is divided out; a CPU keeps it.
// GEMMs that a busy machine made a million times slower cost no other value.
TEST(DeviceFit, AValueThatNoDeviceHasIsTakenAsTheLargestThatOneHas) {
  hwdb::RuntimeResults results = planted_results();
  results.sharing.push_back({.kind = "gemm", .ranks = 2, .slowdown = 1e6});
  const DeviceFit fit = fit_device(results);
  const auto gemms = std::ranges::find(fit.coefficients, "sharing.gemms", &hwdb::Coefficient::key);
  ASSERT_NE(gemms, fit.coefficients.end());
  EXPECT_EQ(gemms->value, hwdb::coefficient_range("sharing.gemms")->most);
  ASSERT_FALSE(fit.notes.empty());
  EXPECT_EQ(fit.notes.back().substr(0, 51), "sharing.gemms: 1e+06 was measured, which no device ");
}

TEST(DeviceFit, RatesInStepsAreThoseOfTheKernels) {
  hwdb::RuntimeResults results = planted_results();
  const auto norm_of = [](const DeviceFit& fit) {
    return fit.device.achieved.memory_bound[static_cast<std::size_t>(DType::Fp32)]
        .backward[static_cast<std::size_t>(sim::MemoryBoundKernel::LayerNorm)];
  };
  EXPECT_EQ(fit_device(results, 0.8).device.achieved.training_rate, 1.0);
  EXPECT_EQ(norm_of(fit_device(results, 0.8)).streamed, norm_of(fit_device(results)).streamed);
  results.machine.kind = "cuda";
  const DeviceFit whole = fit_device(results), fit = fit_device(results, 0.8);
  EXPECT_EQ(whole.device.achieved.training_rate, 1.0);
  EXPECT_DOUBLE_EQ(fit.device.achieved.training_rate, 1.25);
  EXPECT_DOUBLE_EQ(norm_of(fit).streamed, 1.25 * norm_of(whole).streamed);
}

// Rows times rows at a third of the rate of the others, as CPUs without 16-bit arithmetic have it.
TEST(DeviceFit, FindsTheRateOfRowsTimesRows) {
  sim::GemmMachine machine = sim::gemm_machine(planted(), DType::Fp32);
  machine.coefficients.transposed_factor = 1.0 / 3.0;
  hwdb::RuntimeResults results = planted_results();
  for (const std::int64_t size : {64, 128, 192, 256, 512, 768, 1024}) {
    MeasuredKernel kernel = measured_gemm(512, size, 256, false);
    kernel.op.transposed = true;
    kernel.median = gemm_time(kernel.op, machine);
    results.kernels.push_back(kernel);
  }
  const DeviceFit fit = fit_device(results);
  EXPECT_NEAR(fit.device.achieved.gemm[static_cast<std::size_t>(DType::Fp32)].transposed_factor /
                  (1.0 / 3.0),
              1.0, 0.1);
}

// K loops that never fill: the best GEMM is far below what its units reach.
TEST(DeviceFit, NoGemmReachesMoreThanThePeak) {
  sim::GemmMachine machine = sim::gemm_machine(planted(), DType::Fp32);
  machine.coefficients.k_half = 4000.0;
  hwdb::RuntimeResults results = planted_results();
  for (MeasuredKernel& kernel : results.kernels)
    if (kernel.op.kind == OperatorKind::Gemm && kernel.library.empty())
      kernel.median = gemm_time(kernel.op, machine);
  const DeviceFit fit = fit_device(results);
  const sim::GemmMachine found = sim::gemm_machine(fit.device, DType::Fp32);
  EXPECT_LE(found.coefficients.max_efficiency, 1.0);
  for (const hwdb::Coefficient& row : fit.coefficients)
    if (row.key == "gemm.fp32.max_efficiency") {
      EXPECT_EQ(row.value, found.coefficients.max_efficiency);
    }
  const sim::Operator large = gemm("", 1, 512, 1024, 256, DType::Fp32, DType::Fp32);
  EXPECT_NEAR(gemm_time(large, found) / gemm_time(large, machine), 1.0, 0.1);
}

// The cache is larger than any copy: the largest one stands for memory, and the fit says so.
TEST(DeviceFit, TakesTheLargestCopyWhereNoneLeavesTheCache) {
  EXPECT_TRUE(fit_device(planted_results()).notes.empty());
  hwdb::RuntimeResults results = planted_results();
  results.machine.last_level_cache = 480.0 * sim::MiB;
  const DeviceFit fit = fit_device(results);
  EXPECT_NEAR(fit.device.memory_bandwidth / sim::GBps, 10.0, 1e-9);
  ASSERT_EQ(fit.notes.size(), 1U);
  EXPECT_NE(fit.notes[0].find("the last-level cache of 480 MiB holds in part"), std::string::npos)
      << fit.notes[0];
  std::erase_if(results.kernels,
                [](const MeasuredKernel& kernel) { return kernel.library == "stream_copy"; });
  EXPECT_THROW(fit_device(results), Error);
}

double fitted(const DeviceFit& fit, const std::string& key) {
  for (const hwdb::Coefficient& coefficient : fit.coefficients) {
    if (coefficient.key == key) return coefficient.value;
  }
  ADD_FAILURE() << key << " was not fitted";
  return 0.0;
}

// Two ranks whose collectives take 2.5 times as long beside GEMMs, which take 1.25, 1.5 and 2 times
// as long: of their time 2.5 (1 - 1/1.5) = 0.83 are lost.  Overlaps over several nodes, and in
// other formats, say nothing of the host.
TEST(DeviceFit, FindsWhatRanksOfAHostTakeFromEachOther) {
  hwdb::RuntimeResults results = planted_results();
  for (const double gemms : {1.25, 1.5, 2.0})
    results.overlaps.push_back(
        {.ranks = 2, .nodes = 1, .collective_slowdown = 2.5, .gemm_slowdown = gemms});
  results.overlaps.push_back(
      {.ranks = 4, .nodes = 2, .collective_slowdown = 9.0, .gemm_slowdown = 9.0});
  results.overlaps.push_back(
      {.dtype = DType::Bf16, .ranks = 2, .collective_slowdown = 9.0, .gemm_slowdown = 9.0});
  results.sharing = {{.kind = "gemm", .ranks = 2, .slowdown = 1.04, .spread = 0.01},
                     {.kind = "copy", .ranks = 3, .slowdown = 1.6, .spread = 0.01},
                     {.kind = "cached_copy", .ranks = 2, .slowdown = 0.99, .spread = 0.01}};
  const DeviceFit fit = fit_device(results);
  EXPECT_EQ(fit.fabric_kind, sim::FabricKind::Loopback);
  EXPECT_NEAR(fitted(fit, "sharing.collectives"), 2.5 / 3.0, 1e-12);
  EXPECT_NEAR(fitted(fit, "sharing.gemms"), 0.04, 1e-12);
  EXPECT_NEAR(fitted(fit, "sharing.memory_bound"), 0.3, 1e-12);  // of each of two others
  EXPECT_NEAR(fit.device.achieved.sharing.memory_bound, 0.3, 1e-12);
}

TEST(DeviceFit, HidingNeverCostsMoreThanTheCollective) {
  hwdb::RuntimeResults results = planted_results();
  results.overlaps.push_back({.ranks = 2, .collective_slowdown = 3.0, .gemm_slowdown = 3.0});
  EXPECT_DOUBLE_EQ(fitted(fit_device(results), "sharing.collectives"), 1.0);
}

// Collectives of ranks whose fabric carries 2 GB/s; what goes one way only, a broadcast, is faster
// and left out.
TEST(DeviceFit, FindsAHostsCollectivesAgain) {
  sim::Cluster host;
  host.devices_per_node = host.num_devices = 2;
  host.fabric.kind = sim::FabricKind::Loopback;
  host.fabric.devices = 2;
  host.fabric.device_bandwidth = 2.0 * sim::GBps;
  host.fabric.latency = 120.0 * sim::us;
  host.fabric.sum_bandwidth = 5.0 * sim::GBps;
  host.device.achieved.collective_fraction = 1.0;
  hwdb::RuntimeResults results = planted_results();
  for (const auto kind : {sim::CollectiveKind::AllReduce, sim::CollectiveKind::AllGather,
                          sim::CollectiveKind::ReduceScatter}) {
    for (double bytes = 1024.0; bytes < 1e8; bytes *= 4.0) {
      CollectiveSample sample{.kind = kind, .message = sim::Bytes(bytes), .time = {}, .ranks = 2};
      results.collectives.push_back({.kind = kind,
                                     .message = sample.message,
                                     .ranks = 2,
                                     .ranks_per_node = 2,
                                     .median = 0.3 * predicted(sample, host),
                                     .mean = predicted(sample, host)});
    }
  }
  results.collectives.push_back({.kind = sim::CollectiveKind::Broadcast,
                                 .message = 64.0 * sim::MB,
                                 .ranks = 2,
                                 .ranks_per_node = 2,
                                 .median = 1.0 * sim::ms});
  const DeviceFit fit = fit_device(results);
  EXPECT_EQ(fit.ranks_per_node, 2);
  EXPECT_NEAR(fit.fabric.value() * fitted(fit, "collective_fraction"), 2e9, 0.02e9);
  EXPECT_NEAR(fitted(fit, "fabric.latency_s"), 120e-6, 3e-6);
  EXPECT_NEAR(fitted(fit, "fabric.sum_bytes_per_s"), 5e9, 0.3e9);
}

// Copies of 64 and 200 MB leave a cache of 32 MB behind, the first of them not far enough.  Without a
// known cache those of an eighth of the largest count.
TEST(DeviceFit, CopiesOfMemoryAreFourTimesTheCache) {
  hwdb::RuntimeResults results = planted_results();
  std::erase_if(results.kernels,
                [](const MeasuredKernel& kernel) { return kernel.library == "stream_copy"; });
  results.kernels.push_back(measured_call("stream_copy", 20e6, 1, 1.0 * sim::ms));
  results.kernels.push_back(measured_call("stream_copy", 27e6, 1, 1.8 * sim::ms));
  results.kernels.push_back(measured_call("stream_copy", 200e6, 1, 20.0 * sim::ms));
  const auto bandwidth = [&] { return fit_device(results).device.memory_bandwidth / sim::GBps; };
  EXPECT_NEAR(bandwidth(), 10.0, 1e-9);
  results.machine.last_level_cache = sim::Bytes(0.0);
  EXPECT_NEAR(bandwidth(), (10.0 + 15.0) / 2.0, 1e-9);  // and not the 20 GB/s of the smallest
}

// Of two rates, 10 and 12 GB/s, the share of memory that is reached is 1 by definition, as uncertain
// as they are.
TEST(DeviceFit, MemoryIsReachedInFullWithTheErrorOfItsCopies) {
  hwdb::RuntimeResults results = planted_results();
  for (MeasuredKernel& kernel : results.kernels) kernel.spread = 0.04;
  const DeviceFit fit = fit_device(results);
  const auto row = [&](const std::string& key) {
    return *std::ranges::find(fit.coefficients, key, &hwdb::Coefficient::key);
  };
  EXPECT_EQ(row("memory_fraction").value, 1.0);
  EXPECT_NEAR(*row("memory_fraction").standard_error,
              *row("host_memory_bytes_per_s").standard_error / 10e9, 1e-12);
  // One copy: sqrt(pi / 2) of its spread.
  EXPECT_NEAR(*row("memory_fraction").standard_error, 0.04 * std::sqrt(std::acos(-1.0) / 2.0),
              1e-9);
  EXPECT_NEAR(*row("kernel_time_s").standard_error, 2e-6 * 0.04 * std::sqrt(std::acos(-1.0) / 2.0),
              1e-15);
  for (const hwdb::Coefficient& one : fit.coefficients) {
    EXPECT_EQ(one.scope, "device");
    EXPECT_EQ(one.id, "planted_cpu");
    EXPECT_EQ(one.fitted_from, "planted");
    EXPECT_EQ(one.evidence, sim::Evidence::Fitted);
  }
}

TEST(DeviceFit, TheSourceNamesWhatRan) {
  hwdb::RuntimeResults results = planted_results();
  results.machine.threads = 16;
  results.machine.libtorch = "2.9", results.machine.date = "2026-01-01";
  EXPECT_EQ(fit_device(results).coefficients.front().source,
            "llmsim-runtime on planted, 16 threads, libtorch 2.9, 2026-01-01");
  EXPECT_EQ(fit_device(results).device.compute_units, 16);
  results.machine.kind = "cuda";
  EXPECT_NE(fit_device(results).coefficients.front().source.find("planted, cuda, "),
            std::string::npos);
  EXPECT_EQ(fit_device(results).device.compute_units, 1);  // not known
  results.machine.driver = "580", results.machine.compute_units = 132;
  EXPECT_NE(fit_device(results).coefficients.front().source.find("planted, driver 580, "),
            std::string::npos);
  EXPECT_EQ(fit_device(results).device.compute_units, 132);
}

// What takes 5 us and 4 of them at its launches says nothing of memory.
TEST(DeviceFit, OperatorsThatAreMostlyLaunchesTellNoRate) {
  hwdb::RuntimeResults results = planted_results();
  const auto streamed = [&] {
    return fitted(fit_device(results), "memory_bound.fp32.layer_norm.backward");
  };
  const double before = streamed();
  for (int i = 0; i < 9; ++i) {
    MeasuredKernel launches = measured_norm(400.0);
    launches.median = 4.9 * sim::us;  // less than its two launches of 2 us and a quarter
    results.kernels.push_back(launches);
  }
  EXPECT_EQ(streamed(), before);
}

// Where only one of both was measured it stands for both.
TEST(DeviceFit, CachedAndStreamedRatesStandForEachOther) {
  hwdb::RuntimeResults results = planted_results();
  std::erase_if(results.kernels, [](const MeasuredKernel& kernel) {
    return kernel.memory_bound && kernel.op.moved > 32.0 * sim::MB;
  });
  DeviceFit fit = fit_device(results);
  EXPECT_NEAR(fitted(fit, "memory_bound.fp32.layer_norm.backward"), 2.0, 1e-6);
  EXPECT_NEAR(fitted(fit, "memory_bound.fp32.layer_norm.backward_cached"), 2.0, 1e-6);
  results = planted_results();
  std::erase_if(results.kernels, [](const MeasuredKernel& kernel) {
    return kernel.memory_bound && kernel.op.moved < 128.0 * sim::MB;
  });
  fit = fit_device(results);
  EXPECT_NEAR(fitted(fit, "memory_bound.fp32.layer_norm.backward"), 0.5, 1e-6);
  EXPECT_NEAR(fitted(fit, "memory_bound.fp32.layer_norm.backward_cached"), 0.5, 1e-6);
}

// Errors of 10 % either way, of which the fit has the middle.
TEST(DeviceFit, QualityIsTheMedianErrorOfWhatWasFitted) {
  hwdb::RuntimeResults results = planted_results();
  std::erase_if(results.kernels, [](const MeasuredKernel& kernel) {
    return kernel.memory_bound && kernel.op.moved < 128.0 * sim::MB;
  });
  MeasuredKernel norm = measured_norm(200.0);
  for (const double factor : {1.0 / 1.1, 1.1}) {
    results.kernels.push_back(norm);
    results.kernels.back().median = 2.0 * 2.0 * sim::us + factor * (norm.median - 4.0 * sim::us);
  }
  const DeviceFit fit = fit_device(results);
  const auto quality =
      std::ranges::find(fit.quality, "layer_norm backward fp32", &FitQuality::what);
  ASSERT_NE(quality, fit.quality.end());
  EXPECT_EQ(quality->samples, 3);
  EXPECT_NEAR(quality->median_error, 0.1, 0.01);
}

// Of three other ranks each adds a tenth; slower readings of one rank say nothing.
TEST(DeviceFit, SharingIsWhatEachOtherRankAdds) {
  hwdb::RuntimeResults results = planted_results();
  results.sharing = {{.kind = "gemm", .ranks = 4, .slowdown = 1.3, .spread = 0.05},
                     {.kind = "gemm", .ranks = 1, .slowdown = 3.0, .spread = 0.05}};
  const DeviceFit fit = fit_device(results);
  EXPECT_NEAR(fitted(fit, "sharing.gemms"), 0.1, 1e-12);
  const auto row =
      *std::ranges::find(fit.coefficients, std::string("sharing.gemms"), &hwdb::Coefficient::key);
  EXPECT_NEAR(*row.standard_error, 0.05 * 1.3 / 3.0 * std::sqrt(std::acos(-1.0) / 2.0), 1e-12);
  results.sharing[0].slowdown = 0.9;  // faster together
  EXPECT_EQ(fitted(fit_device(results), "sharing.gemms"), 0.0);
  results.machine.kind = "cuda";
  for (const hwdb::Coefficient& one : fit_device(results).coefficients)
    EXPECT_FALSE(one.key.starts_with("sharing")) << one.key;
}

// One large shape says nothing of the time of a kernel: twice that of an empty one, by a factor of e.
TEST(DeviceFit, AKernelTakesTwiceAnEmptyOneWhereNothingTells) {
  hwdb::RuntimeResults results = planted_results();
  std::erase_if(results.kernels, [](const MeasuredKernel& kernel) {
    return kernel.op.kind == OperatorKind::Gemm && kernel.library.empty();
  });
  for (int i = 0; i < 16; ++i) {
    results.kernels.push_back(measured_gemm(4096, 4096, 4096, false));
    results.kernels.back().median *= i % 2 ? 1.01 : 0.99;
  }
  const DeviceFit fit = fit_device(results);
  const auto row = *std::ranges::find(fit.coefficients, std::string("gemm.fp32.kernel_time_s"),
                                      &hwdb::Coefficient::key);
  EXPECT_NEAR(row.value, 4e-6, 0.1e-6);
  EXPECT_NEAR(*row.standard_error / row.value, 1.0, 0.02);
  EXPECT_GT(fit.device.vector_peak.value(), 0.0);
  EXPECT_EQ(fit.device.vector_peak.value(),
            1.02 * (2.0 * std::pow(4096.0, 3)) /
                (0.99 * measured_gemm(4096, 4096, 4096, false).median.value()));
}

// What the runtime's own attention reaches of a peak, forward and backward.
TEST(DeviceFit, FindsTheRuntimesOwnAttention) {
  sim::AttentionMachine machine =
      sim::attention_machine(planted(), DType::Fp32, sim::AttentionKernel::BlockwiseFp32);
  machine.coefficients = {
      .forward = 0.5, .backward = 0.4, .seq_half = 300.0, .head_dim_64_factor = 0.9};
  hwdb::RuntimeResults results = planted_results();
  for (const int tokens : {256, 512, 1024, 2048}) {
    for (const int head_dim : {64, 128}) {
      for (const bool backward : {false, true}) {
        MeasuredKernel kernel;
        kernel.attention = "blockwise", kernel.backward = backward;
        kernel.op = attention_forward(2, 8, tokens, head_dim, true);
        kernel.op.dtype = DType::Fp32;
        kernel.median = predicted_time(
            {kernel.op, backward ? AttentionPass::Backward : AttentionPass::Forward, {}}, machine);
        if (backward) kernel.op.flops *= 2.0, kernel.op.moved *= 2.0;
        results.kernels.push_back(kernel);
      }
    }
  }
  const DeviceFit fit = fit_device(results);
  const sim::AttentionCoefficients& found =
      fit.device.achieved.attention[static_cast<std::size_t>(sim::AttentionKernel::BlockwiseFp32)];
  const double peaks = planted().peak(DType::Fp32) / fit.device.peak(DType::Fp32);
  EXPECT_NEAR(found.forward / (0.5 * peaks), 1.0, 0.03);
  EXPECT_NEAR(found.backward / (0.4 * peaks), 1.0, 0.03);
  EXPECT_NEAR(found.head_dim_64_factor, 0.9, 0.02);
  const std::string prefix =
      std::string("attention.") + name_of(sim::AttentionKernel::BlockwiseFp32) + ".forward";
  EXPECT_EQ(fitted(fit, prefix), found.forward);
}

// Rows of a CPU's tile, the default elsewhere; a CPU's rows may begin anywhere.
TEST(DeviceFit, TilesAndAlignmentsAreThoseOfTheMachine) {
  hwdb::RuntimeResults results = planted_results();
  EXPECT_EQ(fitted(fit_device(results), "gemm.fp32.smallest_tile"), 8.0);
  EXPECT_EQ(fitted(fit_device(results), "gemm.fp32.alignment"), 1.0);
  results.machine.kind = "cuda";
  EXPECT_EQ(fitted(fit_device(results), "gemm.fp32.smallest_tile"),
            sim::GemmCoefficients{}.smallest_tile);
  EXPECT_EQ(fitted(fit_device(results), "gemm.fp32.alignment"), 1.0);  // no matrix units
}

TEST(DeviceFit, TheEfficiencyOfStepsIsThatOfLibtorch) {
  hwdb::Database database(":memory:");
  const auto put = [&](const char* key, double value) {
    hwdb::Coefficient row;
    row.scope = "framework", row.id = "libtorch", row.key = key;
    row.value = value, row.source = "by hand";
    database.put(row);
  };
  EXPECT_GT(efficiency_of_libtorch(database), 0.5);
  put("efficiency", 0.75);
  put("collective_efficiency", 0.5);
  EXPECT_EQ(efficiency_of_libtorch(database), 0.75);
  hwdb::Database unfitted(":memory:");
  unfitted.forget_fit(kRunFit);
  EXPECT_EQ(efficiency_of_libtorch(unfitted), 1.0);
}

TEST(DeviceFit, SaysHowSureItIs) {
  hwdb::RuntimeResults results = planted_results();
  for (MeasuredKernel& kernel : results.kernels) kernel.spread = 0.05;
  for (const hwdb::Coefficient& coefficient : fit_device(results).coefficients) {
    const bool chosen =
        coefficient.key.ends_with("alignment") || coefficient.key.ends_with("smallest_tile");
    EXPECT_EQ(coefficient.standard_error.has_value(), !chosen) << coefficient.key;
    EXPECT_FALSE(coefficient.source.empty());
  }
}

TEST(DeviceFit, NeedsCopiesAndGemms) {
  hwdb::RuntimeResults results = planted_results();
  std::erase_if(results.kernels, [](const MeasuredKernel& kernel) {
    return kernel.op.kind == OperatorKind::Gemm && kernel.library.empty();
  });
  EXPECT_THROW(fit_device(results), Error);
  results = planted_results();
  std::erase_if(results.kernels,
                [](const MeasuredKernel& kernel) { return kernel.library == "stream_copy"; });
  EXPECT_THROW(fit_device(results), Error);
}

}  // namespace
}  // namespace llmsim::calibrate
