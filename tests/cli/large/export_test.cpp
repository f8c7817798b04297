#include "cli/export.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

constexpr const char* kScript =
    "TP=4\n"
    "ARGS=(--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048\n"
    "  --max-position-embeddings 2048 --tensor-model-parallel-size $TP --micro-batch-size 2\n"
    "  --global-batch-size 512 --bf16 --use-distributed-optimizer --lr 1e-4)\n"
    "torchrun --nnodes 4 --nproc_per_node 8 pretrain_gpt.py ${ARGS[@]}\n";

// What follows "name " in a table; empty where it does not stand there.
std::string row_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST_F(Program, ExportsARunThatPredictReadsAsTheSame) {
  const std::string run_options =
      "--model llama3-8b --gpus 64 --tp 2 --sharding zero1 --global-batch 128";
  const Outcome written = run("export " + run_options + " --to megatron -o launch");
  ASSERT_EQ(written.status, 0) << written.messages;
  const Outcome read = run("predict --from launch/megatron.sh");
  ASSERT_EQ(read.status, 0) << read.messages;
  const Outcome asked = run("predict " + run_options);
  for (const char* row : {"step time", "throughput", "memory", "recipe", "switches"}) {
    EXPECT_NE(row_of(read.out, row), "") << row;
    EXPECT_EQ(row_of(read.out, row), row_of(asked.out, row));
  }
}

TEST_F(Program, ExportsToStandardOutput) {
  const Outcome outcome = run("export --model llama3-8b --gpus 8 --sharding zero3 --to torchtitan");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_NE(outcome.out.find("\nflavor = \"8B\"\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\ndata_parallel_shard_degree = 8\n"), std::string::npos);
}

// Megatron-LM's Adam is AdamW.
TEST_F(Program, AnExportedFileSaysWhatItDoesNotSay) {
  const std::string command =
      "export --model llama-3.2-1b --gpus 8 --framework megatron-lm --to megatron --optimizer ";
  const std::string adam = run(command + "adam").out, adamw = run(command + "adamw").out;
  EXPECT_NE(adam.find("#!/bin/bash\n# Not said here, so that the program has its own: "),
            std::string::npos)
      << adam;
  EXPECT_NE(adam.find("training.optimizer = adam"), std::string::npos) << adam;
  EXPECT_EQ(adamw.find("training.optimizer"), std::string::npos) << adamw;
}

TEST_F(Program, ExportsForAReleaseThatIsKnown) {
  const std::string options = "export --model llama3-8b --gpus 8 --sharding zero3 --to ";
  const Outcome outcome = run(options + "torchtitan@0.2");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_EQ(outcome.out, run(options + "torchtitan").out);
  const Outcome other = run(options + "torchtitan@0.3");
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(other.messages,
            "llmsim: target torchtitan@0.3: is written for torchtitan 0.2.1 or 0.2.2\n");
}

TEST_F(Program, ExportNamesWhatATargetCannotExpress) {
  const Outcome outcome =
      run("export --model llama3-8b --gpus 32 --recompute op --to megatron -o launch");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.messages, "llmsim: megatron cannot express recompute.kind = op\n");
  EXPECT_EQ(run("export --model llama3-8b --gpus 8").status, 2);
  EXPECT_EQ(run("export --model llama3-8b --gpus 8 --to nothing").status, 1);
  EXPECT_EQ(run("export --model llama-405b --gpus 8 --to megatron").status, 3);
}

// 405 billion parameters on eight devices, by more than half a TiB; rules can't be forced.
TEST_F(Program, ExportsARunThatDoesNotFitWhereItIsForced) {
  const std::string options = "export --model llama-405b --gpus 8 --tp 8 --to megatron";
  const Outcome refused = run(options);
  EXPECT_EQ(refused.status, 3);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.messages.find("out of memory: needs "), std::string::npos);
  EXPECT_NE(refused.messages.find("; --force writes it all the same"), std::string::npos);
  const Outcome forced = run(options + " --force");
  EXPECT_EQ(forced.status, 0) << forced.messages;
  EXPECT_NE(forced.out.find("--num-layers 126"), std::string::npos) << forced.out;
  EXPECT_NE(forced.messages.find("warning: written though it does not fit: a device needs "),
            std::string::npos)
      << forced.messages;
  EXPECT_NE(forced.messages.find(" GiB too little"), std::string::npos) << forced.messages;
  const Outcome rule = run("export --model llama-405b --gpus 8 --tp 3 --to megatron --force");
  EXPECT_EQ(rule.status, 3);
  EXPECT_EQ(rule.messages.find("--force"), std::string::npos) << rule.messages;
}

