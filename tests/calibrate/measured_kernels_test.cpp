#include "calibrate/measured_kernels.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace llmsim::calibrate {
namespace {

std::string error_in(const std::string& line) {
  return error_of([&] { parse_kernel_fits(R"({"fits": [)" + line + "]}", "fits.json"); });
}

TEST(KernelFitTable, ALineHasWhatItStates) {
  const std::vector<KernelFitLine> lines = parse_kernel_fits(
      R"({"about": "", "fits": [{"fit": "large_gemms", "devices": ["a", "b"], "kernel_time": 5e-6}]})",
      "fits.json");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].devices, (sim::Words{"a", "b"}));
  EXPECT_DOUBLE_EQ(lines[0].kernel_time.value(), 5e-6);
  EXPECT_EQ(lines[0].format, "bf16");
  EXPECT_FALSE(lines[0].kernel.has_value());
}

TEST(KernelFitTable, MistakesAreNamed) {
  EXPECT_EQ(error_in(R"({"fit": "grids", "device": "a"})"),
            "fits.json: fits[0]: device: no such field");
  EXPECT_EQ(error_in(R"({"fit": "grids", "devices": "a"})"),
            "fits.json: fits[0]: devices = a: a list of texts is expected");
  EXPECT_NE(error_in(R"({"fit": {"grids": 1}})").find("fits.json: fit"), std::string::npos);
  EXPECT_EQ(error_of([] { gemms_of("h100_sxm", "bf15"); }), "format = bf15: no such number format");
}

}  // namespace
}  // namespace llmsim::calibrate
