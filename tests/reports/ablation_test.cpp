#include "reports/validation.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace llmsim::reports {
namespace {

using nlohmann::json;

calibrate::AblationPair pair(double measured, double predicted) {
  calibrate::AblationPair pair;
  pair.setting = "compile";
  pair.off_id = "a";
  pair.on_id = "b";
  pair.measured_time = measured;
  pair.predicted_time = predicted;
  pair.noise = 0.02;
  return pair;
}

calibrate::Ablations two_pairs() {
  calibrate::Ablations ablations;
  ablations.pairs = {pair(0.5, 0.75), pair(1.01, 0.9)};
  calibrate::AblationErrors errors;
  errors.setting = "compile";
  errors.pairs = 2;
  errors.decided = errors.right = 1;
  errors.median_error = 0.25;
  ablations.settings = {errors};
  ablations.all = errors;
  ablations.all.setting = "all settings";
  ablations.measured = errors;
  ablations.measured.setting = "all settings, measured times";
  ablations.switched = errors;
  ablations.switched.setting = "all settings that are switched";
  ablations.topology.setting = "topology";
  return ablations;
}

TEST(AblationTable, HasARowPerSettingAndTheSumsBelow) {
  const Table table = ablation_table(two_pairs());
  // Compile, the switched, all, each study once; nothing is scored apart.
  ASSERT_EQ(table.rows().size(), 4u);
  EXPECT_EQ(std::get<std::string>(table.rows()[0][0]), "compile");
  EXPECT_EQ(std::get<std::string>(table.rows()[0][2]), "1/1");
  EXPECT_EQ(std::get<std::string>(table.rows()[1][0]), "all settings that are switched");
  EXPECT_EQ(std::get<std::string>(table.rows()[2][0]), "all settings");
}

TEST(AblationTable, TellsMeasuredTimesApartWhereSomeWereComputed) {
  calibrate::Ablations ablations = two_pairs();
  ablations.measured.pairs = 1;
  const Table table = ablation_table(ablations);
  ASSERT_EQ(table.rows().size(), 5u);
  EXPECT_EQ(std::get<std::string>(table.rows()[3][0]), "all settings, measured times");
}

TEST(AblationRows, SayWhetherTheSignIsRight) {
  calibrate::Ablations ablations = two_pairs();
  ablations.pairs.push_back(pair(0.5, 1.5));
  ablations.pairs.push_back(pair(0.5, 1.0));
  ablations.pairs.back().predicted_time.reset();
  const Table table = ablation_rows_table(ablations);
  const auto verdict = [&](std::size_t row) { return std::get<std::string>(table.rows()[row][8]); };
  EXPECT_EQ(verdict(0), "right");
  EXPECT_EQ(verdict(1), "within noise");
  EXPECT_EQ(verdict(2), "wrong");
  EXPECT_EQ(verdict(3), "not predicted");
}

TEST(AblationJson, HoldsSettingsSumsAndPairs) {
  const json document = json::parse(ablation_json(two_pairs()));
  EXPECT_EQ(document.at("settings").at(0).at("sign_right"), 1);
  EXPECT_EQ(document.at("overall").at("median_ratio_error"), 0.25);
  EXPECT_TRUE(document.at("overall").at("study_median_ratio_error").is_null());
  EXPECT_EQ(document.at("measured").at("pairs"), 2);
  EXPECT_EQ(document.at("topology").at("pairs"), 0);
  EXPECT_EQ(document.at("pairs").at(0).at("measured_ratio"), 0.5);
  EXPECT_EQ(document.at("pairs").at(0).at("off_id"), "a");
  EXPECT_TRUE(document.at("pairs").at(0).at("measured_peak_ratio").is_null());
}

}  // namespace
}  // namespace llmsim::reports
