#include "hwdb/hardware/hardware_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

const json& schema() {
  static const json all = json::parse(hardware_schema());
  return all;
}

TEST(HardwareSchema, RecordsNeedWhatTheReaderNeeds) {
  EXPECT_EQ(schema()["$defs"]["accelerator"]["required"],
            json::parse(R"(["id", "source", "hbm_bytes", "hbm_bytes_per_s"])"));
  EXPECT_EQ(schema()["$defs"]["accelerator"]["anyOf"].size(), 3U);  // one of three peaks
  EXPECT_EQ(schema()["$defs"]["system"]["required"],
            json::parse(R"(["id", "source", "accelerator_ids", "accelerators_per_node"])"));
}

// A price may be 0; memory in GB is no memory in bytes.
TEST(HardwareSchema, ValuesHaveTheRangesOfTheirKinds) {
  const json& fields = schema()["$defs"]["accelerator"]["properties"];
  EXPECT_EQ(fields["hbm_bytes"]["minimum"], 100000000);
  EXPECT_EQ(fields["hbm_bytes"]["description"], "bytes");
  EXPECT_EQ(fields["price_per_hour"]["anyOf"][0]["const"], 0);
  EXPECT_EQ(schema()["$defs"]["fabric_of_devices"]["required"], json::parse(R"(["kind"])"));
}

}  // namespace
}  // namespace llmsim::hwdb
