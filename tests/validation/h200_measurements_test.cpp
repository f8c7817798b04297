// What the runtime measured on an H200 (hwdb/measurements/h200_sxm), against the shipped device: no
// number of the simulator was set from these steps.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "calibrate/device_fit.h"
#include "calibrate/statistics.h"
#include "hwdb/hardware/measured_rows.h"
#include "hwdb/hardware/user_hardware.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/runtime_results.h"
#include "hwdb/store/database.h"
#include "hwdb/text/input_file.h"
#include "sim/predict.h"
#include "tests/validation/predicted_step.h"

namespace llmsim::hwdb {
namespace {

const RuntimeResults& measured() {
  static const RuntimeResults results =
      read_runtime_results({MEASUREMENTS_FOLDER "/h200_sxm/runtime.jsonl"});
  return results;
}

// The step on the shipped device.
sim::Prediction on_h200(const MeasuredStep& step) {
  RunRecord run = step.run;
  run.hardware.accelerator = "h200_sxm";
  return predicted(run);
}

bool names_any(const std::string& id, const std::vector<std::string>& words) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return id.find(word) != std::string::npos; });
}

TEST(H200Measurements, AreReadWhole) {
  EXPECT_TRUE(measured().rejected.empty());
  EXPECT_EQ(measured().refused, 0);
  EXPECT_EQ(measured().steps.size(), 100U);
  EXPECT_GT(measured().kernels.size(), 3'700U);
  EXPECT_EQ(measured().machine.compute_units, 132);
}

// Peaks of 100 steps of 3 to 143 GB are the simulator's and cuBLAS's workspace of 32 MiB with one
// of cublasLt; logits of GPT-2 are 0.4 MiB a sequence more.  A chunked loss has chunks of its own
// rounding, a captured graph its inputs and outputs, a fused update all gradients in fp32.
TEST(H200Measurements, PeaksAreTheSimulatorsAndAWorkspace) {
  int compared = 0;
  for (const MeasuredStep& step : measured().steps) {
    if (names_any(step.run.id, {"chunked-loss", "cuda-graph", "fused-update"})) continue;
    const sim::Prediction prediction = on_h200(step);
    const double mebibytes = (*step.requested - prediction.memory.peak) / sim::MiB;
    EXPECT_GT(mebibytes, 32.0) << step.run.id;
    EXPECT_LT(mebibytes, 33.1 + 0.4 * prediction.run.strategy.micro_batch) << step.run.id;
    ++compared;
  }
  EXPECT_GE(compared, 80);
}

// Not among them: loops of the runtime's own where the library has kernels (blockwise attention,
// updates on the host), casts to fp8 one operator at a time, and fp32.
TEST(H200Measurements, StepsArePredicted) {
  std::vector<double> errors;
  for (const MeasuredStep& step : measured().steps) {
    if (names_any(step.run.id, {"blockwise", "unfused", "host-update", "fp8", "fp32"})) continue;
    errors.push_back(std::abs(std::log(on_h200(step).step_time / *step.run.measured->step_time)));
  }
  EXPECT_GE(errors.size(), 80U);
  EXPECT_LT(calibrate::median(errors), 0.025);
}

// Llama 2 7B and Llama 3.1 8B whole, and slices, as Hugging Face's modelling code trains them.
TEST(H200Measurements, LlamaUnderHuggingFaceIsPredicted) {
  const RunFile file =
      parse_runs(content_of_file(MEASUREMENTS_FOLDER "/h200_sxm/hugging-face.runs.json"), "runs");
  EXPECT_EQ(file.runs.size(), 28U);
  std::vector<double> times, peaks;
  for (const RunRecord& run : file.runs) {
    if (names_any(run.id, {"gpt2", "compile"})) continue;
    const sim::Prediction prediction = predicted(run);
    times.push_back(std::abs(std::log(prediction.step_time / *run.measured->step_time)));
    peaks.push_back(std::abs(std::log(prediction.memory.peak / *run.measured->peak_memory)));
  }
  ASSERT_EQ(times.size(), 12U);
  EXPECT_LT(calibrate::median(times), 0.03);
  EXPECT_LT(*std::ranges::max_element(times), 0.08);
  EXPECT_LT(calibrate::median(peaks), 0.001);
  EXPECT_LT(*std::ranges::max_element(peaks), 0.05);
}

TEST(H200Measurements, FitTheirKernels) {
  const calibrate::DeviceFit fit = calibrate::fit_device(measured());
  const auto error_of = [&](const std::string& what) {
    for (const calibrate::FitQuality& row : fit.quality) {
      if (row.what == what) return row.median_error;
    }
    return 1.0;
  };
  for (const std::string gemms : {"gemm bf16", "gemm fp16", "gemm tf32", "gemm fp8", "gemm fp32"})
    EXPECT_LT(error_of(gemms), 0.09) << gemms;
  EXPECT_LT(error_of("attention flash-2 bf16"), 0.03);
  EXPECT_LT(error_of("attention cudnn bf16"), 0.06);
  EXPECT_NEAR(fit.device.memory_bandwidth / sim::TBps, 4.15, 0.1);
  EXPECT_NEAR(fit.device.host_bandwidth / sim::GBps, 55.0, 0.5);
}

// The loop closes: kernels alone, as `llmsim calibrate import` stores them, predict the steps.
TEST(H200Measurements, KernelsPredictTheStepsOfTheirDevice) {
  Database database(":memory:");
  const double efficiency = calibrate::efficiency_of_libtorch(database);
  ASSERT_LT(efficiency, 1.0);
  const calibrate::DeviceFit fit = calibrate::fit_device(measured(), efficiency);
  add_hardware(database,
               hardware_document(fit.device, {fit.fabric_kind, fit.ranks_per_node, fit.fabric},
                                 fit.coefficients, fit.coefficients.front().source),
               "runtime.jsonl", false);
  RunResolver resolver(database);
  std::vector<double> all, llama;
  for (const MeasuredStep& step : measured().steps) {
    if (names_any(step.run.id, {"blockwise", "unfused", "host-update", "fp8", "fp32"})) continue;
    const sim::Prediction prediction = sim::predict(resolver.resolve(step.run));
    all.push_back(std::abs(std::log(prediction.step_time / *step.run.measured->step_time)));
    if (step.run.id.find("llama") != std::string::npos) llama.push_back(all.back());
  }
  EXPECT_GE(all.size(), 80U);
  EXPECT_LT(calibrate::median(all), 0.03);
  EXPECT_LT(calibrate::median(llama), 0.02);
}

}  // namespace
}  // namespace llmsim::hwdb
