#include "calibrate/steady_phase.h"

#include <algorithm>
#include <cmath>

#include "calibrate/statistics.h"

namespace llmsim::calibrate {
namespace {

constexpr double kQuartilesOfNormal = 1.349;  // distance, in standard deviations
constexpr std::size_t kFewSteps = 5;
constexpr std::size_t kLeastWarmUp = 2;
constexpr std::size_t kLeastOfLevel = 4;
constexpr double kLeastShare = 0.2;       // of a level
constexpr double kLeastRatio = 1.03;      // of two levels
constexpr double kLeastDistance = 5.0;    // of two levels, in spreads
constexpr double kPrintedSpread = 0.005;  // below which rounding may be all there is

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double rest = at - static_cast<double>(below);
  return rest == 0.0 ? sorted[below] : sorted[below] + rest * (sorted[below + 1] - sorted[below]);
}

double spread_of_sorted(const std::vector<double>& sorted) {
  return (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / kQuartilesOfNormal;
}

double spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return spread_of_sorted(values);
}

// How many of the first times of one start are warm-up.
std::size_t warm_up_of(std::span<const double> times) {
  const std::size_t n = times.size();
  if (n < 2) return 0;
  const bool few = n < kFewSteps;
  const std::vector<double> settled(times.begin() + static_cast<std::ptrdiff_t>((n + 1) / 2),
                                    times.end());
  const double level = median(settled);
  const double band = std::max(3.0 * spread_of(settled), (few ? 0.10 : 0.02) * level);
  const std::size_t least = few ? 0 : kLeastWarmUp, most = few ? 1 : std::max(least, n / 4);
  std::size_t skipped = least;
  while (skipped < most && std::abs(times[skipped] - level) > band) ++skipped;
  return skipped;
}

// Times after the warm-up of each start, by index.
std::vector<std::size_t> after_warm_up(std::span<const double> times,
                                       std::span<const std::size_t> starts) {
  std::vector<std::size_t> kept, begins{0};
  begins.insert(begins.end(), starts.begin(), starts.end());
  begins.push_back(times.size());
  for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
    const std::size_t begin = begins[s], end = std::max(begin, begins[s + 1]);
    for (std::size_t i = begin + warm_up_of(times.subspan(begin, end - begin)); i < end; ++i)
      kept.push_back(i);
  }
  return kept;
}

std::vector<double> at(std::span<const double> times, const std::vector<std::size_t>& indices) {
  std::vector<double> values;
  values.reserve(indices.size());
  for (const std::size_t i : indices) values.push_back(times[i]);
  return values;
}

// Number of sorted values in the lower of two clusters with the least sum of squares inside, of
// those splits that leave `least` on either side.
std::size_t best_split(const std::vector<double>& sorted, std::size_t least) {
  double all = 0.0, below = 0.0, best = -1.0;
  for (const double value : sorted) all += value;
  std::size_t split = least;
  const auto n = static_cast<double>(sorted.size());
  for (std::size_t k = 1; k + least <= sorted.size(); ++k) {
    below += sorted[k - 1];
    const auto low = static_cast<double>(k);
    const double distance = below / low - (all - below) / (n - low);
    const double between = low * (n - low) * distance * distance;
    if (k >= least && between > best) best = between, split = k;
  }
  return split;
}

// Logarithms, sorted; the largest are brought in, so that a few slow steps make no cluster.
std::vector<double> clipped_logarithms(std::vector<double> values) {
  for (double& value : values) value = std::log(value);
  std::ranges::sort(values);
  const double first = quantile(values, 0.25), third = quantile(values, 0.75);
  const double most = third + 3.0 * std::max(third - first, 0.01);
  for (double& value : values) value = std::min(value, most);
  return values;
}

std::size_t switches(const std::vector<double>& values, double border) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < values.size(); ++i)
    count += (values[i - 1] > border) != (values[i] > border) ? 1 : 0;
  return count;
}

std::optional<TwoLevels> two_levels(const std::vector<double>& values) {
  const std::size_t n = values.size();
  const std::size_t least = std::max(
      kLeastOfLevel, static_cast<std::size_t>(std::ceil(kLeastShare * static_cast<double>(n))));
  if (n < 2 * least) return std::nullopt;
  const std::vector<double> logs = clipped_logarithms(values);
  const auto middle = logs.begin() + static_cast<std::ptrdiff_t>(best_split(logs, least));
  const std::vector<double> below(logs.begin(), middle), above(middle, logs.end());
  const double low = median(below), high = median(above);
  const double spread =
      std::max(std::hypot(spread_of_sorted(below), spread_of_sorted(above)) / std::sqrt(2.0),
               kPrintedSpread);
  if (high - low < std::max(std::log(kLeastRatio), kLeastDistance * spread)) return std::nullopt;
  const double border = std::exp((below.back() + above.front()) / 2.0);
  return TwoLevels{.low = std::exp(low),
                   .high = std::exp(high),
                   .share_high = static_cast<double>(above.size()) / static_cast<double>(n),
                   .switches = switches(values, border)};
}

}  // namespace

SteadyPhase steady_phase(std::span<const double> times, std::span<const std::size_t> starts) {
  SteadyPhase phase;
  const std::vector<std::size_t> settled = after_warm_up(times, starts);
  const std::vector<double> values = at(times, settled);
  phase.warm_up = times.size() - settled.size();
  phase.levels = two_levels(values);
  const double level = phase.levels ? phase.levels->high : median(values);
  const double spread = phase.levels ? 0.0 : spread_of(values);
  const double limit = level + std::max(5.0 * spread, 0.10 * level);
  for (const std::size_t i : settled)
    if (times[i] <= limit) phase.steps.push_back(i);
  phase.slow = settled.size() - phase.steps.size();
  const std::vector<double> steady = at(times, phase.steps);
  phase.median = median(steady);
  phase.spread = spread_of(steady) / phase.median;
  double all = 0.0, lost = 0.0;
  for (const double time : values) {
    all += time;
    if (time <= limit) continue;
    lost += time - phase.median;
    phase.slowest = std::max(phase.slowest, time / phase.median);
  }
  phase.slow_share = lost / all;
  return phase;
}

}  // namespace llmsim::calibrate
