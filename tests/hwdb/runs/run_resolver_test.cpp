#include "hwdb/runs/run_resolver.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "hwdb/store/database.h"
#include "sim/base/error.h"
#include "sim/predict.h"
#include "sim/schedule/passes.h"
#include "sim/schedule/step.h"
#include "tests/error_of.h"
#include "tests/share.h"

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
  record.model.fields["seq_len"] = 4096;
  record.hardware.accelerator = "h100_sxm";
  record.hardware.num_devices = devices;
  record.training.framework = "megatron-lm";
  record.training.strategy["precision"] = "bf16";
  record.training.strategy["global_batch"] = 16;
  record.training.strategy["micro_batch"] = 1;
  return record;
}

sim::Run resolved(const RunRecord& record) {
  return RunResolver(shipped_database()).resolve(record);
}

std::string resolving_error(const RunRecord& record) {
  return error_of([&] { resolved(record); });
}

const sim::Fact* fact(const sim::Run& run, const std::string& key) {
  for (const sim::Fact& found : run.facts) {
    if (found.key == key) return &found;
  }
  return nullptr;
}

// GPT-2 on one, eight and sixteen of whatever the database has.
void expect_plausible(const std::optional<std::string>& accelerator,
                      const std::optional<std::string>& system, int devices) {
  RunRecord record = llama(devices);
  record.model.name = "gpt2";
  record.model.fields["seq_len"] = 1024;
  record.hardware.accelerator = accelerator, record.hardware.system = system;
  record.training.strategy.erase("precision");
  const sim::Prediction prediction = sim::predict(resolved(record));
  const std::string name = accelerator.value_or("") + system.value_or("");
  EXPECT_TRUE(prediction.feasible()) << name;
  EXPECT_GT(prediction.mfu, 0.001) << name << " " << devices;
  EXPECT_LT(prediction.mfu, 0.9) << name << " " << devices;
}

TEST(RunResolver, EveryAcceleratorAndEverySystemPredicts) {
  unsigned asked = 0;
  const auto is_of_this_build = [&] { return asked++ % kPartsOfATest == 0; };
  for (const int devices : {1, 8, 16}) {
    for (const HardwareRow& row : shipped_database().list(HardwareKind::Accelerator)) {
      if (row.id != "gaudi1" && is_of_this_build()) expect_plausible(row.id, std::nullopt, devices);
    }
    for (const HardwareRow& row : shipped_database().list(HardwareKind::System))
      if (is_of_this_build()) expect_plausible(std::nullopt, row.id, devices);
  }
}

TEST(RunResolver, AnAcceleratorWithoutAKnownRateSaysSo) {
  RunRecord record = llama(8);
  record.hardware.accelerator = "gaudi1";
  try {
    sim::predict(resolved(record));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "gaudi1 has no known rate in any format; `llmsim hardware add` stores one of your own");
  }
}

TEST(RunResolver, AModelsNameGivesItsShape) {
  const sim::Run run = resolved(llama(8));
  EXPECT_EQ(run.model.num_layers, 32);
  EXPECT_EQ(run.model.num_kv_heads, 8);
  EXPECT_EQ(run.model.seq_len, 4096);
}

TEST(RunResolver, CoefficientsOfAFrameworkComeFromTheDatabase) {
  Database database(":memory:");
  database.put({"framework", "megatron-lm", "efficiency", 0.5, 0.1, sim::Evidence::Fitted,
                "own runs", "", Origin::User});
  EXPECT_EQ(RunResolver(database).resolve(llama(8)).framework.efficiency, 0.5);
}

TEST(RunResolver, DataParallelismIsWhatTheOtherDimensionsLeave) {
  RunRecord record = llama(16);
  record.training.strategy["tp"] = 2;
  record.training.strategy["pp"] = 4;
  const sim::Run run = resolved(record);
  EXPECT_EQ(run.strategy.dp, 2);
  EXPECT_EQ(run.strategy.num_microbatches(), 8);
  ASSERT_NE(fact(run, "assumed.training.dp"), nullptr);
  EXPECT_EQ(fact(run, "assumed.training.dp")->value, "2");
}

