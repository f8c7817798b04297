#include "cli/mcp/tools.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "tests/cli/program.h"
#include "tests/error_of.h"

namespace llmsim::cli::mcp {
namespace {

using Words = std::vector<std::string>;

class Tools : public testing::Test {
 protected:
  Tools() {
    add_plan(program_, status_);
    add_predict(program_, status_);
    add_compare(program_, status_);
    add_diagnose(program_, status_);
    add_models(program_, status_);
    add_hardware(program_, status_);
    std::filesystem::create_directory(folder_ / "inside");
    files_.below = folder_ / "inside";
  }

  Question question(const std::string& tool, const std::string& arguments) const {
    return question_of(program_, tool, Json::parse(arguments), files_);
  }
  Words words(const std::string& tool, const std::string& arguments) const {
    return question(tool, arguments).words;
  }
  std::string refusal(const std::string& tool, const std::string& arguments) const {
    return error_of([&] { question(tool, arguments); });
  }

  CLI::App program_;
  int status_ = 0;
  const TemporaryFolder folder_;
  ReadableFiles files_;
};

TEST_F(Tools, EachHasADescriptionAndASchemaOfItsArguments) {
  std::set<std::string> names;
  for (const Json& tool : tool_list(program_)) {
    names.insert(tool["name"]);
    EXPECT_GT(tool["description"].get<std::string>().size(), 100U) << tool["name"];
    EXPECT_EQ(tool["inputSchema"]["type"], "object");
    EXPECT_EQ(tool["annotations"]["readOnlyHint"], true);
    for (const auto& [name, argument] : tool["inputSchema"]["properties"].items())
      EXPECT_TRUE(argument.contains("description")) << tool["name"] << " " << name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"compare", "diagnose", "explain", "hardware", "models",
                                          "plan", "predict"}));
}

TEST_F(Tools, ArgumentsSayUnitsAndExamples) {
  const Json plan = tool_list(program_)[0]["inputSchema"]["properties"];
  EXPECT_EQ(plan["gpus"]["examples"], Json::parse(R"(["256"])"));
  EXPECT_NE(plan["micro_batch"]["description"].get<std::string>().find("sequences per forward"),
            std::string::npos);
  EXPECT_EQ(plan["compile"]["type"], "boolean");
  // What is written, and which form an answer has, is none.
  for (const Json& tool : tool_list(program_))
    for (const char* name : {"output", "format", "db", "export"})
      EXPECT_FALSE(tool["inputSchema"]["properties"].contains(name)) << tool["name"];
}

TEST_F(Tools, ArgumentsAreOptionsWithDashes) {
  EXPECT_EQ(
      words("predict", R"({"model": "gpt2", "gpus": 8, "micro_batch": 2, "compile": true,
                                 "flash": false, "sharding": null})"),
      (Words{"predict", "--model=gpt2", "--gpus=8", "--micro-batch=2", "--compile", "--no-flash"}));
  EXPECT_EQ(words("plan", R"({"model": ["gpt2", "gpt2-xl"], "gpus": [8, 16.0], "tokens": 1e12})"),
            (Words{"plan", "--model=gpt2,gpt2-xl", "--gpus=8,16", "--tokens=1000000000000"}));
  EXPECT_EQ(words("plan", R"({"options": ["--tp", "1,2", "--pp=4", "--no-flash"]})"),
            (Words{"plan", "--tp=1,2", "--pp=4", "--no-flash"}));
  // A switch that cannot say no is off by itself.
  EXPECT_EQ(words("plan", R"({"pareto": false})"), Words{"plan"});
}

TEST_F(Tools, ExplainSaysWhatIsExplained) {
  EXPECT_EQ(words("explain", R"({"what": "gemm", "model": "gpt2"})"),
            (Words{"predict", "--explain=gemm", "--model=gpt2"}));
  EXPECT_NE(refusal("explain", R"({"model": "gpt2"})").find("what is missing"), std::string::npos);
}

TEST_F(Tools, RecordsAndTablesStandOnStandardInput) {
  const Question predict = question("predict", R"({"run": {"model": {"name": "gpt2"}}})");
  EXPECT_EQ(predict.words, (Words{"predict", "/dev/stdin"}));
  EXPECT_EQ(predict.input, R"({"model":{"name":"gpt2"}})");
  const Question compare = question("compare", R"({"runs": [
      {"label": "a \"b\"\n", "model": "gpt2", "gpus": 8, "compile": true}, {"model": "gpt2"}]})");
  EXPECT_EQ(compare.words, (Words{"compare", "/dev/stdin"}));
  EXPECT_NE(compare.input.find("[[rows]]\nlabel = \"a \\\"b\\\"\\n\"\nmodel = \"gpt2\"\ngpus = "
                               "\"8\"\ncompile = true\n[[rows]]\nlabel = \"run 2\"\n"),
            std::string::npos)
      << compare.input;
}

