// A line on stderr that says how far a measuring run is: a bar with the time that is left on a terminal, else a plain line now
// and then.
#pragma once

#include <chrono>
#include <string>

namespace llmsim::runtime {

class Progress {
 public:
  // `work` in seconds that the run is expected to take.
  explicit Progress(double work);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `expected` seconds of the work are done; `what` comes next.
  void advance(double expected, const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;

  double work_;
  double done_ = 0.0;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_line_ = Clock::now();
};

// "[#####.....]  52 %, 1:07 left"; elapsed and remaining work in the same unit, `seconds` those that passed.
std::string progress_text(double share, double seconds);

}  // namespace llmsim::runtime
