#include "hwdb/runs/comparison.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

std::vector<Comparison> parsed(const std::string& comparison) {
  return parse_comparisons(R"({"schema": 1, "comparisons": [)" + comparison + "]}", "c.json");
}

std::string comparison_error(const std::string& comparison) {
  return error_of([&] { parsed(comparison); });
}

TEST(Comparisons, NameTwoRuns) {
  const Comparison c =
      parsed(R"({"setting": "transport", "source": "log", "off": "a", "on": "b"})").at(0);
  EXPECT_EQ(c.off_id, "a");
  EXPECT_EQ(c.on_id, "b");
  EXPECT_FALSE(c.on);
}

TEST(Comparisons, TakeTheSettingAwayByAMergePatch) {
  const Comparison c =
      parsed(R"({"setting": "compile", "group": "g", "source": "log", "speedup": 0.15,
    "run": {"id": "x", "model": {"num_layers": 4}, "training": {"compile": true, "tp": 2}},
    "without": {"training": {"compile": false}}})")
          .at(0);
  EXPECT_EQ(sim::stated<bool>(c.on->training.strategy, "compile"), true);
  EXPECT_EQ(sim::stated<bool>(c.off->training.strategy, "compile"), false);
  EXPECT_EQ(sim::stated<int>(c.off->training.strategy, "tp"), 2);
  EXPECT_EQ(sim::stated<int>(c.off->model.fields, "num_layers"), 4);
  EXPECT_EQ(c.off->group, "g");
  EXPECT_DOUBLE_EQ(*c.speedup, 0.15);
}

TEST(Comparisons, MaySayTheTwoValues) {
  const Comparison c =
      parsed(R"({"setting": "x", "source": "log", "off": "a", "on": "b", "values": ["8", "9"]})")
          .at(0);
  EXPECT_EQ(c.values, (std::vector<std::string>{"8", "9"}));
  EXPECT_NE(comparison_error(
                R"({"setting": "x", "source": "log", "off": "a", "on": "b", "values": ["8"]})")
                .find("values"),
            std::string::npos);
}

TEST(Comparisons, RefuseWhatIsHalfSaid) {
  EXPECT_NE(comparison_error(R"({"source": "log", "off": "a", "on": "b"})").find("setting"),
            std::string::npos);
  EXPECT_NE(comparison_error(R"({"setting": "x", "source": "log", "off": "a"})").find("run"),
            std::string::npos);
  EXPECT_NE(comparison_error(
                R"({"setting": "x", "source": "log", "off": "a", "on": "b", "speedup": 0.1})")
                .find("speedup"),
            std::string::npos);
  EXPECT_NE(
      comparison_error(R"({"setting": "x", "source": "log", "run": {"id": "x"}, "without": {}})")
          .find("speedup"),
      std::string::npos);
  EXPECT_NE(
      comparison_error(R"({"setting": "x", "source": "log", "off": "a", "on": "b", "gain": 2})")
          .find("gain"),
      std::string::npos);
}

}  // namespace
}  // namespace llmsim::hwdb