TEST_F(Program, PlanExportsWhatComesNearestWhereItIsForced) {
  const std::string options = "plan --model llama-405b --gpus 8 --export launch --to megatron";
  const Outcome refused = run(options);
  EXPECT_EQ(refused.status, 3);
  EXPECT_NE(refused.messages.find("; --force writes it all the same"), std::string::npos)
      << refused.messages;
  const Outcome forced = run(options + " --force");
  EXPECT_EQ(forced.status, 0) << forced.messages;
  EXPECT_NE(text_of("launch/megatron.sh").find("--num-layers 126"), std::string::npos);
  EXPECT_NE(forced.messages.find("warning: written though it does not fit: the plan that comes "
                                 "nearest needs "),
            std::string::npos)
      << forced.messages;
  EXPECT_EQ(run("plan --model llama3-8b --gpus 8 --force").status, 2);
}

// Of programs without stages and expert ranks, and of those whose file does not say what is
// recomputed.
TEST_F(Program, PlansThatAreExportedAreThoseOfTheProgram) {
  for (const char* framework : {"fsdp1", "fsdp2", "accelerate", "hf-trainer-fsdp", "deepspeed",
                                "hf-trainer-deepspeed", "megatron-fsdp"}) {
    for (const char* model : {"llama3-8b", "mixtral-8x7b"}) {
      const Outcome outcome = run("plan --gpus 64 --model " + std::string(model) + " --framework " +
                                  framework + " --export launch");
      EXPECT_EQ(outcome.status, 0) << framework << " " << model << ": " << outcome.messages;
    }
  }
  const Outcome stages = run("plan --model llama3-8b --gpus 8 --framework fsdp2 --pp 2 --export a");
  EXPECT_EQ(stages.status, 1);
  EXPECT_EQ(stages.messages,
            "llmsim: accelerate cannot express pp = 2: pipelines are another program's\n");
}

TEST_F(Program, ScriptsWithoutALayoutSaySo) {
  const Outcome scripts =
      run("plan --model llama3-8b --gpus 8 --framework axolotl --export launch");
  EXPECT_EQ(scripts.status, 0) << scripts.messages;
  EXPECT_NE(scripts.messages.find("warning: the layout is not in slurm.sh: no target writes files "
                                  "of axolotl, whose program has to be told\n"),
            std::string::npos)
      << scripts.messages;
  EXPECT_EQ(
      run("plan --model llama3-8b --gpus 8 --framework axolotl --to megatron --export a").status,
      1);
}

// Ranks of the plan pad it, and other ranks would pad it otherwise.
TEST_F(Program, PlansAreExportedWithTheVocabularyThatTheModelHas) {
  const Outcome outcome = run("plan --model llama3-70b --gpus 64 --tp 4 --export launch");
  ASSERT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_NE(text_of("launch/megatron.sh").find("--vocab-size 128256\n"), std::string::npos);
}

// Its name would otherwise begin a line of a script that a scheduler runs.
TEST_F(Program, ExportRefusesARunWithALineFeedInItsName) {
  write("run.json",
        R"({"id": "a", "model": {"name": "gpt2\ntouch stolen"}, "training": {"tp": 1},
           "hardware": {"accelerator": "h100", "num_devices": 1}})");
  for (const char* target : {"slurm", "megatron", "nemo"}) {
    const Outcome outcome = run(std::string("export run.json --to ") + target);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.messages,
              "llmsim: run.json: run a: model.name: line feeds, tabs and other control characters "
              "are not allowed in a text\n");
  }
}

TEST_F(Program, PredictsALaunchFile) {
  write("train.sh", kScript);
  const Outcome outcome = run("predict --from train.sh");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_NE(outcome.out.find("on 32 x h100_sxm"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("keys that cannot matter are not read: --lr"), std::string::npos);
  const Outcome changed = run("predict --from train.sh --gpus 64 --hardware a100 --tp 8");
  EXPECT_EQ(changed.status, 0) << changed.messages;
  EXPECT_NE(changed.out.find("on 64 x a100"), std::string::npos);
  EXPECT_NE(row_of(changed.out, "mesh").find("tp 8"), std::string::npos);
}

TEST_F(Program, ALaunchFileWithoutDevicesAsksForThem) {
  write("args.sh", "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024");
  const Outcome outcome = run("predict --from args.sh");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.messages, "llmsim: --gpus: args.sh does not say the number of devices\n");
}

