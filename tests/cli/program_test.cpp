// The program as a whole: exit codes, and where its words go.
#include "tests/cli/program.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace llmsim::cli {
namespace {

TEST_F(Program, ExitsZeroWithTheResultOnStandardOutput) {
  const Outcome outcome = run("predict --model gpt2 --gpus 1 --global-batch 8");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_NE(outcome.out.find("step time"), std::string::npos);
  EXPECT_EQ(outcome.messages, "");
}

TEST_F(Program, RowsOfAblationsWithoutAblationsAreAUsageError) {
  EXPECT_EQ(run("validate --rows").status, 2);
  EXPECT_EQ(run("validate --comparisons x.json").status, 2);
}

TEST_F(Program, BadValuesAreOneLineAndStatusOne) {
  for (const char* arguments :
       {"plan --model nonesuch --gpus 8", "plan --model gpt2 --gpus 0", "predict missing.json",
        "predict --model gpt2 --format yaml", "plan --model gpt2 --gpus 8 --tp 1-"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(outcome.messages.find('\n'), outcome.messages.size() - 1) << outcome.messages;
  }
}

TEST_F(Program, WrongUsageIsStatusTwo) {
  for (const char* arguments :
       {"", "frobnicate", "plan", "plan --model gpt2", "predict", "predict --model gpt2 --bogus 1",
        "predict run.json --model gpt2"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_NE(outcome.messages, "") << arguments;
  }
}

TEST_F(Program, WhatCannotRunIsStatusThreeWithItsReason) {
  const Outcome mesh = run("predict --model llama-70b --gpus 256 --tp 3");
  EXPECT_EQ(mesh.status, 3);
  EXPECT_NE(mesh.out.find("there are 256 devices"), std::string::npos) << mesh.out;
  const Outcome plan = run("plan --model llama-70b --gpus 1");
  EXPECT_EQ(plan.status, 3);
  EXPECT_NE(plan.out.find("nothing fits"), std::string::npos) << plan.out;
}

TEST_F(Program, TraceWritesOneDocumentAndExitsAsPredictDoes) {
  const Outcome trace =
      run("trace --model gpt2 --gpus 2 --pp 2 --global-batch 4 -o '" + path("step.json") + "'");
  EXPECT_EQ(trace.status, 0) << trace.messages;
  EXPECT_EQ(trace.out, "");
  EXPECT_TRUE(text_of("step.json").starts_with("{\"displayTimeUnit\": \"ms\""));
  EXPECT_TRUE(text_of("step.json").ends_with("\n]}\n"));
  const Outcome mesh = run("trace --model llama-70b --gpus 256 --tp 3");
  EXPECT_EQ(mesh.status, 3);
  EXPECT_EQ(mesh.out, "");
  EXPECT_NE(mesh.messages.find("there are 256 devices"), std::string::npos) << mesh.messages;
  EXPECT_EQ(run("trace --model gpt2 --gpus 1 --microbatches x").status, 1);
  EXPECT_EQ(run("trace --model gpt2 --operators --no-operators").status, 2);
  EXPECT_EQ(run("trace").status, 2);
  EXPECT_EQ(run("trace no-such-run.json").status, 1);
}

TEST_F(Program, OfARunOutOfMemoryThereIsATraceAllTheSame) {
  const Outcome trace =
      run("trace --model llama-70b --gpus 8 --pp 8 --global-batch 8 --no-operators");
  EXPECT_EQ(trace.status, 3);
  EXPECT_NE(trace.messages.find("GiB"), std::string::npos) << trace.messages;
  EXPECT_TRUE(trace.out.ends_with("]}\n"));
}

TEST_F(Program, HelpAndVersionGoToStandardOutput) {
  EXPECT_EQ(run("--version").out, "llmsim " LLMSIM_VERSION "\n");
  for (const char* arguments : {"--help", "plan --help", "predict --help", "trace --help"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << arguments;
    EXPECT_NE(outcome.out.find("Example"), std::string::npos) << arguments;
  }
}

// All commands with options of their own.
TEST_F(Program, HelpFitsAHundredColumns) {
  for (const char* command :
       {"", "plan", "predict", "sweep", "plot", "compare", "trace", "diff", "export", "diagnose",
        "report", "validate", "calibrate run", "calibrate fit", "calibrate site", "calibrate log",
        "hardware list", "models show"}) {
    for (const char* option : {" --help", " --help-all"}) {
      if (!*command && option == std::string(" --help-all")) continue;  // all commands, set in
      std::istringstream help(run(std::string(command) + option).out);
      for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 100u) << line;
    }
  }
}

// The usual options, and the names of all others, which --help-all explains.
TEST_F(Program, HelpIsOneScreenAndNamesEveryOption) {
  for (const char* command :
       {"", "plan", "predict", "sweep", "compare", "trace", "export", "diagnose", "report"}) {
    const std::string help = run(std::string(command) + " --help").out,
                      all = run(std::string(command) + " --help-all").out;
    EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 66) << command << "\n" << help;
    for (std::size_t at = all.find("\n  --"); at != all.npos && *command;
         at = all.find("\n  --", at + 1)) {
      const std::string name = all.substr(at + 5, all.find_first_of(" ,\n", at + 5) - at - 5);
      const bool named =
          help.find("--" + name) != help.npos || help.find("--[no-]" + name) != help.npos;
      EXPECT_TRUE(named) << command << " --" << name;
    }
  }
}

TEST_F(Program, APipeThatClosesIsNoError) {
  const Outcome outcome = run("predict --model gpt2 --format json | head -c 1");
  EXPECT_EQ(outcome.messages, "");
}

TEST_F(Program, WritesResultsToAFile) {
  const Outcome outcome =
      run("plan --model gpt2 --gpus 1 --format csv -o '" + path("plan.csv") + "'");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(text_of("plan.csv").starts_with("model,accelerator,"));
}

TEST_F(Program, APredictedRunReadsBackToTheSamePrediction) {
  const std::string options =
      "predict --model llama-8b --gpus 16 --tp 2 --pp 2 --sharding zero1 --recompute every-n=2 "
      "--format json";
  const Outcome first = run(options + " -o '" + path("first.json") + "'");
  ASSERT_EQ(first.status, 0) << first.messages;
  const std::string text = text_of("first.json");
  const std::size_t begin = text.find("\"run\": ") + 7, end = text.find(",\n  \"feasible\"");
  std::ofstream(path("run.json")) << text.substr(begin, end - begin);
  const Outcome second = run("predict '" + path("run.json") + "' --format json");
  ASSERT_EQ(second.status, 0) << second.messages;
  const auto figures = [](const std::string& json) {
    const std::size_t from = json.find("\"step_time_s\"");
    return json.substr(from, json.find("\"provenance\"") - from);
  };
  EXPECT_EQ(figures(second.out), figures(text));
}

// One line, ended.
bool one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == text.size() - 1;
}

TEST_F(Program, AWrittenFileIsWholeOrTheOldOne) {
  write("old.json", "the old one");
  // Files of at most 512 bytes or 1 KiB.
  const std::string limit = "sh -c 'ulimit -f 1; trap \"\" XFSZ; exec \"$@\"' sh ";
  const Outcome full = shell(
      limit + "'" LLMSIM_PROGRAM "' predict --model gpt2 --db :memory: --format json -o old.json");
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.messages.find("old.json: cannot be written: File too large"), std::string::npos)
      << full.messages;
  EXPECT_EQ(text_of("old.json"), "the old one");
  EXPECT_EQ(run("predict --model gpt2 --format json -o old.json").status, 0);
  EXPECT_TRUE(text_of("old.json").ends_with("}\n"));
  for (const auto& entry : std::filesystem::directory_iterator(path("")))
    EXPECT_FALSE(entry.path().string().ends_with(".new")) << entry.path();
}