TEST(RunResolver, AMeshThatDoesNotMultiplyIsRefusedWithWhatWouldFit) {
  RunRecord record = llama(16);
  record.training.strategy["tp"] = 2;
  record.training.strategy["dp"] = 4;
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: training: dp * tp * pp * cp = 4 * 2 * 1 * 1 is not num_devices = "
            "16; dp = 8 would fit");
  record.training.strategy["tp"] = 3;
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: training: dp * tp * pp * cp = 4 * 3 * 1 * 1 is not num_devices = "
            "16; tp * pp * cp = 3 must divide "
            "it (nearest: 2 or 4)");
}

TEST(RunResolver, ABatchThatDoesNotMultiplyIsRefused) {
  RunRecord record = llama(8);
  record.training.num_microbatches = 3;
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: training.global_batch = 16 is not dp * micro_batch * "
            "num_microbatches = 8 * 1 * 3");
}

TEST(RunResolver, AdaptersAreThoseThatTheRecordNames) {
  RunRecord record = llama(8);
  record.model.trainable = "lora";
  record.model.lora_rank = 16;
  const auto layers = [&] { return names_of(resolved(record).strategy.adapters->layers); };
  EXPECT_EQ(layers(), (std::vector<std::string>{"q", "v"}));
  EXPECT_NE(fact(resolved(record), "assumed.model.lora.targets"), nullptr);
  record.model.lora_targets = {"down", "k_proj"};
  EXPECT_EQ(layers(), (std::vector<std::string>{"k", "down"}));
  record.model.lora_targets = {"all linear layers"};
  EXPECT_EQ(layers().size(), 7U);
  record.model.lora_targets = {"q", "qkv"};
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: model.lora.targets = qkv: some of q, k, v, o, gate, up, down, "
            "attention, mlp and all is expected");
}

TEST(RunResolver, EssentialFiguresThatAreMissingAreNamed) {
  RunRecord record = llama(8);
  record.training.strategy.erase("global_batch");
  record.training.strategy.erase("micro_batch");
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: training.global_batch is missing, and training.micro_batch too");
  record = llama(8);
  record.hardware.accelerator = std::nullopt;
  EXPECT_EQ(resolving_error(record), "mine.json: run a: hardware.accelerator is missing");
  record = llama(8);
  record.model.name = std::nullopt;
  EXPECT_EQ(resolving_error(record), "mine.json: run a: model.num_layers is missing");
}

TEST(RunResolver, UnknownNamesAreRefusedWithTheRun) {
  RunRecord record = llama(8);
  record.hardware.accelerator = "h100_sxn";
  const std::string error = resolving_error(record);
  EXPECT_EQ(error.find("mine.json: run a: "), 0u) << error;
  EXPECT_NE(error.find("h100_sxm"), std::string::npos) << error;
  record = llama(8);
  record.training.framework = "megatron-ml";
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: framework = megatron-ml: unknown training framework; did you mean "
            "megatron-lm?");
}

TEST(RunResolver, WhatTheRecordSaysWinsOverTheFramework) {
  RunRecord record = llama(8);
  EXPECT_TRUE(resolved(record).strategy.flash_attention);
  EXPECT_NE(fact(resolved(record), "assumed.training.flash_attention"), nullptr);
  record.training.strategy["flash_attention"] = false;
  EXPECT_FALSE(resolved(record).strategy.flash_attention);
  EXPECT_EQ(fact(resolved(record), "assumed.training.flash_attention"), nullptr);
}

TEST(RunResolver, BothKindsOfDataCollectivesOverlapAsTheRunSaysOfEach) {
  const auto overlaps = [](const RunRecord& record) {
    const sim::Strategy s = resolved(record).strategy;
    return std::pair(s.gradient_overlap, s.gather_overlap);
  };
  RunRecord record = llama(8);
  record.training.dp_overlap = false;
  EXPECT_EQ(overlaps(record), std::pair(false, false));
  record.training.dp_overlap = true;
  EXPECT_EQ(overlaps(record), std::pair(true, true));
  record.training.strategy["gather_overlap"] = true,
  record.training.strategy["gradient_overlap"] = false;
  EXPECT_EQ(overlaps(record), std::pair(false, true));
}

