#include "sim/schedule/waits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace llmsim::sim {

namespace {

constexpr double kMostLoss = 0.9;

// A communicator is, from `start` to `end`.
struct Busy {
  Seconds start, end;
};

class Streams {
 public:
  Streams(std::span<const OverlapUnit> units, const OverlapBehaviour& habits,
          const OverlapLoss& loss)
      : units_(units),
        loss_(loss),
        reductions_overlap_(habits.reductions_overlap),
        scatters_alone_(habits.scatters_alone),
        ahead_(habits.gathers_overlap
                   ? static_cast<std::size_t>(std::clamp(habits.prefetch, 0, kMostPrefetch))
                   : 0) {
    for (const OverlapUnit& equal : units) size_ += static_cast<std::size_t>(equal.count);
  }

  OverlapTimes run() {
    issue_gathers(std::max<std::size_t>(ahead_, 1), Seconds(0.0));
    std::size_t i = 0;
    for (const OverlapUnit& unit : units_)
      for (int n = 0; n < unit.count; ++n) compute(unit, i++);
    return {.end = std::max({computed_, channel_, replicas_end()}), .slowdown = slowdown_};
  }

 private:
  void compute(const OverlapUnit& unit, std::size_t i) {
    const Seconds start = std::max(computed_, arrived_[i % arrived_.size()]);
    if (ahead_ > 0) issue_gathers(i + ahead_ + 1, start);
    computed_ = slowed_end(start, unit.compute);
    slowdown_ += computed_ - (start + unit.compute);
    if (ahead_ == 0) issue_gathers(i + 2, computed_);
    if (unit.reduce > Seconds(0.0)) channel_ = std::max(channel_, computed_) + unit.reduce;
    if (unit.reduce > Seconds(0.0) && scatters_alone_) computed_ = channel_;
    if (unit.replicate > Seconds(0.0))
      replicate(unit.reduce > Seconds(0.0) ? channel_ : computed_, unit.replicate);
    const bool sends = unit.reduce > Seconds(0.0) || unit.replicate > Seconds(0.0);
    if (sends && !reductions_overlap_) computed_ = std::max(channel_, replicas_end());
  }

  Seconds replicas_end() const { return sums_.empty() ? Seconds(0.0) : sums_.back().end; }

  void replicate(Seconds ready, Seconds time) {
    if (sums_.empty() || ready > sums_.back().end) sums_.push_back({ready, ready});
    sums_.back().end += time;
  }

  // Both communicators have been given all they will do before `work` ends.
  Seconds slowed_end(Seconds now, Seconds work) {
    if (sums_.empty()) return slowed_by_channel(now, work);
    while (over_ < sums_.size() && sums_[over_].end <= now) ++over_;
    while (const std::optional<Seconds> change = next_change(now)) {
      const double rate = 1.0 - loss_at(now);
      if (rate * (*change - now) >= work) return now + work / rate;
      work -= rate * (*change - now);
      now = *change;
    }
    return now + work;
  }

  // The same without sums over replicas.
  Seconds slowed_by_channel(Seconds now, Seconds work) const {
    if (channel_ <= now) return now + work;
    const double rate = 1.0 - loss_.channel;
    const Seconds beside = rate * (channel_ - now);
    return beside >= work ? now + work / rate : channel_ + (work - beside);
  }

  // When a communicator next starts or comes to rest.
  std::optional<Seconds> next_change(Seconds now) const {
    std::optional<Seconds> next;
    const auto consider = [&](Seconds change) {
      if (change > now && (!next || change < *next)) next = change;
    };
    consider(channel_);
    for (std::size_t i = over_; i < sums_.size(); ++i)
      consider(sums_[i].start), consider(sums_[i].end);
    return next;
  }

  bool sums_at(Seconds now) const {
    return std::any_of(sums_.begin() + static_cast<std::ptrdiff_t>(over_), sums_.end(),
                       [&](const Busy& sums) { return now >= sums.start && now < sums.end; });
  }

  double loss_at(Seconds now) const {
    const double both =
        (now < channel_ ? loss_.channel : 0.0) + (sums_at(now) ? loss_.replicas : 0.0);
    return std::min(both, std::max({kMostLoss, loss_.channel, loss_.replicas}));
  }

  // Those of the units before `end` that are not issued yet.
  void issue_gathers(std::size_t end, Seconds now) {
    for (; issued_ < std::min(end, size_); ++issued_) {
      for (; issued_of_equal_ == units_[equal_].count; ++equal_) issued_of_equal_ = 0;
      ++issued_of_equal_;
      const Seconds gather = units_[equal_].gather;
      if (gather > Seconds(0.0)) channel_ = std::max(channel_, now) + gather;
      arrived_[issued_ % arrived_.size()] = gather > Seconds(0.0) ? channel_ : Seconds(0.0);
    }
  }

