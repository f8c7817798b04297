#include "hwdb/frameworks/settings.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

std::string setting_error(const char* key, const std::string& text) {
  return error_of([&] { setting_from(*find_setting(key), std::string("--") + key, text); });
}

TEST(Settings, ExamplesAreValuesThatReadBackAsWritten) {
  for (const Setting& setting : run_settings()) {
    const sim::FieldValue value = setting_from(setting, setting.key, setting.example);
    EXPECT_EQ(setting_from(setting, setting.key, sim::text_of(value)), value) << setting.key;
    EXPECT_EQ(find_setting(setting.key), &setting);
  }
  EXPECT_EQ(find_setting("droput"), nullptr);
}

TEST(Settings, OtherValuesAreRefusedWithWhatWouldBeRight) {
  EXPECT_EQ(setting_error("dropout", "1"), "--dropout = 1: a number from 0 to 0.999 is expected");
  EXPECT_EQ(setting_error("dropout", "nan"),
            "--dropout = nan: a number from 0 to 0.999 is expected");
  EXPECT_EQ(setting_error("loss_chunks", "1.5"),
            "--loss_chunks = 1.5: an integer from 0 to 65536 is expected");
  EXPECT_EQ(setting_error("reduce_bucket_size", "inf"),
            "--reduce_bucket_size = inf: a number of at least 1 is expected");
  EXPECT_EQ(setting_error("norm_dtype", "fp8"),
            "--norm_dtype = fp8: fp32, bf16 or fp16 is expected");
  EXPECT_EQ(setting_error("deterministic", "maybe"),
            "--deterministic = maybe: true or false is expected");
}

TEST(Settings, AllStandInTheDescriptionOfTheSchema) {
  std::ostringstream readme;
  readme << std::ifstream(LLMSIM_SOURCE_DIR "/tests/validation/runs/README.md").rdbuf();
  for (const Setting& setting : run_settings())
    EXPECT_NE(readme.str().find("      " + std::string(setting.key) + " "), std::string::npos)
        << setting.key;
}

}  // namespace
}  // namespace llmsim::hwdb
