#include "cli/run_request.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/predict.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace llmsim::cli {
namespace {

const hwdb::Database& database() {
  static const hwdb::Database shipped(":memory:");
  return shipped;
}

// The value of an assumed key; empty where it was not assumed.
std::string assumed(const sim::Run& run, const std::string& key) {
  for (const sim::Fact& fact : run.facts) {
    if (fact.key == "assumed." + key) return fact.value;
  }
  return "";
}

std::string request_error(const RunOptions& options) {
  return error_of([&] { run_of(options, database()); });
}

std::string rule_of(const RunOptions& options) {
  const sim::Prediction prediction = sim::predict(run_of(options, database()));
  return prediction.infeasible ? prediction.infeasible->rule : "";
}

// A model that sees, over a launch file and without one: what is not counted is a warning.
TEST(RunOf, WarnsOfPartsOfAModelThatAreNotCounted) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "sees.json")
      << R"({"model_type": "qwen3_vl", "vision_config": {"depth": 2},
    "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 1024, "num_hidden_layers": 2,
    "num_attention_heads": 32, "head_dim": 32, "intermediate_size": 2048, "vocab_size": 1000}})";
  std::ofstream(folder + "zero2.json")
      << R"({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 1})";
  const auto warns = [&](const std::string& launch) {
    RunOptions options{.model = folder + "sees.json"};
    options.gpus = "8", options.launch_file = launch;
    const std::vector<std::string> warnings = run_of(options, database()).warnings;
    return std::ranges::any_of(warnings, [](const std::string& warning) {
      return warning.find("vision_config is not counted") != std::string::npos;
    });
  };
  EXPECT_TRUE(warns(""));
  EXPECT_TRUE(warns(folder + "zero2.json"));
}

// An option changes its own field and what must follow from it.
TEST(RunOf, AnOptionLeavesTheRestOfALaunchFile) {
  const TemporaryFolder folder;
  const std::string file = folder / "a.yaml";
  std::ofstream(file) << "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: bf16\n"
                         "gradient_accumulation_steps: 4\n";
  RunOptions options{.model = "gpt2"};
  options.launch_file = file;
  options.strategy["micro_batch"] = "2";
  EXPECT_EQ(request_of(options, database()).run.strategy.global_batch, 8 * 2 * 4);
  options.recompute = "full";
  EXPECT_EQ(request_of(options, database()).run.strategy.global_batch, 8 * 2 * 4);
  options.global_batch = "32";
  EXPECT_EQ(request_of(options, database()).run.strategy.num_microbatches(), 2);
}

TEST(QueryOf, ModelAndDevicesAreEnough) {
  RunOptions options{.model = "llama-70b"};
  options.gpus = "256";
  const sim::PlanQuery query = query_of(options, database());
  EXPECT_EQ(query.base.model.num_layers, 80);
  EXPECT_EQ(query.base.cluster.num_devices, 256);
  EXPECT_EQ(query.base.cluster.devices_per_node, 8);
  EXPECT_EQ(query.base.strategy.global_batch * query.base.model.seq_len, 4 << 20);
  EXPECT_TRUE(query.restriction.empty());
  EXPECT_EQ(assumed(query.base, "hardware.accelerator"), "h100_sxm");
  EXPECT_EQ(assumed(query.base, "hardware.system"), "dgx_h100");
  EXPECT_EQ(assumed(query.base, "training.framework"), "megatron-lm");
  EXPECT_EQ(assumed(query.base, "training.precision"), "bf16");
  EXPECT_EQ(assumed(query.base, "training.optimizer"), "adamw");
}

TEST(QueryOf, DoesNotCallAssumedWhatItSearches) {
  RunOptions options{.model = "gpt2"};
  options.gpus = "8";
  const sim::Run base = query_of(options, database()).base;
  for (const char* key :
       {"training.dp", "training.sharding", "training.micro_batch", "training.recompute.kind"}) {
    EXPECT_EQ(assumed(base, key), "") << key;
  }
}

TEST(QueryOf, ReadsListsOfEveryKind) {
  RunOptions options{.model = "gpt2"};
  options.gpus = "64";
  options.strategy["tp"] = "1-8*2";
  options.strategy["sharding"] = "zero1,zero3";
  options.recompute = "none,every-n=4";
  const sim::PlanQuery query = query_of(options, database());
  EXPECT_EQ(query.restriction.at("tp"), (std::vector<sim::FieldValue>{1, 2, 4, 8}));
  EXPECT_EQ(query.restriction.at("sharding"), (std::vector<sim::FieldValue>{"zero1", "zero3"}));
  ASSERT_EQ(query.restriction.at("recompute").size(), 2u);
  EXPECT_EQ(query.restriction.at("recompute")[1], sim::FieldValue("every-n=4"));
}