TEST(RunResolver, UpdatedWeightsAreGatheredAsTheFrameworkDoes) {
  RunRecord record = llama(8);
  record.training.framework = "internevo";
  EXPECT_TRUE(resolved(record).strategy.gradient_overlap);
  EXPECT_FALSE(resolved(record).strategy.gather_overlap);
  record.training.framework = "nemo";
  EXPECT_TRUE(resolved(record).strategy.gather_overlap);
}

TEST(RunResolver, SchedulesWithSplitPassesBringTheirNumberOfParts) {
  RunRecord record = llama(16);
  record.training.strategy["pp"] = 4;
  record.training.strategy["pipeline_schedule"] = "zero-bubble";
  EXPECT_EQ(resolved(record).strategy.pipeline_schedule, sim::PipelineSchedule::ZbH1);
  EXPECT_EQ(resolved(record).strategy.virtual_stages, 1);
  record.training.strategy["pipeline_schedule"] = "zb-v";
  EXPECT_EQ(resolved(record).strategy.pipeline_schedule, sim::PipelineSchedule::ZbV);
  EXPECT_EQ(resolved(record).strategy.virtual_stages, 2);
  record.training.strategy["pipeline_schedule"] = "v-half";
  EXPECT_EQ(resolved(record).strategy.pipeline_schedule, sim::PipelineSchedule::VHalf);
  EXPECT_EQ(resolved(record).strategy.virtual_stages, 2);
  record.training.strategy["pipeline_schedule"] = "dualpipe";
  EXPECT_EQ(resolved(record).strategy.pipeline_schedule, sim::PipelineSchedule::DualPipe);
}

// 126 layers do not divide into 16 * 8 chunks; 128 do.
TEST(RunResolver, EmbeddingAndHeadCountAsLayersWhereOnlyThatDividesEvenly) {
  RunRecord record = llama(16);
  record.training.strategy["pp"] = 16;
  record.training.strategy["virtual_stages"] = 8;
  record.model.fields["num_layers"] = 126;
  EXPECT_TRUE(resolved(record).strategy.embeddings_as_layers);
  record.model.fields["num_layers"] = 128;
  EXPECT_FALSE(resolved(record).strategy.embeddings_as_layers);
}

TEST(RunResolver, HybridShardingKeepsTheSizeOfItsShardGroups) {
  RunRecord record = llama(16);
  record.training.framework = "torchtitan";
  record.training.strategy["sharding"] = "hsdp";
  record.training.strategy["shard_size"] = 8;
  record.training.replicate_size = 2;
  EXPECT_EQ(resolved(record).strategy.shard_size, 8);
  record.training.replicate_size = 4;
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: training.shard_size = 8 times replicate_size must be dp * cp = 16");
}

TEST(RunResolver, AnEncoderIsTrainedAsBertIs) {
  RunRecord record = llama(8);
  RecordedModel& m = record.model;
  m.name = "mine", m.architecture = "encoder";
  m.fields = {{"num_layers", 2},
              {"hidden_size", 64},
              {"num_heads", 4},
              {"vocab_size", 1000},
              {"seq_len", 128}};
  const sim::Transformer model = resolved(record).model;
  ASSERT_TRUE(model.encoder.has_value());
  EXPECT_DOUBLE_EQ(model.encoder->predicted_share, 20.0 / 128.0);
  EXPECT_TRUE(model.embedding_norm);
  EXPECT_FALSE(model.final_norm);
  m.fields.insert({{"encoder.predicted_share", 0.5}, {"encoder.segment_types", 0}});
  EXPECT_EQ(resolved(record).model.encoder,
            (sim::Encoder{.predicted_share = 0.5, .segment_types = 0, .next_sentence = true}));
}

TEST(RunResolver, HybridsAreOfTheCatalogueOrHaveAPattern) {
  RunRecord record = llama(8);
  record.model.architecture = "hybrid";
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: model.architecture = hybrid: model.layer_pattern is missing");
  record.model.architecture = "vision-language";
  EXPECT_EQ(resolving_error(record),
            "mine.json: run a: model.architecture = vision-language: only decoders, encoders and "
            "hybrids of attention and Mamba or gated delta nets are simulated");
  // The layers and the name alone, as a table of results has them.
  record.model = {};
  record.model.name = "nemotron-3-nano-30b-a3b", record.model.architecture = "hybrid";
  record.model.fields = {{"num_layers", 52}, {"seq_len", 8192}};
  EXPECT_EQ(resolved(record).model.moe->num_experts, 128);
}

