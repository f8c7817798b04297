#include "hwdb/benchmarks/device_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmsim::hwdb {
namespace {

std::vector<std::string> ids_of_name(const std::string& name) {
  static const Database database(":memory:");
  return accelerators_named(database, name);
}

using Ids = std::vector<std::string>;

// As cudaGetDeviceProperties and hipGetDeviceProperties give them.
TEST(AcceleratorsNamed, AreThoseOfDrivers) {
  EXPECT_EQ(ids_of_name("NVIDIA H100 80GB HBM3"), Ids{"h100_sxm"});
  EXPECT_EQ(ids_of_name("NVIDIA H100 PCIe"), Ids{"h100_pcie"});
  EXPECT_EQ(ids_of_name("NVIDIA H100 NVL"), Ids{"h100_nvl"});
  EXPECT_EQ(ids_of_name("NVIDIA H200"), Ids{"h200_sxm"});
  EXPECT_EQ(ids_of_name("NVIDIA B200"), Ids{"b200_sxm"});
  EXPECT_EQ(ids_of_name("NVIDIA GB200"), Ids{"gb200"});
  EXPECT_EQ(ids_of_name("NVIDIA A100-SXM4-40GB"), Ids{"a100_sxm_40"});
  EXPECT_EQ(ids_of_name("NVIDIA A100-SXM4-80GB"), Ids{"a100_sxm_80"});
  EXPECT_EQ(ids_of_name("NVIDIA A100-SXM-64GB"), Ids{"a100_custom_64"});
  EXPECT_EQ(ids_of_name("NVIDIA A100 80GB PCIe"), Ids{"a100_pcie_80"});
  EXPECT_EQ(ids_of_name("Tesla V100-SXM2-32GB"), Ids{"v100_sxm_32"});
  EXPECT_EQ(ids_of_name("NVIDIA L40S"), Ids{"l40s"});
  EXPECT_EQ(ids_of_name("NVIDIA GeForce RTX 4090"), Ids{"rtx4090"});
  EXPECT_EQ(ids_of_name("NVIDIA RTX A6000"), Ids{"rtx_a6000"});
  EXPECT_EQ(ids_of_name("AMD Instinct MI300X"), Ids{"mi300x"});
  EXPECT_EQ(ids_of_name("AMD Instinct MI250X"), Ids{"mi250x_gcd"});
}

TEST(AcceleratorsNamed, AreNoneOfWhatTheCatalogueLacks) {
  EXPECT_EQ(ids_of_name("NVIDIA A100-PCIE-40GB"), Ids{});
  EXPECT_EQ(ids_of_name("NVIDIA RTX PRO 5000"), Ids{});
  EXPECT_EQ(ids_of_name("NVIDIA H20"), Ids{});
  EXPECT_EQ(ids_of_name(""), Ids{});
}

TEST(AcceleratorsNamed, AreSeveralWhereANameLeavesItOpen) {
  EXPECT_EQ(ids_of_name("NVIDIA A100-SXM"), (Ids{"a100_custom_64", "a100_sxm_40", "a100_sxm_80"}));
}

}  // namespace
}  // namespace llmsim::hwdb
