#include "hwdb/hardware/measured_rows.h"

#include <gtest/gtest.h>

namespace llmsim::hwdb {
namespace {

TEST(MeasuredRows, NameThePointsOfACurveByItsColumns) {
  Measurement curve;
  curve.record = R"({"op": "all_gather", "ranks": 8})";
  curve.columns = R"(["bytes", "time_us", "algorithm"])";
  curve.points = R"([[1024, 9.5, "ring"], [2048, null, "tree"]])";
  const std::vector<MeasuredRow> points = rows(curve);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].number("bytes"), 1024.0);
  EXPECT_EQ(points[0].text("algorithm"), "ring");
  EXPECT_EQ(points[1].number("time_us"), std::nullopt);
  EXPECT_EQ(fields(curve).number("ranks"), 8.0);
}

TEST(MeasuredRows, ReadTheObjectsOfARecordWithoutColumns) {
  Measurement shapes;
  shapes.record =
      R"({"peak_flops": 3e14, "rows": [{"op": "matmul", "causal": true, "efficiency": 0.7}]})";
  const std::vector<MeasuredRow> objects = rows(shapes);
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].flag("causal"), true);
  EXPECT_EQ(objects[0].number("efficiency"), 0.7);
  EXPECT_EQ(objects[0].text("efficiency"), std::nullopt);
}

}  // namespace
}  // namespace llmsim::hwdb
