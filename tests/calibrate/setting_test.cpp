#include "calibrate/setting.h"

#include <gtest/gtest.h>

namespace llmsim::calibrate {
namespace {

hwdb::RunRecord run() {
  hwdb::RunRecord record;
  record.group = "g";
  record.model.fields["num_layers"] = 4;
  record.hardware.num_devices = 8;
  record.training.framework = "fsdp1";
  record.training.strategy["global_batch"] = 64;
  return record;
}

std::string key(const std::string& setting, const hwdb::RunRecord& record) {
  return all_but(setting, record, settings_of(record));
}

TEST(Settings, UnrecordedSwitchesAreUnknown) {
  const Settings settings = settings_of(run());
  EXPECT_FALSE(settings.at("compile").known);
  EXPECT_FALSE(settings.at("recompute").known);
  EXPECT_EQ(settings.at("virtual_stages").text, "1");
}

TEST(Settings, AreOrderedFromOffToOnAndFromHighToLowPrecision) {
  hwdb::RunRecord plain = run(), changed = run();
  plain.training.strategy["compile"] = false;
  changed.training.strategy["compile"] = true;
  plain.training.strategy["precision"] = "bf16";
  changed.training.strategy["precision"] = "fp8";
  plain.training.strategy["optimizer"] = "adamw";
  changed.training.strategy["optimizer"] = "adam8bit";
  for (const char* name : {"compile", "precision", "optimizer"})
    EXPECT_LT(settings_of(plain).at(name), settings_of(changed).at(name)) << name;
}

TEST(Settings, OneReplicaHasNothingToShard) {
  hwdb::RunRecord record = run();
  record.training.strategy["dp"] = 1;
  record.training.strategy["sharding"] = "zero1";
  EXPECT_EQ(settings_of(record).at("sharding").text, "none");
}

TEST(Settings, OfTheProgramStandUnderTheirKeysOrInWhatTheyAreADetailOf) {
  hwdb::RunRecord record = run();
  record.training.strategy["precision"] = "fp8";
  record.training.framework_version = "2.0";
  record.training.settings = {{"reduce_bucket_size", 500.0},
                              {"fp8_recipe", std::string("rowwise")}};
  const Settings settings = settings_of(record);
  EXPECT_EQ(settings.at("reduce_bucket_size").text, "500");
  EXPECT_EQ(settings.at("precision").text, "fp8 (fp8_recipe rowwise)");
  EXPECT_EQ(settings.at("software").text, "fsdp1 2.0");
}

TEST(Settings, FreeTextIsNone) {
  hwdb::RunRecord record = run();
  record.training.framework_detail = "PyTorch 2.0; bucket=500; torch.compile";
  EXPECT_EQ(settings_of(record), settings_of(run()));
}

TEST(AllBut, IsSharedByRunsThatDifferInThatSettingOnly) {
  hwdb::RunRecord plain = run(), compiled = run();
  plain.training.strategy["compile"] = false;
  compiled.training.strategy["compile"] = true;
  EXPECT_EQ(key("compile", plain), key("compile", compiled));
  EXPECT_NE(key("precision", plain), key("precision", compiled));
  compiled.model.fields["num_layers"] = 8;
  EXPECT_NE(key("compile", plain), key("compile", compiled));
}

TEST(AllBut, SoftwareForgetsTheFrameworkAndItsVersionButNotItsSettings) {
  const auto with = [](const char* framework, double bucket) {
    hwdb::RunRecord record = run();
    record.training.framework = framework;
    record.training.settings["reduce_bucket_size"] = bucket;
    return record;
  };
  const hwdb::RunRecord fsdp = with("fsdp1", 500), deepspeed = with("deepspeed", 500),
                        larger = with("fsdp1", 900);
  EXPECT_EQ(key("software", fsdp), key("software", deepspeed));
  EXPECT_NE(key("reduce_bucket_size", fsdp), key("reduce_bucket_size", deepspeed));
  EXPECT_NE(key("software", fsdp), key("software", larger));
  EXPECT_EQ(key("reduce_bucket_size", fsdp), key("reduce_bucket_size", larger));
}

TEST(AllBut, TopologyForgetsAllRanksAtOnce) {
  hwdb::RunRecord wide = run(), deep = run();
  wide.training.strategy["tp"] = 8;
  wide.training.strategy["dp"] = 1;
  deep.training.strategy["pp"] = 4;
  deep.training.strategy["dp"] = 2;
  wide.training.strategy["sharding"] = deep.training.strategy["sharding"] = "none";
  EXPECT_EQ(key(kTopology, wide), key(kTopology, deep));
}

}  // namespace
}  // namespace llmsim::calibrate
