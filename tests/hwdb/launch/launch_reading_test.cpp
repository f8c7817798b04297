// What a launch file leaves open, what is passed over in it, and files that several programs share.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hwdb/launch/launch_file.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

const std::string kShape = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 ";

std::string stated_value(const ReadLaunch& read, const std::string& key) {
  const auto& strategy = read.record.training.strategy;
  const auto found = strategy.find(key);
  return found == strategy.end() ? "" : sim::text_of(found->second);
}

// --- values that are left open ---

TEST(LaunchReading, WhatIsGivenStandsInForAVariable) {
  const std::string script = "TP=$1\npretrain_gpt.py " + kShape +
                             "--tensor-model-parallel-size $TP --micro-batch-size '${MBS}' "
                             "--num-layers-per-virtual-pipeline-stage 1 "
                             "--pipeline-model-parallel-size ${PP}";
  const ReadLaunch read =
      parse_launch(script, "a.sh", {.given = {{"tp", "4"}, {"micro_batch", "2"}, {"pp", "2"}}});
  EXPECT_EQ(stated_value(read, "tp"), "4");
  EXPECT_EQ(stated_value(read, "micro_batch"), "2");
  // What follows from it follows from what is given.
  EXPECT_EQ(stated_value(read, "virtual_stages"), "1");
  EXPECT_EQ(error_of([&] {
              parse_launch(script, "a.sh", {.given = {{"tp", "4"}}});
            }),
            "a.sh: pp = $PP: left open by the file; --pp is expected");
}

TEST(LaunchReading, ADefaultOfTheScriptIsTaken) {
  const std::string script = ": \"${TP:=4}\"\nPP=${PP:-2}\npretrain_gpt.py " + kShape +
                             "--tensor-model-parallel-size ${TP} "
                             "--pipeline-model-parallel-size ${PP}";
  const ReadLaunch read = parse_launch(script, "a.sh");
  EXPECT_EQ(stated_value(read, "tp"), "4");
  EXPECT_EQ(stated_value(read, "pp"), "2");
}

TEST(LaunchReading, AnOpenSizeOfAModelThatIsGivenIsNotAskedFor) {
  const std::string script = "pretrain_gpt.py " + kShape + "--num-experts $EXPERTS";
  EXPECT_EQ(error_of([&] { parse_launch(script, "a.sh"); }),
            "a.sh: model.moe.num_experts = $EXPERTS: left open by the file; --model is expected");
  parse_launch(script, "a.sh", {.given = {{"model", "mixtral-8x7b"}}});
}

TEST(LaunchReading, RanksThatMegatronIsNotToldOfAreOneEach) {
  const ReadLaunch read = parse_launch("pretrain_gpt.py " + kShape, "a.sh");
  for (const char* degree : {"tp", "pp", "cp"})
    EXPECT_EQ(stated_value(read, degree), "1") << degree;
}

// overlap_comm is on under stage 3 and nowhere else.
TEST(LaunchReading, SizesOfAnAllToAllInsideARingAreRead) {
  const std::string script =
      "pretrain_gpt.py " + kShape + "--context-parallel-size 8 --cp-comm-type a2a+p2p ";
  const std::string sizes = "--hierarchical-context-parallel-sizes ";
  const ReadLaunch read = parse_launch(script + sizes + "4 2", "a.sh");
  EXPECT_EQ(stated_value(read, "cp_scheme"), "all-to-all+ring");
  EXPECT_EQ(stated_value(read, "cp_inner"), "4");
  EXPECT_EQ(stated_value(parse_launch(script, "a.sh"), "cp_inner"), "");
  EXPECT_NE(error_of([&] {
              parse_launch(script + sizes + "4 4", "a.sh");
            }).find("two sizes whose product is cp = 8 are expected"),
            std::string::npos);
}

TEST(LaunchReading, DeepSpeedOverlapsUnderStageThreeAlone) {
  for (const char* stage : {"0", "1", "2", "3"}) {
    const ReadLaunch read = parse_launch(
        std::string(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": )") +
            stage + "}}",
        "ds.json");
    const bool three = std::string(stage) == "3";
    EXPECT_EQ(stated_value(read, "gradient_overlap"), three ? "true" : "false") << stage;
    EXPECT_EQ(stated_value(read, "gather_overlap"), three ? "true" : "") << stage;
  }
}

