#include "cli/runtime_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>

#include "sim/base/error.h"

namespace llmsim::cli {

namespace fs = std::filesystem;

namespace {

// Starts a program; `output`, where there is one, becomes its standard output.
pid_t started(std::vector<std::string> arguments, std::optional<int> output) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output) posix_spawn_file_actions_adddup2(&actions, *output, STDOUT_FILENO);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, pointers.front(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw Error(arguments.front() + ": cannot be started: " + std::strerror(failed));
  return child;
}

// Exit status of a child that runs to its end.
int status_of(pid_t child, const std::string& program) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    throw Error(program + " was ended by signal " + std::to_string(WTERMSIG(status)));
  return WEXITSTATUS(status);
}

int status_of(const std::vector<std::string>& arguments) {
  return status_of(started(arguments, std::nullopt), arguments.front());
}

// All that can be read from a pipe until its writers are gone; closes it.
std::string content_of_pipe(int pipe) {
  std::string text;
  char part[256];
  for (ssize_t count = 0;
       (count = read(pipe, part, sizeof part)) > 0 || (count < 0 && errno == EINTR);) {
    if (count > 0) text.append(part, static_cast<std::size_t>(count));
  }
  close(pipe);
  return text;
}

// The launcher brings the runtime up to date; it does so only here, where every argument has been
// found right.
void ask_launcher() {
  const char* launcher = std::getenv("LLMSIM_LAUNCHER");
  if (launcher == nullptr) return;
  if (status_of(std::vector<std::string>{launcher, "--build-runtime"}) != 0)
    throw Error("llmsim-runtime cannot be built; the reason is above");
}

}  // namespace

fs::path runtime_program() {
  if (const char* path = std::getenv("LLMSIM_RUNTIME")) return path;
  ask_launcher();
  std::error_code error;
  const fs::path here = fs::canonical("/proc/self/exe", error).parent_path();
  for (const fs::path& path :
       {here / "llmsim-runtime", here.parent_path() / "runtime" / "llmsim-runtime"}) {
    if (fs::exists(path, error)) return path;
  }
  throw Error(
      "llmsim-runtime was not found: build it with cmake -DLLMSIM_WITH_RUNTIME=ON, or name it in "
      "the environment variable LLMSIM_RUNTIME");
}

void run_program(const std::vector<std::string>& arguments) {
  if (status_of(arguments) != 0)
    throw Error(
        "llmsim-runtime failed, see above; what it measured is in the file, --resume goes on");
}

std::string printed_line(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(std::string("a pipe to llmsim-runtime: ") + std::strerror(errno));
  pid_t child = 0;
  try {
    child = started(arguments, ends[1]);
  } catch (...) {
    close(ends[0]), close(ends[1]);
    throw;
  }
  close(ends[1]);
  const std::string text = content_of_pipe(ends[0]);
  if (status_of(child, arguments.front()) != 0)
    throw Error("nothing was measured; llmsim-runtime says why above");
  return text.substr(0, text.find('\n'));
}

}  // namespace llmsim::cli
