// This program again, as a process of its own: what becomes of it is nothing to the server.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace llmsim::cli {

struct OwnProcess {
  std::vector<std::string> arguments;
  std::string input{};                 // its standard input
  std::chrono::milliseconds limit{0};  // after which it is stopped
  std::string folder{};                // its working directory; empty: that of the server
  // Where there is one: called some ten times a second with the latest line of progress, until it
  // gives false, which stops the process.
  std::function<bool(const std::string& progress)> watch{};
};

struct ProcessOutcome {
  int status = 0;          // exit status; -1: ended by a signal
  bool ended = true;       // false: stopped, as it took or printed too much or nobody waits for it
  std::string out{};       // standard output
  std::string messages{};  // standard error, without lines of progress
};

// Runs `llmsim ARGUMENTS...` without a shell, with lines of 100 columns and no colour.  At its
// limit, and where it prints more than 64 MiB, it is stopped with all that it started.  Throws
// Error where it cannot be started.
ProcessOutcome run_self(const OwnProcess& process);

// What there is on standard error but lines of progress (progress.h), and the last one of them:
// "searching group 3 of 40, about 2 s left".
std::string without_progress(const std::string& messages);
std::string latest_progress(const std::string& messages);

// The messages of the program without its name in front, as one says them of its answer.
std::string messages_of(const ProcessOutcome& outcome);

}  // namespace llmsim::cli