// A word for which there is no number to give.
TEST(LaunchReading, AnOpenWordIsTheProgramsOwnAndIsSaid) {
  const ReadLaunch read = parse_launch(
      "pretrain_gpt.py " + kShape + "--recompute-granularity $GRANULARITY --bf16", "a.sh");
  EXPECT_EQ(stated_value(read, "recompute.kind"), "none");
  EXPECT_EQ(read.approximated,
            std::vector<std::string>{"--recompute-granularity = $GRANULARITY: left open, the "
                                     "program's default is taken"});
}

// --- devices ---

std::optional<int> devices_of(const std::string& script) {
  return parse_launch(script, "a.sh").record.hardware.num_devices;
}

TEST(LaunchReading, DevicesAreThoseOfTheLauncher) {
  EXPECT_EQ(devices_of("torchrun --nnodes 4 --nproc-per-node=8 pretrain_gpt.py " + kShape), 32);
  EXPECT_EQ(devices_of("torchrun --nproc_per_node 8 pretrain_gpt.py " + kShape), 8);
  EXPECT_EQ(devices_of("torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py " + kShape),
            std::nullopt);
  EXPECT_EQ(devices_of("srun --nodes 2 --ntasks-per-node 4 pretrain_gpt.py " + kShape), 8);
}

TEST(LaunchReading, DevicesAreThoseOfSlurmsDirectives) {
  const std::string command = "srun bash -c \"$L pretrain_gpt.py " + kShape + "\"\n";
  EXPECT_EQ(devices_of("#SBATCH -N 2\n#SBATCH --gpus-per-node=8\n"
                       "export L=\"torchrun --nnodes $SLURM_NNODES --nproc_per_node 4\"\n" +
                       command),
            8);
  EXPECT_EQ(devices_of("#SBATCH --nodes=3\n#SBATCH --gres=gpu:a100:4\nL=python\n" + command), 12);
  EXPECT_EQ(devices_of("#SBATCH --ntasks=16\nL=python\n" + command), 16);
  EXPECT_EQ(devices_of("L=python\n" + command), std::nullopt);
}

// --- the shell ---

TEST(LaunchReading, RemarksRedirectionsAndDocumentsAreNoArguments) {
  const ReadLaunch read = parse_launch(
      "cat <<EOF > ds.json\n{\"a\": 1} pretrain_gpt.py --num-layers 3\nEOF\n"
      "pretrain_gpt.py `# the model` \\\n" +
          kShape + "--bf16 --use-distributed-optimizer 2>&1 | tee train.log\n",
      "a.sh");
  EXPECT_EQ(stated_value(read, "sharding"), "zero1");
  EXPECT_EQ(sim::text_of(read.record.model.fields.at("num_layers")), "2");
}

TEST(LaunchReading, AListOfCommandsInAWordIsAScript) {
  const ReadLaunch read = parse_launch(
      "xpk workload create --command=\"set -e && export ENABLE_X='1' && python3 -m MaxText.train "
      "base.yml model_name=llama3-8b per_device_batch_size=4\"",
      "a.sh");
  EXPECT_EQ(read.target, "maxtext");
  EXPECT_EQ(read.record.model.name, "llama-3-8b");
}

// A word that quotes itself again ends.
TEST(LaunchReading, ScriptsInWordsEnd) {
  parse_launch("A='\"$A; x\" && \"$A; x\"'\n$A \"$A\"\npretrain_gpt.py " + kShape, "a.sh");
}

// --- keys that are passed over ---

TEST(LaunchReading, KeysToIgnoreAreReadAsIfTheyWereNotThere) {
  const std::string script = "pretrain_gpt.py " + kShape + "--of-a-fork 3 --another --bf16";
  EXPECT_EQ(
      error_of([&] { parse_launch(script, "a.sh"); }).substr(0, 112),
      "a.sh: --another, --of-a-fork: not known of megatron (--ignore another,of-a-fork passes "
      "over them)");
  const ReadLaunch named = parse_launch(script, "a.sh", {.ignored = {"of-a-fork", "--another"}});
  const ReadLaunch all = parse_launch(script, "a.sh", {.ignores_unknown = true});
  for (const ReadLaunch* read : {&named, &all}) {
    EXPECT_EQ(read->passed_over.size(), 2U);
    EXPECT_EQ(stated_value(*read, "precision"), "bf16");
  }
  // A key that is known is passed over where it is named.
  EXPECT_EQ(
      stated_value(parse_launch(script, "a.sh", {.ignored = {"bf16"}, .ignores_unknown = true}),
                   "precision"),
      "fp32");
  EXPECT_EQ(error_of([&] { parse_launch(script, "a.sh", {.ignored = {"b-f16"}}); }),
            "a.sh: --ignore b-f16: the file has no such key; did you mean --bf16?");
}

