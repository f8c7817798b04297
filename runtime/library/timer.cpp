#include "runtime/library/timer.h"

#include <chrono>
#include <optional>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace llmsim::runtime {
namespace {

template <typename Event>
std::optional<double> elapsed_ms(Event& start, Event& end) {
  if constexpr (requires { start.elapsedTime(end); }) return start.elapsedTime(end);
  return std::nullopt;
}

sim::Seconds host_time(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return sim::Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace

void synchronize(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  c10::Event now(device.type());
  now.record(guard.getStream(device));
  while (!now.query()) {
  }
}

sim::Seconds timed(c10::Device device, const std::function<void()>& work) {
  if (device.is_cpu() || device.is_meta()) return host_time(work);
  const c10::impl::VirtualGuardImpl guard(device.type());
  c10::Event start(device.type(), c10::EventFlag::BACKEND_DEFAULT), end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  start.record(guard.getStream(device));
  const sim::Seconds host = host_time([&] {
    work();
    end.record(guard.getStream(device));
    synchronize(device);
  });
  const std::optional<double> elapsed = elapsed_ms(start, end);
  return elapsed ? sim::Seconds(*elapsed * 1e-3) : host;
}

}  // namespace llmsim::runtime