TEST_F(Tools, CataloguesAreListedOrShown) {
  EXPECT_EQ(words("models", "{}"), (Words{"models", "list"}));
  EXPECT_EQ(words("models", R"({"family": "llama"})"), (Words{"models", "list", "--family=llama"}));
  EXPECT_EQ(words("models", R"({"name": "gpt2", "seq_len": 8192})"),
            (Words{"models", "show", "--seq-len=8192", "gpt2"}));
  EXPECT_EQ(words("hardware", R"({"name": "h100"})"), (Words{"hardware", "show", "h100"}));
  EXPECT_EQ(refusal("hardware", R"({"nam": "h100"})"), "nam: unknown argument; did you mean name?");
}

TEST_F(Tools, UnknownArgumentsAndWrongKindsAreRefused) {
  EXPECT_EQ(refusal("predict", R"({"micro_bach": 1})"),
            "micro_bach: unknown argument; did you mean micro_batch?");
  EXPECT_NE(refusal("predict", R"({"compile": "yes"})").find("true or false"), std::string::npos);
  EXPECT_NE(refusal("predict", R"({"tp": {}})").find("a number or a list"), std::string::npos);
  EXPECT_NE(refusal("predict", R"({"tp": true})").find("is expected"), std::string::npos);
  EXPECT_NE(refusal("predict", R"({"options": "--tp 4"})").find("a list of words"),
            std::string::npos);
  EXPECT_NE(refusal("predict", R"({"options": ["--tp"]})").find("a value is expected"),
            std::string::npos);
  EXPECT_NE(refusal("predict", R"({"options": ["--compile=x"]})").find("has no value"),
            std::string::npos);
  EXPECT_NE(refusal("predict", R"({"run": {}, "run_file": "x"})").find("exclude"),
            std::string::npos);
  EXPECT_NE(refusal("compare", R"({"runs": [{"model": "gpt2"}]})").find("two or more"),
            std::string::npos);
}

TEST_F(Tools, NothingIsWrittenAndNoOtherDatabaseIsRead) {
  for (const char* option : {"output", "export", "space", "db", "format", "force", "to"})
    EXPECT_NE(refusal("plan", std::string("{\"") + option + "\": \"x\"}"), "") << option;
  for (const char* words :
       {R"(["-o", "x"])", R"(["--output=x"])", R"(["--output", "x"])", R"(["--db=x"])", R"(["x"])",
        R"(["--question=x"])", R"(["--tp", "1", "predict"])", R"(["--space", "x"])", R"([3])"})
    EXPECT_NE(refusal("plan", std::string("{\"options\": ") + words + "}"), "") << words;
  EXPECT_NE(refusal("compare", R"({"runs": [{"output": "x"}, {"model": "gpt2"}]})"), "");
}

TEST_F(Tools, FilesAreReadBelowTheWorkingDirectoryAlone) {
  std::filesystem::create_symlink(folder_.path(), folder_ / "inside/out");
  EXPECT_EQ(words("predict", R"({"run_file": "a/run.json"})"), (Words{"predict", "a/run.json"}));
  EXPECT_EQ(words("predict", R"({"run_file": "-x"})"), (Words{"predict", "./-x"}));
  for (const char* arguments :
       {R"({"run_file": "/etc/passwd"})", R"({"run_file": "../run.json"})",
        R"({"run_file": "out/run.json"})", R"({"model": "/etc/config.json"})",
        R"({"model": ["gpt2", "../config.json"]})", R"({"model": "gpt2,../config.json"})",
        R"({"from": "../train.sh"})", R"({"options": ["--from", "/train.sh"]})",
        R"({"options": ["--model=out/config.json"]})", R"({"model": "~/../../x/config.json"})"})
    EXPECT_NE(refusal("predict", arguments).find("below the working directory"), std::string::npos)
        << arguments;
  EXPECT_NE(refusal("models", R"({"name": "../config.json"})").find("below"), std::string::npos);
  // A table of one's own names further files.
  EXPECT_NE(refusal("compare", R"({"table": "mine.toml"})").find("a table that ships"),
            std::string::npos);
  EXPECT_EQ(words("compare", R"({"table": "gpt2-h100"})"), (Words{"compare", "gpt2-h100"}));
}

