#include "hwdb/hardware/user_hardware.h"

#include <algorithm>

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "hwdb/hardware/hardware.h"
#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

using sim::GBps;
using sim::GiB;

constexpr const char* kCluster = R"({
  "accelerators": [
    {"id": "my_gpu", "name": "My GPU", "source": "invoice", "aliases": ["mygpu"], "like": "h100_sxm",
     "peak_bf16_flops": 500e12, "peak_fp32_vector_flops": 50e12, "hbm_bytes": 103079215104, "hbm_bytes_per_s": 4e12,
     "scale_up": {"kind": "NVLink", "total_bytes_per_s_per_direction": 450e9},
     "fabric": {"kind": "switch", "devices": 8, "in_switch_reduction": true}}],
  "systems": [
    {"id": "my_cluster", "source": "wiki", "accelerator_ids": ["my_gpu"], "accelerators_per_node": 4, "nodes": 10,
     "inter": {"nics_per_node": 4, "nic_bits_per_s": 400e9, "kind": "NDR"}}],
  "coefficients": [
    {"scope": "device", "id": "my_gpu", "key": "memory_fraction", "value": 0.9, "standard_error": 0.01, "source": "own test"}]
})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string hardware_error(Database& database, const std::string& text, bool replace = false) {
  return error_of([&] { add_hardware(database, text, "mine.json", replace); });
}

std::string refusal(const std::string& from, const std::string& to) {
  static Database database(":memory:", Access::Write);
  const std::string message = hardware_error(database, replaced(kCluster, from, to));
  EXPECT_EQ(database.count("accelerators", Origin::User), 0) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(UserHardware, CoefficientsOfFrameworksAreCheckedAsThoseOfDevices) {
  constexpr const char* kDevice = R"("scope": "device", "id": "my_gpu", "key": "memory_fraction")";
  Database database(":memory:", Access::Write);
  const std::string right = R"("scope": "framework", "id": "megatron-lm", "key": "efficiency")";
  EXPECT_EQ(hardware_error(database, replaced(kCluster, kDevice, right)), "");
  const std::vector<Coefficient> rows = database.coefficients("framework", "megatron-lm");
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [](const Coefficient& c) { return c.key == "efficiency"; });
  ASSERT_NE(row, rows.end());
  EXPECT_EQ(row->value, 0.9);
  EXPECT_EQ(
      refusal(kDevice, R"("scope": "framework", "id": "megatron-lm", "key": "eficiency")"),
      "coefficient of framework megatron-lm: eficiency: unknown field; did you mean efficiency?");
}

// What a record does not say is that of the one it is like, with that one's source.
TEST(UserHardware, WhatIsNotGivenIsOfTheOneThatItIsLike) {
  Database database(":memory:", Access::Write);
  add_hardware(database, R"({"accelerators": [{"id": "my_gpu", "name": "My GPU", "source": "me",
     "like": "h100_sxm", "peak_bf16_flops": 500e12, "hbm_bytes": 103079215104,
     "hbm_bytes_per_s": 4e12}]})",
               "mine.json", false);
  const auto mine = device(database, "my_gpu"), theirs = device(database, "h100_sxm");
  EXPECT_EQ(mine.device.compute_units, theirs.device.compute_units);
  EXPECT_EQ(mine.device.cache, theirs.device.cache);
  EXPECT_EQ(mine.device.memory, 96.0 * GiB);
  const auto fact = [&](const std::string& key) {
    const auto found = std::find_if(mine.facts.begin(), mine.facts.end(),
                                    [&](const auto& f) { return f.key == "device.my_gpu." + key; });
    return found == mine.facts.end() ? sim::Fact{} : *found;
  };
  EXPECT_EQ(fact("compute_units").evidence, sim::Evidence::Assumed);
  EXPECT_EQ(fact("compute_units").source.substr(0, 33), "not given, as of h100_sxm (stas00");
  EXPECT_EQ(fact("cache").evidence, sim::Evidence::Assumed);
  EXPECT_EQ(fact("memory").source, "me");
  EXPECT_EQ(fact("memory").evidence, sim::Evidence::Given);
}

TEST(UserHardware, OneFileMakesACluster) {
  Database database(":memory:", Access::Write);
  const AddedHardware added = add_hardware(database, kCluster, "mine.json", false);
  EXPECT_EQ(added.accelerators, std::vector<std::string>{"my_gpu"});
  EXPECT_EQ(added.systems, std::vector<std::string>{"my_cluster"});
  EXPECT_EQ(added.num_coefficients, 1);
  const sim::Cluster mine = cluster(database, "my-cluster", 8).cluster;
  EXPECT_EQ(mine.device.memory, 96.0 * GiB);
  EXPECT_EQ(mine.devices_per_node, 4);
  EXPECT_EQ(mine.network.node_bandwidth, 200.0 * GBps);  // 4 x 400 Gb/s
  EXPECT_EQ(mine.device.achieved.memory_fraction, 0.9);
  EXPECT_EQ(mine.device.achieved.scale_out_fraction,
            device(database, "h100").device.achieved.scale_out_fraction);
  EXPECT_TRUE(mine.fabric.in_switch_reduction);
}

