#include "runtime/library/clock_log.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/library/accelerator.h"
#include "runtime/library/device.h"

namespace llmsim::runtime {
namespace {

constexpr std::chrono::milliseconds kBetweenReadings{10};

AcceleratorState state_of(c10::Device device) {
  if (device.is_cuda()) return accelerator_state(device);
  const PowerState now = power_state(device);
  return {.clock_hz = now.clock_hz, .watts = now.watts, .temperature = {}, .throttle_reasons = {}};
}

ClockSummary summary_of(const std::vector<AcceleratorState>& states) {
  ClockSummary summary;
  std::vector<double> clocks, watts;
  for (const AcceleratorState& state : states) {
    if (state.clock_hz) clocks.push_back(*state.clock_hz);
    if (state.watts) watts.push_back(*state.watts);
    if (state.temperature)
      summary.temperature = std::max(summary.temperature.value_or(0.0), *state.temperature);
    summary.throttle_reasons |= state.throttle_reasons.value_or(0);
  }
  std::sort(clocks.begin(), clocks.end());
  if (!clocks.empty())
    summary.clock_hz = clocks[clocks.size() / 2], summary.lowest_clock_hz = clocks.front();
  if (!watts.empty())
    summary.watts =
        std::accumulate(watts.begin(), watts.end(), 0.0) / static_cast<double>(watts.size());
  return summary;
}

}  // namespace

struct ClockLog::Impl {
  c10::Device device;
  std::mutex mutex{};
  std::condition_variable ended{};
  bool end = false;
  std::vector<AcceleratorState> states{};
  std::thread reader{};

  void read() {
    std::unique_lock lock(mutex);
    do {
      lock.unlock();
      const AcceleratorState state = state_of(device);
      lock.lock();
      states.push_back(state);
    } while (!ended.wait_for(lock, kBetweenReadings, [this] { return end; }));
  }
  void finish() {
    if (!reader.joinable()) return;
    {
      const std::scoped_lock lock(mutex);
      end = true;
    }
    ended.notify_one();
    reader.join();
  }
};

ClockLog::ClockLog(c10::Device device) : impl_(new Impl{.device = device}) {
  if (!device.is_cuda()) return;
  state_of(device);  // looks the device up
  impl_->reader = std::thread([this] { impl_->read(); });
}

ClockLog::~ClockLog() { impl_->finish(); }

ClockSummary ClockLog::stop() {
  impl_->finish();
  if (!impl_->device.is_cuda()) impl_->states.push_back(state_of(impl_->device));
  return summary_of(impl_->states);
}

}  // namespace llmsim::runtime
