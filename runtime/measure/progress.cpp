#include "runtime/measure/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace llmsim::runtime {
namespace {

constexpr int kWidth = 24;
constexpr double kLeastShare = 0.02;  // before it an estimate would be noise
constexpr std::chrono::seconds kBetweenLines{15};

}  // namespace

std::string progress_text(double share, double seconds) {
  const double done = std::clamp(share, 0.0, 1.0);
  const int filled = static_cast<int>(std::lround(done * kWidth));
  std::string text = "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "]";
  char rest[64];
  std::snprintf(rest, sizeof rest, " %3.0f %%", 100.0 * done);
  text += rest;
  if (done < kLeastShare) return text;
  const int left = static_cast<int>(std::lround(seconds * (1.0 - done) / done));
  std::snprintf(rest, sizeof rest, ", %d:%02d left", left / 60, left % 60);
  return text + rest;
}

Progress::Progress(double work) : work_(std::max(work, 1e-9)), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_) std::fputs("\r\x1b[K", stderr);
}

void Progress::advance(double expected, const std::string& what) {
  done_ += expected;
  const Clock::time_point now = Clock::now();
  const std::string text = progress_text(done_ / work_, std::chrono::duration<double>(now - start_).count());
  if (terminal_) {
    std::fprintf(stderr, "\r%s  %.48s\x1b[K", text.c_str(), what.c_str());
  } else if (now - last_line_ >= kBetweenLines) {
    std::fprintf(stderr, "%s  %s\n", text.c_str(), what.c_str());
    last_line_ = now;
  }
}

}  // namespace llmsim::runtime
