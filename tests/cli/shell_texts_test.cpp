#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

class ShellTexts : public Program {
 protected:
  // What bash would offer after these words.
  std::string offered(const std::string& words, int cursor, const std::string& before = "") const {
    const Outcome script = run("completion bash");
    EXPECT_EQ(script.status, 0);
    write("complete.sh", before + script.out + "\nCOMP_WORDS=(" + words +
                             ")\nCOMP_CWORD=" + std::to_string(cursor) +
                             "\n_llmsim\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
    return shell("bash complete.sh").out;
  }
};

TEST_F(ShellTexts, BashOffersCommandsAndTheOptionsOfEach) {
  EXPECT_EQ(offered("llmsim pla", 1), "plan\n");
  EXPECT_EQ(offered("llmsim calibrate sit", 2), "site\n");
  const std::string options = offered("llmsim plan --model gpt2 --head", 4);
  EXPECT_EQ(options, "--headroom\n");
  EXPECT_EQ(offered("llmsim predict --head", 2), "\n");  // an option of plan alone
}

// What is asked of the program is asked of this one.
TEST_F(ShellTexts, BashOffersTheTablesOfCompareAndModels) {
  write("llmsim", "#!/bin/sh\nexec '" LLMSIM_PROGRAM "' \"$@\"\n");
  ASSERT_EQ(shell("chmod +x llmsim").status, 0);
  write("my-table.toml", "");
  const std::string in_path = "PATH=\"$PWD:$PATH\"; ";
  EXPECT_EQ(offered("llmsim compare gpt2-h100-r", 2, in_path), "gpt2-h100-recompute\n");
  EXPECT_EQ(offered("llmsim compare my-", 2, in_path), "my-table.toml\n");
  EXPECT_EQ(offered("llmsim predict --model gpt2-x", 3, in_path), "gpt2-xl\n");
}

TEST_F(ShellTexts, FishAndZshAreWritten) {
  EXPECT_NE(run("completion fish").out.find("-l headroom"), std::string::npos);
  EXPECT_NE(run("completion zsh").out.find("bashcompinit"), std::string::npos);
}

TEST_F(ShellTexts, AnotherShellIsRefused) {
  const Outcome outcome = run("completion csh");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.messages.find("bash, zsh or fish"), std::string::npos) << outcome.messages;
}

TEST_F(ShellTexts, TheManualHasEveryCommandAndEscapesDashes) {
  const Outcome manual = run("man");
  ASSERT_EQ(manual.status, 0);
  EXPECT_TRUE(manual.out.starts_with(".TH LLMSIM 1"));
  for (const char* heading : {".SH llmsim plan\n", ".SH llmsim calibrate site\n"})
    EXPECT_NE(manual.out.find(heading), std::string::npos) << heading;
  EXPECT_NE(manual.out.find("\\fB\\-\\-headroom\\fR"), std::string::npos);
  EXPECT_EQ(manual.out.find("{false}"), std::string::npos);
}

}  // namespace
}  // namespace llmsim::cli
