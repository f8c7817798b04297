#include "sim/base/quantity.h"

#include <concepts>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept AddAssignable = requires(A a, B b) {
  a += b;
};

static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Seconds>);
static_assert(!Addable<Flops, FlopsPerSecond>);
static_assert(!Addable<Bytes, double>);
static_assert(!AddAssignable<Bytes, Flops>);
static_assert(!Comparable<Bytes, Seconds>);
static_assert(!std::convertible_to<double, Bytes>);
static_assert(!std::convertible_to<Bytes, double>);

static_assert(std::same_as<decltype(GB / ms), BytesPerSecond>);
static_assert(std::same_as<decltype(TFLOP / TFLOPS), Seconds>);
static_assert(std::same_as<decltype(TFLOPS * ms), Flops>);
static_assert(std::same_as<decltype(GHz * ms), double>);
static_assert(std::same_as<decltype(GiB / GB), double>);

TEST(Quantity, IsZeroByDefault) { EXPECT_EQ(Seconds().value(), 0.0); }

TEST(Quantity, SizeOverRateIsTime) {
  // 3.35 TB at 3.35 TB/s take one second; 80 GB at 2 TB/s take 40 ms.
  EXPECT_EQ((3.35 * TB / (3.35 * TBps)).value(), 1.0);
  EXPECT_DOUBLE_EQ(80 * GB / (2 * TBps) / ms, 40.0);
}

TEST(Quantity, WorkOverRateIsTime) {
  // 989.4 TFLOP at half of 989.4 TFLOPS.
  EXPECT_DOUBLE_EQ((989.4 * TFLOP / (0.5 * 989.4 * TFLOPS)).value(), 2.0);
}

TEST(Quantity, RateTimesTimeIsAmount) {
  EXPECT_DOUBLE_EQ(100 * GBps * (20 * us) / MB, 2.0);
  EXPECT_DOUBLE_EQ(2 * TFLOPS * (3 * ms) / (0.001 * TFLOP), 6.0);
}

TEST(Quantity, QuotientOfEqualDimensionsIsANumber) {
  EXPECT_EQ(GiB / MiB, 1024.0);
  EXPECT_EQ(MiB / KiB, 1024.0);
  EXPECT_EQ(1500 * us / ms, 1.5);
}

TEST(Quantity, FrequencyTimesTimeIsACount) { EXPECT_DOUBLE_EQ(1.98 * GHz * (1 * us), 1980.0); }

TEST(Quantity, DecimalAndBinaryUnitsDiffer) {
  EXPECT_EQ(GB.value(), 1'000'000'000.0);
  EXPECT_EQ(GiB.value(), 1'073'741'824.0);
  EXPECT_EQ(TB / GB, 1000.0);
  EXPECT_EQ(PFLOP / TFLOP, 1000.0);
  EXPECT_EQ(TFLOP / FLOP, 1e12);
  EXPECT_EQ(TBps / GBps, 1000.0);
}

TEST(Quantity, AddsSubtractsNegatesAndScales) {
  EXPECT_EQ(3 * MiB + 5 * MiB, 8 * MiB);
  EXPECT_EQ(3 * MiB - 5 * MiB, -(2 * MiB));
  EXPECT_EQ(6 * MiB / 2, MiB * 3);
}

TEST(Quantity, AssignmentOperatorsMatchTheBinaryOnes) {
  Bytes size = 4 * KiB;
  size += 2 * KiB;
  EXPECT_EQ(size, 6 * KiB);
  size -= 1 * KiB;
  EXPECT_EQ(size, 5 * KiB);
  size *= 4;
  EXPECT_EQ(size, 20 * KiB);
  size /= 10;
  EXPECT_EQ(size, 2 * KiB);
}

TEST(Quantity, OrdersByValue) {
  EXPECT_LT(1 * GB, 1 * GiB);
  EXPECT_GT(1 * ms, 999 * us);
  EXPECT_NE(1 * GB, 1 * GiB);
}

TEST(Quantity, WholeBytesAreExactUpTo2To53) {
  const Bytes large{9'007'199'254'740'992.0};  // 2^53
  EXPECT_EQ((large - Bytes(1)).value(), 9'007'199'254'740'991.0);
  EXPECT_NE(large - Bytes(1), large);
}

}  // namespace
}  // namespace llmsim::sim
