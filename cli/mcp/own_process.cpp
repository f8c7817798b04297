#include "cli/mcp/own_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::cli::mcp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = std::size_t{64} << 20;
constexpr std::size_t kPiece = std::size_t{1} << 16;  // what a pipe of Linux holds

// The two ends of a pipe, closed when it goes.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw Error(std::string("a pipe: ") + std::strerror(errno));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { close_reader(), close_writer(); }

  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_reader() { close_end(ends_[0]); }
  void close_writer() { close_end(ends_[1]); }

 private:
  static void close_end(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
  std::array<int, 2> ends_{-1, -1};
};

std::vector<std::string> environment() {
  std::vector<std::string> all{"NO_COLOR=1", "COLUMNS=100"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (!text.starts_with("NO_COLOR=") && !text.starts_with("COLUMNS=")) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In a group of its own, so that all of it can be stopped.
pid_t started(std::vector<std::string> arguments, const Pipe& in, const Pipe& out,
              const Pipe& messages) {
  arguments.insert(arguments.begin(), "llmsim");
  std::vector<std::string> variables = environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.reader(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.writer(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages.writer(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, "/proc/self/exe", &actions, &attributes,
                                 pointers_to(arguments).data(), pointers_to(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw Error(std::string("llmsim cannot be started: ") + std::strerror(failed));
  return child;
}

// Appends what can be read; false at its end.
bool read_piece(int file, std::string& text) {
  std::array<char, kPiece> piece;
  const ssize_t count = ::read(file, piece.data(), piece.size());
  if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

// Writes what can be written; false where nothing is left, or nobody reads.
bool write_piece(int file, std::string_view& rest) {
  const ssize_t count = ::write(file, rest.data(), rest.size());
  if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
  const bool again = count > 0 || errno == EINTR || errno == EAGAIN;
  return again && !rest.empty();
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

// Passes texts on until the child has closed its output; false where it must be stopped.
bool pass_on(Pipe& in, Pipe& out, Pipe& messages, std::string_view rest, ProcessOutcome& outcome,
             Clock::time_point end) {
  ::fcntl(in.writer(), F_SETFL, O_NONBLOCK);
  if (rest.empty()) in.close_writer();
  while (out.reader() >= 0 || messages.reader() >= 0) {
    std::array<pollfd, 3> files{pollfd{in.writer(), POLLOUT, 0}, pollfd{out.reader(), POLLIN, 0},
                                pollfd{messages.reader(), POLLIN, 0}};
    const int left = milliseconds_until(end);
    if (left == 0) return false;
    if (::poll(files.data(), files.size(), left) < 0 && errno != EINTR) return false;
    if (files[0].revents != 0 && !write_piece(in.writer(), rest)) in.close_writer();
    if (files[1].revents != 0 && !read_piece(out.reader(), outcome.out)) out.close_reader();
    if (files[2].revents != 0 && !read_piece(messages.reader(), outcome.messages))
      messages.close_reader();
    if (outcome.out.size() + outcome.messages.size() > kMostOutput) return false;
  }
  return true;
}

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

ProcessOutcome run_self(const std::vector<std::string>& arguments, const std::string& input,
                        std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  Pipe in, out, messages;
  const pid_t child = started(arguments, in, out, messages);
  in.close_reader(), out.close_writer(), messages.close_writer();
  ProcessOutcome outcome;
  outcome.ended = pass_on(in, out, messages, input, outcome, end);
  if (!outcome.ended) ::kill(-child, SIGKILL);
  outcome.status = status_of(child);
  return outcome;
}

}  // namespace llmsim::cli::mcp
