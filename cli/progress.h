// Long work: a line on a terminal with its progress, and how it is interrupted.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "cli/interruption.h"

namespace llmsim::cli {

// "planning 120 of 894, about 40 s left": from the moment it takes over a second, at most twice a
// second, each line over the last one; the end clears it.  What is left is what was needed so far
// for each item, times those that remain.  One thread at a time.
class ProgressLine {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  // `doing`: "planning".  Nothing is written to a stream that is not `shown`.
  ProgressLine(std::string doing, std::ostream& stream, bool shown,
               Clock clock = std::chrono::steady_clock::now);
  // On standard error, where that is a terminal.
  explicit ProgressLine(std::string doing);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void tell(std::size_t done, std::size_t all);

 private:
  std::string doing_;
  std::ostream& stream_;
  bool shown_;
  Clock clock_;
  Time start_;
  std::optional<Time> written_{};
};

}  // namespace llmsim::cli
