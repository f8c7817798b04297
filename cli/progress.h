// Long work: a line on a terminal with its progress, and how it is interrupted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <thread>

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
  // On standard error, where that is a terminal or LLMSIM_PROGRESS is set.
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

// "predicting 4096 stages, 12 s so far": the same of work that does not say
// how far it is, while one lives.  It is written from another thread.
class WaitingLine {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // Nothing is written before `quiet` is over, and then as often as it is long.
  WaitingLine(std::string doing, std::ostream& stream, bool shown, Duration quiet);
  // On standard error, where that is a terminal or LLMSIM_PROGRESS is set.
  explicit WaitingLine(std::string doing);
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;
  ~WaitingLine();

 private:
  std::ostream& stream_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false, written_ = false;
  std::thread writer_;
};

}  // namespace llmsim::cli
