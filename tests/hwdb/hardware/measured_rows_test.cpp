#include "hwdb/hardware/measured_rows.h"

#include <gtest/gtest.h>

#include "hwdb/hardware/hardware.h"
#include "hwdb/hardware/user_hardware.h"

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

// Whatever ships with a 16-bit peak may be what one's own device is like: the same device, but for
// its name.
TEST(HardwareDocumentLike, IsTheOtherDeviceButForItsCoefficients) {
  Database database(":memory:", Access::Write);
  for (const HardwareRow& row : database.list(HardwareKind::Accelerator)) {
    const sim::Device other = device(database, row.id).device;
    const auto peak = [&](sim::DType dtype) {
      return other.matrix_peak[static_cast<std::size_t>(dtype)].value();
    };
    if (row.origin == Origin::User || peak(sim::DType::Bf16) + peak(sim::DType::Fp16) == 0.0)
      continue;
    const std::vector<Coefficient> rows{{.scope = "device",
                                         .id = "mine",
                                         .key = "memory_fraction",
                                         .value = 0.5,
                                         .standard_error = 0.01,
                                         .evidence = sim::Evidence::Fitted,
                                         .source = "a benchmark",
                                         .fitted_from = ""}};
    add_hardware(database,
                 hardware_document_like(database, row.id, "mine", 123.0, rows, "a benchmark"),
                 "mine.json", true);
    const sim::Device own = device(database, "mine").device;
    EXPECT_EQ(own.matrix_peak, other.matrix_peak) << row.id;
    EXPECT_EQ(own.memory, other.memory) << row.id;
    EXPECT_EQ(own.usable_memory, other.usable_memory) << row.id;
    EXPECT_EQ(own.memory_bandwidth, other.memory_bandwidth) << row.id;
    EXPECT_EQ(own.compute_units, other.compute_units) << row.id;
    EXPECT_EQ(own.vendor, other.vendor) << row.id;
    EXPECT_EQ(own.architecture, other.architecture) << row.id;
    EXPECT_EQ(own.achieved.training_rate, other.achieved.training_rate) << row.id;
    EXPECT_EQ(own.achieved.collective_fraction, other.achieved.collective_fraction) << row.id;
    EXPECT_EQ(own.achieved.memory_fraction, 0.5) << row.id;
    EXPECT_EQ(own.watts, 123.0) << row.id;
  }
}

}  // namespace
}  // namespace llmsim::hwdb
