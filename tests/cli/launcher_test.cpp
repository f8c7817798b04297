// The launcher ./llmsim, and who builds the measuring runtime when.
#include <filesystem>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

// A project folder whose program is up to date, and whose tools only leave a trace.
class Launcher : public Program {
 protected:
  void SetUp() override {
    for (const char* folder :
         {"cli", "sim", "hwdb", "calibrate", "reports", "runtime", "build/release/cli"})
      fs::create_directories(path(folder));
    for (const char* file : {"CMakeLists.txt", "CMakePresets.json"}) write(file, "");
    write("cli/install-packages",
          "#!/bin/sh\necho \"$@\" >> '" + path("installed") + "'\nexit 1\n");
    // A machine without the packages, on which CMake finds nothing either.
    fs::create_directories(path("tools"));
    write("tools/dpkg-query", "#!/bin/sh\nexit 1\n");
    write("tools/cmake",
          "#!/bin/sh\necho '  not found by CMake; name folders:' >&2\n"
          "printf '\\n    apt libtorch-dev   dnf x   conda pytorch\\n\\nSee also y\\n' >&2\nexit "
          "1\n");
    write("tools/sudo", "#!/bin/sh\nexec \"$@\"\n");
    for (const char* tool : {"dpkg-query", "cmake", "sudo"})
      fs::permissions(path(std::string("tools/") + tool), fs::perms::owner_all);
    fs::copy_file(LLMSIM_PROGRAM, path("build/release/cli/llmsim"));
    fs::copy_file(LLMSIM_SOURCE_DIR "/llmsim", path("llmsim"));
    fs::permissions(path("cli/install-packages"), fs::perms::owner_all);
    write("build/release/built", "");
    fs::last_write_time(path("build/release/built"),
                        fs::file_time_type::clock::now() + std::chrono::hours(1));
  }

  Outcome launch(const std::string& arguments) const {
    return shell("-u LLMSIM_RUNTIME XDG_DATA_HOME='" + path("data") + "' PATH='" + path("tools") +
                 "':\"$PATH\" ./llmsim " + arguments);
  }

  bool tried_to_build() const { return fs::exists(path("installed")); }
};

TEST_F(Launcher, HelpAndWrongUsageBuildNothing) {
  for (const char* arguments :
       {"calibrate run --help", "calibrate verify --help", "calibrate --help", "--version"}) {
    const Outcome outcome = launch(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    EXPECT_NE(outcome.out, "") << arguments;
    EXPECT_FALSE(tried_to_build()) << arguments;
  }
  for (const char* arguments :
       {"calibrate run", "calibrate run out.jsonl --bogus", "calibrate run --ranks 0 out.jsonl",
        "calibrate verify --bogus", "calibrate run a.jsonl b.jsonl"}) {
    EXPECT_EQ(launch(arguments).status, 2) << arguments;
    EXPECT_FALSE(tried_to_build()) << arguments;
  }
  EXPECT_EQ(launch("calibrate run out.jsonl --format yaml").status, 1);
  EXPECT_EQ(launch("calibrate verify --format yaml").status, 1);
  EXPECT_EQ(launch("calibrate verify no-such-file.jsonl").status, 1);
  EXPECT_FALSE(tried_to_build());
}

TEST_F(Launcher, AMeasurementBuildsTheRuntimeFirst) {
  const Outcome outcome = launch("calibrate run out.jsonl");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(tried_to_build());
  EXPECT_NE(text_of("installed").find("libtorch-dev"), std::string::npos);
  EXPECT_NE(outcome.messages.find("llmsim-runtime cannot be built; the reason is above"),
            std::string::npos)
      << outcome.messages;
  EXPECT_EQ(outcome.out, "");
}

// Without dpkg nothing can be installed: one message has all that is missing.
TEST_F(Launcher, SaysAllThatIsMissingWhereItCannotInstall) {
  fs::remove(path("tools/dpkg-query"));
  for (const char* tool : {"bash", "env", "sed", "readlink", "find", "mkdir", "flock", "cat"})
    fs::create_symlink(std::string("/usr/bin/") + tool, path(std::string("tools/") + tool));
  const Outcome outcome =
      shell("-u LLMSIM_RUNTIME PATH='" + path("tools") + "' ./llmsim --build-runtime");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_FALSE(tried_to_build());
  EXPECT_NE(
      outcome.messages.find("llmsim: what a build needs is not found by CMake; name folders:"),
      std::string::npos)
      << outcome.messages;
  EXPECT_NE(outcome.messages.find("apt libtorch-dev   dnf x   conda pytorch"), std::string::npos)
      << outcome.messages;
}

}  // namespace
}  // namespace llmsim::cli
