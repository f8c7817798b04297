// Every door gives the same answer: assumed = given, saved = loaded, whatever people write in free
// text; of plans large/plan_doors_test.cpp.
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/run_request.h"
#include "hwdb/frameworks/settings.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "reports/prediction.h"
#include "sim/base/error.h"
#include "sim/predict.h"
#include "tests/cli/answer.h"
#include "tests/share.h"

namespace llmsim {
namespace {

// --- assumed = given ---

// The keys of a run by section, each with its JSON text.
using Keys = std::map<std::string, std::map<std::string, std::string>>;

std::string object_of(const std::map<std::string, std::string>& keys) {
  std::string text;
  for (const auto& [key, value] : keys)
    text += (text.empty() ? "" : ", ") + ("\"" + key + "\": " + value);
  return "{" + text + "}";
}

std::string text_of(const Keys& run) {
  std::string text = R"({"id": "a")";
  for (const auto& [section, keys] : run) text += ", \"" + section + "\": " + object_of(keys);
  return text + "}";
}

// Numbers and truth values stand as they are.
std::string quoted(const std::string& value) {
  const bool number = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos;
  return number || value == "true" || value == "false" ? value : "\"" + value + "\"";
}

class RandomRuns {
 public:
  Keys next() {
    Keys run;
    run["model"] = {{"name", any({"\"llama-3-8b\"", "\"gpt2\"", "\"bloom-7b1\"", "\"mixtral-8x7b\"",
                                  "\"qwen3-8b\"", "\"mine\""})}};
    if (run["model"]["name"] == "\"mine\"") describe(run["model"]);
    run["hardware"] = {
        {"accelerator", any({"\"v100_sxm_32\"", "\"a100_sxm_80\"", "\"h100_sxm\"", "\"b200_sxm\"",
                             "\"mi300x\"", "\"mi250x_gcd\"", "\"tpu_v5p\""})},
        {"num_devices", any({"1", "8", "16", "64"})}};
    std::map<std::string, std::string>& t = run["training"];
    t["micro_batch"] = any({"1", "2"});
    t["global_batch"] = any({"64", "128"});
    maybe(t, "framework",
          {"\"megatron-lm\"", "\"megatron-deepspeed\"", "\"deepspeed\"", "\"fsdp2\"", "\"pytorch\"",
           "\"torchtitan\"", "\"nemo\"", "\"maxtext\"", "\"litgpt\"", "\"torchtune\"", "\"llm.c\"",
           "\"hf-trainer-deepspeed\""});
    maybe(t, "precision", {"\"bf16\"", "\"fp16\"", "\"fp32\"", "\"fp8\""});
    maybe(t, "sharding", {"\"none\"", "\"zero1\"", "\"zero2\"", "\"zero3\""});
    maybe(t, "tp", {"2", "4"});
    maybe(t, "pp", {"2", "4"});
    maybe(t, "virtual_stages", {"1", "2"});
    maybe(t, "flash_attention", {"true", "false"});
    maybe(t, "dropout", {"0.1", "0"});
    maybe(t, "deterministic", {"true"});
    if (roll(3) == 0)
      t["recompute"] = any({R"({"kind": "full"})", R"({"kind": "selective", "modules": ["mlp"]})"});
    return run;
  }

 private:
  std::size_t roll(std::size_t sides) { return random_() % sides; }
  std::string any(const std::vector<std::string>& values) { return values[roll(values.size())]; }
  void maybe(std::map<std::string, std::string>& keys, const char* key,
             const std::vector<std::string>& values) {
    if (roll(2) == 0) keys[key] = any(values);
  }
  void describe(std::map<std::string, std::string>& model) {
    model.insert({{"num_layers", "8"},
                  {"hidden_size", "1024"},
                  {"num_heads", "16"},
                  {"vocab_size", "50257"},
                  {"seq_len", "1024"}});
    maybe(model, "norm", {"\"rmsnorm\"", "\"layernorm\""});
    maybe(model, "position", {"\"alibi\"", "\"learned\"", "\"rope\""});
    model["ffn_size"] = "4096";
  }

