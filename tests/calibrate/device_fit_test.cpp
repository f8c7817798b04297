#include "calibrate/device_fit.h"

#include <cmath>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/cost/gemm.h"
#include "sim/cost/streaming.h"

namespace llmsim::calibrate {
namespace {

using hwdb::MeasuredKernel;
using sim::DType;
using sim::OperatorKind;

// A CPU of 100 GFLOP/s and 10 GB/s with 32 MB of cache, 2 us a kernel, whose norms stream at 0.5 and, from the cache, 2.
sim::Device planted() {
  sim::Device device;
  device.matrix_peak[static_cast<std::size_t>(DType::Fp32)] = sim::FlopsPerSecond(1e11);
  device.memory_bandwidth = 10.0 * sim::GBps;
  device.cache = 32.0 * sim::MB;
  device.achieved.memory_fraction = 1.0;
  device.achieved.kernel_time = 2.0 * sim::us;
  sim::GemmCoefficients& gemm = device.achieved.gemm[static_cast<std::size_t>(DType::Fp32)];
  gemm = {.max_efficiency = 0.9, .k_half = 40.0, .wave_quantisation = 0.1, .alignment = 1, .weight_gradient_factor = 0.8};
  gemm.kernel_time = 4.0 * sim::us;
  device.achieved.streaming[static_cast<std::size_t>(DType::Fp32)]
      .backward[static_cast<std::size_t>(sim::StreamingKernel::LayerNorm)] = {.cached = 2.0, .streamed = 0.5};
  return device;
}

MeasuredKernel measured_norm(double megabytes) {
  MeasuredKernel kernel;
  kernel.op = streaming(OperatorKind::Norm, "norm", megabytes * 1e6, 1.0, 2);
  kernel.op.dtype = DType::Fp32;
  kernel.backward = true;
  kernel.streaming = sim::StreamingKernel::LayerNorm;
  kernel.median = streaming_time(kernel.op, true, sim::streaming_machine(planted(), {.dtype = DType::Fp32}));
  return kernel;
}

MeasuredKernel measured_product(std::int64_t m, std::int64_t n, std::int64_t k, bool weight_gradient) {
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
  results.machine = {.id = "planted_cpu", .name = "planted", .kind = "cpu", .last_level_cache = 32.0 * sim::MB};
  results.kernels.push_back(measured_call("launch", 0.0, 100, 200.0 * sim::us));
  results.kernels.push_back(measured_call("stream_copy", 1e6, 1, 0.02 * sim::ms));
  results.kernels.push_back(measured_call("stream_copy", 2e8, 1, 20.0 * sim::ms));
  for (const double megabytes : {1.0, 4.0, 15.0, 65.0, 200.0}) results.kernels.push_back(measured_norm(megabytes));
  for (const std::int64_t size : {64, 128, 192, 256, 512, 768, 1024}) {
    results.kernels.push_back(measured_product(512, size, 256, false));
    results.kernels.push_back(measured_product(256, 512, size, false));
    results.kernels.push_back(measured_product(size, 256, 512, true));
  }
  return results;
}

TEST(DeviceFit, FindsAPlantedDeviceAgain) {
  const DeviceFit fit = fit_device(planted_results());
  EXPECT_EQ(fit.device.id, "planted_cpu");
  EXPECT_NEAR(fit.device.memory_bandwidth / sim::GBps, 10.0, 1e-9);
  EXPECT_NEAR(fit.device.achieved.kernel_time / sim::us, 2.0, 1e-9);
  const sim::StreamingRate norm = fit.device.achieved.streaming[static_cast<std::size_t>(DType::Fp32)]
                                      .backward[static_cast<std::size_t>(sim::StreamingKernel::LayerNorm)];
  EXPECT_NEAR(norm.cached, 2.0, 1e-6);
  EXPECT_NEAR(norm.streamed, 0.5, 1e-6);
  for (const FitQuality& row : fit.quality) EXPECT_LT(row.median_error, 0.02) << row.what;
}

TEST(DeviceFit, NeedsCopiesAndProducts) {
  hwdb::RuntimeResults results = planted_results();
  std::erase_if(results.kernels,
                [](const MeasuredKernel& kernel) { return kernel.op.kind == OperatorKind::Gemm && kernel.library.empty(); });
  EXPECT_THROW(fit_device(results), Error);
  results = planted_results();
  std::erase_if(results.kernels, [](const MeasuredKernel& kernel) { return kernel.library == "stream_copy"; });
  EXPECT_THROW(fit_device(results), Error);
}

}  // namespace
}  // namespace llmsim::calibrate