// What one request has read is not taken for another's: devices, systems and frameworks in turn.
TEST(RunRequests, GiveWhatEachGivesAlone) {
  RunRequests requests(database());
  for (const char* hardware : {"h100", "mi300x", "h100", "tpu_v5p", "a100"}) {
    for (const char* framework : {"megatron-lm", "torchtitan"}) {
      for (const char* gpus : {"8", "64"}) {
        RunOptions options{.model = "llama3-8b"};
        options.hardware = hardware, options.framework = framework, options.gpus = gpus;
        const sim::Run alone = run_of(options, database()), together = requests.run_of(options);
        EXPECT_EQ(sim::predict(together).step_time, sim::predict(alone).step_time);
        EXPECT_EQ(together.cluster.device.id, alone.cluster.device.id);
        EXPECT_EQ(together.facts.size(), alone.facts.size());
      }
    }
  }
}

TEST(RunOf, WithoutAMeshAllDevicesAreDataParallel) {
  RunOptions options{.model = "llama-8b"};
  options.gpus = "24";
  options.seq_len = "4096";
  const sim::Run run = run_of(options, database());
  EXPECT_EQ(run.strategy.dp, 24);
  EXPECT_EQ(run.strategy.global_batch, 1032);  // 4 Mi / 4096 = 1024, and the nearest multiple of 24
}

TEST(RunOf, TheMeshTellsTheDevices) {
  RunOptions options{.model = "llama-8b"};
  options.strategy["tp"] = "4";
  options.strategy["pp"] = "2";
  options.strategy["dp"] = "3";
  EXPECT_EQ(run_of(options, database()).cluster.num_devices, 24);
}

TEST(RunOf, TokensBecomeWholeSequences) {
  RunOptions options{.model = "gpt2"};
  options.seq_len = "1000";
  options.global_batch_tokens = "4600";
  EXPECT_EQ(run_of(options, database()).strategy.global_batch, 5);  // 4.6 sequences
}

TEST(RunOf, AnImpossibleMeshIsAnAnswerWithItsRule) {
  RunOptions options{.model = "llama-70b"};
  options.gpus = "256";
  options.strategy["dp"] = "9";
  EXPECT_EQ(rule_of(options), "dp * tp * pp * cp != devices");
  options.strategy.erase("dp");
  options.strategy["micro_batch"] = "3";
  options.global_batch = "512";
  EXPECT_EQ(rule_of(options), "dp * micro_batch does not divide global_batch");
}

TEST(RunOf, AbsurdNumbersNameOptionValueAndRange) {
  RunOptions options{.model = "gpt2"};
  options.gpus = "1000000000000";
  EXPECT_EQ(request_error(options),
            "--gpus = 1000000000000: one whole number from 1 to 1048576 is expected");
  options.gpus = "0";
  EXPECT_EQ(request_error(options), "--gpus = 0: one whole number from 1 to 1048576 is expected");
  options.gpus = "8";
  options.seq_len = "0";
  EXPECT_EQ(request_error(options),
            "--seq-len = 0: one whole number from 1 to 16777216 is expected");
}

TEST(RunOf, MeshesThatWouldOverflowAreRefused) {
  RunOptions options{.model = "gpt2"};
  options.strategy["tp"] = "1024";
  options.strategy["pp"] = "4096";
  options.strategy["dp"] = "1048576";
  EXPECT_NE(request_error(options).find("at most 1048576 devices"), std::string::npos)
      << request_error(options);
}

TEST(RunOf, UnknownNamesComeWithWhatIsKnown) {
  RunOptions options{.model = "llama-70x"};
  EXPECT_NE(request_error(options).find("did you mean"), std::string::npos)
      << request_error(options);
  options.model = "gpt2";
  options.framework = "megatron";
  EXPECT_EQ(request_error(options),
            "--framework = megatron: unknown training framework; did you mean megatron-lm?");
  options.framework = "zzzzzzzz";
  EXPECT_NE(request_error(options).find("; known are pytorch, ddp, "), std::string::npos)
      << request_error(options);
  options.framework.reset();
  options.strategy["sharding"] = "fully";
  EXPECT_EQ(request_error(options),
            "--sharding = fully: none, zero1, zero2, zero3 or hsdp is expected");
}

TEST(RunOf, WordsThatPeopleTypeAreUnderstood) {
  RunOptions options{.model = "gpt2"};
  options.strategy = {{"sharding", "fsdp"}, {"precision", "BFloat16"}};
  options.gpus = "8", options.seq_len = "1k";
  const sim::Run run = run_of(options, database());
  EXPECT_EQ(run.strategy.sharding, sim::Sharding::Zero3);
  EXPECT_EQ(run.strategy.precision, sim::Precision::Bf16);
  EXPECT_EQ(run.model.seq_len, 1024);
}

