#include "cli/runtime_program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <system_error>

#include "sim/base/error.h"

namespace llmsim::cli {

namespace fs = std::filesystem;

fs::path runtime_program() {
  if (const char* path = std::getenv("LLMSIM_RUNTIME")) return path;
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
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  if (const int failed = posix_spawn(&child, pointers.front(), nullptr, nullptr, pointers.data(), environ); failed != 0)
    throw Error(arguments.front() + ": cannot be started: " + std::strerror(failed));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) throw Error("llmsim-runtime was ended by signal " + std::to_string(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0)
    throw Error("llmsim-runtime failed, see above; what it measured is in the file, --resume goes on");
}

}  // namespace llmsim::cli
