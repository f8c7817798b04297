// Runs the real program, with its data in a folder of its own, as people do: by a shell.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace llmsim::cli {

struct Outcome {
  int status = 0;
  std::string out;
  std::string messages;
};

class Program : public testing::Test {
 protected:
  // `environment` ("HOME=/nowhere") and `redirection` ("> /dev/full") come after those of the
  // fixture and win.
  Outcome run(const std::string& arguments, const std::string& environment = "",
              const std::string& redirection = "") const {
    return shell("XDG_DATA_HOME='" + folder_.path() + "' NO_COLOR=1 " + environment +
                     " '" LLMSIM_PROGRAM "' " + arguments,
                 redirection);
  }

  // Any command, in the fixture's folder; one that takes longer than ten minutes hangs, and fails
  // with status 124.
  Outcome shell(const std::string& command, const std::string& redirection = "") const {
    const std::string line = "cd '" + folder_.path() + "' && timeout 600 env " + command + " >'" +
                             path("out") + "' 2>'" + path("messages") + "' </dev/null " +
                             redirection;
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("out"), text_of("messages")};
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string text_of(const std::string& name) const { return content_of(path(name)); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

 private:
  const TemporaryFolder folder_;
};

}  // namespace llmsim::cli
