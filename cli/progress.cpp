#include "cli/progress.h"

#include <unistd.h>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace llmsim::cli {

namespace {

constexpr std::chrono::seconds kQuiet{1};
constexpr std::chrono::milliseconds kBetween{500};
constexpr double kInSeconds = 100.0;  // shorter than this

// "40 s", "3 min": whole ones, rounded up, as the last one is not over before it is.
std::string left(std::chrono::duration<double> time) {
  const double seconds = std::ceil(time.count());
  if (seconds < kInSeconds) return std::to_string(std::lround(seconds)) + " s";
  return std::to_string(std::lround(std::ceil(seconds / 60.0))) + " min";
}

// On a terminal, and for a program that reads it (own_process.h).
bool is_progress_shown() {
  return isatty(STDERR_FILENO) != 0 || std::getenv("LLMSIM_PROGRESS") != nullptr;
}

volatile std::sig_atomic_t interrupted = 0;

void note_interruption(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

ProgressLine::ProgressLine(std::string doing, std::ostream& stream, bool shown, Clock clock)
    : doing_(std::move(doing)),
      stream_(stream),
      shown_(shown),
      clock_(std::move(clock)),
      start_(clock_()) {}

ProgressLine::ProgressLine(std::string doing)
    : ProgressLine(std::move(doing), std::cerr, is_progress_shown()) {}

ProgressLine::~ProgressLine() {
  if (written_) stream_ << "\r\x1b[K" << std::flush;
}

void ProgressLine::tell(std::size_t done, std::size_t all) {
  if (!shown_) return;
  const Time now = clock_();
  if (now - start_ < kQuiet || (written_ && now - *written_ < kBetween)) return;
  written_ = now;
  stream_ << "\r" << doing_ << " " << done << " of " << all;
  if (done > 0 && done < all) {
    const double each =
        std::chrono::duration<double>(now - start_).count() / static_cast<double>(done);
    stream_ << ", about "
            << left(std::chrono::duration<double>(each * static_cast<double>(all - done)))
            << " left";
  }
  stream_ << "\x1b[K" << std::flush;
}

WaitingLine::WaitingLine(std::string doing, std::ostream& stream, bool shown, Duration quiet)
    : stream_(stream) {
  if (!shown) return;
  writer_ = std::thread([this, doing = std::move(doing), quiet] {
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!end_.wait_for(lock, quiet, [&] { return ended_; })) {
      written_ = true;
      stream_ << "\r" << doing << ", " << left(std::chrono::steady_clock::now() - start)
              << " so far\x1b[K" << std::flush;
    }
  });
}

WaitingLine::WaitingLine(std::string doing)
    : WaitingLine(std::move(doing), std::cerr, is_progress_shown(), kQuiet) {}

WaitingLine::~WaitingLine() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  end_.notify_one();
  writer_.join();
  if (written_) stream_ << "\r\x1b[K" << std::flush;
}

Interruption::Interruption() {
  interrupted = 0;
  before_ = std::signal(SIGINT, note_interruption);
}

Interruption::~Interruption() { std::signal(SIGINT, before_); }

bool Interruption::came() const { return interrupted != 0; }

}  // namespace llmsim::cli