TEST_F(Program, ALinkedFileKeepsItsLinkAndItsPermissions) {
  namespace fs = std::filesystem;
  write("real.txt", "old");
  fs::permissions(path("real.txt"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real.txt", path("link.txt"));
  EXPECT_EQ(run("models list -o link.txt").status, 0);
  EXPECT_TRUE(fs::is_symlink(path("link.txt")));
  EXPECT_NE(text_of("real.txt"), "old");
  EXPECT_EQ(fs::status(path("real.txt")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(run("models list -o /dev/null").status, 0);
  EXPECT_EQ(run("models list -o missing/x").status, 1);
}

TEST_F(Program, WhatCannotBePrintedIsAnError) {
  write(
      "run.json",
      R"({"id": "a", "model": {"name": "gpt2", "seq_len": 1024}, "hardware": {"accelerator": "a100", "num_devices": 1},
            "training": {"micro_batch": 8, "global_batch": 8}, "measured": {"step_time_s": 0.08}, "scored": {"step_time": true}})");
  for (const char* arguments :
       {"predict --model gpt2", "plan --model gpt2 --gpus 1", "trace --model gpt2", "models list",
        "models show gpt2", "hardware list", "hardware show h100", "validate run.json", "--help",
        "plan --help", "--version"}) {
    const Outcome outcome = run(arguments, "", ">/dev/full");
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.messages, "llmsim: standard output: No space left on device\n") << arguments;
  }
}

TEST_F(Program, QuestionsAreAnsweredWithoutAHome) {
  for (const char* home : {"XDG_DATA_HOME= HOME=/nonexistent/home", "XDG_DATA_HOME= HOME=/dev/null",
                           "XDG_DATA_HOME= HOME=", "XDG_DATA_HOME=/proc/self"}) {
    for (const char* arguments : {"predict --model gpt2", "plan --model gpt2 --gpus 1",
                                  "models show gpt2", "hardware show h100"}) {
      const Outcome outcome = run(arguments, home);
      EXPECT_EQ(outcome.status, 0) << home << " " << arguments << " " << outcome.messages;
    }
    write("mine.json", "{}");
    EXPECT_EQ(run("hardware add mine.json", home).status, 1);
  }
}

TEST_F(Program, ANamedDatabaseThatCannotBeOpenedIsAnError) {
  const Outcome missing = run("predict --model gpt2 --db no/such/folder/x.db");
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.messages,
            "llmsim: database no/such/folder/x.db: cannot be opened: No such file or directory\n");
  for (const char* device : {"/dev/zero", "/dev/null", "."}) {
    const Outcome outcome = run(std::string("hardware list --db ") + device);
    EXPECT_EQ(outcome.status, 1) << device;
    EXPECT_TRUE(one_line(outcome.messages)) << outcome.messages;
  }
}

TEST_F(Program, FilesWithoutEndAreRefusedAtOnce) {
  for (const char* arguments :
       {"predict --model /dev/zero", "predict /dev/zero", "validate /dev/zero",
        "models show /dev/zero", "hardware add /dev/zero", "calibrate import /dev/zero",
        "trace /dev/zero"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.messages, "llmsim: /dev/zero: is a device; a file or a pipe is expected\n")
        << arguments;
  }
  const Outcome pipe = shell("sh -c 'head -c 100000000 /dev/zero | \"" LLMSIM_PROGRAM
                             "\" predict /dev/stdin --db :memory:'");
  EXPECT_EQ(pipe.status, 1);
  EXPECT_EQ(pipe.messages,
            "llmsim: /dev/stdin: holds more than 64 MiB; a smaller file is expected\n");
}

TEST_F(Program, JsonThatNestsTooDeepIsRefusedAtItsLine) {
  const std::string deep = "{\"a\":\n" + std::string(58'000, '[') + std::string(58'000, ']') + "}";
  write("deep.json", deep);
  for (const char* arguments :
       {"predict deep.json", "predict --model deep.json", "validate deep.json",
        "models show deep.json", "hardware add deep.json", "trace deep.json"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.messages,
              "llmsim: deep.json:2: objects and lists lie in one another more than 100 deep\n")
        << arguments;
  }
  write("deep.jsonl", "{\"type\": \"header\", \"a\": " + std::string(58'000, '[') +
                          std::string(58'000, ']') + "}\n");
  const Outcome import = run("calibrate import deep.jsonl");
  EXPECT_EQ(import.status, 1);
  EXPECT_EQ(import.messages,
            "llmsim: deep.jsonl:1: objects and lists lie in one another more than 100 deep\n");
}

TEST_F(Program, StatusThreeSaysWhyOnStandardErrorInEveryFormat) {
  for (const char* format : {"table", "markdown", "csv", "json", "latex"}) {
    const std::string ending = std::string(" --format ") + format;
    const Outcome memory = run("predict --model llama3-8b --gpus 1 --global-batch 8" + ending);
    EXPECT_EQ(memory.status, 3) << format;
    EXPECT_TRUE(one_line(memory.messages)) << memory.messages;
    EXPECT_NE(memory.messages.find("GiB"), std::string::npos) << memory.messages;
    const Outcome plan = run("plan --model llama3-8b --gpus 1" + ending);
    EXPECT_EQ(plan.status, 3) << format;
    EXPECT_TRUE(one_line(plan.messages)) << plan.messages;
    EXPECT_TRUE(plan.messages.starts_with("llmsim: nothing fits: ")) << plan.messages;
    EXPECT_NE(plan.messages.find("out of memory; the nearest, "), std::string::npos)
        << plan.messages;
  }
}

TEST_F(Program, AMisspeltWordIsNamedBeforeAnythingElse) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"predict --model gpt2 --tpp 8", "unknown option --tpp; did you mean --tp?"},
      {"predict run.json --model gpt2 --tpp=8", "unknown option --tpp; did you mean --tp?"},
      {"predict --modell gpt2", "unknown option --modell; did you mean --model?"},
      {"plan --gpu 8", "unknown option --gpu; did you mean --gpus?"},
      {"validate --ablation", "unknown option --ablation; did you mean --ablations?"},
      {"predict --model gpt2 --no-dp-overlop",
       "unknown option --no-dp-overlop; did you mean --no-dp-overlap?"},
      {"predict --model gpt2 -x 3", "unknown option -x; predict --help lists all"},
      {"predct --model gpt2", "unknown command 'predct'; did you mean predict? The commands are "},
      {"hardware lst",
       "unknown command 'hardware lst'; did you mean hardware list? The commands are list, show, "
       "add"},
      {"calibrate verfy --help",
       "unknown command 'calibrate verfy'; did you mean calibrate verify? The commands are "},
  };
  for (const auto& [arguments, complaint] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_TRUE(outcome.messages.starts_with("llmsim: " + complaint)) << outcome.messages;
    EXPECT_TRUE(one_line(outcome.messages)) << outcome.messages;
  }
  EXPECT_EQ(run("predict --model gpt2 -oplan.json").status, 0);
  EXPECT_EQ(run("models show -- gpt2").status, 0);
}

TEST_F(Program, PlanningForCostIsRefusedWithoutPrices) {
  const Outcome outcome = run("plan --model gpt2 --gpus 1 --objective cost --hardware a10");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.messages,
            "llmsim: --objective = cost: no price of a10 is known; --price USD is expected\n");
  EXPECT_EQ(run("plan --model gpt2 --gpus 1 --objective cost --hardware a10 --price 1").status, 0);
}

TEST_F(Program, NumbersThatAreNoneAreRefused) {
  for (const char* option :
       {"--moe-imbalance", "--moe-capacity", "--fsdp-unit-blocks", "--reported-mfu",
        "--reported-tflops", "--tp", "--global-batch", "--memory-timeline --memory-stage"}) {
    for (const char* value : {"nan", "inf", "-inf", "-nan", "1e999", "infinity", "NAN(1)"}) {
      const Outcome outcome =
          run(std::string("predict --model mixtral-8x7b --gpus 8 ") + option + "='" + value + "'");
      EXPECT_TRUE(outcome.status == 1 || outcome.status == 2)
          << option << " " << value << " " << outcome.status;
      EXPECT_NE(outcome.messages, "") << option << " " << value;
    }
  }
  EXPECT_NE(run("predict --model mixtral-8x7b --moe-imbalance nan")
                .messages.find("nan: a number from 1 to 1024 is expected"),
            std::string::npos);
  EXPECT_EQ(run("calibrate run x --budget nan", "LLMSIM_RUNTIME=/bin/true").status, 2);
}

TEST_F(Program, SwitchesAreTrueOrFalse) {
  const std::string predict = "predict --model gpt2 --gpus 8 --format csv ";
  EXPECT_EQ(run(predict + "--flash=false").out, run(predict + "--no-flash").out);
  EXPECT_EQ(run(predict + "--flash=on").out, run(predict + "--flash").out);
  for (const char* option : {"--flash", "--deterministic", "--dp-overlap"}) {
    for (const char* value : {"maybe", "x", "2"}) {
      const Outcome outcome = run(predict + option + "=" + value);
      EXPECT_EQ(outcome.status, 2) << option;
      EXPECT_TRUE(outcome.messages.starts_with(std::string(option) + ": " + value +
                                               ": true or false is expected\n"))
          << outcome.messages;
    }
  }
}

TEST_F(Program, RatesAreExplainedWhereThereAreSome) {
  const Outcome unknown = run("predict --model gpt2 --explain gemms");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.messages,
            "llmsim: --explain = gemms: gemm, attention, collective or memory is expected\n");
  EXPECT_EQ(run("predict --model gpt2 --explain gemm --memory-timeline").status, 2);
  for (const char* what : {"gemm", "attention", "collective"}) {
    const Outcome outcome = run(std::string("predict --model gpt2 --gpus 8 --explain ") + what);
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    EXPECT_NE(outcome.out.find("Coefficients behind the factors"), std::string::npos)
        << outcome.out;
  }
  // The answer to a run that breaks a rule is the rule.
  const Outcome broken = run("predict --model gpt2 --gpus 8 --tp 5 --explain gemm");
  EXPECT_EQ(broken.status, 3);
  EXPECT_NE(broken.out.find("cannot run"), std::string::npos) << broken.out;
}