  std::mt19937 random_{20261122};
};

// The run with the assumed value of a fact; the key is a path from the run.
Keys with_given(Keys run, const sim::Fact& fact) {
  const std::string path = fact.key.substr(std::string("assumed.").size());
  const std::size_t dot = path.find('.');
  const std::string section = path.substr(0, dot), key = path.substr(dot + 1);
  if (key == "recompute.kind")
    run[section]["recompute"] = "{\"kind\": " + quoted(fact.value) + "}";
  else
    run[section][key] = quoted(fact.value);
  return run;
}

TEST(Doors, AnAssumedValueAnswersAsTheSameValueGiven) {
  RandomRuns runs;
  int compared = 0;
  for (unsigned i = 0; i < share_of(400); ++i) {
    const Keys run = runs.next();
    try {
      const sim::Prediction prediction = predicted(parsed(text_of(run)));
      const Answer assumed = answer_of(prediction);
      EXPECT_GE(assumed.mfu, 0.0) << text_of(run);
      EXPECT_LE(assumed.mfu, 1.0) << text_of(run);
      for (const sim::Fact& fact : prediction.run.facts) {
        if (!fact.key.starts_with("assumed.") || fact.key.find('.', 8) == std::string::npos)
          continue;
        const Keys given = with_given(run, fact);
        EXPECT_EQ(answer_of_text(text_of(given)), assumed) << fact.key << " in " << text_of(given);
        ++compared;
      }
    } catch (const Error&) {
      continue;  // a device that cannot multiply so, a mesh that does not fit
    }
  }
  EXPECT_GT(compared, static_cast<int>(share_of(1000)));
}

// Found by hand: the sharding and the fp16 of V100 were asked for after the framework's rules.
TEST(Doors, TheUsualPrecisionOfV100IsTheSameGiven) {
  cli::RunOptions options{.model = "llama3-8b"};
  options.gpus = "64", options.hardware = "v100", options.strategy["sharding"] = "zero1",
  options.recompute = "full";
  const Answer assumed = answer_of(sim::predict(cli::run_of(options, database())));
  options.strategy["precision"] = "fp16";
  EXPECT_EQ(answer_of(sim::predict(cli::run_of(options, database()))), assumed);
}

// V100 multiplies in no bf16: adapters are of the run's format.
TEST(Doors, AdaptersTrainInTheUsualPrecisionOfV100) {
  cli::RunOptions options{.model = "llama3-8b"};
  options.gpus = "64", options.hardware = "v100", options.lora = "8";
  const Answer assumed = answer_of(sim::predict(cli::run_of(options, database())));
  options.strategy["precision"] = "fp16";
  EXPECT_EQ(answer_of(sim::predict(cli::run_of(options, database()))), assumed);
}

// Gives an option the assumed value of a key; false where no option states it alone.
bool give(cli::RunOptions& o, const std::string& key, const std::string& value) {
  const std::map<std::string, std::optional<std::string>*> others = {
      {"hardware.accelerator", &o.hardware},     {"hardware.system", &o.system},
      {"hardware.num_devices", &o.gpus},         {"model.seq_len", &o.seq_len},
      {"training.framework", &o.framework},      {"training.recompute.kind", &o.recompute},
      {"training.global_batch", &o.global_batch}};
  const std::string name = key.substr(key.find('.') + 1);
  if (const auto found = others.find(key); found != others.end())
    *found->second = value;
  else if (key.starts_with("training.") && sim::find_strategy_field(name))
    o.strategy[name] = value;
  else
    return false;
  return true;
}

TEST(Doors, DefaultsOfOptionsAnswerAsTheSameOptionsGiven) {
  for (const char* hardware : {"", "h100", "mi300x", "tpu_v5p", "gaudi2", "trainium2", "v100"}) {
    cli::RunOptions options{.model = "llama3-8b"};
    options.gpus = "64", options.strategy["tp"] = "2", options.strategy["pp"] = "2",
    options.strategy["cp"] = "2";
    if (*hardware != '\0') options.hardware = hardware;
    // No flash attention, without which there are no context ranks.
    if (options.hardware == "v100") options.strategy.erase("cp");
    const sim::Prediction prediction = sim::predict(cli::run_of(options, database()));
    int compared = 0;
    for (const sim::Fact& fact : prediction.run.facts) {
      if (!fact.key.starts_with("assumed.")) continue;
      cli::RunOptions given = options;
      if (!give(given, fact.key.substr(8), fact.value)) continue;
      EXPECT_EQ(answer_of(sim::predict(cli::run_of(given, database()))), answer_of(prediction))
          << fact.key << " = " << fact.value << " on " << hardware;
      ++compared;
    }
    EXPECT_GE(compared, 7) << hardware;
  }
}

// --- saved = loaded ---

void expect_reloads(const sim::Run& run, const std::string& what) {
  const sim::Prediction prediction = sim::predict(run);
  const std::string saved = reports::run_text(prediction);
  EXPECT_EQ(answer_of_text(saved), answer_of(prediction)) << what << "\n" << saved;
}

cli::RunOptions small_options() {
  cli::RunOptions options{.model = "llama3-8b"};
  options.gpus = "64", options.strategy["tp"] = "2", options.strategy["pp"] = "2";
  return options;
}

TEST(Doors, ASavedRunIsLoadedAsItWasForEveryOption) {
  using Set = void (*)(cli::RunOptions&);
  const std::vector<std::pair<const char*, Set>> sets = {
      {"nothing", [](cli::RunOptions&) {}},
      {"transport", [](cli::RunOptions& o) { o.transport = "sockets"; }},
      {"collective-algorithm", [](cli::RunOptions& o) { o.algorithm = "tree"; }},
      {"gpus-per-node", [](cli::RunOptions& o) { o.gpus_per_node = "4"; }},
      {"inter-node-bandwidth", [](cli::RunOptions& o) { o.inter_node_bandwidth = "12.5"; }},
      {"system", [](cli::RunOptions& o) { o.system = "frontier"; }},
      {"hardware", [](cli::RunOptions& o) { o.hardware = "mi300x"; }},
      {"seq-len", [](cli::RunOptions& o) { o.seq_len = "2048"; }},
      {"document-len", [](cli::RunOptions& o) { o.document_len = "600"; }},
      {"global-batch", [](cli::RunOptions& o) { o.global_batch = "512"; }},
      {"micro-batch", [](cli::RunOptions& o) { o.strategy["micro_batch"] = "2"; }},
      {"precision", [](cli::RunOptions& o) { o.strategy["precision"] = "fp8"; }},
      {"framework", [](cli::RunOptions& o) { o.framework = "deepspeed"; }},
      {"date", [](cli::RunOptions& o) { o.date = "2021-06-01"; }},
      {"optimizer", [](cli::RunOptions& o) { o.strategy["optimizer"] = "lion"; }},
      {"offload", [](cli::RunOptions& o) { o.offload = "optimizer,activations=core_attn"; }},
      {"recompute modules", [](cli::RunOptions& o) { o.recompute = "selective=mlp+layernorm"; }},
      {"recompute first", [](cli::RunOptions& o) { o.recompute = "full=3"; }},
      {"recompute every", [](cli::RunOptions& o) { o.recompute = "every-n=2/3"; }},
      {"recompute full/2", [](cli::RunOptions& o) { o.recompute = "full/2"; }},
      {"recompute op", [](cli::RunOptions& o) { o.recompute = "op=qkv"; }},
      {"lora", [](cli::RunOptions& o) { o.lora = "16"; }},
      {"lora targets",
       [](cli::RunOptions& o) { o.lora = "32", o.lora_targets = "attention,down_proj"; }},
      {"qlora",
       [](cli::RunOptions& o) {
         o.lora = "64", o.lora_targets = "all", o.strategy["precision"] = "nf4";
       }},
      {"schedule", [](cli::RunOptions& o) { o.strategy["pipeline_schedule"] = "zb-h1"; }},
      {"schedule of one stage",
       [](cli::RunOptions& o) {
         o.strategy["pp"] = "1", o.strategy["pipeline_schedule"] = "gpipe";
       }},
      {"schedule that one stage cannot have",
       [](cli::RunOptions& o) {
         o.strategy["pp"] = "1", o.strategy["pipeline_schedule"] = "interleaved";
       }},
      {"virtual-stages", [](cli::RunOptions& o) { o.strategy["virtual_stages"] = "4"; }},
      {"stage-layers", [](cli::RunOptions& o) { o.strategy["stage_layers"] = "15,17"; }},
      {"embeddings-as-layers",
       [](cli::RunOptions& o) { o.strategy["embeddings_as_layers"] = "true"; }},
      {"sharding", [](cli::RunOptions& o) { o.strategy["sharding"] = "zero1"; }},
      {"zero1 in groups",
       [](cli::RunOptions& o) {
         o.strategy["sharding"] = "zero1", o.strategy["shard_size"] = "4";
       }},
      {"hsdp",
       [](cli::RunOptions& o) {
         o.strategy["pp"] = "1", o.strategy["sharding"] = "hsdp", o.strategy["shard_size"] = "8";
       }},
      {"cp",
       [](cli::RunOptions& o) {
         o.strategy["cp"] = "2", o.strategy["cp_scheme"] = "all-gather",
         o.strategy["cp_balanced"] = "false";
       }},
      {"cp-inner",
       [](cli::RunOptions& o) {
         o.strategy["cp"] = "4", o.strategy["cp_scheme"] = "all-to-all+ring",
         o.strategy["cp_inner"] = "2";
       }},
      {"sequence-parallel", [](cli::RunOptions& o) { o.strategy["sequence_parallel"] = "true"; }},
      {"no-sequence-parallel",
       [](cli::RunOptions& o) { o.strategy["sequence_parallel"] = "false"; }},
      {"no-flash", [](cli::RunOptions& o) { o.strategy["flash_attention"] = "false"; }},
      {"compile", [](cli::RunOptions& o) { o.strategy["compile"] = "true"; }},
      {"cuda-graph", [](cli::RunOptions& o) { o.strategy["cuda_graph"] = "true"; }},
      {"fused-cross-entropy",
       [](cli::RunOptions& o) { o.strategy["fused_cross_entropy"] = "true"; }},
      {"tp-overlap", [](cli::RunOptions& o) { o.strategy["tp_overlap"] = "true"; }},
      {"gradient-overlap",
       [](cli::RunOptions& o) {
         o.strategy["gradient_overlap"] = "true", o.strategy["gather_overlap"] = "false";
       }},
      {"moe",
       [](cli::RunOptions& o) {
         o.model = "mixtral-8x7b", o.strategy["ep"] = "4", o.strategy["etp"] = "1",
         o.strategy["sequence_parallel"] = "true", o.strategy["moe_dispatch"] = "deepep";
         o.strategy["moe_overlap"] = "true", o.strategy["moe_imbalance"] = "1.2",
         o.strategy["moe_capacity"] = "1.5", o.strategy["cuda_graph"] = "true",
         o.strategy["moe_captured"] = "false";
       }},
      {"mla", [](cli::RunOptions& o) { o.model = "deepseek-v2-lite", o.strategy["pp"] = "1"; }},
  };
  for (const auto& [what, set] : sets) {
    cli::RunOptions options = small_options();
    set(options);
    expect_reloads(cli::run_of(options, database()), what);
  }
}

TEST(Doors, ASavedRunIsLoadedAsItWasForEverySetting) {
  for (const hwdb::Setting& setting : hwdb::run_settings()) {
    for (const char* framework : {"megatron-lm", "fsdp2"}) {
      cli::RunOptions options = small_options();
      options.framework = framework;
      if (options.framework == "fsdp2")
        options.strategy["pp"] = "1", options.strategy["sharding"] = "zero3";
      options.settings[setting.key] = hwdb::setting_from(setting, setting.key, setting.example);
      expect_reloads(cli::run_of(options, database()),
                     std::string(setting.key) + " under " + framework);
    }
  }
}

TEST(Doors, ASavedRunIsLoadedAsItWasForEveryModelOfTheCatalogue) {
  for (const char* model :
       {"gpt2", "bloom-176b", "llama-3.1-405b", "gemma-2-9b", "olmo-2-7b", "qwen2-72b",
        "gpt-oss-120b", "deepseek-v3", "qwen1.5-moe-a2.7b", "bert-large", "falcon-40b", "mpt-7b"}) {
    cli::RunOptions options{.model = model};
    options.gpus = "64";
    try {
      expect_reloads(cli::run_of(options, database()), model);
    } catch (const Error& error) {
      ADD_FAILURE() << model << ": " << error.what();
    }
  }
}

// --- options = run file ---

// A run file of the same model, hardware and layout as `small_options()`, with this of the model.
Answer answer_with_adapters(const std::string& lora, const std::string& precision) {
  return answer_of_text(
      R"({"id": "a", "model": {"name": "llama-3-8b", "trainable": "lora", "lora": )" + lora +
      R"(}, "hardware": {"accelerator": "h100_sxm", "system": "dgx_h100", "num_devices": 64},)" +
      R"( "training": {"framework": "megatron-lm", "tp": 2, "pp": 2, "global_batch": 512,)" +
      R"( "precision": ")" + precision + R"("}})");
}

TEST(Doors, AdaptersOfOptionsAnswerAsThoseOfARunFile) {
  struct Adapted {
    const char *rank, *targets, *lora, *precision;
  };
  for (const Adapted& a :
       {Adapted{"16", "all", R"({"rank": 16, "targets": ["all"]})", "bf16"},
        Adapted{"16", "all-linear", R"({"rank": 16, "targets": "all linear layers"})", "bf16"},
        Adapted{"8", nullptr, R"({"rank": 8, "targets": ["q", "v"]})", "bf16"},
        Adapted{"64", "attention", R"({"rank": 64, "targets": ["q", "k", "v", "o"]})", "nf4"},
        Adapted{"4", "gate,up,down", R"({"rank": 4, "targets": ["mlp"]})", "int4"}}) {
    cli::RunOptions options = small_options();
    options.lora = a.rank, options.global_batch = "512";
    options.strategy["precision"] = a.precision;
    if (a.targets) options.lora_targets = a.targets;
    EXPECT_EQ(answer_of(sim::predict(cli::run_of(options, database()))),
              answer_with_adapters(a.lora, a.precision))
        << a.lora;
  }
}

// --- no prose ---

std::string sentence(std::mt19937& random) {
  const std::array<const char*, 14> words{"over sockets",
                                          "the step is one micro-step",
                                          "deterministic=true",
                                          "FusedAdam",
                                          "TransformerEngine",
                                          "rowwise scaling",
                                          "llm.c",
                                          "peft",
                                          "modules: mlp",
                                          "NCCL_ALGO=TREE",
                                          "HF Trainer",
                                          "pure bf16",
                                          "of every 3; 2021-05",
                                          "an earlier run went over plain hsn sockets"};
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += std::string(words[random() % words.size()]) + (i % 2 ? "; " : " ");
  return text;
}

TEST(Doors, FreeTextMovesNothing) {
  std::mt19937 random{7};
  int compared = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(LLMSIM_SOURCE_DIR "/tests/validation")) {
    const std::string folder = entry.path().parent_path().filename();
    if (entry.path().extension() != ".json" || (folder != "runs" && folder != "first_contact"))
      continue;
    const hwdb::RunFile file = hwdb::read_runs(entry.path().string());
    const std::size_t stride = kPartsOfATest * (file.runs.size() / 25 + 1);
    for (std::size_t i = 0; i < file.runs.size(); i += stride) {
      hwdb::RunRecord record = file.runs[i];
      try {
        const Answer before = answer_of(predicted(record));
        record.notes = sentence(random);
        record.source = sentence(random);
        record.training.framework_detail = sentence(random);
        record.training.precision_detail = sentence(random);
        record.training.recompute_detail = sentence(random);
        EXPECT_EQ(answer_of(predicted(record)), before) << record.id;
        ++compared;
      } catch (const Error&) {
        continue;  // not simulated
      }
    }
  }
  EXPECT_GT(compared, static_cast<int>(share_of(600)));
}

}  // namespace
}  // namespace llmsim
