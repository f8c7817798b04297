#include <gtest/gtest.h>

#include "hwdb/frameworks/frameworks.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

// A framework with one field.
FrameworkChoice with(const std::string& key, const std::string& value) {
  const std::string text = R"({"frameworks": [{"id": "a", "fields": {")" + key +
                           R"(": {"value": )" + value +
                           R"(, "evidence": "assumed", "source": "s"}}}]})";
  FrameworkQuery query;
  query.framework = "a";
  return Frameworks::parse(text, "frameworks.json").choose(query);
}

bool refused(const std::string& key, const std::string& value) {
  try {
    with(key, value);
  } catch (const Error& error) {
    return std::string(error.what()) == "frameworks.json: framework a: " + key + " = " + value +
                                            ": wrong type or range for this field";
  }
  return false;
}

TEST(FrameworkFields, EveryKindOfValueGoesWhereItBelongs) {
  EXPECT_EQ(with("fusion", "\"fused\"").framework.fusion, sim::ElementwiseFusion::Fused);
  EXPECT_EQ(with("low_precision.scaling", "\"rowwise\"").framework.low_precision.scaling,
            sim::LowPrecisionScaling::Rowwise);
  EXPECT_EQ(with("loss.fused", "\"recomputed\"").framework.loss.fused, sim::FusedLoss::Recomputed);
  EXPECT_EQ(with("loss.chunks", "8").framework.loss.chunks, 8);
  EXPECT_EQ(with("gradients.copies", "1.5").framework.gradients.copies, 1.5);
  EXPECT_TRUE(with("saved.fused_qkv", "true").framework.saved.fused_qkv);
  EXPECT_EQ(with("host.per_kernel", "2e-5").framework.host.per_kernel, sim::Seconds(2e-5));
  EXPECT_EQ(with("host_copies.checkpoints_up", "5e9").framework.host_copies.checkpoints_up,
            sim::BytesPerSecond(5e9));
  EXPECT_EQ(with("reserve.matmul_workspace", "0").framework.reserve.matmul_workspace,
            sim::Bytes(0.0));
  EXPECT_EQ(with("errors.moe_site", "0.25").framework.errors.moe_site, 0.25);
  EXPECT_EQ(with("errors.slower", "2.5").framework.errors.slower, 2.5);
  EXPECT_EQ(with("default.sharding", "\"zero2\"").defaults.strategy.sharding, sim::Sharding::Zero2);
  EXPECT_EQ(with("default.bias", "false").defaults.bias, false);
}

TEST(FrameworkFields, KeysOfOlderDatabasesAreUnderstood) {
  EXPECT_EQ(with("host_time_per_kernel_s", "2e-5").framework.host.per_kernel, sim::Seconds(2e-5));
  EXPECT_EQ(with("fragmentation", "1.5").framework.reserve.fragmentation, 1.5);
}

TEST(FrameworkFields, NothingIsNegativeAndRatesAreNotZero) {
  EXPECT_TRUE(refused("efficiency", "-0.5"));
  EXPECT_TRUE(refused("host.per_step", "-1"));
  EXPECT_TRUE(refused("errors.run", "-0.1"));
  EXPECT_TRUE(refused("reserve.framework", "-1"));
  EXPECT_EQ(with("efficiency", "0").framework.efficiency, 0.0);
  EXPECT_TRUE(refused("host_copies.checkpoints_up", "0"));
}

TEST(FrameworkFields, CountsAreWholeNumbersInTheirRange) {
  EXPECT_TRUE(refused("vocab_multiple", "0"));
  EXPECT_TRUE(refused("vocab_multiple", "128.5"));
  EXPECT_TRUE(refused("sharded.prefetch_units", "1001"));
  EXPECT_EQ(with("sharded.prefetch_units", "1000").framework.sharded.prefetch_units, 1000);
}

TEST(FrameworkFields, NamesAreThoseOfTheSchema) {
  EXPECT_TRUE(refused("default.sharding", "\"zero4\""));
  EXPECT_TRUE(refused("attention_kernel", "2"));
  EXPECT_TRUE(refused("update.fused", "\"true\""));
}

}  // namespace
}  // namespace llmsim::hwdb