// Its size is what the system has, not what may be simulated.
TEST_F(Program, MoreDevicesThanASystemHasAreAWarning) {
  const std::string words = "system selene has 4480 devices";
  const Outcome table = run("predict --model gpt2 --gpus 8192 --system selene");
  EXPECT_EQ(table.status, 0) << table.messages;
  EXPECT_NE(table.out.find(words), std::string::npos) << table.out;
  const Outcome json = run("predict --model gpt2 --gpus 8192 --system selene --format json");
  EXPECT_EQ(json.status, 0) << json.messages;
  EXPECT_NE(json.out.substr(json.out.find("\"warnings\"")).find(words), std::string::npos);
  const Outcome plan =
      run("plan --model gpt2 --gpus 8192 --system selene --global-batch 8192 --tp 1 --pp 1 "
          "--micro-batch 1");
  EXPECT_EQ(plan.status, 0) << plan.messages;
  EXPECT_NE(plan.messages.find(words), std::string::npos) << plan.messages;
  EXPECT_EQ(run("predict --model gpt2 --gpus 64 --system selene").out.find(words),
            std::string::npos);
}

TEST_F(Program, ASystemIsNotAskedForDevicesThatItHasNot) {
  const Outcome other = run("predict --model gpt2 --gpus 8 --system selene --hardware mi300x");
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(other.messages,
            "llmsim: --hardware = mi300x: system selene has a100_sxm_80; leave out --hardware or "
            "--system\n");
  EXPECT_EQ(run("predict --model gpt2 --gpus 8 --system selene --hardware a100").status, 0);
  write(
      "run.json",
      R"({"id": "a", "model": {"name": "gpt2", "seq_len": 1024}, "hardware": {"accelerator": "mi300x",
                        "system": "selene", "num_devices": 8}, "training": {"micro_batch": 8, "global_batch": 64}})");
  const Outcome file = run("predict run.json");
  EXPECT_EQ(file.status, 0) << file.messages;
  EXPECT_NE(file.out.find("system selene has a100_sxm_80"), std::string::npos) << file.out;
}

}  // namespace
}  // namespace llmsim::cli