TEST(RunResolver, StepsThatAreMicroStepsHaveNoOptimizer) {
  RunRecord record = llama(8);
  record.training.framework = "pytorch";
  EXPECT_TRUE(resolved(record).optimizer_step);
  record.training.settings = {{"optimizer_step", false}, {"grad_sync_every_microbatch", true}};
  const sim::Run run = resolved(record);
  EXPECT_FALSE(run.optimizer_step);
  EXPECT_TRUE(run.framework.gradients.reduced_every_microbatch);
}

TEST(RunResolver, BehaviourThatARunStatesReplaceThoseOfItsFrameworkAndAreFactsOfTheRun) {
  RunRecord record = llama(8);
  record.training.framework = "deepspeed";
  EXPECT_EQ(resolved(record).framework.sharded.live_parameters, 1e9);  // DeepSpeed's default
  record.training.settings = {
      {"max_live_parameters", 5e8}, {"dropout", 0.2}, {"optimizer_step", false}};
  const sim::Run run = resolved(record);
  EXPECT_EQ(run.framework.sharded.live_parameters, 5e8);
  EXPECT_EQ(run.framework.dropout, 0.2);
  EXPECT_FALSE(run.optimizer_step);
  const auto stated = std::count_if(run.facts.begin(), run.facts.end(), [](const sim::Fact& known) {
    return known.key == "framework.deepspeed.sharded.live_parameters";
  });
  EXPECT_EQ(stated, 1);
  EXPECT_EQ(fact(run, "framework.deepspeed.sharded.live_parameters")->evidence,
            sim::Evidence::Given);
}

// FlashAttention came to Megatron-LM in September 2022.
TEST(RunResolver, TheDateOfARunDecidesHowItsFrameworkBehaves) {
  RunRecord record = llama(8);
  EXPECT_TRUE(resolved(record).strategy.flash_attention);
  record.date = "2022-08-15";
  EXPECT_FALSE(resolved(record).strategy.flash_attention);
  record.date = "2022-09-01";
  EXPECT_TRUE(resolved(record).strategy.flash_attention);
}

TEST(RunResolver, EveryScoredShippedRunIsResolvedOnAMeshThatMultiplies) {
  RunResolver resolver(shipped_database());
  int scored = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(LLMSIM_SOURCE_DIR "/tests/validation/runs")) {
    if (entry.path().extension() != ".json") continue;
    for (const RunRecord& record : read_runs(entry.path().string()).runs) {
      if (!record.scored.step_time && !record.scored.memory && !record.scored.outcome) continue;
      if (scored++ % kPartsOfATest != 0) continue;
      sim::Run run;
      ASSERT_NO_THROW(run = resolver.resolve(record)) << record.id;
      EXPECT_EQ(run.strategy.num_devices(), run.cluster.num_devices) << record.id;
      EXPECT_EQ(run.strategy.micro_batch * run.strategy.num_microbatches() * run.strategy.dp,
                run.strategy.global_batch)
          << record.id;
    }
  }
  EXPECT_GT(scored, 2700);  // 2736 alone have a scored outcome
}

TEST(RunResolver, TheRecipeOfLowPrecisionIsWhatTheRunStates) {
  RunRecord record = llama(8);
  record.training.strategy["precision"] = "fp8";
  const auto scaling = [&](const char* recipe) {
    record.training.settings["fp8_recipe"] = std::string(recipe);
    return resolved(record).framework.low_precision.scaling;
  };
  EXPECT_EQ(scaling("delayed"), sim::LowPrecisionScaling::Delayed);
  EXPECT_EQ(scaling("current"), sim::LowPrecisionScaling::Current);
  EXPECT_EQ(scaling("blockwise"), sim::LowPrecisionScaling::Blockwise);
  EXPECT_EQ(scaling("rowwise"), sim::LowPrecisionScaling::Rowwise);
  EXPECT_EQ(scaling("rowwise-gw-hp"), sim::LowPrecisionScaling::RowwiseHighPrecisionGradient);
  EXPECT_EQ(scaling("mxfp8"), sim::LowPrecisionScaling::Mxfp8);
  sim::SettingValues& s = record.training.settings;
  s = {{"first_layers_bf16", 1.0},
       {"last_layers_bf16", 1.0},
       {"fp8_all_gather", true},
       {"moe_fp8_dispatch", true}};
  s["weight_dtype"] = std::string("fp8");
  const sim::Framework framework = resolved(record).framework;
  EXPECT_EQ(
      framework.low_precision.high_precision_first + framework.low_precision.high_precision_last,
      2);
  EXPECT_TRUE(framework.low_precision.stores_weights && framework.low_precision.gathers &&
              framework.experts.dispatches_low_precision);
}

