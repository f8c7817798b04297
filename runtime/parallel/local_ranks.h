// Ranks that are processes of this machine, started by a parent that keeps their key store and
// watches over them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace llmsim::runtime {

struct LocalRanksOptions {
  // Program and arguments, the same for all; the program's path is not searched for.
  std::vector<std::string> command;
  int ranks = 1;
  bool own_cores = false;  // bind each to its share of the cores (process_place.h)
  // Once a first rank has ended in error, for the others to end by themselves; they end in error,
  // too, when their operations do.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  // Once a first rank has ended well: between it and the last.
  std::chrono::milliseconds patience = std::chrono::minutes(5);
};

// How the process of one rank ended.
struct RankEnd {
  int rank = 0;
  pid_t pid = 0;
  std::optional<int> exit_code;  // neither: it had not ended, and was killed
  std::optional<int> signal;
};

struct LocalRun {
  std::vector<RankEnd> ended;  // by rank
  // One line: which ranks are to blame, on which host, and how they ended.
  std::optional<std::string> failure;
};

// Runs all ranks to their end; on a failure none is left.  The ranks get their place in torchrun's
// variables, and die with the thread that called.  What they have written stays.
LocalRun run_local_ranks(const LocalRanksOptions& options);

}  // namespace llmsim::runtime
