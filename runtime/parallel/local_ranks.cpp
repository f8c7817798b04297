#include "runtime/parallel/local_ranks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/parallel/process_place.h"
#include "runtime/parallel/roll_call.h"
#include "runtime/parallel/world.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kCannotStart = 127;  // as a shell's

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// This process's environment, with the variables of a launcher replaced.
std::vector<std::string> environment_for(const ProcessPlace& place) {
  std::vector<std::string> variables = environment_of(place);
  const auto replaced = [&](const std::string& variable) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    return std::any_of(variables.begin(), variables.end(),
                       [&](const std::string& own) { return own.starts_with(name); });
  };
  std::vector<std::string> inherited;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!replaced(*variable)) inherited.emplace_back(*variable);
  }
  variables.insert(variables.end(), inherited.begin(), inherited.end());
  return variables;
}

cpu_set_t core_set(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return set;
}

// Between fork and exec only what is allowed in a signal handler: other threads of libtorch may
// have held locks.
pid_t start(std::vector<std::string> command, const ProcessPlace& place,
            const std::vector<int>& cores) {
  std::vector<std::string> environment = environment_for(place);
  const std::vector<char*> arguments = pointers(command), variables = pointers(environment);
  const cpu_set_t set = core_set(cores);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    throw Error("cannot start rank " + std::to_string(place.rank) + ": " + std::strerror(errno));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!cores.empty()) sched_setaffinity(0, sizeof set, &set);
  if (getppid() == parent) execve(arguments[0], arguments.data(), variables.data());
  _exit(kCannotStart);
}

bool ended(const RankEnd& end) { return end.exit_code || end.signal; }
bool ended_well(const RankEnd& end) { return end.exit_code == 0; }

void look(RankEnd& end, int flags) {
  int status = 0;
  if (ended(end) || waitpid(end.pid, &status, flags) != end.pid) return;
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
}

// Until all have ended, or those that remain have had their time.
void watch(std::vector<RankEnd>& ends, const LocalRanksOptions& options) {
  std::optional<Clock::time_point> first_end, first_failure;
  while (!std::all_of(ends.begin(), ends.end(), ended)) {
    for (RankEnd& end : ends) look(end, WNOHANG);
    const auto now = Clock::now();
    const auto is_failure = [](const RankEnd& end) { return ended(end) && !ended_well(end); };
    if (!first_end && std::any_of(ends.begin(), ends.end(), ended)) first_end = now;
    if (!first_failure && std::any_of(ends.begin(), ends.end(), is_failure)) first_failure = now;
    if (first_end && now > *first_end + options.patience) return;
    if (first_failure && now > *first_failure + options.grace) return;
    std::this_thread::sleep_for(5ms);
  }
}

// Stops those that run on, whatever happens; they get no end of their own.
class Stopping {
 public:
  explicit Stopping(const std::vector<RankEnd>& ends) : ends_(ends) {}
  Stopping(const Stopping&) = delete;
  Stopping& operator=(const Stopping&) = delete;
  ~Stopping() {
    for (const RankEnd& end : ends_) {
      if (ended(end)) continue;
      kill(end.pid, SIGKILL);
      waitpid(end.pid, nullptr, 0);
    }
  }

 private:
  const std::vector<RankEnd>& ends_;
};

std::string story(const RankEnd& end) {
  const std::string who = "rank " + std::to_string(end.rank) + " on " + host_name() + " (process " +
                          std::to_string(end.pid) + ") ";
  if (end.signal)
    return who + "was killed by signal " + std::to_string(*end.signal) + " (" +
           strsignal(*end.signal) + ")";
  if (end.exit_code == kCannotStart) return who + "could not be started";
  if (end.exit_code) return who + "ended with exit code " + std::to_string(*end.exit_code);
  return who + "hung: it had not ended when the others had, and was killed";
}

// The ranks that failed of themselves: not those that waited in vain for another that is to blame.
std::optional<std::string> blame(const std::vector<RankEnd>& ends, KeyStore& store) {
  std::string culprits, victims;
  for (const RankEnd& end : ends) {
    if (ended_well(end)) continue;
    std::string& list = end.exit_code && waited_for(store, end.rank) ? victims : culprits;
    list += (list.empty() ? "" : "; ") + story(end);
  }
  if (culprits.empty() && victims.empty()) return std::nullopt;
  return culprits.empty() ? victims : culprits;
}

}  // namespace

LocalRun run_local_ranks(const LocalRanksOptions& options) {
  if (options.ranks < 1)
    throw Error("ranks = " + std::to_string(options.ranks) + ": wants at least 1");
  if (access(options.command.at(0).c_str(), X_OK) != 0)
    throw Error(options.command[0] + " is no program that can be run");
  KeptStore kept = keep_store();
  LocalRun run;
  {
    const Stopping stopping(run.ended);
    for (int rank = 0; rank < options.ranks; ++rank) {
      const ProcessPlace place{.rank = rank,
                               .ranks = options.ranks,
                               .local_rank = rank,
                               .local_ranks = options.ranks,
                               .store_port = kept.port,
                               .keeps_store = false};
      const std::vector<int> cores =
          options.own_cores ? core_share(allowed_cores(), rank, options.ranks) : std::vector<int>();
      run.ended.push_back({.rank = rank,
                           .pid = start(options.command, place, cores),
                           .exit_code = {},
                           .signal = {}});
    }
    watch(run.ended, options);
    run.failure = blame(run.ended, kept.store);
  }
  return run;
}

}  // namespace llmsim::runtime
