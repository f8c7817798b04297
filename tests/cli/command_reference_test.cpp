// The README of the program says of commands and options what the program says.
#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

using Words = std::set<std::string>;

Words matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  Words found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

class CommandReference : public Program {
 protected:
  // The manual has the help of every command; with the dashes as they are typed.
  CommandReference()
      : manual_(run("man").out), readme_(content_of(LLMSIM_SOURCE_DIR "/cli/README.md")) {
    for (std::size_t at; (at = manual_.find("\\-")) != std::string::npos;) manual_.erase(at, 1);
  }

  std::string manual_, readme_;
};

// `--no-` alone stands for every switch; options of cmake stand in its line.
TEST_F(CommandReference, NamesNoOptionThatThereIsNot) {
  const Words there = matches(manual_, "(--[a-z][a-z0-9-]*)");
  Words named = matches(readme_, "(--[a-z][a-z0-9-]*)");
  for (const char* other : {"--no-", "--install", "--prefix"}) named.erase(other);
  EXPECT_GT(named.size(), 80U);
  for (const std::string& option : named) {
    if (option != "--question") {  // of the program itself
      EXPECT_TRUE(there.contains(option)) << option;
    }
  }
}

TEST_F(CommandReference, HasEveryCommand) {
  const Words commands = matches(manual_, "\\.SH llmsim ([a-z ]+)\n");
  EXPECT_GT(commands.size(), 20U);
  for (const std::string& command : commands) {
    const std::string word = command.substr(command.rfind(' ') + 1);
    EXPECT_TRUE(readme_.find("`" + command) != std::string::npos ||
                readme_.find("`" + word) != std::string::npos)
        << command;
  }
}

// Rows of the table of commands, by their first words.
TEST_F(CommandReference, NamesNoCommandThatThereIsNot) {
  const Words commands = matches(manual_, "\\.SH llmsim ([a-z]+)");
  const std::size_t begin = readme_.find("| command | does |");
  ASSERT_NE(begin, std::string::npos);
  const std::string table = readme_.substr(begin, readme_.find("\n\n", begin) - begin);
  const Words named = matches(table, "\n\\| `([a-z]+)");
  EXPECT_GT(named.size(), 10U);
  for (const std::string& command : named) EXPECT_TRUE(commands.contains(command)) << command;
}

}  // namespace
}  // namespace llmsim::cli