// For the system a word ends at a null character: the rest would hide where a path leads.
TEST_F(Tools, TextsHaveNoNullCharacters) {
  for (const char* arguments : {R"({"run_file": "run.json\u0000/.."})",
                                R"({"model": "gpt2\u0000"})", R"({"options": ["--tp=1\u0000"]})"})
    EXPECT_NE(refusal("predict", arguments).find("null characters"), std::string::npos);
}

TEST_F(Tools, AnyFileIsReadWhereThatIsAllowed) {
  files_.below.reset();
  EXPECT_EQ(words("predict", R"({"run_file": "/a/run.json"})"), (Words{"predict", "/a/run.json"}));
  EXPECT_EQ(words("compare", R"({"table": "/a/mine.toml"})"), (Words{"compare", "/a/mine.toml"}));
}

// --- the program ---

class McpProgram : public Program {
 protected:
  // The answers to calls of tools, each {name, arguments}, after the handshake.
  std::vector<Json> calls(const std::vector<std::pair<std::string, std::string>>& calls,
                          const std::string& options = "") const {
    std::string lines =
        R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}})"
        "\n";
    for (const auto& [name, arguments] : calls)
      lines += R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":")" + name +
               R"(","arguments":)" + arguments + "}}\n";
    write("in", lines);
    const Outcome outcome = run("mcp " + options, "", "<'" + path("in") + "'");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.messages, "");
    std::vector<Json> results;
    for (std::size_t from = 0; from < outcome.out.size(); from = outcome.out.find('\n', from) + 1)
      results.push_back(
          Json::parse(outcome.out.substr(from, outcome.out.find('\n', from) - from))["result"]);
    results.erase(results.begin());
    return results;
  }

  static std::string text(const Json& result) { return result["content"][0]["text"]; }
};

TEST_F(McpProgram, AnswersWithTheScreenAndTheNumbersOfTheCommand) {
  const std::vector<Json> results =
      calls({{"predict", R"({"model": "gpt2", "gpus": 8, "tp": 2})"}});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(text(results[0]), run("predict --model gpt2 --gpus 8 --tp 2", "COLUMNS=100").out);
  EXPECT_EQ(results[0]["structuredContent"],
            Json::parse(run("predict --model gpt2 --gpus 8 --tp 2 --format json").out));
  EXPECT_EQ(results[0]["isError"], false);
}

TEST_F(McpProgram, ErrorsAreTheProgramsLineAndNoIsAnAnswer) {
  const std::vector<Json> results =
      calls({{"predict", R"({"model": "gpt9", "gpus": 8})"},
             {"predict", R"({"model": "llama-70b", "gpus": 8, "pp": 8, "global_batch": 8})"},
             {"plan", R"({"model": "llama-70b", "gpus": 1})"},
             {"plan", R"({"model": "gpt2"})"}});
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[0]["isError"], true);
  EXPECT_EQ(text(results[0]).find("--model = gpt9: neither a known model"), 0U);
  EXPECT_EQ(results[1]["isError"], false);
  EXPECT_EQ(results[1]["structuredContent"]["feasible"], false);
  EXPECT_NE(text(results[1]).find("\nout of memory: needs"), std::string::npos);
  EXPECT_NE(text(results[2]).find("nothing fits"), std::string::npos);
  EXPECT_EQ(results[3]["isError"], true);
  EXPECT_NE(text(results[3]).find("--gpus"), std::string::npos);
}

TEST_F(McpProgram, WhatTakesTooLongIsStoppedAndTheServerGoesOn) {
  const std::vector<Json> results =
      calls({{"plan", R"({"model": "llama-70b", "gpus": "1024-2000"})"},
             {"hardware", R"({"nam": "h100"})"}},
            "--time-limit 1");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["isError"], true);
  EXPECT_EQ(text(results[0]), "stopped: no answer within 1 s; a smaller question is expected");
  EXPECT_EQ(text(results[1]), "nam: unknown argument; did you mean name?");
}

TEST_F(McpProgram, ToolsLeaveNoFiles) {
  std::filesystem::create_directory(path("work"));
  const std::string line =
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":{"model":"gpt2","gpus":2,"options":["-o","x"]}}})";
  write("in", line + "\n");
  shell("-C '" + path("work") + "' XDG_DATA_HOME='" + path("") + "' '" LLMSIM_PROGRAM "' mcp",
        "<'" + path("in") + "'");
  EXPECT_TRUE(std::filesystem::is_empty(path("work")));
}

}  // namespace
}  // namespace llmsim::cli::mcp
