#include "calibrate/library_fit.h"

#include <cmath>

#include <gtest/gtest.h>

#include "calibrate/device_fit.h"

namespace llmsim::calibrate {
namespace {

using hwdb::MeasuredKernel;
using sim::DType;
using sim::OperatorKind;

std::size_t at(auto name) { return static_cast<std::size_t>(name); }

// 132 units, 900 TFLOP/s in bf16 and twice that in fp8, 4 TB/s.
sim::Device planted() {
  sim::Device device;
  device.compute_units = 132;
  device.memory_bandwidth = 4.0 * sim::TBps;
  device.cache = 50.0 * sim::MiB;
  device.achieved.memory_fraction = 1.0;
  device.achieved.kernel_time = 2.0 * sim::us;
  for (const auto& [dtype, peak] : {std::pair{DType::Bf16, 900.0}, {DType::Fp8, 1800.0}}) {
    device.matrix_peak[at(dtype)] = peak * sim::TFLOPS;
    device.achieved.gemm[at(dtype)] = {.max_efficiency = 0.9,
                                       .k_half = 60.0,
                                       .wave_quantisation = 0.1,
                                       .misaligned_factor = 0.2,
                                       .even_rows_gain = 1.7,
                                       .alignment = row_alignment(dtype)};
  }
  device.achieved.attention[at(sim::AttentionKernel::Flash2)] = {
      .forward = 0.4, .backward = 0.33, .seq_half = 600.0, .head_dim_64_factor = 0.85};
  return device;
}

MeasuredKernel library_gemm(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  MeasuredKernel kernel;
  kernel.library = "library_gemm";
  kernel.op = gemm("", 1, m, n, k, dtype, dtype == DType::Fp8 ? DType::Bf16 : dtype);
  kernel.median = gemm_time(kernel.op, sim::gemm_machine(planted(), dtype));
  return kernel;
}

MeasuredKernel flash(std::int64_t heads, std::int64_t tokens, std::int64_t head_dim,
                     bool backward) {
  MeasuredKernel kernel;
  kernel.library = "library_attention";
  kernel.attention = "flash";
  kernel.backward = backward;
  kernel.op = attention_forward(1, heads, tokens, head_dim, true);
  const AttentionSample sample{.forward = kernel.op,
                               .pass = backward ? AttentionPass::Backward : AttentionPass::Forward,
                               .time = {}};
  kernel.median = predicted_time(
      sample, sim::attention_machine(planted(), DType::Bf16, sim::AttentionKernel::Flash2));
  if (backward) kernel.op.flops *= 2.0, kernel.op.moved *= 2.0;
  return kernel;
}

MeasuredKernel call(const char* library, const char* label, double bytes, sim::Seconds time) {
  MeasuredKernel kernel;
  kernel.library = library;
  kernel.label = label;
  kernel.op.moved = sim::Bytes(bytes);
  kernel.median = time;
  return kernel;
}

hwdb::RuntimeResults planted_results() {
  hwdb::RuntimeResults results{.file = "planted"};
  results.machine = {.id = "planted_gpu",
                     .name = "planted",
                     .kind = "cuda",
                     .driver = "580",
                     .compute_units = 132,
                     .last_level_cache = 50.0 * sim::MiB};
  results.kernels = {call("launch", "add_", 0.0, 2.0 * sim::us),
                     call("stream_copy", "", 4e9, 1.0 * sim::ms),
                     call("host_copy", "to_device 1073741824", 1e9, 20.0 * sim::ms),
                     call("host_copy", "to_host 1073741824", 1e9, 20.0 * sim::ms),
                     call("host_copy", "to_host pageable 67108864", 1e8, 20.0 * sim::ms),
                     call("host_copy", "to_host 65536", 65536.0, 20.0 * sim::ms)};
  for (const std::int64_t n : {1024, 2048, 3072, 4096, 8192, 16384}) {
    for (const DType dtype : {DType::Bf16, DType::Fp8}) {
      results.kernels.push_back(library_gemm(dtype, 8192, n, 4096));
      results.kernels.push_back(library_gemm(dtype, n, 8192, 1024));
      results.kernels.push_back(library_gemm(dtype, 4096, 4096, n));
    }
    for (const std::int64_t more : {1, 2, 4})
      results.kernels.push_back(library_gemm(DType::Bf16, 8192, n + more, 4096));
  }
  for (const std::int64_t tokens : {512, 1024, 2048, 4096, 8192, 16384}) {
    for (const bool backward : {false, true}) {
      results.kernels.push_back(flash(512, tokens, 128, backward));
      results.kernels.push_back(flash(512, tokens, 64, backward));
    }
  }
  MeasuredKernel hot = library_gemm(DType::Bf16, 8192, 8192, 8192);
  hot.library = "sustained_gemm";
  hot.median *= 1.25;
  results.kernels.push_back(hot);
  return results;
}

TEST(LibraryFit, FindsAPlantedAcceleratorAgain) {
  const DeviceFit fit = fit_device(planted_results());
  const sim::Achieved& achieved = fit.device.achieved;
  EXPECT_EQ(fit.device.compute_units, 132);
  for (const FitQuality& row : fit.quality) EXPECT_LT(row.median_error, 0.02) << row.what;
  for (const DType dtype : {DType::Bf16, DType::Fp8}) {
    const sim::Operator large = gemm("", 1, 8192, 8192, 8192, dtype, DType::Bf16);
    EXPECT_NEAR(gemm_time(large, sim::gemm_machine(fit.device, dtype)) /
                    gemm_time(large, sim::gemm_machine(planted(), dtype)),
                1.0, 0.02)
        << name_of(dtype);
    EXPECT_EQ(achieved.gemm[at(dtype)].alignment, row_alignment(dtype));
  }
  EXPECT_NEAR(achieved.gemm[at(DType::Bf16)].misaligned_factor, 0.2, 0.01);
  EXPECT_NEAR(achieved.gemm[at(DType::Bf16)].even_rows_gain, 1.7, 0.1);
  const sim::AttentionCoefficients& attention =
      achieved.attention[at(sim::AttentionKernel::Flash2)];
  EXPECT_NEAR(attention.forward, 0.4 * planted().peak(DType::Bf16) / fit.device.peak(DType::Bf16),
              0.02);
  EXPECT_NEAR(attention.backward / attention.forward, 0.33 / 0.4, 0.03);
  EXPECT_NEAR(achieved.sustained_clock, 0.8, 0.02);
  EXPECT_NEAR(fit.device.host_bandwidth / sim::GBps, 50.0, 1e-6);
}

// Zeros need less power, and what is shorter than a few launches is the host's time.
TEST(LibraryFit, LeavesOutWhatDoesNotTellOfTheUnits) {
  hwdb::RuntimeResults results = planted_results();
  MeasuredKernel zeros = library_gemm(DType::Bf16, 8192, 8192, 8192);
  zeros.zeros = true, zeros.median /= 3.0;
  MeasuredKernel tiny = library_gemm(DType::Bf16, 64, 64, 64);
  tiny.median = 7.0 * sim::us;
  const double before = fit_device(results).device.peak(DType::Bf16).value();
  results.kernels.push_back(zeros), results.kernels.push_back(tiny);
  EXPECT_DOUBLE_EQ(fit_device(results).device.peak(DType::Bf16).value(), before);
}

TEST(LibraryFit, RowsAreMultiplesOfSixteenBytes) {
  EXPECT_EQ(row_alignment(DType::Fp32), 4);
  EXPECT_EQ(row_alignment(DType::Bf16), 8);
  EXPECT_EQ(row_alignment(DType::Fp8), 16);
}

}  // namespace
}  // namespace llmsim::calibrate
