#include "hwdb/text/table_file.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kTable = R"(title = "A table"
note = ["first", "second"]
cell = ["tokens", "mfu"]
convention = "palm"
interval = true
runs = ["mine.json"]
cells = [{row = "bf16", column = "small", run = "run-1"}]

[common]
gpus = 8
date = 2024-10-14
sequence_parallel = false

[[rows]]
label = "bf16"
micro_batch = 2

[[rows]]
plus = "compile"
compile = true
micro_batch = 1

[[rows]]
label = "fp8"
precision = "fp8"

[[columns]]
label = "small"
model = "gpt2"
tp = [1, 2]

[[columns]]
label = "large"
model = "gpt2-xl"
)";

std::string text_of(const TableOptions& options) {
  std::string text;
  for (const TableOption& option : options)
    text += (text.empty() ? "" : " ") + option.key + "=" + option.value;
  return text;
}

TEST(TableFile, IsReadAsItIsWritten) {
  const TableFile file = parse_table_file(kTable, "tables/a.toml");
  EXPECT_EQ(file.title, "A table");
  EXPECT_EQ(file.notes, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(file.values, (std::vector<std::string>{"tokens", "mfu"}));
  EXPECT_EQ(file.convention, "palm");
  EXPECT_TRUE(file.interval);
  EXPECT_FALSE(file.plan);
  EXPECT_EQ(file.runs, std::vector<std::string>{"tables/mine.json"});
  EXPECT_EQ(text_of(file.common), "date=2024-10-14 gpus=8 sequence-parallel=false");
  EXPECT_EQ(file.common[1].line, 10);
  ASSERT_EQ(file.columns.size(), 2u);
  EXPECT_EQ(text_of(file.columns[0].options), "model=gpt2 tp=1,2");
  ASSERT_EQ(file.cells.size(), 1u);
  EXPECT_EQ(file.cells[0].row, 0u);
  EXPECT_EQ(file.cells[0].column, 0u);
  EXPECT_EQ(file.cells[0].run, "run-1");
}

// The row below has the options of the one above before its own; the one after it starts anew.
TEST(TableFile, PlusBuildsOnTheRowAbove) {
  const TableFile file = parse_table_file(kTable, "a.toml");
  ASSERT_EQ(file.rows.size(), 3u);
  EXPECT_EQ(file.rows[1].label, "+ compile");
  EXPECT_EQ(text_of(file.rows[1].options), "micro-batch=2 compile=true micro-batch=1");
  EXPECT_EQ(text_of(file.rows[2].options), "precision=fp8");
}

std::string complaint(const std::string& text) {
  return error_of([&] { parse_table_file(text, "a.toml"); });
}

TEST(TableFile, AMistakeIsToldWithItsLine) {
  const std::string rows = "[[rows]]\nlabel = \"r\"\n[[columns]]\nlabel = \"c\"\n";
  EXPECT_EQ(complaint("title = \"t\"\ntilte = \"t\"\n" + rows),
            "a.toml: line 2: unknown key tilte; did you mean title?");
  EXPECT_EQ(complaint("title = \"t\"\n[[row]]\nlabel = \"r\"\n"),
            "a.toml: line 2: unknown key row; did you mean rows?");
  EXPECT_EQ(complaint("title = 3\n" + rows),
            "a.toml: line 1: title: a text in one line is expected");
  EXPECT_EQ(complaint("plan = \"yes\"\n" + rows),
            "a.toml: line 1: plan: true or false is expected");
  EXPECT_EQ(complaint(rows), "a.toml: line 1: title: the title of the table is expected");
  EXPECT_EQ(complaint("title = \"t\"\n[[rows]]\nlabel = \"r\"\n"),
            "a.toml: line 1: columns: [[columns]] is expected");
  EXPECT_EQ(complaint("title = \"t\"\n[[rows]]\nplus = \"r\"\n"),
            "a.toml: line 2: rows.plus: one above it is expected");
  EXPECT_EQ(complaint("title = \"t\"\n[[rows]]\nlabel = \"+ r\"\n"),
            "a.toml: line 2: rows.label: plus = \"...\", which has the options of the one above "
            "too, is expected");
  EXPECT_EQ(complaint("title = \"t\"\n" + rows + "[[rows]]\nlabel = \"r\"\n"),
            "a.toml: line 6: rows.label: a label of its own is expected");
  EXPECT_EQ(complaint("title = \"t\"\n" + rows + "[[cells]]\nrow = \"s\"\ncolumn = \"c\"\n"),
            "a.toml: line 6: cells.row: the label of a row is expected");
  EXPECT_EQ(complaint("title = \"t\"\n" + rows + "tp = {}\n"),
            "a.toml: line 6: columns.tp: a text, a number, a switch or a list is expected");
  EXPECT_EQ(complaint("title = \n").rfind("a.toml: line 1: ", 0), 0u);
}

TEST(TableFile, ACellIsARunOrOptionsAndNamedOnce) {
  const std::string rows = "[[rows]]\nlabel = \"r\"\n[[columns]]\nlabel = \"c\"\n";
  const std::string cell = "[[cells]]\nrow = \"r\"\ncolumn = \"c\"\n";
  EXPECT_EQ(complaint("title = \"t\"\n" + rows + cell + "run = \"x\"\ntp = 2\n"),
            "a.toml: line 6: cells.run: a run or options, not both, is expected");
  EXPECT_EQ(complaint("title = \"t\"\n" + rows + cell + "tp = 2\n" + cell + "tp = 4\n"),
            "a.toml: line 10: cells.row: one of [[cells]] for each row and column is expected");
}

// One to four bytes of a valid file are replaced by others.  Each result is a table or one clear
// line, never another exception.
TEST(TableFile, MutatedFilesAreReadOrRefusedInOneLine) {
  std::mt19937 random(20261124);
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::string alphabet = "0123456789-.eE\"'{}[]:,=#+ntfabcxyz_ \n\t\xff\x80\\";
  int refused = 0, read = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = kTable;
    for (std::size_t i = 0, n = 1 + pick(4); i < n; ++i)
      text[pick(text.size())] = alphabet[pick(alphabet.size())];
    try {
      const TableFile file = parse_table_file(text, "f.toml");
      EXPECT_FALSE(file.rows.empty() || file.columns.empty() || file.title.empty());
      ++read;
    } catch (const Error& error) {
      ++refused;
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_EQ(message.rfind("f.toml: line ", 0), 0u) << message;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 100);
}

TEST(TableFile, TruncatedFilesAreReadOrRefused) {
  const std::string text = kTable;
  const std::size_t first_column = text.find("[[columns]]");
  for (std::size_t length = 0; length < text.size(); ++length) {
    const std::string message = complaint(text.substr(0, length));
    EXPECT_FALSE(length < first_column && message.empty()) << length;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace llmsim::hwdb
