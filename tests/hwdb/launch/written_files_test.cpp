// What a target's files say so that its program starts, and what is refused because it would not.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hwdb/launch/launch_file.h"
#include "hwdb/launch/row_text.h"
#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/hwdb/launch/shipped_resolver.h"

namespace llmsim::hwdb {
namespace {

TEST(WrittenFiles, ScriptsStartTheProgramOfTheFramework) {
  const auto names = [](const std::string& framework, const char* target) {
    std::string text;
    for (const LaunchFile& file :
         launch_files(run_on("llama-3-8b", 16, framework, {}), target, resolver()))
      text += file.name + " ";
    return text;
  };
  EXPECT_EQ(names("megatron-lm", "slurm"), "megatron.sh node.sh slurm.sh ");
  EXPECT_EQ(names("torchtitan", "torchrun"), "torchtitan.toml node.sh ");
  EXPECT_EQ(names("maxtext", "slurm"), "maxtext.yml node.sh slurm.sh ");
  EXPECT_EQ(names("litgpt", "slurm"), "node.sh slurm.sh ");  // the program is the user's
}

// Megatron-LM refuses FSDP with one connection, and its checkpoints but in their own form.
TEST(WrittenFiles, MegatronFsdpSaysWhatItShards) {
  const auto files = [](const char* sharding) {
    return launch_files(run_on("llama-3-8b", 16, "megatron-fsdp", {{"sharding", sharding}}),
                        "torchrun", resolver());
  };
  for (const auto& [sharding, word] : {std::pair{"zero1", "optim\n"},
                                       {"zero2", "optim_grads\n"},
                                       {"zero3", "optim_grads_params\n"}}) {
    const std::string script = files(sharding).front().text;
    for (const std::string& line : {std::string("--use-megatron-fsdp\n"),
                                    "--data-parallel-sharding-strategy " + std::string(word),
                                    std::string("--ckpt-format fsdp_dtensor\n")})
      EXPECT_NE(script.find(line), std::string::npos) << sharding << ": " << line << script;
    const std::string node = files(sharding).at(1).text;
    EXPECT_EQ(node.find("CUDA_DEVICE_MAX_CONNECTIONS"), std::string::npos) << node;
  }
}

TEST(WrittenFiles, MegatronHasSizesOfAnAllToAllInsideARing) {
  const sim::Run run = run_on("llama-3-8b", 16, "megatron-lm",
                              {{"cp", 8}, {"cp_scheme", "all-to-all+ring"}, {"cp_inner", 4}});
  const std::string script = launch_files(run, "torchrun", resolver()).front().text;
  for (const char* const line :
       {"--cp-comm-type a2a+p2p\n", "--hierarchical-context-parallel-sizes 4 2\n"})
    EXPECT_NE(script.find(line), std::string::npos) << line << script;
  const sim::Run bridge =
      run_on("llama-3-8b", 16, "nemo", {{"cp", 8}, {"cp_scheme", "all-to-all+ring"}});
  const std::string recipe = launch_files(bridge, "nemo", resolver()).front().text;
  EXPECT_NE(recipe.find("  hierarchical_context_parallel_sizes: [8, 1]\n"), std::string::npos)
      << recipe;
}

TEST(WrittenFiles, AccelerateIsWrittenWithTheSecondVersionOfFsdp) {
  const sim::Run run = run_on("llama-3-8b", 16, "accelerate", {{"sharding", "zero3"}, {"tp", 2}});
  const std::vector<LaunchFile> files = launch_files(run, "torchrun", resolver());
  EXPECT_NE(files.front().text.find("fsdp_version: 2\n"), std::string::npos) << files.front().text;
  EXPECT_NE(files.front().text.find("parallelism_config_tp_size: 2\n"), std::string::npos);
  EXPECT_NE(files.back().text.find("ACCELERATE_GRADIENT_ACCUMULATION_STEPS="), std::string::npos);
}

// The Trainer has an option for it; a program that calls Accelerate has it in its code.
TEST(WrittenFiles, ProgramsAreToldToReduceEachMicroBatch) {
  const auto files = [](const char* framework) {
    RunRecord record = record_on("llama-3-8b", 16, framework, {{"sharding", "zero3"}});
    record.training.settings["grad_sync_every_microbatch"] = true;
    return launch_files(resolver().resolve(record), "torchrun", resolver());
  };
  const std::vector<LaunchFile> trainer = files("hf-trainer-fsdp"), own = files("accelerate");
  const std::string option =
      R"(--accelerator_config '{"gradient_accumulation_kwargs": {"sync_each_batch": true}}')";
  EXPECT_NE(trainer.back().text.find(option), std::string::npos) << trainer.back().text;
  EXPECT_EQ(own.back().text.find("sync_each_batch"), std::string::npos);
  const std::string left = "grad_sync_every_microbatch = true";
  EXPECT_EQ(std::ranges::count(trainer.front().unsaid, left), 0);
  EXPECT_EQ(std::ranges::count(own.front().unsaid, left), 1);
}

TEST(WrittenFiles, ScriptsSayNodesAndTheEnvironmentOfTheRun) {
  const auto text = [](RunRecord record, const char* target, std::size_t file) {
    return launch_files(resolver().resolve(record), target, resolver()).at(file).text;
  };
  RunRecord record = record_on("llama-3-8b", 16, "megatron-lm", {{"tp", 2}});
  const auto has = [&](const std::string& what, const std::string& line) {
    return what.find(line) != std::string::npos;
  };
  EXPECT_TRUE(has(text(record, "slurm", 2), "#SBATCH --nodes=2\n"));
  EXPECT_TRUE(has(text(record, "slurm", 2), "#SBATCH --gpus-per-node=8\n"));
  const std::string node = text(record, "torchrun", 1);
  EXPECT_TRUE(has(node, "export PET_NNODES=2\nexport PET_NPROC_PER_NODE=8\n")) << node;
  EXPECT_TRUE(has(node, "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"));
  EXPECT_TRUE(has(node, "\nbash megatron.sh \"$@\"\n"));
  record.hardware.collective_algorithm = "ring";
  record.training.strategy.erase("tp");
  const std::string ring = text(record, "torchrun", 1);
  EXPECT_TRUE(has(ring, "export NCCL_ALGO=Ring\n")) << ring;
  EXPECT_FALSE(has(ring, "CUDA_DEVICE_MAX_CONNECTIONS"));
  record.hardware.collective_algorithm = "hierarchical";
  EXPECT_EQ(error_of([&] { text(record, "slurm", 0); }),
            "slurm cannot express collective_algorithm = hierarchical");
}

// 12 devices are 2 nodes of 6; 13 are a prime.
TEST(WrittenFiles, NodesStartAsManyEach) {
  const auto slurm = [](RunRecord record) {
    return launch_files(resolver().resolve(record), "slurm", resolver()).back().text;
  };
  const std::string twelve =
      slurm(record_on("llama-3-8b", 12, "megatron-lm", {{"global_batch", 156}}));
  EXPECT_NE(twelve.find("#SBATCH --nodes=2\n"), std::string::npos) << twelve;
  EXPECT_NE(twelve.find("#SBATCH --gpus-per-node=6\n"), std::string::npos) << twelve;
  RunRecord given = record_on("llama-3-8b", 12, "megatron-lm", {{"global_batch", 156}});
  given.hardware.devices_per_node = 8;
  const std::string expected =
      "slurm cannot express num_devices = 12 on nodes of 8, because each node starts as many "
      "(nearest: 8 or 16 devices, or nodes of 4: --gpus-per-node)";
  EXPECT_EQ(error_of([&] { slurm(given); }), expected);
  EXPECT_THROW(slurm(record_on("llama-3-8b", 13, "megatron-lm", {{"global_batch", 156}})), Error);
}

// A trainer does not start where its options and DeepSpeed's file differ, and counts steps of
// accumulation by its options alone.
TEST(WrittenFiles, ScriptsTellATrainerItsBatch) {
  const auto node = [](const std::string& framework, const Changes& changes) {
    const sim::Run run = run_on("llama-3-8b", 16, framework, changes);
    return launch_files(run, "torchrun", resolver()).back().text;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  // 128 sequences of 16 ranks, two at a time.
  const std::string batch = " --per_device_train_batch_size 2 --gradient_accumulation_steps 4 ";
  const Changes two{{"micro_batch", 2}, {"sharding", "zero3"}};
  for (const char* framework : {"hf-trainer-deepspeed", "hf-trainer-fsdp"}) {
    EXPECT_TRUE(has(node(framework, two), batch)) << framework;
    EXPECT_TRUE(has(node(framework, two), " --bf16 true --max_grad_norm 1.0")) << framework;
  }
  EXPECT_FALSE(has(node("deepspeed", two), "--per_device"));
  EXPECT_FALSE(has(node("fsdp2", two), "--per_device"));
}

// DeepSpeed's file has no word for what is recomputed: the program does it.
TEST(WrittenFiles, WhatAProgramRecomputesIsSaidBesideDeepSpeedsFile) {
  const auto files = [](const std::string& framework, const std::string& target) {
    const Changes full{{"sharding", "zero3"}, {"recompute.kind", "full"}};
    return launch_files(run_on("llama-3-8b", 16, framework, full), target, resolver());
  };
  const std::vector<std::string> unsaid{"recompute.kind = full"},
      of_trainer{"training.framework = hf-trainer-deepspeed (of deepspeed where it is read)"};
  EXPECT_EQ(files("deepspeed", "torchrun").front().unsaid, unsaid);
  EXPECT_EQ(files("hf-trainer-deepspeed", "deepspeed").front().unsaid,
            (std::vector{unsaid.front(), of_trainer.front()}));
  const auto trainer = files("hf-trainer-deepspeed", "torchrun");
  EXPECT_EQ(trainer.front().unsaid, of_trainer);
  EXPECT_NE(trainer.back().text.find(" --gradient_checkpointing true"), std::string::npos);
}

// Schedules of PyTorch want a micro-batch for each stage, and whole rounds of them.
TEST(WrittenFiles, TorchtitansSchedulesWantWholeRounds) {
  const auto refusal = [](int micro_batch, int virtual_stages) {
    const Changes changes{{"pp", 4},
                          {"sharding", "zero3"},
                          {"micro_batch", micro_batch},
                          {"global_batch", 24},
                          {"virtual_stages", virtual_stages}};
    return error_of([&] {
      launch_files(run_on("llama-3-8b", 8, "torchtitan", changes), "torchtitan", resolver());
    });
  };
  // 24 sequences over two data ranks: 12 of one, 6 of two, 3 of four.
  EXPECT_EQ(refusal(1, 1), "");
  EXPECT_EQ(refusal(2, 1), "");
  EXPECT_EQ(refusal(4, 1),
            "torchtitan cannot express pipeline_schedule = 1f1b, rounds = none: one round of "
            "micro-batches fills the stages of a schedule, and rounds are whole");
  EXPECT_EQ(refusal(1, 2), "");
}

TEST(WrittenFiles, TorchtitanHasFlavorsOfGptOssWithoutStages) {
  const auto refusal = [](const Changes& changes) {
    return error_of([&] {
      launch_files(run_on("gpt-oss-20b", 16, "torchtitan", changes), "torchtitan", resolver());
    });
  };
  EXPECT_EQ(refusal({{"sharding", "zero3"}, {"ep", 8}}), "");
  EXPECT_EQ(refusal({{"sharding", "zero3"}, {"pp", 2}}),
            "torchtitan cannot express model.catalogue = gpt-oss-20b, pp = 2: models of Qwen3 and "
            "gpt-oss have no stages");
}

TEST(WrittenFiles, TorchtitansDeepEpHasWholeExperts) {
  const auto refusal = [](const Changes& changes) {
    return error_of([&] {
      launch_files(run_on("llama-4-scout", 16, "torchtitan", changes), "torchtitan", resolver());
    });
  };
  const auto changed = [](Changes changes) {
    changes.insert({{"sharding", "zero3"}, {"ep", 8}, {"moe_dispatch", "deepep"}});
    return changes;
  };
  const std::string rule = "DeepEP exchanges tokens of whole experts (etp 1)";
  EXPECT_EQ(refusal(changed({})), "");
  EXPECT_EQ(refusal(changed({{"tp", 2}, {"etp", 1}})), "");
  EXPECT_NE(refusal(changed({{"tp", 2}})).find(rule), std::string::npos);
  EXPECT_NE(refusal(changed({{"tp", 2}, {"etp", 2}})).find(rule), std::string::npos);
}

// A recipe's scales of whole tensors are named, but beside gathers in 8 bits, which go without.
TEST(WrittenFiles, TorchtitanNamesTheRecipeOfEightBits) {
  const auto text = [](Changes changes) {
    changes.insert({{"sharding", "zero3"}, {"precision", "fp8"}, {"compile", true}});
    return launch_files(run_on("llama-3-8b", 16, "torchtitan", changes), "torchtitan", resolver())
        .back()
        .text;
  };
  const std::string named = "recipe_name = \"tensorwise\"";
  EXPECT_NE(text({}).find(named), std::string::npos) << text({});
  EXPECT_NE(text({{"fp8_recipe", "current"}}).find(named), std::string::npos);
  EXPECT_EQ(text({{"fp8_all_gather", true}}).find(named), std::string::npos);
}

// Megatron-FSDP has one order of ranks, and latents are said with what a recipe leaves out.
TEST(WrittenFiles, NemoStartsWithShardsInOneOrderAndLatents) {
  const auto refusal = [](const Changes& changes) {
    return error_of([&] {
      launch_files(run_on("llama-3-8b", 32, "megatron-bridge", changes), "nemo", resolver());
    });
  };
  EXPECT_EQ(refusal({{"sharding", "zero1"}, {"pp", 2}, {"mesh_order", "tp-cp-ep-pp-dp"}}), "");
  EXPECT_EQ(refusal({{"sharding", "zero2"}, {"pp", 2}, {"mesh_order", "tp-cp-ep-pp-dp"}}),
            "nemo cannot express mesh_order = tp-cp-ep-pp-dp, sharding = zero2: Megatron-FSDP "
            "numbers its ranks in one order (training/config.py)");
  const auto says = [](const std::string& model) {
    const sim::Run run = run_on(model, 32, "megatron-bridge", {});
    return launch_files(run, "nemo", resolver()).back().text.find("multi_latent_attention: true") !=
           std::string::npos;
  };
  EXPECT_TRUE(says("deepseek-v2-lite"));
  EXPECT_FALSE(says("llama-3-8b"));
}

// A pattern of layers says its stages itself.
TEST(WrittenFiles, MegatronsHybridsHaveNoChunks) {
  const auto refusal = [](int virtual_stages) {
    const Changes changes{{"pp", 2}, {"sharding", "zero1"}, {"virtual_stages", virtual_stages}};
    return error_of([&] {
      launch_files(run_on("nemotron-h-8b", 16, "megatron-lm", changes), "megatron", resolver());
    });
  };
  EXPECT_EQ(refusal(1), "");
  const Changes ends{{"pp", 2}, {"sharding", "zero1"}, {"embeddings_as_layers", true}};
  EXPECT_NE(error_of([&] {
              launch_files(run_on("nemotron-h-8b", 16, "megatron-lm", ends), "megatron",
                           resolver());
            }),
            "");
  EXPECT_NE(refusal(2).find("hybrids have no pipeline layout, and no number of chunks"),
            std::string::npos)
      << refusal(2);
}

// Gradients and states alone are sharded by a strategy of the first version.
TEST(WrittenFiles, AccelerateShardsGradientsByTheFirstVersion) {
  for (const char* framework : {"fsdp1", "hf-trainer-fsdp"}) {
    const sim::Run run = run_on("llama-3-8b", 16, framework, {{"sharding", "zero2"}});
    const std::string text = launch_files(run, "accelerate", resolver()).back().text;
    EXPECT_NE(text.find("fsdp_sharding_strategy: SHARD_GRAD_OP\n"), std::string::npos) << text;
  }
}

// What a framework does with fp8 where nobody names a recipe is said: its program has another one.
TEST(WrittenFiles, NemoNamesTheScalesOfItsFramework) {
  const auto recipe = [](const std::string& framework) {
    const sim::Run run = run_on("llama-3-8b", 16, framework, {{"precision", "fp8"}});
    const std::string text = launch_files(run, "nemo", resolver()).back().text;
    const RunRecord read = parse_launch(text, "nemo.yaml").record;
    const auto stated = read.training.settings.find("fp8_recipe");
    EXPECT_NE(stated, read.training.settings.end());
    EXPECT_EQ(sim::text_of(stated->second), name_of(run.framework.low_precision.scaling));
    return sim::text_of(stated->second);
  };
  EXPECT_EQ(recipe("nemo"), "delayed");
  EXPECT_EQ(recipe("megatron-bridge"), "current");
}

// A model without experts divides none.
TEST(WrittenFiles, RanksOfAnExpertSayNothingOfADenseModel) {
  for (const char* target : {"megatron", "nemo", "torchtitan", "maxtext"}) {
    const sim::Run run =
        run_on("llama-3-8b", 16, framework_of_target(target).value(),
               {{"etp", 1}, {"tp", 2}, {"sharding", "zero3"}, {"recompute.kind", "full"}});
    EXPECT_EQ(error_of([&] { launch_files(run, target, resolver()); }), "") << target;
  }
}

TEST(WrittenFiles, ScriptsRefuseWhatTheyCannotStart) {
  EXPECT_EQ(error_of([] {
              launch_files(run_on("llama-3-8b", 16, "maxtext", {}), "torchrun", resolver());
            }).substr(0, 56),
            "torchrun cannot express training.framework = maxtext: JA");
  RunRecord record = record_on("llama-3-8b", 16, "maxtext", {});
  record.hardware.accelerator = "tpu_v5p";
  EXPECT_EQ(error_of([&] { launch_files(resolver().resolve(record), "slurm", resolver()); }),
            "slurm cannot express vendor = Google");
}

TEST(WrittenFiles, OverridesAreWordsOfACommandToo) {
  const ReadLaunch read = parse_launch(
      "torchrun --nnodes 2 --nproc_per_node 8 scripts/training/run_recipe.py --recipe a \\\n"
      "  model.tensor_model_parallel_size=2 ++train.micro_batch_size=1 'model.recompute_modules="
      "[core_attn,mlp]' \\\n  model.recompute_granularity=selective "
      "model.sequence_parallel=True\n",
      "a.sh");
  EXPECT_EQ(read.target, "nemo");
  EXPECT_EQ(read.record.hardware.num_devices, 16);
  const auto& strategy = read.record.training.strategy;
  EXPECT_EQ(sim::text_of(strategy.at("tp")), "2");
  EXPECT_EQ(sim::text_of(strategy.at("recompute.modules")), "core_attn+mlp");
  EXPECT_EQ(sim::text_of(strategy.at("sequence_parallel")), "true");
}

TEST(WrittenFiles, AdaptersAreThoseOfTheProgramThatIsConfigured) {
  const auto files = [](const std::string& target, const std::string& framework) {
    RunRecord record = record_on("llama-3-8b", 16, framework, {{"sharding", "zero3"}});
    record.model.trainable = "lora";
    record.model.lora_targets = {"all"};
    return error_of([&] { launch_files(resolver().resolve(record), target, resolver()); });
  };
  EXPECT_EQ(files("accelerate", "fsdp1"), "");
  EXPECT_EQ(files("torchtitan", "torchtitan"), "torchtitan cannot express model.lora.rank = 8");
}

// Where a file is read as that of another program, and this predicts another step, it is said.
TEST(WrittenFiles, WhatIsReadAsAnotherProgramSaysSo) {
  const auto unsaid = [](const char* target, const char* framework, const Changes& changes) {
    return sim::joined(
        launch_files(run_on("llama-3-8b", 16, framework, changes), target, resolver())
            .front()
            .unsaid,
        ", ");
  };
  EXPECT_EQ(unsaid("nemo", "nemo", {}),
            "training.framework = nemo (of megatron-bridge where it is read)");
  EXPECT_EQ(unsaid("nemo", "megatron-bridge", {}), "");
  EXPECT_EQ(unsaid("accelerate", "fsdp1", {{"sharding", "zero3"}}),
            "training.framework = fsdp1 (of hf-trainer-fsdp where it is read)");
  // Megatron-FSDP and Megatron-LM's FSDP are one.
  EXPECT_EQ(unsaid("megatron", "megatron-fsdp", {{"sharding", "zero3"}}), "");
}

TEST(WrittenFiles, MegatronFilesNameTheMultiprocessorsOfAnExchange) {
  const std::string text =
      launch_files(run_on("mixtral-8x7b", 16, "megatron-lm",
                          {{"ep", 8}, {"moe_dispatch", "deepep"}, {"moe_dispatch_sms", 18}}),
                   "megatron", resolver())
          .front()
          .text;
  EXPECT_NE(text.find("--moe-deepep-num-sms 18\n"), std::string::npos) << text;
}

TEST(WrittenFiles, NemoNamesAdapters) {
  RunRecord record = record_on("llama-3-8b", 8, "megatron-bridge", {});
  record.model.trainable = "lora";
  record.model.lora_rank = 16;
  record.model.lora_targets = {"q", "o", "gate", "up"};
  const sim::Run run = resolver().resolve(record);
  const std::string text = launch_files(run, "nemo", resolver()).back().text;
  EXPECT_NE(text.find("  target_modules: [linear_q, linear_proj, linear_fc1_gate, linear_fc1_up]\n"
                      "  dim: 16\n"),
            std::string::npos)
      << text;
  const RunRecord read = parse_launch(text, "nemo.yaml").record;
  EXPECT_EQ(read.model.lora_rank, 16);
  EXPECT_EQ(read.model.lora_targets, record.model.lora_targets);
  const std::string fused =
      "model:\n  seq_length: 8\npeft:\n  _target_: megatron.bridge.peft.lora.LoRA\n";
  EXPECT_EQ(
      error_of([&] { parse_launch(fused, "a.yaml"); }),
      "a.yaml: peft._target_ = megatron.bridge.peft.lora.LoRA: no such combination of nemo is "
      "modelled");
}

TEST(WrittenFiles, WhatATargetCannotExpressIsNamed) {
  const auto refusal = [](const std::string& target, const Changes& changes) {
    return error_of([&] {
      launch_files(run_on("llama-3-8b", 16, framework_of_target(target).value(), changes), target,
                   resolver());
    });
  };
  EXPECT_EQ(refusal("megatron", {{"recompute.kind", "op"}}),
            "megatron cannot express recompute.kind = op");
  EXPECT_EQ(refusal("megatron", {{"compile", true}}),
            "megatron cannot express training.compile = true");
  EXPECT_EQ(refusal("megatron", {{"weight_dtype", "fp32"}}),
            "megatron cannot express training.weight_dtype = fp32");
  // torchtitan gives what does not divide to the first stages, this plan to those in the middle.
  EXPECT_EQ(refusal("torchtitan", {{"pp", 4}, {"embeddings_as_layers", true}}),
            "torchtitan cannot express remainder = elsewhere, pp = 4: stages are divided evenly, "
            "what remains going to the first of them");
  EXPECT_EQ(refusal("torchtitan", {{"sharding", "zero1"}}),
            "torchtitan cannot express sharding = zero1: FSDP shards weights with gradients and "
            "states (zero3, or hsdp)");
  EXPECT_EQ(refusal("accelerate", {{"sharding", "zero1"}}),
            "accelerate cannot express sharding = zero1: FSDP shards gradients with the states "
            "(zero2), or weights too (zero3, hsdp)");
  EXPECT_EQ(error_of([&] {
              launch_files(run_on("llama-3-8b", 16, "fsdp2", {{"sharding", "none"}, {"tp", 2}}),
                           "accelerate", resolver());
            }),
            "accelerate cannot express sharding = none, dp = 8, tp = 2: plain data parallelism "
            "goes with no other ranks");
  EXPECT_EQ(refusal("megatron", {{"sharding", "hsdp"}, {"shard_size", 8}}),
            "megatron cannot express sharding = hsdp: copies of shards are those of the "
            "distributed optimizer (zero1 with a shard size)");
  EXPECT_EQ(error_of([&] {
              launch_files(run_on("llama-3-8b", 16, "fsdp2", {}), "megatron", resolver());
            }),
            "megatron cannot express training.framework = fsdp2: megatron-lm or megatron-fsdp is "
            "expected");
  EXPECT_EQ(error_of([] { framework_of_target("megatorn"); }).substr(0, 42),
            "target megatorn: one of megatron, torchtit");
}

// Those whose keys were looked up; a shorter name is of all that begin with it.
TEST(WrittenFiles, AreThoseOfTheRowsAndStandInTheFile) {
  EXPECT_EQ(target_of_release("torchtitan"), "torchtitan");
  EXPECT_EQ(target_of_release("torchtitan@0.2"), "torchtitan");
  EXPECT_EQ(target_of_release("megatron@0.17"), "megatron");
  EXPECT_EQ(error_of([] { target_of_release("torchtitan@0.3"); }),
            "target torchtitan@0.3: is written for torchtitan 0.2.1 or 0.2.2");
  EXPECT_EQ(error_of([] { target_of_release("torchtitan@0.2."); }),
            "target torchtitan@0.2.: is written for torchtitan 0.2.1 or 0.2.2");
  EXPECT_EQ(error_of([] { target_of_release("slurm@23"); }),
            "target slurm@23: no releases of slurm are told apart");
  const auto text = [](const std::string& target) {
    return launch_files(run_on("llama-3-8b", 16, framework_of_target(target).value(), {}), target,
                        resolver())
        .back()
        .text;
  };
  EXPECT_NE(text("torchtitan").find("\n# Written for torchtitan 0.2.1 to 0.2.2 (2025-12-26 to "),
            std::string::npos);
  for (const char* target : {"megatron", "nemo", "maxtext", "accelerate"})
    EXPECT_NE(text(target).find("\n# Written for "), std::string::npos) << target;
}

// Source: Megatron-LM's validate_args and TransformerConfig.__post_init__.
TEST(WrittenFiles, MegatronStartsWithNoneOfThese) {
  const auto refusal = [](const std::string& model, const Changes& changes) {
    return error_of(
        [&] { launch_files(run_on(model, 16, "megatron-lm", changes), "megatron", resolver()); });
  };
  const auto expect_refused = [&](const Changes& changes, const std::string& rule) {
    const std::string said = refusal("deepseek-v2-lite", changes);
    EXPECT_NE(said.find(rule), std::string::npos) << said;
  };
  expect_refused({{"sharding", "zero3"}, {"optimizer", "muon"}}, "Megatron-FSDP");
  expect_refused({{"moe_overlap", true}, {"ep", 1}}, "exchanges of ranks overlap");
  EXPECT_EQ(refusal("deepseek-v2-lite", {{"moe_overlap", true}, {"ep", 8}}), "");
  EXPECT_EQ(refusal("llama-3-8b", {{"sharding", "zero3"}}), "");
  const std::string eight = "fp8_param_gather";
  expect_refused({{"precision", "fp8"}, {"fp8_all_gather", true}, {"sharding", "none"}}, eight);
  EXPECT_EQ(refusal("llama-3-8b",
                    {{"precision", "fp8"}, {"fp8_all_gather", true}, {"sharding", "zero1"}}),
            "");
  expect_refused({{"sharding", "zero1"},
                  {"recompute.kind", "selective"},
                  {"recompute.modules", "moe"},
                  {"offload.activations", true},
                  {"offload.modules", "core_attn+moe_act"},
                  {"grouped_gemm", true}},
                 "recomputed with all of the experts");
  expect_refused(
      {{"precision", "fp16"}, {"gradient_dtype", "bf16"}, {"gradient_reduce_dtype", "bf16"}},
      "fp16 weights");
}

// Its only Adam decays weights apart from gradients.
TEST(WrittenFiles, MegatronsAdamIsSaidToBeAnother) {
  const auto unsaid = [](const char* optimizer) {
    const sim::Run run = run_on("llama-3-8b", 16, "megatron-lm", {{"optimizer", optimizer}});
    return sim::joined(launch_files(run, "megatron", resolver()).back().unsaid, ", ");
  };
  EXPECT_NE(unsaid("adam").find("optimizer = adam"), std::string::npos) << unsaid("adam");
  EXPECT_EQ(unsaid("adamw").find("optimizer"), std::string::npos);
}

}  // namespace
}  // namespace llmsim::hwdb
