#include "hwdb/run_resolver.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "hwdb/database.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

const Database& shipped_database() {
  static const Database database(":memory:");
  return database;
}

RunRecord llama(int devices) {
  RunRecord record;
  record.file = "mine.json";
  record.id = "a";
  record.model.name = "llama-3-8b";
  record.model.seq_len = 4096;
  record.hardware.accelerator = "h100_sxm";
  record.hardware.num_devices = devices;
  record.training.framework = "megatron-lm";
  record.training.precision = "bf16";
  record.training.global_batch = 16;
  record.training.micro_batch = 1;
  return record;
}

sim::Run resolved(const RunRecord& record) { return RunResolver(shipped_database()).resolve(record); }

std::string error_of(const RunRecord& record) {
  try {
    resolved(record);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const sim::Fact* fact(const sim::Run& run, const std::string& key) {
  for (const sim::Fact& found : run.facts) {
    if (found.key == key) return &found;
  }
  return nullptr;
}

TEST(RunResolver, AModelsNameGivesItsShape) {
  const sim::Run run = resolved(llama(8));
  EXPECT_EQ(run.model.num_layers, 32);
  EXPECT_EQ(run.model.num_kv_heads, 8);
  EXPECT_EQ(run.model.seq_len, 4096);
}

TEST(RunResolver, CoefficientsOfAStackComeFromTheDatabase) {
  Database database(":memory:");
  database.put({"stack", "megatron-lm", "efficiency", 0.5, 0.1, sim::Evidence::Fitted, "own runs", "", Origin::User});
  EXPECT_EQ(RunResolver(database).resolve(llama(8)).stack.efficiency, 0.5);
}

TEST(RunResolver, DataParallelismIsWhatTheOtherDimensionsLeave) {
  RunRecord record = llama(16);
  record.training.tp = 2;
  record.training.pp = 4;
  const sim::Run run = resolved(record);
  EXPECT_EQ(run.strategy.data_parallel, 2);
  EXPECT_EQ(run.strategy.num_microbatches(), 8);
  ASSERT_NE(fact(run, "assumed.training.dp"), nullptr);
  EXPECT_EQ(fact(run, "assumed.training.dp")->value, "2");
}

TEST(RunResolver, AMeshThatDoesNotMultiplyIsRefusedWithWhatWouldFit) {
  RunRecord record = llama(16);
  record.training.tp = 2;
  record.training.dp = 4;
  EXPECT_EQ(error_of(record),
            "mine.json: run a: training: dp * tp * pp * cp = 4 * 2 * 1 * 1 is not num_devices = 16; dp = 8 would fit");
  record.training.tp = 3;
  EXPECT_EQ(error_of(record),
            "mine.json: run a: training: dp * tp * pp * cp = 4 * 3 * 1 * 1 is not num_devices = 16; tp * pp * cp must divide it");
}

TEST(RunResolver, ABatchThatDoesNotMultiplyIsRefused) {
  RunRecord record = llama(8);
  record.training.num_microbatches = 3;
  EXPECT_EQ(error_of(record),
            "mine.json: run a: training.global_batch = 16 is not dp * micro_batch * num_microbatches = 8 * 1 * 3");
}

TEST(RunResolver, EssentialFiguresThatAreMissingAreNamed) {
  RunRecord record = llama(8);
  record.training.global_batch = record.training.micro_batch = std::nullopt;
  EXPECT_EQ(error_of(record), "mine.json: run a: training.global_batch is missing, and training.micro_batch too");
  record = llama(8);
  record.hardware.accelerator = std::nullopt;
  EXPECT_EQ(error_of(record), "mine.json: run a: hardware.accelerator is missing");
  record = llama(8);
  record.model.name = std::nullopt;
  EXPECT_EQ(error_of(record), "mine.json: run a: model.num_layers is missing");
}

TEST(RunResolver, UnknownNamesAreRefusedWithTheRun) {
  RunRecord record = llama(8);
  record.hardware.accelerator = "h100_sxn";
  const std::string error = error_of(record);
  EXPECT_EQ(error.find("mine.json: run a: "), 0u) << error;
  EXPECT_NE(error.find("h100_sxm"), std::string::npos) << error;
  record = llama(8);
  record.training.framework = "megatron-ml";
  EXPECT_EQ(error_of(record), "mine.json: run a: framework = megatron-ml: unknown training stack; did you mean megatron-lm?");
}

TEST(RunResolver, WhatTheRecordSaysWinsOverTheStack) {
  RunRecord record = llama(8);
  EXPECT_TRUE(resolved(record).strategy.flash_attention);
  EXPECT_NE(fact(resolved(record), "assumed.training.flash_attention"), nullptr);
  record.training.flash_attention = false;
  EXPECT_FALSE(resolved(record).strategy.flash_attention);
  EXPECT_EQ(fact(resolved(record), "assumed.training.flash_attention"), nullptr);
}

// 126 layers do not divide into 16 * 8 chunks; 128 do.
TEST(RunResolver, EmbeddingAndHeadCountAsLayersWhereOnlyThatDividesEvenly) {
  RunRecord record = llama(16);
  record.training.pp = 16;
  record.training.virtual_stages = 8;
  record.model.num_layers = 126;
  EXPECT_TRUE(resolved(record).strategy.embeddings_as_layers);
  record.model.num_layers = 128;
  EXPECT_FALSE(resolved(record).strategy.embeddings_as_layers);
}

TEST(RunResolver, HybridShardingKeepsTheSizeOfItsShardGroups) {
  RunRecord record = llama(16);
  record.training.framework = "torchtitan";
  record.training.sharding = "hsdp";
  record.training.shard_size = 8;
  record.training.replicate_size = 2;
  EXPECT_EQ(resolved(record).strategy.shard_size, 8);
  record.training.replicate_size = 4;
  EXPECT_EQ(error_of(record), "mine.json: run a: training.shard_size = 8 times replicate_size must be dp * cp = 16");
}

TEST(RunResolver, EncodersAreRefused) {
  RunRecord record = llama(8);
  record.model.architecture = "encoder";
  EXPECT_EQ(error_of(record), "mine.json: run a: model.architecture = encoder: only decoders are simulated");
}

TEST(RunResolver, MicroStepsOfLlmTrainBenchHaveNoOptimizer) {
  RunRecord record = llama(8);
  record.group = "llm-train-bench";
  record.training.framework = "pytorch";
  EXPECT_FALSE(resolved(record).optimizer_step);
  EXPECT_TRUE(resolved(record).stack.reduces_every_microbatch);
  record.group = "te-issues-mi300x";
  record.training.framework = "ddp";
  EXPECT_FALSE(resolved(record).stack.reduces_every_microbatch);
}

TEST(RunResolver, EveryScoredShippedRunIsResolvedOnAMeshThatMultiplies) {
  RunResolver resolver(shipped_database());
  int scored = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LLMSIM_SOURCE_DIR "/tests/validation/runs")) {
    if (entry.path().extension() != ".json") continue;
    for (const RunRecord& record : read_runs(entry.path().string()).runs) {
      if (!record.scored.step_time && !record.scored.memory && !record.scored.outcome) continue;
      ++scored;
      sim::Run run;
      ASSERT_NO_THROW(run = resolver.resolve(record)) << record.id;
      EXPECT_EQ(run.strategy.num_devices(), run.cluster.num_devices) << record.id;
      EXPECT_EQ(run.strategy.micro_batch * run.strategy.num_microbatches() * run.strategy.data_parallel,
                run.strategy.global_batch)
          << record.id;
    }
  }
  EXPECT_GT(scored, 2700);  // 2736 alone have a scored outcome
}

TEST(RunResolver, TransportAndAlgorithmAreWhatTheRunSays) {
  RunRecord record = llama(16);
  EXPECT_EQ(resolved(record).cluster.network.transport, sim::Transport::Rdma);
  EXPECT_EQ(resolved(record).cluster.algorithm, sim::CollectiveAlgorithm::Auto);
  record.notes = "Slingshot without the OFI plugin";
  record.training.framework_detail = "NCCL_ALGO=TREE";
  EXPECT_EQ(resolved(record).cluster.network.transport, sim::Transport::Sockets);
  EXPECT_EQ(resolved(record).cluster.algorithm, sim::CollectiveAlgorithm::Tree);
  record.hardware.transport = "rdma";
  record.hardware.collective_algorithm = "hierarchical";
  EXPECT_EQ(resolved(record).cluster.network.transport, sim::Transport::Rdma);
  EXPECT_EQ(resolved(record).cluster.algorithm, sim::CollectiveAlgorithm::Hierarchical);
}

}  // namespace
}  // namespace llmsim::hwdb
