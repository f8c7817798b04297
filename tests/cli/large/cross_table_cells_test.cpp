#include "cli/cross_table_cells.h"

#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/plan_answer.h"
#include "cli/run_library.h"
#include "cli/run_request.h"
#include "hwdb/runs/run_resolver.h"
#include "sim/predict.h"
#include "tests/error_of.h"

namespace llmsim::cli {

namespace {

using reports::CrossTable;

const hwdb::Database& shipped_facts() {
  static const hwdb::Database database(":memory:");
  return database;
}

CellContext shipped_context() { return {.database = shipped_facts()}; }

CrossTable table_of(const std::string& text) {
  return cross_table(hwdb::parse_table_file(text, "a.toml"), shipped_context());
}

// Everything that a cell can print.
void expect_same(const sim::Prediction& a, const sim::Prediction& b, const std::string& where) {
  EXPECT_EQ(a.step_time, b.step_time) << where;
  EXPECT_EQ(a.interval, b.interval) << where;
  EXPECT_EQ(a.memory.peak, b.memory.peak) << where;
  EXPECT_EQ(a.mfu, b.mfu) << where;
  EXPECT_EQ(a.hfu, b.hfu) << where;
  EXPECT_EQ(a.feasible(), b.feasible()) << where;
  EXPECT_EQ(a.infeasible ? a.infeasible->message : "", b.infeasible ? b.infeasible->message : "");
}

// --- a cell is what predict says ---

struct Choice {
  const char* key;
  std::vector<std::string> values;
};

const std::vector<Choice> kChoices{
    {"tp", {"1", "2", "3", "8"}},      {"pp", {"1", "2", "4"}},
    {"micro_batch", {"1", "2", "8"}},  {"sharding", {"zero1", "zero3"}},
    {"precision", {"bf16", "fp8"}},    {"compile", {"true", "false"}},
    {"hardware", {"h100", "mi300x"}},  {"recompute", {"none", "selective", "full"}},
    {"model", {"gpt2", "llama-3-8b"}}, {"framework", {"megatron-lm", "fsdp2"}},
    {"global_batch", {"64", "128"}},   {"flash", {"true", "false"}}};

// Options for both: as lines of a table file and as those of a command line.
struct Options {
  std::string toml;
  RunOptions run;
};

void add(const Choice& choice, const std::string& value, Options& options) {
  options.toml += std::string(choice.key) + " = \"" + value + "\"\n";
  const std::string key = choice.key;
  if (key == "model")
    options.run.model = value;
  else if (key == "hardware")
    options.run.hardware = value;
  else if (key == "recompute")
    options.run.recompute = value;
  else if (key == "framework")
    options.run.framework = value;
  else if (key == "global_batch")
    options.run.global_batch = value;
  else
    options.run.strategy[key == "flash" ? "flash_attention" : key] = value;
}

// Rows, columns and common options share out the options of a run at random.
// An option that needs another is right where both stand in one cell.
TEST(TableOptions, MayNeedOneAnother) {
  const hwdb::TableOptions lora{{.key = "lora", .value = "16", .line = 1}},
      targets{{.key = "lora-targets", .value = "all", .line = 2}};
  EXPECT_NO_THROW(check_options(targets, TableOptionsOf::Run, "t.toml"));
  const RunOptions run = run_options({lora[0], targets[0]}, TableOptionsOf::Run);
  EXPECT_EQ(run.lora, "16");
}

TEST(CrossTableCells, EqualPredictOfTheirOptions) {
  std::mt19937 random(11);
  int feasible = 0;
  for (int round = 0; round < 60; ++round) {
    Options all;
    all.run.gpus = "16";
    std::string parts[3];  // common, row, column
    for (const Choice& choice : kChoices) {
      if (std::string(choice.key) != "model" && random() % 3 == 0) continue;
      Options one;
      const std::string& value = choice.values[random() % choice.values.size()];
      add(choice, value, one);
      add(choice, value, all);
      parts[random() % 3] += one.toml;
    }
    const std::string text = "title = \"t\"\n[common]\ngpus = 16\n" + parts[0] +
                             "[[rows]]\nlabel = \"r\"\n" + parts[1] +
                             "[[columns]]\nlabel = \"c\"\n" + parts[2];
    const CrossTable table = table_of(text);
    const sim::Prediction expected = sim::predict(run_of(all.run, shipped_facts()));
    expect_same(*table.at(0, 0).prediction, expected, text);
    feasible += expected.feasible() ? 1 : 0;
  }
  EXPECT_GT(feasible, 10);
}

// Rows of the first list typed, columns of the second.
TEST(CrossTableCells, OfListsEqualPredict) {
  RunOptions options{.model = "gpt2,llama-3-8b"};
  options.gpus = "8,16";
  options.strategy = {{"tp", "2"}, {"sharding", "zero1"}};
  const CrossTable table =
      cross_table(options, {"--gpus", "--tp", "--model"}, false, shipped_context());
  EXPECT_EQ(table.rows, (std::vector<std::string>{"gpus 8", "gpus 16"}));
  EXPECT_EQ(table.columns, (std::vector<std::string>{"gpt2", "llama-3-8b"}));
  EXPECT_EQ(table.corner, "gpus");
  EXPECT_EQ(table.title, "gpus by model");
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t c = 0; c < 2; ++c) {
      RunOptions one = options;
      one.model = c == 0 ? "gpt2" : "llama-3-8b";
      one.gpus = r == 0 ? "8" : "16";
      expect_same(*table.at(r, c).prediction, sim::predict(run_of(one, shipped_facts())),
                  table.rows[r] + table.columns[c]);
    }
  }
}

