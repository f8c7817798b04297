#include "reports/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace llmsim::reports {
namespace {

TEST(UnitFor, TakesTheLargestUnitThatTheValueFills) {
  EXPECT_EQ(unit_for(Kind::Bytes, 1023).name, "B");
  EXPECT_EQ(unit_for(Kind::Bytes, 1024).name, "KiB");
  EXPECT_EQ(unit_for(Kind::Bytes, 80.0 * 1024 * 1024 * 1024).name, "GiB");
  EXPECT_EQ(unit_for(Kind::Seconds, 0.5).name, "ms");
  EXPECT_EQ(unit_for(Kind::Seconds, 59).name, "s");
  EXPECT_EQ(unit_for(Kind::Seconds, 1e-12).name, "ns");
  EXPECT_EQ(unit_for(Kind::BytesPerSecond, 3.35e12).name, "TB/s");
}

TEST(UnitFor, KeepsDevicesInTflopsUpTo100Pflops) {
  EXPECT_EQ(unit_for(Kind::FlopsPerSecond, 2.5e15).name, "TFLOP/s");
  EXPECT_EQ(unit_for(Kind::FlopsPerSecond, 1e17).name, "PFLOP/s");
}

TEST(Significant, KeepsFourDigits) {
  EXPECT_EQ(significant(12.3456), "12.35");
  EXPECT_EQ(significant(0.123456), "0.1235");
  EXPECT_EQ(significant(1234567), "1234567");
  EXPECT_EQ(significant(-2.5), "-2.500");
  EXPECT_EQ(significant(100), "100.0");
}

TEST(Significant, RoundsUpIntoTheNextPowerOfTen) {
  EXPECT_EQ(significant(9.9996), "10.00");
  EXPECT_EQ(significant(0.99999, 3), "1.00");
}

TEST(Significant, NeverPrintsNanOrInfinity) {
  EXPECT_EQ(significant(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(significant(std::nan("")), "-");
  EXPECT_EQ(exact(std::nan("")), "");
  EXPECT_EQ(percent(std::nan("")), "-");
  EXPECT_EQ(human(sim::Seconds(std::nan(""))), "-");
}

TEST(Significant, HasNoNegativeZero) {
  EXPECT_EQ(significant(-0.0), "0");
  EXPECT_EQ(exact(-0.0), "0");
}

TEST(Grouped, SeparatesThousands) {
  EXPECT_EQ(grouped(68976648192), "68,976,648,192");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(999), "999");
}

TEST(Human, NamesTheUnit) {
  EXPECT_EQ(human(80 * sim::GiB), "80.00 GiB");
  EXPECT_EQ(human(24.514 * sim::Seconds(1.0)), "24.51 s");
  EXPECT_EQ(human(sim::Seconds(0.0)), "0 s");
  EXPECT_EQ(human(412 * sim::TFLOPS), "412.0 TFLOP/s");
  EXPECT_EQ(percent(0.5123), "51.2 %");
}

TEST(Exact, ReadsBackAsTheSameNumber) {
  for (const double value : {0.1, 1.0 / 3.0, 1e300, 24.5, 68976648192.0})
    EXPECT_EQ(std::stod(exact(value)), value);
}

}  // namespace
}  // namespace llmsim::reports
