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

TEST(Settings, TopologyIsAllRanksAndTheShardsOfReplicas) {
  hwdb::RunRecord record = run();
  const auto topology = [&] { return settings_of(record).at(kTopology); };
  EXPECT_EQ(topology().text, "tp 1, pp 1");
  record.training.strategy["tp"] = 2;
  record.training.strategy["pp"] = 3;
  EXPECT_EQ(topology().text, "tp 2, pp 3");
  record.training.strategy["dp"] = 4;
  record.training.strategy["shard_size"] = 2;
  EXPECT_EQ(topology().text, "tp 2, pp 3, dp 4");
  record.training.strategy["sharding"] = "zero3";
  EXPECT_EQ(topology().text, "tp 2, pp 3, dp 4");
  record.training.strategy["sharding"] = "hsdp";
  EXPECT_EQ(topology().text, "tp 2, pp 3, dp 4 in shards of 2");
  record.training.strategy.erase("shard_size");
  EXPECT_EQ(topology().text, "tp 2, pp 3, dp 4");
  // By tensor ranks, then by stages.
  const auto of = [](int tp, int pp) {
    hwdb::RunRecord other = run();
    other.training.strategy["tp"] = tp, other.training.strategy["pp"] = pp;
    return settings_of(other).at(kTopology);
  };
  EXPECT_LT(of(1, 64), of(2, 1));
  EXPECT_LT(of(2, 2), of(2, 4));
  EXPECT_EQ(of(2, 4).rank, 2000004.0);
}

TEST(Settings, OfSeveralFieldsAreOneText) {
  hwdb::RunRecord record = run();
  sim::PartialRecord& strategy = record.training.strategy;
  const auto text = [&](const char* name) { return settings_of(record).at(name).text; };
  strategy["virtual_stages"] = 4;
  EXPECT_EQ(text("virtual_stages"), "4");
  strategy["pipeline_schedule"] = "interleaved";
  EXPECT_EQ(text("virtual_stages"), "4 (interleaved)");
  EXPECT_EQ(settings_of(record).at("virtual_stages").rank, 4.0);
  strategy["recompute.kind"] = "full";
  EXPECT_EQ(text("recompute"), "full");
  strategy["recompute.every_n"] = 3;
  EXPECT_EQ(text("recompute"), "full 3");
  record.training.dp_overlap = true;
  EXPECT_EQ(text("dp_overlap"), "on");
  EXPECT_EQ(settings_of(record).at("dp_overlap").rank, 1.0);
  record.training.dp_overlap = false;
  EXPECT_EQ(text("dp_overlap"), "off");
  EXPECT_EQ(settings_of(record).at("dp_overlap").rank, 0.0);
  record.model.fields["vocab_size"] = 32000;
  EXPECT_EQ(text("vocab_size"), "32000");
  EXPECT_EQ(settings_of(record).at("vocab_size").rank, 32000.0);
  EXPECT_TRUE(is_scale("vocab_size") && is_scale("micro_batch") && is_scale("virtual_stages"));
  EXPECT_TRUE(is_scale(kTopology) && is_scale(kSoftware));
  EXPECT_FALSE(is_scale("compile") || is_scale("recompute"));
}

// Recomputation from none to all of it, formats from wide to narrow.
TEST(Settings, WordsHaveTheOrderOfTheirTable) {
  const auto of = [](const char* key, const char* name, const char* word) {
    hwdb::RunRecord record = run();
    record.training.strategy[key] = word;
    return settings_of(record).at(name);
  };
  const char* const kinds[] = {"none", "op", "selective", "full"};
  for (int i = 1; i < 4; ++i)
    EXPECT_LT(of("recompute.kind", "recompute", kinds[i - 1]),
              of("recompute.kind", "recompute", kinds[i]));
  hwdb::RunRecord numbered = run();
  numbered.training.strategy["micro_batch"] = 4;
  EXPECT_EQ(settings_of(numbered).at("micro_batch").rank, 4.0);
  EXPECT_EQ(settings_of(numbered).at("micro_batch").text, "4");
}

// What is recorded of the model and its devices parts studies, not the vocabulary.
TEST(AllBut, PartsModelsAndDevices) {
  const hwdb::RunRecord plain = run();
  const auto differs = [&](auto change) {
    hwdb::RunRecord other = run();
    change(other);
    return key("compile", other) != key("compile", plain);
  };
  using R = hwdb::RunRecord;
  EXPECT_FALSE(differs([](R&) {}));
  EXPECT_TRUE(differs([](R& r) { r.group = "h"; }));
  EXPECT_TRUE(differs([](R& r) { r.model.name = "m"; }));
  EXPECT_TRUE(differs([](R& r) { r.model.lora_rank = 8; }));
  EXPECT_TRUE(differs([](R& r) { r.hardware.accelerator = "a"; }));
  EXPECT_TRUE(differs([](R& r) { r.hardware.system = "s"; }));
  EXPECT_TRUE(differs([](R& r) { r.hardware.num_devices = 16; }));
  EXPECT_TRUE(differs([](R& r) { r.hardware.devices_per_node = 4; }));
  EXPECT_TRUE(differs([](R& r) { r.hardware.inter_node_bytes_per_s_per_device = 1e9; }));
  for (const char* field : {"global_batch", "cp", "ep", "micro_batch"})
    EXPECT_TRUE(differs([&](R& r) { r.training.strategy[field] = 2; })) << field;
  EXPECT_TRUE(differs([](R& r) { r.model.fields["vocab_size"] = 2; }));
  hwdb::RunRecord small = run(), large = run();
  small.model.fields["vocab_size"] = 2, large.model.fields["vocab_size"] = 4;
  EXPECT_EQ(key("vocab_size", small), key("vocab_size", large));
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