TEST(CrossTableCells, OfMoreThanTwoListsAreAnError) {
  RunOptions options{.model = "gpt2,gpt2-xl"};
  options.gpus = "8,16";
  options.strategy = {{"tp", "1,2"}};
  EXPECT_EQ(error_of([&] {
              cross_table(options, {"--model", "--gpus", "--tp"}, false, shipped_context());
            }),
            "--tp: a third list; a table has two, of its rows and its columns, llmsim sweep takes "
            "more");
}

// --- plans ---

TEST(CrossTableCells, WithoutALayoutAreTheBestPlans) {
  RunOptions options{.model = "gpt2"};
  options.gpus = "4,8";
  EXPECT_TRUE(leaves_layout_open(options));
  const CrossTable table = cross_table(options, {"--gpus"}, true, shipped_context());
  ASSERT_EQ(table.rows.size(), 2u);
  for (const char* gpus : {"4", "8"}) {
    RunOptions one = options;
    one.gpus = gpus;
    const auto answer = planned({}, one, shipped_facts());
    expect_same(*table.at(gpus[0] == '4' ? 0 : 1, 0).prediction, answer.plan.plans.front(), gpus);
  }
  options.strategy["tp"] = "2";
  EXPECT_FALSE(leaves_layout_open(options));
}

TEST(CrossTableCells, OfPlansSayWhatTheNearestNeeds) {
  RunOptions options{.model = "llama-3.1-405b"};
  options.gpus = "8";
  const CrossTable table = cross_table(options, {}, true, shipped_context());
  const reports::CrossCell& cell = table.at(0, 0);
  EXPECT_FALSE(cell.prediction);
  ASSERT_TRUE(cell.nearest);
  EXPECT_GT(cell.nearest->first, cell.nearest->second);
  EXPECT_NE(cell.why_not.find("out of memory"), std::string::npos) << cell.why_not;
}

// --- files ---

constexpr const char* kMeasuredOnH100 = "llmtrainbench-h100-gpt2-1.5b-single-mp";

