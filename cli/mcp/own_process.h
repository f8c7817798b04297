// This program again, as a process of its own: what becomes of it is nothing to the server.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace llmsim::cli::mcp {

struct ProcessOutcome {
  int status = 0;        // exit status; -1: ended by a signal
  bool ended = true;     // false: stopped, as it took or printed too much
  std::string out;       // standard output
  std::string messages;  // standard error
};

// Runs `llmsim ARGUMENTS...` without a shell, with `input` as its standard input, lines of 100
// columns and no colour.  After `limit`, and where it prints more than 64 MiB, it is stopped with
// all that it started.  Throws Error where it cannot be started.
ProcessOutcome run_self(const std::vector<std::string>& arguments, const std::string& input,
                        std::chrono::milliseconds limit);

}  // namespace llmsim::cli::mcp
