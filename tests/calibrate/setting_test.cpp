#include "calibrate/setting.h"

#include <gtest/gtest.h>

namespace llmsim::calibrate {
namespace {

hwdb::RunRecord run(const std::string& detail = "") {
  hwdb::RunRecord record;
  record.group = "g";
  record.model.num_layers = 4;
  record.hardware.num_devices = 8;
  record.training.framework = "fsdp1";
  record.training.framework_detail = detail;
  record.training.global_batch = 64;
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

TEST(Settings, AreOrderedFromOffToOnAndFromWideToNarrow) {
  hwdb::RunRecord plain = run(), changed = run();
  plain.training.compile = false;
  changed.training.compile = true;
  plain.training.precision = "bf16";
  changed.training.precision = "fp8";
  plain.training.optimizer = "adamw";
  changed.training.optimizer = "adam8bit";
  for (const char* name : {"compile", "precision", "optimizer"})
    EXPECT_LT(settings_of(plain).at(name), settings_of(changed).at(name)) << name;
}

TEST(Settings, OneReplicaHasNothingToShard) {
  hwdb::RunRecord record = run();
  record.training.dp = 1;
  record.training.sharding = "zero1";
  EXPECT_EQ(settings_of(record).at("sharding").text, "none");
}

TEST(Settings, ClausesWithAnEqualSignAreSettingsOfTheirOwn) {
  const Settings settings = settings_of(run("PyTorch 2.0; bucket=500; config_name=X"));
  EXPECT_EQ(settings.at("detail.bucket").text, "500");
  EXPECT_EQ(settings.at("software").text, "fsdp1; PyTorch 2.0");
  EXPECT_FALSE(settings.contains("detail.config_name"));
}

TEST(AllBut, IsSharedByRunsThatDifferInThatSettingOnly) {
  hwdb::RunRecord plain = run(), compiled = run("torch.compile mode default");
  plain.training.compile = false;
  compiled.training.compile = true;
  EXPECT_EQ(key("compile", plain), key("compile", compiled));
  EXPECT_NE(key("precision", plain), key("precision", compiled));
  compiled.model.num_layers = 8;
  EXPECT_NE(key("compile", plain), key("compile", compiled));
}

TEST(AllBut, SoftwareForgetsTheFrameworkAndItsVersionsButNotTheirFlags) {
  hwdb::RunRecord fsdp = run("PyTorch 2.0; bucket=500"), deepspeed = run("DeepSpeed 0.9; bucket=500");
  deepspeed.training.framework = "deepspeed";
  EXPECT_EQ(key("software", fsdp), key("software", deepspeed));
  EXPECT_NE(key("detail.bucket", fsdp), key("detail.bucket", deepspeed));
  EXPECT_NE(key("software", fsdp), key("software", run("PyTorch 2.0; bucket=900")));
  EXPECT_EQ(key("detail.bucket", fsdp), key("detail.bucket", run("PyTorch 2.0; bucket=900")));
}

TEST(AllBut, TopologyForgetsAllRanksAtOnce) {
  hwdb::RunRecord wide = run(), deep = run();
  wide.training.tp = 8;
  wide.training.dp = 1;
  deep.training.pp = 4;
  deep.training.dp = 2;
  wide.training.sharding = deep.training.sharding = "none";
  EXPECT_EQ(key(kTopology, wide), key(kTopology, deep));
}

}  // namespace
}  // namespace llmsim::calibrate
