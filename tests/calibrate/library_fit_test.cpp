#include "calibrate/library_fit.h"

#include <array>
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

// What repeats a pass, and what a backward pass has twice, are not of the forward pass.
TEST(LibraryFit, AttentionSamplesAreOneForwardPass) {
  hwdb::RuntimeResults results;
  for (const bool backward : {false, true}) {
    results.kernels.push_back(flash(512, 1024, 128, backward));
    results.kernels.back().op.repeats = 1.5;
  }
  const std::vector<AttentionSample> samples = attention_samples(results, DType::Bf16, "flash");
  ASSERT_EQ(samples.size(), 2u);
  const sim::Operator forward = attention_forward(1, 512, 1024, 128, true);
  for (const AttentionSample& sample : samples) {
    EXPECT_EQ(sample.forward.repeats, 1.0);
    EXPECT_DOUBLE_EQ(sample.forward.flops.value(), forward.flops.value());
    EXPECT_DOUBLE_EQ(sample.forward.moved.value(), forward.moved.value());
  }
  EXPECT_EQ(samples[0].pass, AttentionPass::Forward);
  EXPECT_EQ(samples[1].pass, AttentionPass::Backward);
  EXPECT_TRUE(attention_samples(results, DType::Fp32, "flash").empty());
  EXPECT_TRUE(attention_samples(results, DType::Bf16, "cudnn").empty());
  EXPECT_TRUE(attention_samples(results, DType::Bf16, "blockwise").empty());
  for (MeasuredKernel& kernel : results.kernels) kernel.library.clear();
  EXPECT_EQ(attention_samples(results, DType::Bf16, "blockwise").size(), 2u);
  EXPECT_TRUE(attention_samples(results, DType::Bf16, "flash").empty());
}

hwdb::MeasuredStep step_at(double clock_hz, const char* precision) {
  hwdb::MeasuredStep step;
  step.run.training.strategy["precision"] = precision;
  step.clock_hz = clock_hz;
  return step;
}

// Of 1.4, 1.5 and 1.9 GHz during GEMMs; steps in other formats say nothing.
TEST(LibraryFit, ClocksThatWereReadComeBeforeRates) {
  hwdb::RuntimeResults results = planted_results();
  const sim::GemmMachine machine = sim::gemm_machine(planted(), DType::Bf16);
  ASSERT_EQ(sustained_clocks(results, machine).size(), 1u);
  EXPECT_NEAR(sustained_clocks(results, machine)[0].value, 0.8, 1e-12);
  std::size_t read = 0;
  for (MeasuredKernel& kernel : results.kernels)
    if (kernel.library == "library_gemm" && kernel.op.dtype == DType::Bf16 && read < 3)
      kernel.clock_hz = std::array{1.9e9, 1.4e9, 1.5e9}[read++];
  results.steps = {step_at(1.2e9, "bf16"), step_at(1.6e9, "bf16"), step_at(0.5e9, "fp32")};
  const std::vector<Repeated> clocks = sustained_clocks(results, machine);
  ASSERT_EQ(clocks.size(), 2u);
  EXPECT_DOUBLE_EQ(clocks[0].value, 0.8);
  EXPECT_DOUBLE_EQ(clocks[1].value, 1.0);  // no hotter than in a step
  results.steps[1].clock_hz.reset();
  EXPECT_EQ(sustained_clocks(results, machine).size(), 1u);
}

TEST(LibraryFit, RatesAreNotAboveThoseOfTheFitAndHaveTheirSpread) {
  hwdb::RuntimeResults results = planted_results();
  const sim::GemmMachine machine = sim::gemm_machine(planted(), DType::Bf16);
  results.kernels.back().spread = 0.05;
  EXPECT_NEAR(sustained_clocks(results, machine)[0].deviation, 0.05 * 0.8, 1e-12);
  results.kernels.back().median /= 2.0;
  EXPECT_EQ(sustained_clocks(results, machine)[0].value, 1.0);
}