TEST(CrossTableCells, OfMeasuredRunsArePredictedAsRecorded) {
  const std::string text = "title = \"t\"\ncells = [{row = \"r\", column = \"c\", run = \"" +
                           std::string(kMeasuredOnH100) +
                           "\"}]\n[[rows]]\nlabel = \"r\"\n[[columns]]\n" + "label = \"c\"\n";
  const CrossTable table = table_of(text);
  const hwdb::RunFile file =
      hwdb::read_runs(LLMSIM_SOURCE_DIR "/tests/validation/runs/llm-train-bench.json");
  ASSERT_EQ(file.runs.front().id, kMeasuredOnH100);
  hwdb::RunResolver resolver(shipped_facts());
  expect_same(*table.at(0, 0).prediction, sim::predict(resolver.resolve(file.runs.front())),
              kMeasuredOnH100);
  EXPECT_EQ(table.at(0, 0).measured_time, file.runs.front().measured->step_time);
  std::string misspelt = text;
  misspelt.replace(misspelt.find("single-mp"), 9, "single-mq");
  const std::string message = error_of([&] { table_of(misspelt); });
  EXPECT_NE(message.find("row \"r\", column \"c\": run = "), std::string::npos) << message;
  EXPECT_NE(message.find("did you mean " + std::string(kMeasuredOnH100)), std::string::npos)
      << message;
}

TEST(CrossTableCells, AMistakeNamesItsCell) {
  const std::string text =
      "title = \"t\"\n[common]\nmodel = \"gpt2\"\n[[rows]]\nlabel = \"r\"\n[[columns]]\n"
      "label = \"c\"\ntp = \"many\"\n";
  EXPECT_EQ(
      error_of([&] { table_of(text); }).rfind("a.toml: row \"r\", column \"c\": --tp = many", 0),
      0u);
}

// Options in the order common, column, row, cell: the later one counts.
TEST(CrossTableCells, TheCellWinsOverRowColumnAndCommon) {
  const CrossTable table = table_of(R"(title = "t"
[common]
model = "gpt2"
global_batch = 64
dp = 8
micro_batch = 1
[[rows]]
label = "a"
[[rows]]
label = "b"
micro_batch = 4
[[columns]]
label = "c"
[[columns]]
label = "d"
micro_batch = 2
[[cells]]
row = "b"
column = "d"
micro_batch = 8
)");
  const auto micro_batch = [&](std::size_t r, std::size_t c) {
    return table.at(r, c).prediction->run.strategy.micro_batch;
  };
  EXPECT_EQ(micro_batch(0, 0), 1);
  EXPECT_EQ(micro_batch(0, 1), 2);
  EXPECT_EQ(micro_batch(1, 0), 4);
  EXPECT_EQ(micro_batch(1, 1), 8);
}

// The example of the command's README.
TEST(CrossTableCells, OfTheDocumentedFileArePredicted) {
  std::ifstream file(LLMSIM_SOURCE_DIR "/cli/README.md");
  std::stringstream readme;
  readme << file.rdbuf();
  const std::string mark = "```toml\n", text = readme.str();
  const std::size_t begin = text.find(mark) + mark.size();
  const CrossTable table = table_of(text.substr(begin, text.find("```", begin) - begin));
  EXPECT_EQ(table.rows, (std::vector<std::string>{"bf16", "+ compile"}));
  EXPECT_EQ(table.at(1, 1).prediction->run.strategy.micro_batch, 2);
  for (const reports::CrossCell& cell : table.cells) EXPECT_TRUE(cell.prediction->feasible());
}

// Every option is known, every run is there, and every column has a cell that fits.
TEST(CrossTableCells, OfShippedTablesArePredicted) {
  EXPECT_GE(shipped_tables().size(), 4u);
  for (const ShippedText& shipped : shipped_tables()) {
    const hwdb::TableFile file =
        hwdb::parse_table_file(std::string(shipped.text), std::string(shipped.name));
    if (file.plan) continue;  // takes seconds
    const CrossTable table = cross_table(file, shipped_context());
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      bool fits = false;
      for (std::size_t r = 0; r < table.rows.size(); ++r)
        fits = fits || table.at(r, c).prediction->feasible();
      EXPECT_TRUE(fits) << shipped.name << ": " << table.columns[c];
    }
  }
}

}  // namespace

