#include "cli/serve/question.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cli/commands.h"
#include "hwdb/text/table_file.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace llmsim::cli::serve {
namespace {

class Questions : public testing::Test {
 protected:
  Questions() {
    add_plan(program_, status_);
    add_predict(program_, status_);
    add_compare(program_, status_);
  }

  Words words(const std::string& command, const Form& form) const {
    return command_words(program_, command, form, folder_.path());
  }
  std::string refusal(const Form& form) const {
    return error_of([&] { words("plan", form); });
  }

  CLI::App program_;
  int status_ = 0;
  const TemporaryFolder folder_;
};

using Values = std::map<std::string, std::string>;

Values values_of(const hwdb::TableLine& line) {
  Values values;
  for (const hwdb::TableOption& option : line.options) values[option.key] = option.value;
  return values;
}

TEST(WordsInLine, SpacesPartAndQuotationMarksHold) {
  EXPECT_EQ(words_in_line("  --tp 2\t--require 'memory<75GiB, mfu>40%' --x=\"a'b\" "),
            (Words{"--tp", "2", "--require", "memory<75GiB, mfu>40%", "--x=a'b"}));
  EXPECT_EQ(words_in_line("$(reboot); `x` | y > z"),
            (Words{"$(reboot);", "`x`", "|", "y", ">", "z"}));
  EXPECT_EQ(words_in_line("--a ''"), (Words{"--a", ""}));
  EXPECT_TRUE(words_in_line(" ").empty());
  EXPECT_EQ(error_of([] { words_in_line("'a"); }), "options: a quotation has no end");
}

TEST(ShellLine, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(shell_line({"plan", "--model=gpt2", "--require=mfu>40%", "it's"}),
            "llmsim plan --model=gpt2 '--require=mfu>40%' 'it'\\''s'");
}

TEST_F(Questions, FieldsAreOptionsWithDashes) {
  EXPECT_EQ(words("plan", {.fields = {{"kind", "plan"},
                                      {"model", "gpt2"},
                                      {"seq_len", "1024"},
                                      {"compile", "true"},
                                      {"flash", "false"},
                                      {"options", "--tp 1,2 --pareto"}}}),
            (Words{"plan", "--model=gpt2", "--seq-len=1024", "--compile", "--no-flash", "--tp=1,2",
                   "--pareto"}));
}

TEST_F(Questions, FineTuningIsARankAndFourBits) {
  EXPECT_EQ(words("plan", {.fields = {{"fine_tuning", "lora"}}}), (Words{"plan", "--lora=16"}));
  EXPECT_EQ(words("plan", {.fields = {{"fine_tuning", "qlora"}, {"lora", "8"}}}),
            (Words{"plan", "--lora=8", "--precision=nf4"}));
  EXPECT_EQ(words("plan", {.fields = {{"fine_tuning", "qlora"}, {"precision", "int4"}}}),
            (Words{"plan", "--precision=int4", "--lora=16"}));
  EXPECT_EQ(words("plan", {.fields = {{"fine_tuning", "all"}}}), (Words{"plan"}));
  EXPECT_EQ(refusal({.fields = {{"fine_tuning", "some"}}}),
            "fine_tuning = some: all, lora or qlora is expected");
}

TEST_F(Questions, RefusesOptionsThatWriteAndFilesThatWereNotSent) {
  for (const char* options :
       {"--output=x", "-o x", "--export x", "--space x", "--db x", "--format json"})
    EXPECT_NE(refusal({.fields = {{"options", options}}}), "") << options;
  for (const char* model : {"/etc/passwd", "../other/config.json"})
    EXPECT_NE(refusal({.fields = {{"model", model}}})
                  .find("a file that is sent with the question is expected"),
              std::string::npos)
        << model;
  EXPECT_EQ(words("plan", {.fields = {{"model", "config.json"}}}),
            (Words{"plan", "--model=config.json"}));
  EXPECT_NE(refusal({.fields = {{"micro_bach", "1"}}}).find("did you mean micro_batch?"),
            std::string::npos);
  EXPECT_NE(refusal({.fields = {{"model", std::string("a\0b", 3)}}}).find("null characters"),
            std::string::npos);
}

TEST_F(Questions, ComparedOnesAreRowsOfATable) {
  const auto questions = compared_questions(
      R"([{"label": "a \"b\"", "kind": "predict", "model": "gpt2", "gpus": "8", "tp": "2", "tokens": "1T"},
          {"label": "c", "model": "gpt2", "gpus": "16", "flash": "false", "seq_len": ""}])");
  ASSERT_EQ(questions.size(), 2U);
  const hwdb::TableFile table = hwdb::parse_table_file(
      table_of(program_, questions, false, folder_.path()), "questions.toml");
  EXPECT_FALSE(table.plan);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].label, "a \"b\"");
  EXPECT_EQ(values_of(table.rows[0]), (Values{{"gpus", "8"}, {"model", "gpt2"}, {"tp", "2"}}));
  EXPECT_EQ(values_of(table.rows[1]),
            (Values{{"flash", "false"}, {"gpus", "16"}, {"model", "gpt2"}}));
  ASSERT_EQ(table.notes.size(), 1U);
  EXPECT_NE(table.notes[0].find("--tokens"), std::string::npos);
}

TEST(ComparedQuestions, AreTwoOrMoreWithLabels) {
  for (const char* json :
       {"", "{}", "[]", R"([{"label": "a"}])", R"([{"label": "a"}, {"model": "b"}])",
        R"([{"label": "a"}, 1])", R"([{"label": "a"}, {"label": "b", "gpus": 8}])"})
    EXPECT_NE(error_of([&] { compared_questions(json); }), "") << json;
}

}  // namespace
}  // namespace llmsim::cli::serve
