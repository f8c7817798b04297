#include "calibrate/fact_fits.h"

#include <gtest/gtest.h>

#include <map>

namespace llmsim::calibrate {
namespace {

class FactFitsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { fits_ = new FactFits(fit_facts(hwdb::Database(":memory:"))); }
  static void TearDownTestSuite() { delete fits_; }

  static const FitSummary& summary(const std::string& accelerator, const std::string& what) {
    for (const FitSummary& fit : fits_->summaries) {
      if (fit.accelerator == accelerator && fit.what == what) return fit;
    }
    throw std::runtime_error("no fit of " + accelerator + ": " + what);
  }

  static FactFits* fits_;
};
FactFits* FactFitsTest::fits_ = nullptr;

TEST_F(FactFitsTest, TheShippedRowsAreTheFittedOnes) {
  const hwdb::Database database(":memory:");
  for (const hwdb::Coefficient& fitted : fits_->coefficients) {
    bool shipped = false;
    for (const hwdb::Coefficient& row : database.coefficients(fitted.scope, fitted.id)) {
      if (row.key != fitted.key) continue;
      shipped = true;
      EXPECT_NEAR(row.value, fitted.value, 2e-3 * std::abs(fitted.value)) << fitted.id << " " << fitted.key;
    }
    EXPECT_TRUE(shipped) << fitted.id << " " << fitted.key << ": not in hwdb/facts/coefficients.json";
  }
}

TEST_F(FactFitsTest, LargeProductsAreDescribedToTenPercent) {
  for (const char* id : {"a100_sxm_80", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200"}) {
    EXPECT_LE(summary(id, "gemm bf16").rms_large.value(), 0.10) << id;
  }
}

TEST_F(FactFitsTest, PublishedAttentionTablesAreDescribedToSevenPercent) {
  EXPECT_LE(summary("a100_sxm_80", "attention, FlashAttention-2").rms, 0.07);
  EXPECT_LE(summary("h100_sxm", "attention, FlashAttention-2").rms, 0.07);
}

TEST_F(FactFitsTest, EveryCoefficientHasAnErrorAndASource) {
  for (const hwdb::Coefficient& row : fits_->coefficients) {
    EXPECT_GT(row.standard_error.value_or(0.0), 0.0) << row.id << " " << row.key;
    EXPECT_FALSE(row.source.empty()) << row.id << " " << row.key;
  }
}

}  // namespace
}  // namespace llmsim::calibrate
