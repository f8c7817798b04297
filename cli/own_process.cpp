#include "cli/own_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = std::size_t{64} << 20;
constexpr std::string_view kLineEnd = "\x1b[K";       // of a line of progress
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

std::vector<std::string> environment(bool watched) {
  std::vector<std::string> all{"NO_COLOR=1", "COLUMNS=100"};
  if (watched) all.emplace_back("LLMSIM_PROGRESS=1");
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
pid_t started(const OwnProcess& process, const Pipe& in, const Pipe& out, const Pipe& messages) {
  std::vector<std::string> arguments = process.arguments;
  arguments.insert(arguments.begin(), "llmsim");
  std::vector<std::string> variables = environment(static_cast<bool>(process.watch));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.reader(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.writer(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages.writer(), STDERR_FILENO);
  if (!process.folder.empty())
    posix_spawn_file_actions_addchdir_np(&actions, process.folder.c_str());
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

// Not after `end`, and soon where somebody watches.
int milliseconds_until(Clock::time_point end, bool watched) {
  constexpr std::int64_t kBetween = 100;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  const std::int64_t whole = std::max<std::int64_t>(0, left.count());
  return static_cast<int>(watched ? std::min(whole, kBetween) : whole);
}

// Where everything that is passed on stands.
struct Streams {
  Pipe in, out, messages;
  std::string_view rest;  // of the input
};

void pass_what_is_there(Streams& streams, ProcessOutcome& outcome, int wait) {
  auto& [in, out, messages, rest] = streams;
  std::array<pollfd, 3> files{pollfd{in.writer(), POLLOUT, 0}, pollfd{out.reader(), POLLIN, 0},
                              pollfd{messages.reader(), POLLIN, 0}};
  if (::poll(files.data(), files.size(), wait) <= 0) return;
  if (files[0].revents != 0 && !write_piece(in.writer(), rest)) in.close_writer();
  if (files[1].revents != 0 && !read_piece(out.reader(), outcome.out)) out.close_reader();
  if (files[2].revents != 0 && !read_piece(messages.reader(), outcome.messages))
    messages.close_reader();
}

// Passes texts on until the child has closed its output; false where it must be stopped.
bool pass_on(Streams& streams, const OwnProcess& process, Clock::time_point end,
             ProcessOutcome& outcome) {
  const bool watched = static_cast<bool>(process.watch);
  ::fcntl(streams.in.writer(), F_SETFL, O_NONBLOCK);
  if (streams.rest.empty()) streams.in.close_writer();
  while (streams.out.reader() >= 0 || streams.messages.reader() >= 0) {
    if (Clock::now() >= end) return false;
    pass_what_is_there(streams, outcome, milliseconds_until(end, watched));
    if (outcome.out.size() + outcome.messages.size() > kMostOutput) return false;
    if (watched && !process.watch(latest_progress(outcome.messages))) return false;
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

ProcessOutcome run_self(const OwnProcess& process) {
  const Clock::time_point end = Clock::now() + process.limit;
  Streams streams;
  streams.rest = process.input;
  const pid_t child = started(process, streams.in, streams.out, streams.messages);
  streams.in.close_reader(), streams.out.close_writer(), streams.messages.close_writer();
  ProcessOutcome outcome;
  outcome.ended = pass_on(streams, process, end, outcome);
  if (!outcome.ended) ::kill(-child, SIGKILL);
  outcome.status = status_of(child);
  outcome.messages = without_progress(outcome.messages);
  return outcome;
}

// A line of progress begins with a carriage return and ends with the sequence that clears what is
// right of it.
std::string without_progress(const std::string& messages) {
  std::string rest;
  for (std::size_t from = 0; from < messages.size();) {
    const std::size_t begin = std::min(messages.find('\r', from), messages.size());
    rest += messages.substr(from, begin - from);
    const std::size_t end = messages.find(kLineEnd, begin);
    if (end == std::string::npos) break;
    from = end + kLineEnd.size();
  }
  return rest;
}

std::string latest_progress(const std::string& messages) {
  const std::size_t end = messages.rfind(kLineEnd);
  if (end == std::string::npos) return "";
  const std::size_t begin = messages.rfind('\r', end);
  return begin == std::string::npos ? "" : messages.substr(begin + 1, end - begin - 1);
}

std::string messages_of(const ProcessOutcome& outcome) {
  constexpr std::string_view kName = "llmsim: ";
  std::string text = outcome.messages;
  while (text.ends_with('\n')) text.pop_back();
  return text.starts_with(kName) ? text.substr(kName.size()) : text;
}

}  // namespace llmsim::cli
