// The steady phase of a training run: which of its step times count, and what they say.
//
//   warm-up  the first two of five or more, and as many after them as are outside
//            m +- max(3 s, 2 %), with m the median and s the spread of the second half, up to a
//            quarter of all; of two to four at most the first, where it is 10 % off.  A run that
//            was started again warms up again.
//   levels   two clusters of times, as of a network with two states: the split of the logarithms
//            with the least variance inside, where the medians of the clusters differ by 3 %, each
//            has a fifth of the steps and at least 4, and the medians differ by more than 5 times
//            the root mean square of the two spreads (normal times split in two: 2.2)
//   slow     steps more than max(5 s, 10 %) over the median, or over the upper level: checkpoints,
//            evaluations, a stalled loader
//
// The median and the spread are those of what is neither warm-up nor slow.  A spread is
// (third quartile - first quartile) / 1.349, the standard deviation of normal samples.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace llmsim::calibrate {

struct TwoLevels {
  double low = 0.0, high = 0.0;  // medians
  double share_high = 0.0;       // of the steps
  std::size_t switches = 0;      // between successive steps
};

struct SteadyPhase {
  std::vector<std::size_t> steps;  // indices of those that count
  std::size_t warm_up = 0;
  std::size_t slow = 0;
  double slow_share = 0.0;  // of the time after warm-up that slow steps took beyond the median
  double slowest = 0.0;     // relative to the median; 0 without slow steps
  double median = 0.0;
  double spread = 0.0;  // relative to the median
  std::optional<TwoLevels> levels{};
};

// Of positive times in the order in which they were logged; `starts` are the indices at which the
// run was started again.  Requires at least one time.
SteadyPhase steady_phase(std::span<const double> times, std::span<const std::size_t> starts = {});

}  // namespace llmsim::calibrate