namespace {

constexpr TableOptionsOf kOfRun = TableOptionsOf::Run;

TEST(TableOptions, AreThoseOfACommandLine) {
  const RunOptions run = run_options({{"model", "gpt2", 1},
                                      {"gpus", "8", 2},
                                      {"flash", "false", 3},
                                      {"compile", "true", 4},
                                      {"recompute", "every-n=4", 5},
                                      {"dropout", "0.1", 6}},
                                     kOfRun);
  EXPECT_EQ(run.model, "gpt2");
  EXPECT_EQ(run.gpus, "8");
  EXPECT_EQ(run.recompute, "every-n=4");
  EXPECT_EQ(run.strategy.at("flash_attention"), "false");
  EXPECT_EQ(run.strategy.at("compile"), "true");
  EXPECT_EQ(run.settings.size(), 1u);
}

TEST(TableOptions, TheLaterOneCountsUnderAnyOfItsNames) {
  const RunOptions run = run_options(
      {{"tp", "2", 1}, {"stack", "fsdp2", 2}, {"framework", "ddp", 3}, {"tp", "4", 4}}, kOfRun);
  EXPECT_EQ(run.strategy.at("tp"), "4");
  EXPECT_EQ(run.framework, "ddp");
}

std::string complaint(const hwdb::TableOption& option) {
  return error_of([&] { check_options({option}, kOfRun, "a.toml"); });
}

TEST(TableOptions, UnknownOnesAreToldWithTheNearest) {
  EXPECT_EQ(complaint({"micro-batsh", "2", 7}),
            "a.toml: line 7: unknown option micro-batsh; did you mean micro-batch?");
  EXPECT_THROW(check_options({{"tpp", "2", 7}}, kOfRun, "a.toml"), hwdb::UnknownKey);
  for (const char* key : {"", "help", "version", "format", "=", "--tp", " "})
    EXPECT_THROW(check_options({{key, "2", 7}}, kOfRun, "a.toml"), hwdb::UnknownKey) << key;
}

TEST(TableOptions, ValuesThatAnOptionCannotHaveAreToldWithTheirLine) {
  EXPECT_EQ(complaint({"tp", "", 3}), "a.toml: line 3: tp: a value is expected");
  EXPECT_EQ(complaint({"dropout", "much", 3}).rfind("a.toml: line 3: ", 0), 0u);
  EXPECT_EQ(complaint({"flash", "perhaps", 3}).rfind("a.toml: line 3: ", 0), 0u);
}

// Whatever the file says, an option is taken or refused by an Error that names the line.
TEST(TableOptions, AnyTextIsTakenOrRefused) {
  std::mt19937 random(20261124);
  const std::string alphabet = "0123456789-.eE\"'{}[]:,=#+%ntfabcxyz_ \n\t\xff\x80\\";
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const char* const keys[] = {"tp",        "gpus",     "flash",   "compile",
                                "recompute", "dropout",  "offload", "dp-overlap",
                                "model",     "sharding", "date",    ""};
    std::string key = keys[random() % std::size(keys)], value;
    for (std::size_t i = random() % 8; i > 0; --i) value += alphabet[random() % alphabet.size()];
    if (random() % 4 == 0) key += alphabet[random() % alphabet.size()];
    try {
      check_options({{key, value, 5}}, kOfRun, "f.toml");
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).rfind("f.toml: line 5: ", 0), 0u) << error.what();
    }
  }
  EXPECT_GT(refused, 500);
}

// Of a search also lists.
TEST(TableOptions, OfASearchTakeLists) {
  const RunOptions run = run_options({{"tp", "1,2", 1}}, TableOptionsOf::Search);
  EXPECT_EQ(run.strategy.at("tp"), "1,2");
}

}  // namespace

}  // namespace llmsim::cli