TEST(RunOf, ASchedulesNameReachesTheStrategy) {
  RunOptions options{.model = "llama-8b"};
  options.strategy["pp"] = "4";
  EXPECT_EQ(run_of(options, database()).strategy.pipeline_schedule,
            sim::PipelineSchedule::OneForwardOneBackward);
  options.strategy["pipeline_schedule"] = "zero-bubble";
  EXPECT_EQ(run_of(options, database()).strategy.pipeline_schedule, sim::PipelineSchedule::ZbH1);
  options.strategy["pipeline_schedule"] = "zb-v";
  EXPECT_EQ(run_of(options, database()).strategy.virtual_stages, 2);
  options.strategy["pipeline_schedule"] = "zb";
  EXPECT_EQ(request_error(options),
            "--schedule = zb: gpipe, 1f1b, interleaved, zb-h1, zb-v, v-half, v-min or dualpipe is "
            "expected");
}

TEST(RunOf, HsdpNeedsItsShardSize) {
  RunOptions options{.model = "llama-8b"};
  options.gpus = "64";
  options.strategy["sharding"] = "hsdp";
  EXPECT_NE(request_error(options).find("--shard-size is missing"), std::string::npos);
  options.strategy["shard_size"] = "8";
  EXPECT_EQ(run_of(options, database()).strategy.shard_size, 8);
  options.strategy["sharding"] = "none";
  EXPECT_NE(request_error(options).find("--shard-size = 8"), std::string::npos);
}

TEST(RunOf, SwitchesReachTheStrategy) {
  RunOptions options{.model = "llama-8b"};
  options.strategy = {
      {"sequence_parallel", "true"}, {"flash_attention", "false"}, {"cuda_graph", "true"}};
  options.strategy["tp"] = "2";
  options.offload = "optimizer,activations";
  const sim::Strategy s = run_of(options, database()).strategy;
  EXPECT_TRUE(s.sequence_parallel);
  EXPECT_FALSE(s.flash_attention);
  EXPECT_TRUE(s.cuda_graph);
  EXPECT_EQ(s.offload, (sim::Offload{.optimizer = true, .parameters = false, .activations = true}));
}

TEST(RunOf, ActivationsOfModulesAreOffloaded) {
  RunOptions options{.model = "llama-8b"};
  options.offload = "optimizer,activations=core_attn+moe_act";
  const sim::Offload offload = run_of(options, database()).strategy.offload;
  EXPECT_TRUE(offload.optimizer && offload.activations);
  EXPECT_EQ(sim::text_of(offload.modules), "core_attn+moe_act");
  options.offload = "activations=core";
  EXPECT_NE(request_error(options).find("--offload = activations=core"), std::string::npos);
}

TEST(RunOf, BehaviourOfTheFrameworkReachTheFramework) {
  RunOptions options{.model = "llama-8b", .dp_overlap = false};
  options.strategy = {
      {"fused_cross_entropy", "true"}, {"tp_overlap", "true"}, {"gather_overlap", "true"}};
  options.strategy["tp"] = "2", options.strategy["dp"] = "4";
  options.strategy["sharding"] = "zero3", options.framework = "fsdp2";
  options.settings = {{"fsdp_unit_blocks", 0.0},
                      {"grad_sync_every_microbatch", true},
                      {"reshard_after_forward", false}};
  const sim::Run run = run_of(options, database());
  EXPECT_TRUE(run.strategy.fused_cross_entropy);
  EXPECT_TRUE(run.strategy.tp_overlap);
  EXPECT_FALSE(run.strategy.gradient_overlap);
  EXPECT_TRUE(run.strategy.gather_overlap);
  EXPECT_TRUE(run.framework.gradients.reduced_every_microbatch);
  EXPECT_FALSE(run.framework.sharded.regathers_in_backward);
  EXPECT_EQ(run.framework.sharded.unit_blocks, 0.0);
}

TEST(RunOf, TransportAndAlgorithmReachTheCluster) {
  RunOptions options{.model = "llama-8b"};
  options.gpus = "16";
  options.transport = "sockets";
  options.algorithm = "tree";
  EXPECT_EQ(run_of(options, database()).cluster.network.transport, sim::Transport::Sockets);
  EXPECT_EQ(run_of(options, database()).cluster.algorithm, sim::CollectiveAlgorithm::Tree);
  options.transport = "tcp";
  EXPECT_EQ(request_error(options), "--transport = tcp: rdma or sockets is expected");
}

}  // namespace
}  // namespace llmsim::cli