  std::span<const OverlapUnit> units_;
  OverlapLoss loss_;
  bool reductions_overlap_;
  bool scatters_alone_;
  std::size_t ahead_;
  std::size_t size_ = 0;  // units
  std::size_t issued_ = 0;
  std::size_t equal_ =
      0;  // of units_: those whose gathers are being issued, and how many have been
  int issued_of_equal_ = 0;
  std::array<Seconds, kMostPrefetch + 1> arrived_{};
  std::vector<Busy> sums_;  // over replicas, those without a gap as one
  std::size_t over_ = 0;    // of them, before the unit at hand
  Seconds computed_, channel_, slowdown_;
};

}  // namespace

OverlapTimes overlap_times(std::span<const OverlapUnit> units, const OverlapBehaviour& habits,
                           const OverlapLoss& loss) {
  return Streams(units, habits, loss).run();
}

namespace {

// What the pass takes beyond its device time.
Seconds lack(const PassLoad& pass) {
  const double d = pass.device.value(), h = pass.host.value();
  if (h <= 0.0) return pass.around;
  const double fourth = d * d * d * d + h * h * h * h;
  return pass.around + std::max(Seconds(0.0), Seconds(std::sqrt(std::sqrt(fourth)) - d));
}

}  // namespace

void HostCalls::add(const LaunchTally& launches, double times) {
  kernels += times * launches.kernels;
  low_precision_gemms += times * launches.low_precision_gemms;
}

Seconds HostCalls::unit_time(const Framework& framework) const {
  const HostTimes& host = framework.host;
  return host.factor * (units * host.per_unit + slices * host.per_slice);
}

Seconds HostCalls::launch_time(const Framework& framework) const {
  const HostTimes& host = framework.host;
  return host.factor *
         (kernels * host.per_kernel + low_precision_gemms * host.per_low_precision_gemm +
          recomputed_blocks * host.per_recomputed_block + moe_blocks * host.per_moe_block +
          gradients * host.per_gradient);
}

namespace {

double gemms_per_block(const Transformer& model) { return model.gated_mlp ? 5.0 : 4.0; }

}  // namespace

double units_per_block(const Transformer& model, const Framework& framework) {
  const ShardedWeights& sharded = framework.sharded;
  if (sharded.modules_are_units) return model.norms_per_layer + gemms_per_block(model);
  return sharded.unit_blocks > 0.0 ? 1.0 / sharded.unit_blocks : 1.0 / model.num_layers;
}

double slices_per_block(const Transformer& model, const Framework& framework, int ranks) {
  return framework.sharded.modules_are_units ? gemms_per_block(model) * ranks : 0.0;
}

bool fetches_recomputed(const ShardedWeights& sharded) {
  return sharded.modules_are_units || sharded.regathers_recomputed;
}

LaunchWaits launch_waits(const PassLoad& forward, const PassLoad& backward, bool runs_ahead) {
  const LaunchWaits alone{.forward = lack(forward), .backward = lack(backward)};
  const Seconds both = alone.forward + alone.backward;
  if (!runs_ahead || both == Seconds(0.0)) return alone;
  const double share =
      lack({forward.device + backward.device, forward.host + backward.host}) / both;
  return {.forward = share * alone.forward, .backward = share * alone.backward};
}

HostTraffic::HostTraffic(const Run& run)
    : copies_(run.framework.host_copies),
      prefetches_(run.framework.sharded.prefetch_units > 0),
      link_(run.cluster.host_link_share()) {}

void HostTraffic::weights(Bytes size) { (prefetches_ ? up_ : waited_) += size / link_; }

void HostTraffic::gradients(double count, Bytes size, bool last) {
  down_ += size / link_;
  if (copies_.gradients_return) up_ += size / link_;
  if (!last) return;
  down_ += Bytes(count * copies_.last_gradient_bytes) / link_;
  if (copies_.casts_gradients) waited_ += count * copies_.gradient_cast;
}

void HostTraffic::checkpoints(Bytes size, bool backward) {
  const std::optional<BytesPerSecond>& pageable =
      backward ? copies_.checkpoints_up : copies_.checkpoints_down;
  if (pageable)
    waited_ += size / *pageable;
  else
    (backward ? up_ : down_) += size / link_;
}

Seconds HostTraffic::exposed(Seconds compute) const {
  return waited_ + std::max(Seconds(0.0), std::max(down_, up_) - compute);
}

}  // namespace llmsim::sim
