#include "cli/runtime_program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::cli {

namespace fs = std::filesystem;

namespace {

// Exit status of a program that ran to its end.
int status_of(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  if (const int failed = posix_spawn(&child, pointers.front(), nullptr, nullptr, pointers.data(), environ); failed != 0)
    throw Error(arguments.front() + ": cannot be started: " + std::strerror(failed));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) throw Error(arguments.front() + " was ended by signal " + std::to_string(WTERMSIG(status)));
  return WEXITSTATUS(status);
}

// The launcher brings the runtime up to date; it does so only here, where every argument has been
// found right.
void ask_launcher() {
  const char* launcher = std::getenv("LLMSIM_LAUNCHER");
  if (launcher == nullptr) return;
  if (status_of({launcher, "--build-runtime"}) != 0) throw Error("llmsim-runtime cannot be built; the reason is above");
}

}  // namespace

fs::path runtime_program() {
  if (const char* path = std::getenv("LLMSIM_RUNTIME")) return path;
  ask_launcher();
  std::error_code error;
  const fs::path here = fs::canonical("/proc/self/exe", error).parent_path();
  for (const fs::path& path : {here / "llmsim-runtime", here.parent_path() / "runtime" / "llmsim-runtime"}) {
    if (fs::exists(path, error)) return path;
  }
  throw Error(
      "llmsim-runtime was not found: build it with cmake -DLLMSIM_WITH_RUNTIME=ON, or name it in the environment variable "
      "LLMSIM_RUNTIME");
}

void run_program(std::vector<std::string> arguments) {
  if (status_of(std::move(arguments)) != 0)
    throw Error("llmsim-runtime failed, see above; what it measured is in the file, --resume goes on");
}

}  // namespace llmsim::cli