// Odd rows that run as fast as aligned ones, and even ones that run slower: nothing is lost, nothing
// won back.
TEST(LibraryFit, MisalignedRowsNeitherWinNorLoseTwice) {
  hwdb::RuntimeResults results = planted_results();
  std::size_t misaligned = 0;
  for (MeasuredKernel& kernel : results.kernels) {
    if (kernel.library != "library_gemm" || kernel.op.n % 8 == 0) continue;
    kernel.median *= kernel.op.n % 2 == 0 ? 0.3 : 0.1;
    kernel.spread = 0.05;
    ++misaligned;
  }
  ASSERT_GT(misaligned, 4u);
  const DeviceFit fit = fit_device(results);
  const sim::GemmCoefficients& gemm = fit.device.achieved.gemm[at(DType::Bf16)];
  EXPECT_EQ(gemm.misaligned_factor, 1.0);
  EXPECT_EQ(gemm.even_rows_gain, 1.0);
}

// 64 MiB are large enough, and pinned unless they say otherwise.
TEST(LibraryFit, HostLinksAreLargePinnedCopies) {
  hwdb::RuntimeResults results;
  const double least = 64.0 * 1048576.0;
  results.kernels = {call("host_copy", "to_host", least, 1.0 * sim::ms),
                     call("host_copy", "to_host", least - 1.0, 1.0 * sim::ms),
                     call("host_copy", "to_host pageable", least, 1.0 * sim::ms),
                     call("stream_copy", "to_host", least, 1.0 * sim::ms)};
  results.kernels[0].spread = 0.1;
  const std::vector<Repeated> rates = host_link_rates(results);
  ASSERT_EQ(rates.size(), 1u);
  EXPECT_DOUBLE_EQ(rates[0].value, least / 1e-3);
  EXPECT_DOUBLE_EQ(rates[0].deviation, 0.1 * least / 1e-3);
}

// 4097 is odd and 4098 even; a weight gradient's rows are those of its results.
TEST(LibraryFit, MisalignedRatesAreRelativeToAlignedOnes) {
  const sim::GemmMachine machine = sim::gemm_machine(planted(), DType::Bf16);
  sim::GemmMachine aligned = machine;
  aligned.coefficients.alignment = 1;
  hwdb::RuntimeResults results;
  const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k, bool weight_gradient) {
    MeasuredKernel kernel = library_gemm(DType::Bf16, m, n, k);
    kernel.op.weight_gradient = weight_gradient;
    kernel.median = 4.0 * gemm_time(kernel.op, aligned);
    kernel.spread = 0.1;
    results.kernels.push_back(kernel);
  };
  add(4096, 4096, 4096, false);
  add(4096, 4097, 4096, false);
  add(4096, 4096, 4097, false);
  add(4096, 4096, 4098, false);
  add(4098, 4096, 4096, true);
  add(4097, 4096, 4096, false);  // the number of rows
  add(4096, 4096, 4097, true);   // what is summed over
  const MisalignedRates rates = misaligned_rates(results, DType::Bf16, machine);
  ASSERT_EQ(rates.odd.size(), 2u);
  ASSERT_EQ(rates.even.size(), 2u);
  for (const Repeated& rate : {rates.odd[0], rates.odd[1], rates.even[0], rates.even[1]}) {
    EXPECT_DOUBLE_EQ(rate.value, 0.25);
    EXPECT_DOUBLE_EQ(rate.deviation, 0.025);
  }
  EXPECT_EQ(library_gemms(results, DType::Bf16).size(), 3u);
  EXPECT_TRUE(library_gemms(results, DType::Fp8).empty());
}

TEST(LibraryFit, RowsAreMultiplesOfSixteenBytes) {
  EXPECT_EQ(row_alignment(DType::Fp32), 4);
  EXPECT_EQ(row_alignment(DType::Bf16), 8);
  EXPECT_EQ(row_alignment(DType::Fp8), 16);
}

}  // namespace
}  // namespace llmsim::calibrate
