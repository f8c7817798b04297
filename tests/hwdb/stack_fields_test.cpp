#include <gtest/gtest.h>

#include "hwdb/stacks.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

// A stack with one field.
StackChoice with(const std::string& key, const std::string& value) {
  const std::string text = R"({"stacks": [{"id": "a", "fields": {")" + key + R"(": {"value": )" + value +
                           R"(, "evidence": "assumed", "source": "s"}}}]})";
  StackQuery query;
  query.framework = "a";
  return Stacks::parse(text, "stacks.json").choose(query);
}

bool refused(const std::string& key, const std::string& value) {
  try {
    with(key, value);
  } catch (const Error& error) {
    return std::string(error.what()) == "stacks.json: stack a: " + key + " = " + value + ": wrong type or range for this field";
  }
  return false;
}

TEST(StackFields, EveryKindOfValueGoesWhereItBelongs) {
  EXPECT_EQ(with("fusion", "\"fused\"").stack.fusion, sim::ElementwiseFusion::Fused);
  EXPECT_EQ(with("low_precision_scaling", "\"rowwise\"").stack.low_precision.scaling, sim::LowPrecisionScaling::Rowwise);
  EXPECT_EQ(with("fused_loss", "\"recomputed\"").stack.loss.fused, sim::FusedLoss::Recomputed);
  EXPECT_EQ(with("loss_chunks", "8").stack.loss.chunks, 8);
  EXPECT_EQ(with("gradient_copies", "1.5").stack.gradients.copies, 1.5);
  EXPECT_TRUE(with("keeps_fused_qkv", "true").stack.kept.fused_qkv);
  EXPECT_EQ(with("host_time_per_kernel_s", "2e-5").stack.host.per_kernel, sim::Seconds(2e-5));
  EXPECT_EQ(with("offload.checkpoint_up_bytes_per_s", "5e9").stack.host_copies.checkpoints_up, sim::BytesPerSecond(5e9));
  EXPECT_EQ(with("matmul_workspace_bytes", "0").stack.reserve.matmul_workspace, sim::Bytes(0.0));
  EXPECT_EQ(with("default.sharding", "\"zero2\"").defaults.sharding, sim::Sharding::Zero2);
  EXPECT_EQ(with("default.bias", "false").defaults.bias, false);
}

TEST(StackFields, NothingIsNegativeAndRatesAreNotZero) {
  EXPECT_TRUE(refused("efficiency", "-0.5"));
  EXPECT_TRUE(refused("host_time_per_step_s", "-1"));
  EXPECT_TRUE(refused("framework_memory_bytes", "-1"));
  EXPECT_EQ(with("efficiency", "0").stack.efficiency, 0.0);
  EXPECT_TRUE(refused("offload.checkpoint_up_bytes_per_s", "0"));
}

TEST(StackFields, CountsAreWholeNumbersInTheirRange) {
  EXPECT_TRUE(refused("vocab_multiple", "0"));
  EXPECT_TRUE(refused("vocab_multiple", "128.5"));
  EXPECT_TRUE(refused("prefetch_units", "1001"));
  EXPECT_EQ(with("prefetch_units", "1000").stack.sharded.prefetch_units, 1000);
}

TEST(StackFields, NamesAreThoseOfTheSchema) {
  EXPECT_TRUE(refused("default.sharding", "\"zero4\""));
  EXPECT_TRUE(refused("attention_kernel", "2"));
  EXPECT_TRUE(refused("fused_update", "\"true\""));
}

}  // namespace
}  // namespace llmsim::hwdb
