#include "calibrate/kernel_fits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "calibrate/measured_kernels.h"
#include "calibrate/statistics.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/hardware/measured_rows.h"

namespace llmsim::calibrate {
namespace {

class KernelFitsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { fits_ = new KernelFits(kernel_fits(hwdb::Database(":memory:"))); }
  static void TearDownTestSuite() { delete fits_; }

  static const FitSummary& summary(const std::string& accelerator, const std::string& what) {
    for (const FitSummary& fit : fits_->summaries) {
      if (fit.accelerator == accelerator && fit.what == what) return fit;
    }
    throw std::runtime_error("no fit of " + accelerator + ": " + what);
  }

  static const hwdb::Coefficient& coefficient(const std::string& id, const std::string& key) {
    for (const hwdb::Coefficient& row : fits_->coefficients) {
      if (row.id == id && row.key == key) return row;
    }
    throw std::runtime_error("no coefficient " + key + " of " + id);
  }

  static KernelFits* fits_;
};
KernelFits* KernelFitsTest::fits_ = nullptr;

TEST_F(KernelFitsTest, TheShippedRowsAreTheFittedOnes) {
  const hwdb::Database database(":memory:");
  for (const hwdb::Coefficient& fitted : fits_->coefficients) {
    bool shipped = false;
    for (const hwdb::Coefficient& row : database.coefficients(fitted.scope, fitted.id)) {
      if (row.key != fitted.key) continue;
      shipped = true;
      EXPECT_NEAR(row.value, fitted.value, 2e-3 * std::abs(fitted.value))
          << fitted.id << " " << fitted.key;
    }
    EXPECT_TRUE(shipped) << fitted.id << " " << fitted.key
                         << ": not in hwdb/facts/coefficients.json";
  }
}

// Their errors, which have two digits, and what they say that they are from.
TEST_F(KernelFitsTest, TheShippedErrorsAndSourcesAreTheFittedOnes) {
  const hwdb::Database database(":memory:");
  for (const hwdb::Coefficient& fitted : fits_->coefficients) {
    for (const hwdb::Coefficient& row : database.coefficients(fitted.scope, fitted.id)) {
      if (row.key != fitted.key) continue;
      const double error = fitted.standard_error.value();
      EXPECT_NEAR(row.standard_error.value_or(0.0), error, 0.11 * error)
          << fitted.id << " " << fitted.key;
      EXPECT_EQ(row.evidence, fitted.evidence) << fitted.id << " " << fitted.key;
      EXPECT_EQ(row.source, fitted.source) << fitted.id << " " << fitted.key;
      EXPECT_EQ(row.fitted_from, fitted.fitted_from) << fitted.id << " " << fitted.key;
    }
  }
}

// Every line of the table that describes measurements has one for each of its devices or systems.
TEST_F(KernelFitsTest, EveryFitHasASummary) {
  const std::map<std::string, std::string> what = {{"grids", "gemm bf16"},
                                                   {"training_shapes", "gemm bf16"},
                                                   {"fabric", "collectives, one node"},
                                                   {"network", "collectives, many nodes"},
                                                   {"all_to_all", "all-to-alls, many nodes"}};
  for (const KernelFitLine& line : kernel_fit_table()) {
    const auto expected = what.find(line.fit);
    if (expected == what.end()) continue;
    for (const std::string& id : line.devices) {
      const FitSummary& fit =
          summary(line.fit == "fabric" ? id : line.system.value_or(id), expected->second);
      EXPECT_GT(fit.samples, 0u) << id << " " << line.fit;
      // Values, where there are any, and how well they describe the samples.
      const std::size_t median = fit.values.find("median error ");
      EXPECT_EQ(median == 0u, line.fit == "network") << id << " " << fit.values;
      EXPECT_EQ(median == std::string::npos, expected->second == "gemm bf16") << fit.values;
      EXPECT_LT(fit.rms, 1.0) << id << " " << line.fit;
    }
  }
}

TEST_F(KernelFitsTest, TransfersOfManyNodesHaveASummary) {
  EXPECT_TRUE(std::ranges::any_of(fits_->summaries, [](const FitSummary& fit) {
    return fit.what == "all-to-alls, many nodes";
  }));
}

// At a lower power per clock they throttle less; no clock is above that of short kernels.
TEST_F(KernelFitsTest, EightBitGemmsSustainAHigherClockThanSixteenBitOnes) {
  for (const char* id : {"h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300"}) {
    const double factor = coefficient(id, "gemm.fp8.clock_factor").value;
    EXPECT_GT(factor, 1.0) << id;
    EXPECT_LE(coefficient(id, "sustained_clock").value * factor, 1.0 + 1e-9) << id;
  }
}

TEST_F(KernelFitsTest, FourBitGemmsHaveTheClockOfEightBitOnesAsAnAssumption) {
  const hwdb::Coefficient& fp4 = coefficient("b200_sxm", "gemm.fp4.clock_factor");
  EXPECT_EQ(fp4.value, coefficient("b200_sxm", "gemm.fp8.clock_factor").value);
  EXPECT_EQ(fp4.evidence, sim::Evidence::Assumed);
}

TEST_F(KernelFitsTest, LargeGemmsAreDescribedToTenPercent) {
  for (const char* id : {"a100_sxm_80", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200"}) {
    EXPECT_LE(summary(id, "gemm bf16").rms_large.value(), 0.10) << id;
  }
}

TEST_F(KernelFitsTest, PublishedAttentionTablesAreDescribedToSevenPercent) {
  EXPECT_LE(summary("a100_sxm_80", "attention, FlashAttention-2").rms, 0.07);
  EXPECT_LE(summary("h100_sxm", "attention, FlashAttention-2").rms, 0.07);
  for (const char* id : {"h200_sxm", "gb200", "gb300"})
    EXPECT_LE(summary(id, "attention, cuDNN 9.19").rms, 0.05) << id;
}

// Rates of GEMMs measured both as a forward (TN in BLAS terms) and as a data-gradient GEMM (NN): NN
// relative to TN.
std::vector<double> data_gradient_ratios(const std::string& accelerator) {
  std::map<std::string, double> forward, ratios;
  for (const bool second : {false, true}) {
    for (const hwdb::Measurement& measurement :
         hwdb::Database(":memory:").measurements("matmul_training_shape_efficiency", accelerator)) {
      for (const hwdb::MeasuredRow& row : hwdb::rows(measurement)) {
        if (row.text("op") != "matmul") continue;
        const std::string text = row.text("shape").value();
        const std::size_t layout = text.find(", layout=");
        const std::string shape = text.substr(0, layout), kind = text.substr(layout + 9, 2);
        const double rate = row.number("efficiency").value();
        if (!second && kind == "TN") forward[shape] = rate;
        if (second && kind == "NN" && forward.contains(shape))
          ratios[shape] = rate / forward[shape];
      }
    }
  }
  std::vector<double> sorted;
  for (const auto& [shape, ratio] : ratios) sorted.push_back(ratio);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// So the model has one rate for both.
TEST_F(KernelFitsTest, DataGradientGemmsRunAsFastAsForwardOnes) {
  for (const char* id : {"a100_pcie_80", "b200_sxm"}) {
    const std::vector<double> ratios = data_gradient_ratios(id);
    ASSERT_EQ(ratios.size(), 14u) << id;
    EXPECT_NEAR((ratios[6] + ratios[7]) / 2.0, 1.00, 0.01) << id;
  }
}

// GEMMs of several experts, each a kernel of its own, of one pass of a training process: "fwd",
// "bwd_grad_act" or "bwd_grad_w".
std::vector<GemmSample> grouped_training_shapes(const hwdb::Database& database,
                                                const std::string& id, const std::string& pass) {
  std::vector<GemmSample> samples;
  for (const hwdb::Measurement& measurement :
       database.measurements("matmul_training_shape_efficiency", id)) {
    const double peak = hwdb::fields(measurement).number("peak_flops").value();
    for (const hwdb::MeasuredRow& row : hwdb::rows(measurement)) {
      const std::string shape = row.text("shape").value_or("");
      if (row.text("op") != "group_matmul" ||
          shape.find("stage=" + pass + ",") == std::string::npos)
        continue;
      const auto extent = [&](const std::string& name) {
        return std::stoll(shape.substr(shape.find(name) + name.size()));
      };
      const std::int64_t experts = extent("ng="), rows = extent(" M="), n = extent(" N="),
                         k = extent(" K=");
      const bool update = pass == "bwd_grad_w";
      sim::Operator op = sim::gemm("", experts, update ? n : rows, pass == "fwd" ? n : k,
                                   update          ? rows
                                   : pass == "fwd" ? k
                                                   : n,
                                   sim::DType::Bf16, update ? sim::DType::Fp32 : sim::DType::Bf16);
      op.kernels = static_cast<int>(experts);
      op.ragged = true;
      op.weight_gradient = update;
      if (update) op.moved += static_cast<double>(experts * n * k) * sim::size_of(sim::DType::Fp32);
      samples.push_back(
          {op, op.flops / sim::FlopsPerSecond(peak * row.number("efficiency").value())});
    }
  }
  return samples;
}

// Of several experts, in a training process, at the clock of one; nothing is fitted to them.
TEST_F(KernelFitsTest, GemmsOfExpertsHaveEachALaunchOfTheirOwn) {
  const hwdb::Database database(":memory:");
  for (const char* id : {"a100_pcie_80", "b200_sxm"}) {
    const sim::Device device = hwdb::device(database, id).device;
    sim::GemmMachine machine = sim::gemm_machine(device, sim::DType::Bf16);
    machine.coefficients.max_efficiency *= device.achieved.sustained_clock;
    for (const char* pass : {"fwd", "bwd_grad_act", "bwd_grad_w"}) {
      std::vector<GemmSample> samples = grouped_training_shapes(database, id, pass);
      ASSERT_FALSE(samples.empty());
      EXPECT_NEAR(median(gemm_log_errors(machine, samples)), 0.0, 0.12) << id << " " << pass;
      for (GemmSample& sample : samples) sample.gemm.kernels = 1;
      if (device.id == "b200_sxm") {
        EXPECT_LT(median(gemm_log_errors(machine, samples)), -0.10) << id << " " << pass;
      }
    }
  }
}

// Best bf16 GEMMs of one collector: 2106.8 TFLOP/s on GB300, 1928.8 on GB200, whose data sheets
// state the same peak.
TEST_F(KernelFitsTest, ADeviceWithoutAGridIsAsMuchFasterAsItsBestGemm) {
  const double ratio = coefficient("gb300", "gemm.bf16.max_efficiency").value /
                       coefficient("gb200", "gemm.bf16.max_efficiency").value;
  EXPECT_NEAR(ratio, 2106.8 / 1928.8, 1e-3);
  EXPECT_EQ(coefficient("gb300", "gemm.bf16.k_half").value,
            coefficient("gb200", "gemm.bf16.k_half").value);
}

// The same of nvfp4 against fp8 on B200: 4546.4 against 3151.0 TFLOP/s.  The data sheet says twice
// as many.
TEST_F(KernelFitsTest, FourBitGemmsAreAsMuchFasterAsTheirBestGemm) {
  const double fp8 = coefficient("b200_sxm", "gemm.fp8.max_efficiency").value * 4.5e15;
  const hwdb::Coefficient& fp4 = coefficient("b200_sxm", "gemm.fp4.max_efficiency");
  EXPECT_NEAR(fp4.value * 9e15 / fp8, 4546.4 / 3151.0, 2e-3);
  EXPECT_GT(fp4.standard_error.value() / fp4.value, 0.1);  // collectors differ: 4.5 to 5.8 PFLOP/s
}

// 19.5 against 312 TFLOP/s on A100: a sixteenth of the elements in the same time.
TEST_F(KernelFitsTest, TheKLoopOfFp32FillsInTheSameTime) {
  EXPECT_NEAR(coefficient("a100_sxm_80", "gemm.fp32.k_half").value /
                  coefficient("a100_sxm_80", "gemm.bf16.k_half").value,
              19.5 / 312.0, 1e-4);
}

TEST_F(KernelFitsTest, EveryCoefficientHasAnErrorAndASource) {
  for (const hwdb::Coefficient& row : fits_->coefficients) {
    EXPECT_GT(row.standard_error.value_or(0.0), 0.0) << row.id << " " << row.key;
    EXPECT_FALSE(row.source.empty()) << row.id << " " << row.key;
  }
}

}  // namespace
}  // namespace llmsim::calibrate