// The example is the block between the fences.
std::string readme_example() {
  std::ifstream file(LLMSIM_SOURCE_DIR "/hwdb/README.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const std::string fence = "```json\n";
  const std::size_t begin = page.find(fence) + fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

TEST(UserHardware, TheReadmesExampleCanBeAdded) {
  Database database(":memory:", Access::Write);
  add_hardware(database, readme_example(), "README.md", false);
  const sim::Cluster ours = cluster(database, "our-h100", 256).cluster;
  EXPECT_EQ(ours.network.node_bandwidth, 200.0 * GBps);  // 4 x 400 Gb/s of its default system
  EXPECT_EQ(cluster(database, "our-cluster", 256).cluster.device.achieved.scale_out_fraction, 0.82);
}

TEST(UserHardware, FactsOfTheUserAreGiven) {
  Database database(":memory:", Access::Write);
  add_hardware(database, kCluster, "mine.json", false);
  for (const sim::Fact& fact : device(database, "mygpu").facts) {
    if (fact.key == "device.my_gpu.memory_bandwidth") {
      EXPECT_EQ(fact.evidence, sim::Evidence::Given);
      EXPECT_EQ(fact.source, "invoice");
    }
  }
}

TEST(UserHardware, AddingItTwiceNeedsReplace) {
  Database database(":memory:", Access::Write);
  add_hardware(database, kCluster, "mine.json", false);
  EXPECT_NE(hardware_error(database, kCluster).find("--replace"), std::string::npos);
  EXPECT_EQ(hardware_error(database, kCluster, true), "");
  EXPECT_EQ(database.count("accelerators", Origin::User), 1);
}

TEST(UserHardware, ShippedNamesAreNotTakenUnasked) {
  EXPECT_NE(refusal(R"("id": "my_gpu", "name")", R"("id": "h100_sxm", "name")")
                .find("'h100_sxm' is taken by h100_sxm"),
            std::string::npos);
  EXPECT_NE(refusal(R"("mygpu")", R"("H100")").find("is taken by h100_sxm"), std::string::npos);
}

TEST(UserHardware, ReplaceHidesTheShippedRow) {
  Database database(":memory:", Access::Write);
  const char* faster =
      R"({"accelerators": [{"id": "h100_sxm", "source": "me", "peak_bf16_flops": 1e15, "hbm_bytes": 8e10, "hbm_bytes_per_s": 3e12}]})";
  EXPECT_EQ(hardware_error(database, faster, true), "");
  EXPECT_EQ(device(database, "h100").device.memory_bandwidth, 3000.0 * GBps);
}

TEST(UserHardware, MistakesAreNamed) {
  EXPECT_EQ(refusal(R"("hbm_bytes_per_s": 4e12)", R"("hbm_bytes_per_s": -4e12)")
                .find("mine.json: accelerators[0].hbm_bytes_per_s = -4"),
            0U);
  EXPECT_NE(refusal("500e12", "500e15").find("peak_bf16_flops"), std::string::npos);
  EXPECT_NE(refusal(R"("id": "my_gpu", "name")", R"("name")").find("id"), std::string::npos);
  EXPECT_NE(refusal(R"("source": "invoice", )", "").find("source: is missing"), std::string::npos);
  EXPECT_NE(
      refusal(R"("peak_bf16_flops")", R"("peak_bf61_flops")").find("did you mean peak_bf16_flops"),
      std::string::npos);
  EXPECT_NE(refusal(R"("like": "h100_sxm")", R"("like": "h100_sxn")").find("did you mean h100_sxm"),
            std::string::npos);
  EXPECT_NE(refusal(R"("kind": "switch")", R"("kind": "swich")").find("did you mean switch"),
            std::string::npos);
  EXPECT_NE(refusal(R"("accelerator_ids": ["my_gpu"])", R"("accelerator_ids": [])")
                .find("accelerator_ids"),
            std::string::npos);
  EXPECT_NE(refusal("memory_fraction", "memory_fractoin").find("did you mean memory_fraction"),
            std::string::npos);
  EXPECT_NE(refusal(R"("value": 0.9)", R"("value": 9)").find("value = 9"), std::string::npos);
  EXPECT_NE(refusal("accelerators", "acelerators").find("did you mean accelerators"),
            std::string::npos);
  EXPECT_NE(refusal("[\n    {\"id\": \"my_gpu\"", "[ 3, {\"id\": \"my_gpu\"")
                .find("an object { ... } is expected"),
            std::string::npos);
  EXPECT_NE(refusal("500e12", "500e12,").find("malformed JSON"), std::string::npos);
}

// Gigabytes and TFLOP/s typed where bytes and FLOP/s are meant.
TEST(UserHardware, ValuesInOtherUnitsAreRefusedWithWhatWasMeant) {
  Database database(":memory:", Access::Write);
  const auto refused = [&](const std::string& key, const std::string& value) {
    std::string text =
        R"({"accelerators": [{"id": "g", "source": "me", "peak_bf16_flops": 1e15, "hbm_bytes": 8e10,
                           "hbm_bytes_per_s": 3e12, "boost_clock_hz": 1.7e9, "tdp_watts": 700, "l2_bytes": 5e7,
                           "scale_up": {"total_bytes_per_s_per_direction": 450e9}}]})";
    const std::size_t begin = text.find(key + "\"") + key.size() + 3,
                      end = text.find_first_of(",}", begin);
    EXPECT_EQ(database.count("accelerators", Origin::User), 0) << "before " << key;
    return hardware_error(database, text.replace(begin, end - begin, value));
  };
  EXPECT_EQ(refused("hbm_bytes", "160"),
            "mine.json: accelerators[0].hbm_bytes = 160: 1e+08 to 1e+14 bytes is expected; did you "
            "mean 160e9?");
  EXPECT_NE(refused("peak_bf16_flops", "989.4").find("did you mean 989.4e12?"), std::string::npos);
  EXPECT_NE(refused("hbm_bytes_per_s", "3.35").find("did you mean 3.35e12?"), std::string::npos);
  EXPECT_NE(refused("hbm_bytes_per_s", "3350").find("did you mean 3350e9?"), std::string::npos);
  EXPECT_NE(refused("boost_clock_hz", "1755").find("did you mean 1755e6?"), std::string::npos);
  EXPECT_NE(refused("tdp_watts", "0.7").find("did you mean 0.7e3?"), std::string::npos);
  EXPECT_NE(refused("l2_bytes", "50").find("did you mean 50e6?"), std::string::npos);
  EXPECT_NE(refused("total_bytes_per_s_per_direction", "450").find("did you mean 450e9?"),
            std::string::npos);
  for (const char* key : {"peak_bf16_flops", "hbm_bytes", "hbm_bytes_per_s", "boost_clock_hz",
                          "tdp_watts", "l2_bytes", "total_bytes_per_s_per_direction"}) {
    EXPECT_NE(refused(key, "1e40").find("is expected"), std::string::npos) << key;
    EXPECT_EQ(refused(key, "1e40").find("did you mean"), std::string::npos) << key;
    EXPECT_NE(refused(key, "1e-6").find("is expected"), std::string::npos) << key;
  }
  EXPECT_EQ(refused("l2_bytes", "0"), "");
}

TEST(UserHardware, AnEmptyDocumentIsRefused) {
  Database database(":memory:", Access::Write);
  EXPECT_NE(hardware_error(database, "{}").find("none of accelerators"), std::string::npos);
  EXPECT_NE(hardware_error(database, "[]"), "");
  EXPECT_NE(hardware_error(database, ""), "");
}

// Whatever the bytes are: an Error of one line and nothing stored, or hardware that loads.
TEST(UserHardware, NoMutationOfTheFileBreaksTheReader) {
  Database database(":memory:", Access::Write);
  std::mt19937 random(20261120);
  const std::string original = kCluster;
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = original;
    for (unsigned mutations = 1 + random() % 4; mutations > 0; --mutations) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = static_cast<char>(random() % 256); break;
        case 1: text.erase(at, 1 + random() % 8); break;
        case 2: text.insert(at, text.substr(random() % text.size(), 1 + random() % 16)); break;
        default: text.insert(at, 1, "{}[]\",:0-e."[random() % 11]); break;
      }
    }
    try {
      const AddedHardware added = add_hardware(database, text, "mine.json", true);
      for (const std::string& id : added.accelerators)
        EXPECT_GT(device(database, id).device.memory.value(), 0.0) << text;
      for (const std::string& id : added.systems)
        EXPECT_GT(cluster(database, id, 1).cluster.network.node_bandwidth.value(), 0.0) << text;
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(accepted, 20);  // mutated names and numbers are still hardware
  EXPECT_LT(accepted, 2000);
}

}  // namespace
}  // namespace llmsim::hwdb