// Of a script that states each of them.
TEST_F(Program, OptionsBesideALaunchFileWin) {
  const std::string base = "--model llama3-8b --gpus 16 --tp 2 --sharding zero1 ";
  ASSERT_EQ(run("export " + base + "--global-batch 256 --to megatron -o launch").status, 0);
  for (const std::string option :
       {"--global-batch-tokens 1048576", "--global-batch 64 --no-dp-overlap",
        "--global-batch 64 --no-dp-overlap --gather-overlap"}) {
    const Outcome read = run("predict --from launch/megatron.sh " + option);
    ASSERT_EQ(read.status, 0) << read.messages;
    const std::string time = row_of(read.out, "step time");
    EXPECT_EQ(time, row_of(run("predict " + base + option).out, "step time")) << option;
    EXPECT_NE(time, "");
  }
}

// DeepSpeed's configuration says nothing of the model; of several models that have what a file
// says, none is meant.
TEST_F(Program, ALaunchFileWithoutAModelAsksForIt) {
  write("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "train_batch_size": 64})");
  const Outcome outcome = run("predict --from ds.json --gpus 8");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.messages, "llmsim: --model: ds.json does not say the model\n");
  EXPECT_EQ(run("predict --from ds.json --gpus 8 --model gpt2").status, 0);
  write("tokenizer.sh",
        "--num-layers 30 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
        "--tokenizer-type HuggingFaceTokenizer");
  EXPECT_EQ(run("predict --from tokenizer.sh --gpus 8 --global-batch 64").messages,
            "llmsim: --model: tokenizer.sh does not say the model's vocab_size\n");
  write("args.sh", "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048");
  const Outcome several = run("predict --from args.sh --gpus 8 --global-batch 64");
  EXPECT_NE(several.out.find("args.sh on 8 x h100_sxm"), std::string::npos) << several.out;
}

TEST_F(Program, ExportsOverridesAndConfigurationsThatPredictReadsAsTheSame) {
  for (const std::string target : {"nemo", "maxtext"}) {
    const std::string framework = target == "nemo" ? "megatron-bridge" : "maxtext";
    const std::string file = target == "nemo" ? "nemo.yaml --model llama3-8b" : "maxtext.yml";
    const std::string run_options = "--model llama3-8b --gpus 64 --tp 2 --global-batch 128";
    const Outcome written = run("export " + run_options + " --to " + target + " -o launch");
    ASSERT_EQ(written.status, 0) << written.messages;
    const Outcome read = run("predict --gpus 64 --from launch/" + file);
    ASSERT_EQ(read.status, 0) << read.messages;
    const Outcome asked = run("predict " + run_options + " --framework " + framework);
    for (const char* row : {"step time", "throughput", "memory", "recipe", "switches"}) {
      EXPECT_NE(row_of(read.out, row), "") << row;
      EXPECT_EQ(row_of(read.out, row), row_of(asked.out, row)) << target;
    }
  }
}

TEST_F(Program, ExportsAdaptersThatPredictReadsAsTheSame) {
  const std::string run_options = "--model llama3-8b --gpus 8 --global-batch 64 --lora 16";
  const Outcome written = run("export " + run_options + " --to nemo -o launch");
  ASSERT_EQ(written.status, 0) << written.messages;
  const Outcome read = run("predict --gpus 8 --model llama3-8b --from launch/nemo.yaml");
  ASSERT_EQ(read.status, 0) << read.messages;
  const Outcome asked = run("predict " + run_options + " --framework megatron-bridge");
  for (const char* row : {"step time", "memory", "recipe"})
    EXPECT_EQ(row_of(read.out, row), row_of(asked.out, row));
  EXPECT_NE(row_of(read.out, "recipe").find("LoRA of rank 16 on q, v"), std::string::npos);
}

TEST_F(Program, ExportsAScriptThatStartsTheRunOnItsNodes) {
  const Outcome outcome =
      run("export --model llama3-8b --gpus 64 --tp 2 --sharding zero1 --to slurm");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(outcome.out.starts_with("#!/bin/bash\n#SBATCH --job-name=llama-3-8b\n"));
  EXPECT_NE(outcome.out.find("#SBATCH --nodes=8\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("megatron"), std::string::npos);  // the other files need a folder
}

TEST_F(Program, PlanExportsItsWinner) {
  const Outcome outcome =
      run("plan --model llama3-8b --gpus 16 --recompute none --micro-batch 1 --export launch");
  ASSERT_EQ(outcome.status, 0) << outcome.messages;
  const Outcome read = run("predict --from launch/megatron.sh");
  EXPECT_EQ(read.status, 0) << read.messages;
  EXPECT_NE(read.out.find("on 16 x h100_sxm"), std::string::npos);
  EXPECT_NE(text_of("launch/slurm.sh").find("bash node.sh"), std::string::npos);
  EXPECT_NE(text_of("launch/node.sh").find("bash megatron.sh"), std::string::npos);
}

}  // namespace
}  // namespace llmsim::cli