TEST(RunResolver, BlockScalesAreRefusedOnADeviceWithoutThem) {
  RunRecord record = llama(8);
  record.training.strategy["precision"] = "mxfp8";
  EXPECT_THROW(sim::predict(resolved(record)), Error);
  record.hardware.accelerator = "b200_sxm";
  EXPECT_NO_THROW(sim::predict(resolved(record)));
}

TEST(RunResolver, ActivationsOfChosenModulesAreOffloaded) {
  RunRecord record = llama(8);
  record.training.strategy["offload.activations"] = true;
  record.training.strategy["offload.modules"] = sim::Words{"core_attn", "moe_act"};
  record.training.strategy["offload.blocks"] = 3;
  sim::Offload offload{.activations = true, .blocks = 3};
  offload.modules.core_attention = offload.modules.activation = true;
  EXPECT_EQ(resolved(record).strategy.offload, offload);
  record.training.strategy["offload.modules"] = sim::Words{"core"};
  EXPECT_NE(resolving_error(record).find("offload.modules = core: some of attn_norm, qkv_linear"),
            std::string::npos);
  record.training.strategy["offload.modules"] = sim::Words{"core_attn"};
  record.training.strategy["offload.activations"] = false;
  EXPECT_NE(resolving_error(record).find("need training.offload.activations = true"),
            std::string::npos);
}

TEST(RunResolver, TransportAndAlgorithmAreWhatTheRunSays) {
  RunRecord record = llama(16);
  EXPECT_EQ(resolved(record).cluster.network.transport, sim::Transport::Rdma);
  EXPECT_EQ(resolved(record).cluster.algorithm, sim::CollectiveAlgorithm::Auto);
  record.hardware.transport = "sockets";
  record.hardware.collective_algorithm = "tree";
  EXPECT_EQ(resolved(record).cluster.network.transport, sim::Transport::Sockets);
  EXPECT_EQ(resolved(record).cluster.algorithm, sim::CollectiveAlgorithm::Tree);
  record.hardware.transport = "rdma";
  record.hardware.collective_algorithm = "hierarchical";
  EXPECT_EQ(resolved(record).cluster.network.transport, sim::Transport::Rdma);
  EXPECT_EQ(resolved(record).cluster.algorithm, sim::CollectiveAlgorithm::Hierarchical);
}

const RunRecord& shipped_run(const std::string& group, const std::string& id) {
  static std::map<std::string, RunFile> files;
  const auto file = files
                        .try_emplace(group, read_runs(LLMSIM_SOURCE_DIR "/tests/validation/runs/" +
                                                      group + ".json"))
                        .first;
  const std::vector<RunRecord>& runs = file->second.runs;
  return *std::find_if(runs.begin(), runs.end(),
                       [&](const RunRecord& run) { return run.id == id; });
}

TEST(RunResolver, AnOffloadedStepSplitsLikeItsPublishedTrace) {
  // optimized_hf_llama_class_for_training, 32k tokens on one A100: about 10 s forward, 55 s
  // backward, 12 s in the CPU optimizer.
  sim::Run run = resolved(shipped_run("fused-ce", "fusedce-1xa100-32k-baseline"));
  const sim::RankParameters rank = sim::rank_parameters(run.model, run.strategy);
  const sim::DataParallelCollectives exchange(run, rank);
  const std::vector<sim::ModelChunk> chunks = sim::model_chunks(run.model, run.strategy);
  const sim::ChunkPassTimes passes =
      sim::chunk_pass_times(run, sim::layer_prices(run), exchange, rank, chunks.front());
  EXPECT_NEAR(passes.forward.total().value(), 10.0, 1.5);
  EXPECT_NEAR(passes.last_backward.total().value(), 55.0, 8.0);
  EXPECT_NEAR(
      sim::update_time(run, {.shared = exchange.trained_parameters(chunks.front())}).value(), 12.0,
      1.0);
}

