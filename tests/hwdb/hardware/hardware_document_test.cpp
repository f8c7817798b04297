#include "hwdb/hardware/hardware_document.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "hwdb/hardware/hardware.h"
#include "hwdb/hardware/user_hardware.h"
#include "hwdb/runs/site.h"
#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/hwdb/runs/sample_site.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kOwn = R"({
  "accelerators": [
    {"id": "own_gpu", "source": "invoice", "aliases": ["ours"], "like": "h100_sxm", "peak_bf16_flops": 500e12,
     "hbm_bytes": 103079215104, "hbm_bytes_per_s": 4e12}],
  "systems": [
    {"id": "own_cluster", "source": "wiki", "accelerator_ids": ["own_gpu"], "accelerators_per_node": 4, "nodes": 10,
     "inter": {"nics_per_node": 4, "nic_bits_per_s": 400e9, "kind": "NDR"}}],
  "coefficients": [
    {"scope": "device", "id": "own_gpu", "key": "memory_fraction", "value": 0.87, "standard_error": 0.01,
     "evidence": "measured", "source": "own test", "fitted_from": "two runs"},
    {"scope": "system", "id": "own_cluster", "key": "network.peer_latency_s", "value": 5e-6, "source": "own test"}]
})";

Database with_own() {
  Database database(":memory:", Access::Write);
  add_hardware(database, kOwn, "own.json", false);
  return database;
}

// What a run on it is predicted from.
std::vector<std::string> facts_of(const Database& database, const std::string& name) {
  std::vector<std::string> facts;
  for (const sim::Fact& fact : cluster(database, name, 1).facts)
    facts.push_back(fact.key + " = " + fact.value + ", " + std::string(name_of(fact.evidence)) +
                    ", " + fact.source);
  return facts;
}

TEST(HardwareDocument, IsTheSameHardwareInAnotherDatabase) {
  const Database own = with_own();
  Database other(":memory:", Access::Write);
  const AddedHardware added =
      add_hardware(other, hardware_document(own, {"own_cluster"}), "exported.json", false);
  EXPECT_EQ(added.accelerators, std::vector<std::string>{"own_gpu"});  // the system's
  EXPECT_EQ(added.num_coefficients, 2);
  EXPECT_EQ(facts_of(other, "own_cluster"), facts_of(own, "own_cluster"));
  EXPECT_EQ(facts_of(other, "ours"), facts_of(own, "ours"));
  EXPECT_EQ(hardware_document(other, {"own_cluster"}), hardware_document(own, {"own_cluster"}));
}

TEST(HardwareDocument, OfAShippedDeviceIsItsRecordAlone) {
  const Database database(":memory:");
  const std::string text = hardware_document(database, {"h100"});
  EXPECT_NE(text.find("\"id\": \"h100_sxm\""), std::string::npos);
  EXPECT_NE(text.find("\"coefficients\": []"), std::string::npos);
  EXPECT_EQ(error_of([&] {
              hardware_document(database, {"h200", "h1000"});
            }).find("h1000: no accelerator or system has that name; did you mean "),
            0u);
}

// Every accelerator and system that ships can be exported and read again; Gaudi 1, whose peak
// nobody has published, is refused as one's own would be.
TEST(HardwareDocument, OfAllThatShipsIsReadAgain) {
  const Database database(":memory:");
  Database other(":memory:", Access::Write);
  for (const HardwareKind kind : {HardwareKind::Accelerator, HardwareKind::System}) {
    for (const HardwareRow& row : database.list(kind)) {
      const std::string error = error_of(
          [&] { add_hardware(other, hardware_document(database, {row.id}), "x.json", true); });
      EXPECT_EQ(error.find("peak_bf16_flops: is missing") != std::string::npos, row.id == "gaudi1");
      EXPECT_TRUE(error.empty() || row.id == "gaudi1") << row.id << ": " << error;
    }
  }
}

TEST(RemovedHardware, IsUnknownAndWhatItHidIsThereAgain) {
  Database database = with_own();
  EXPECT_EQ(error_of([&] { remove_hardware(database, "ours"); }),
            "own_gpu: own_cluster refers to it; remove that first");
  remove_hardware(database, "own_cluster");
  remove_hardware(database, "ours");
  EXPECT_FALSE(database.find(HardwareKind::System, "own_cluster"));
  EXPECT_FALSE(database.find(HardwareKind::Accelerator, "ours"));
  for (const char* table : {"accelerators", "systems", "coefficients", "aliases"})
    EXPECT_EQ(database.count(table, Origin::User), 0) << table;
  const auto before = facts_of(database, "h100");
  const std::string shipped = hardware_document(database, {"h100"});
  std::string slower = shipped;
  slower.replace(slower.find("\"hbm_bytes_per_s\": ") + 19, 1, "2");
  add_hardware(database, slower, "slower.json", true);
  EXPECT_NE(facts_of(database, "h100"), before);
  remove_hardware(database, "h100_sxm");
  EXPECT_EQ(facts_of(database, "h100"), before);
  EXPECT_EQ(
      error_of([&] { remove_hardware(database, "h100"); }).find("h100_sxm: ships with llmsim"), 0u);
}

TEST(SiteDocument, IsTheSameSiteInAnotherDatabase) {
  Database own(":memory:", Access::Write), other(":memory:", Access::Write);
  put_site(own, sample_site(), false);
  const std::string text = site_document(own, "ours");
  add_hardware(other, text, "site.json", false);
  EXPECT_EQ(site_document(other, "ours"), text);
  EXPECT_EQ(site(other, "ours").cells.size(), site(own, "ours").cells.size());
  EXPECT_NE(error_of([&] { add_hardware(other, text, "site.json", false); }).find("is taken"),
            std::string::npos);
  add_hardware(other, text, "site.json", true);
  EXPECT_EQ(site_document(other, "ours"), text);
  remove_site(other, "ours");
  EXPECT_TRUE(site_names(other).empty());
  EXPECT_NE(error_of([&] { remove_site(other, "ours"); }).find("unknown site 'ours'"),
            std::string::npos);
}

}  // namespace
}  // namespace llmsim::hwdb