TEST(LaunchReading, WhatIsNotCountedIsSaid) {
  const std::string script = "pretrain_gpt.py " + kShape;
  EXPECT_TRUE(parse_launch(script, "a.sh").approximated.empty());
  const std::vector<std::string> said = parse_launch(script + "--use-sharp", "a.sh").approximated;
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said.front(), "--use-sharp = true: gradients are summed by rings, not by switches");
}

TEST(LaunchReading, GroupsOfAVirtualStageAreAsManyAsStages) {
  const std::string script = "pretrain_gpt.py " + kShape +
                             "--pipeline-model-parallel-size 4 "
                             "--num-virtual-stages-per-pipeline-rank 2 "
                             "--microbatch-group-size-per-virtual-pipeline-stage ";
  EXPECT_TRUE(parse_launch(script + "4", "a.sh").approximated.empty());
  EXPECT_EQ(parse_launch(script + "5", "a.sh").approximated.size(), 1U);
  EXPECT_EQ(error_of([&] { parse_launch(script + "2", "a.sh"); }).substr(0, 54),
            "a.sh: groups of 2 micro-batches in a virtual stage (--");
}

// --- one program's arguments in another's file ---

TEST(LaunchReading, ArgumentsListedAsYamlAreMegatrons) {
  const ReadLaunch read = parse_launch(
      "ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --num-layers: 2\n  --hidden-size: 64\n"
      "  --num-attention-heads: 4\n  --bf16: true\n  --sequence-parallel: false\n"
      "  --tensor-model-parallel-size: 2\n  --recompute-granularity: selective\n"
      "  --recompute-modules: [core_attn, layernorm]\nTEST_TYPE: regular\n",
      "a.yaml");
  EXPECT_EQ(read.target, "megatron");
  EXPECT_EQ(stated_value(read, "tp"), "2");
  EXPECT_EQ(stated_value(read, "sequence_parallel"), "false");
  EXPECT_EQ(stated_value(read, "recompute.modules"), "core_attn+layernorm");
}

const std::string kPrimus =
    "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
    "    model: llama3.1_8B.yaml\n    overrides:\n      micro_batch_size: 2\n"
    "      global_batch_size: 64\n      seq_length: 8192\n      sequence_parallel: 1\n"
    "      tensor_model_parallel_size: 2\n      gradient_accumulation_fusion: false\n";

TEST(LaunchReading, PrimusAddsItsOwnDefaultsToMegatrons) {
  const ReadLaunch read = parse_launch(kPrimus + "      fp8: hybrid\n", "a.yaml");
  EXPECT_EQ(read.target, "primus");
  EXPECT_EQ(read.record.training.framework, "megatron-lm");
  EXPECT_EQ(read.record.model.name, "llama-3.1-8b");
  EXPECT_EQ(stated_value(read, "precision"), "fp8");
  EXPECT_EQ(stated_value(read, "sharding"), "zero1");
  EXPECT_EQ(stated_value(read, "sequence_parallel"), "true");
  EXPECT_EQ(sim::text_of(read.record.training.settings.at("gradient_accumulation_fusion")),
            "false");
  EXPECT_EQ(stated_value(parse_launch(kPrimus + "      use_distributed_optimizer: false\n"
                                                "      use_torch_fsdp2: true\n",
                                      "a.yaml"),
                         "sharding"),
            "zero3");
}

// Sizes beside a model's name are of another model.
TEST(LaunchReading, ANameWithOtherSizesIsAnotherModel) {
  const ReadLaunch read = parse_launch(kPrimus + "      num_layers: 4\n", "a.yaml");
  EXPECT_FALSE(read.record.model.name);
  EXPECT_EQ(sim::text_of(read.record.model.fields.at("num_layers")), "4");
  EXPECT_EQ(sim::text_of(read.record.model.fields.at("hidden_size")), "4096");
}