TEST(RunResolver, WhatAFusedLossIsFollowsFromTheFrameworkOrTheRun) {
  RunRecord record = llama(8);
  // Megatron's keeps the logits.
  EXPECT_EQ(resolved(record).framework.loss.fused, sim::FusedLoss::Kernel);
  record.training.framework = "torchtune";
  EXPECT_EQ(resolved(record).framework.loss.fused, sim::FusedLoss::Logits);
  record.training.settings = {{"fused_loss", std::string("gradient")}, {"loss_chunks", 8.0}};
  EXPECT_EQ(resolved(record).framework.loss.fused, sim::FusedLoss::Gradient);
  EXPECT_EQ(resolved(record).framework.loss.chunks, 8);
}

TEST(RunResolver, LayersOfEachStageAreWhatTheRunSays) {
  RunRecord record = llama(16);
  record.training.strategy["pp"] = 4;
  record.training.strategy["stage_layers"] = std::vector<int>{7, 9, 9, 7};
  const sim::Run run = resolved(record);
  const std::vector<sim::ModelChunk> chunks = sim::model_chunks(run.model, run.strategy);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[0].blocks, 7);
  EXPECT_EQ(chunks[1].blocks, 9);
  EXPECT_EQ(chunks[3].blocks, 7);
  record.training.strategy["stage_layers"] = std::vector<int>{7, 9, 9};
  EXPECT_EQ(sim::predict(resolved(record)).infeasible->message,
            "stage_layers = [7, 9, 9] has 3 numbers, but pp = 4 and virtual_stages = 1");
  record.training.strategy["stage_layers"] = std::vector<int>{7, 9, 9, 8};
  EXPECT_EQ(sim::predict(resolved(record)).infeasible->message,
            "stage_layers = [7, 9, 9, 8] adds up to 33, but num_layers = 32");
}

// A schedule never overrides the number of chunks that was told beside it.
TEST(RunResolver, SchedulesThatContradictTheirChunksAreRefused) {
  RunRecord record = llama(16);
  record.training.strategy["pp"] = 4;
  record.training.strategy["pipeline_schedule"] = "1f1b";
  record.training.strategy["virtual_stages"] = 2;
  EXPECT_EQ(sim::predict(resolved(record)).infeasible->message,
            "pipeline_schedule = 1f1b has one chunk per stage, but virtual_stages = 2 (nearest: "
            "interleaved, or virtual_stages = 1)");
  record.training.strategy["pipeline_schedule"] = "interleaved";
  record.training.strategy["virtual_stages"] = 1;
  EXPECT_EQ(sim::predict(resolved(record)).infeasible->message,
            "pipeline_schedule = interleaved needs several chunks per stage, but virtual_stages = "
            "1 (nearest: 1f1b, or "
            "virtual_stages = 2)");
}

TEST(RunResolver, ZeroTwoOfALargeModelDiesOfHostMemoryOnJeanZay) {
  // Each of four processes of a node makes 52e9 fp32 weights: 832 GB of 160; 3.6e9 of them need 58
  // GB, and ran.
  const sim::Prediction large = sim::predict(
      resolved(shipped_run("jean-zay-gpt2-hf", "jz-v100-hfzero2-52b-g64-hostram-oom")));
  ASSERT_FALSE(large.feasible());
  EXPECT_NEAR(large.memory.host.node.value(), 4.0 * 4.0 * 52e9, 0.03 * 832e9);
  EXPECT_EQ(large.memory.host.capacity.value(), 160e9);
  RunRecord small = shipped_run("jean-zay-gpt2-hf", "jz-v100-hfzero2-3.5b-g64");
  small.training.strategy["micro_batch"] = 1;
  EXPECT_TRUE(sim::predict(resolved(small)).memory.host.fits());
}

}  // namespace
}  // namespace llmsim::hwdb
