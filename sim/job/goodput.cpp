#include "sim/job/goodput.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmsim::sim {
namespace {

constexpr Seconds kForever{std::numeric_limits<double>::infinity()};

// (e^(lambda (tau + C)) - 1) / (lambda tau): wall time of a second of training between restarts.
double interrupted_factor(const Interruptions& i) {
  const bool checkpoints = std::isfinite(i.interval.value());
  if (i.rate <= Hertz(0.0)) return checkpoints ? (i.interval + i.blocking) / i.interval : 1.0;
  return std::expm1(i.rate * (i.interval + i.blocking)) / (i.rate * i.interval);
}

}  // namespace

double survival_probability(Hertz rate, Seconds duration) { return std::exp(-(rate * duration)); }

double start_probability(double node_start_failure, int nodes) {
  return std::pow(1.0 - node_start_failure, nodes);
}

double node_start_failure(double start_probability, int nodes) {
  return 1.0 - std::pow(start_probability, 1.0 / nodes);
}

Seconds checkpoint_write_time(Bytes size, const CheckpointStorage& storage, int nodes) {
  const BytesPerSecond none{0.0}, own = storage.per_node * nodes;
  if (storage.aggregate <= none && own <= none) return Seconds(0.0);
  if (storage.aggregate <= none) return size / own;
  if (own <= none) return size / storage.aggregate;
  return size / std::min(storage.aggregate, own);
}

Seconds young_interval(Seconds blocking, Hertz rate) {
  if (rate <= Hertz(0.0)) return kForever;
  return Seconds(std::sqrt(2.0 * blocking.value() / rate.value()));
}

Seconds daly_interval(Seconds blocking, Hertz rate) {
  if (rate <= Hertz(0.0)) return kForever;
  const double share = blocking * rate / 2.0;  // C / (2 M)
  if (share >= 1.0) return Seconds(1.0 / rate.value());
  return young_interval(blocking, rate) * (1.0 + std::sqrt(share) / 3.0 + share / 9.0) - blocking;
}

WallTime wall_time(Seconds training, const Interruptions& i) {
  const Seconds restart = i.restart / i.start_probability;
  const double restarting = i.rate * restart;
  const Seconds total = training * std::exp(restarting + i.rate * i.delay) * interrupted_factor(i);
  WallTime time{.training = training};
  if (!std::isfinite(total.value())) {
    time.lost_work = kForever;
    time.interruptions = total.value();
    return time;
  }
  time.interruptions = i.rate * total;
  time.checkpoints = training * (i.blocking / i.interval);
  const Seconds all_restarts = total * -std::expm1(-restarting);
  time.lost_work = std::max(Seconds(0.0), total - training - time.checkpoints - all_restarts);
  const Seconds all_starts = all_restarts + restart;
  time.restarts = all_starts * i.start_probability;
  time.start_attempts = all_starts - time.restarts;
  return time;
}

}  // namespace llmsim::sim
