#include "sim/model/reported.h"

#include <cmath>

namespace llmsim::sim {
namespace {

// Published rates are rounded to two digits or so.
constexpr double kRounding = 0.03;

}  // namespace

Reading reading_of(const Convention& convention, FlopsPerSecond reported, const StepWork& work) {
  Reading reading{.convention = convention.name};
  reading.step_time = convention.flops_per_step / reported / work.num_devices;
  reading.exact = work.model / reading.step_time / work.num_devices;
  reading.exact_mfu = reading.exact / work.peak;
  return reading;
}

std::optional<Convention> convention_behind(std::span<const Convention> conventions, FlopsPerSecond reported, Seconds measured,
                                            int num_devices) {
  std::optional<Convention> nearest;
  double least = kRounding;
  for (const Convention& convention : conventions) {
    const double miss = std::abs(std::log(convention.flops_per_step / measured / num_devices / reported));
    if (miss > least) continue;
    least = miss;
    nearest = convention;
  }
  return nearest;
}

}  // namespace llmsim::sim