TEST(LaunchReading, NemoOneFollowsReferences) {
  const ReadLaunch read = parse_launch(
      "trainer:\n  devices: 8\n  num_nodes: 2\n  precision: bf16\nmodel:\n  mcore_gpt: true\n"
      "  micro_batch_size: 1\n  global_batch_size: 32\n  encoder_seq_length: 2048\n"
      "  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 4\n"
      "  ffn_hidden_size: ${multiply:3, ${.hidden_size}}\n"
      "  max_position_embeddings: ${.encoder_seq_length}\n"
      "  optim:\n    name: mcore_distributed_optim\n",
      "a.yaml");
  EXPECT_EQ(read.target, "nemo1");
  EXPECT_EQ(read.record.hardware.num_devices, 16);
  EXPECT_EQ(sim::text_of(read.record.model.fields.at("ffn_size")), "192");
  EXPECT_EQ(sim::text_of(read.record.model.fields.at("max_positions")), "2048");
  EXPECT_EQ(stated_value(read, "sharding"), "zero1");
}

// --- MaxText ---

TEST(LaunchReading, SizesBesideANameOfMaxTextAreItsOwnWhereTheyOverride) {
  const std::string file =
      "model_name: mixtral-8x7b\nper_device_batch_size: 1\n"
      "base_num_decoder_layers: 5\n";
  EXPECT_EQ(parse_launch(file, "a.yml").record.model.name, "mixtral-8x7b");
  const ReadLaunch read = parse_launch(file + "override_model_config: true\n", "a.yml");
  EXPECT_FALSE(read.record.model.name);
  EXPECT_EQ(sim::text_of(read.record.model.fields.at("num_layers")), "5");
  EXPECT_EQ(sim::text_of(read.record.model.fields.at("hidden_size")), "4096");
}

TEST(LaunchReading, MaxTextsCustomPolicySavesWhatItNames) {
  const auto kind = [](const std::string& tensors, const std::string& key) {
    return stated_value(parse_launch("model_name: llama3-8b\nper_device_batch_size: 1\n"
                                     "remat_policy: custom\n" +
                                         tensors,
                                     "a.yml"),
                        key);
  };
  const std::string qkv = "query_proj: device\nkey_proj: device\nvalue_proj: device\n";
  EXPECT_EQ(kind(qkv, "recompute.saved"), "qkv");
  EXPECT_EQ(kind(qkv + "context: device\n", "recompute.saved"), "qkv+core_attn");
  EXPECT_EQ(kind("mlpwi: offload\n", "offload.activations"), "true");
  EXPECT_EQ(kind("decoder_layer_input: offload\n", "recompute.kind"), "full");
  EXPECT_EQ(kind("decoder_layer_input: offload\n", "offload.activations"), "true");
  EXPECT_NE(error_of([&] { kind("query_proj: device\n", ""); }).find("saved together"),
            std::string::npos);
  EXPECT_NE(error_of([&] { kind(qkv + "context: offload\n", ""); }).find("on the host"),
            std::string::npos);
}

// --- the batch of DeepSpeed (runtime/config.py, _set_batch_related_parameters) ---

TEST(LaunchReading, DeepSpeedWorksOutTheThirdOfItsBatches) {
  const auto read = [](const std::string& keys) {
    return parse_launch("{\"zero_optimization\": {\"stage\": 1}, " + keys + "}", "a.json").record;
  };
  const RunRecord whole = read("\"train_batch_size\": 64");
  EXPECT_EQ(whole.training.num_microbatches, 1);
  EXPECT_FALSE(whole.training.strategy.contains("micro_batch"));
  EXPECT_EQ(read("\"train_micro_batch_size_per_gpu\": 2").training.num_microbatches, 1);
  EXPECT_EQ(read("\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2")
                .training.num_microbatches,
            std::nullopt);
  EXPECT_EQ(read("\"train_batch_size\": 64, \"gradient_accumulation_steps\": 4")
                .training.num_microbatches,
            4);
}

}  // namespace
}  // namespace llmsim::hwdb
