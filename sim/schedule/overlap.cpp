#include "sim/schedule/overlap.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace llmsim::sim {

namespace {

constexpr double kMostLoss = 0.9;

// Two times that differ by less, relative to the clock, differ by rounding.
constexpr double kStreamRounding = 1e-13;

// A communicator is busy from `start` to `end`.
struct Busy {
  Seconds start, end;
};

class Streams {
 public:
  Streams(std::span<const OverlapUnit> units, const OverlapBehaviour& behaviour,
          const OverlapLoss& loss)
      : units_(units),
        loss_(loss),
        reductions_overlap_(behaviour.reductions_overlap),
        scatters_alone_(behaviour.scatters_alone),
        ahead_(behaviour.gathers_overlap
                   ? static_cast<std::size_t>(std::clamp(behaviour.prefetch, 0, kMostPrefetch))
                   : 0) {
    for (const OverlapUnit& equal : units) size_ += static_cast<std::size_t>(equal.count);
  }

  OverlapTimes run() {
    issue_gathers(std::max<std::size_t>(ahead_, 1), Seconds(0.0));
    std::size_t i = 0;
    for (const OverlapUnit& unit : units_) run(unit, i);
    return {.end = std::max({computed_, channel_, replicas_end()}), .slowdown = slowdown_};
  }

 private:
  // Runs units [i, i + unit.count).  Once a unit finds the streams as the unit before it found
  // them, only later by the time that this one took, so does every unit after it.
  void run(const OverlapUnit& unit, std::size_t& i) {
    const std::size_t end = i + static_cast<std::size_t>(unit.count);
    bool repeats = false;
    while (i < end) {
      const Seconds computed = computed_, channel = channel_, slowdown = slowdown_;
      compute(unit, i++);
      if (repeats || issued_ >= end || !sums_.empty()) continue;
      Period each{.computed = computed_ - computed,
                  .channel = computed_ - computed,
                  .slowdown = slowdown_ - slowdown};
      if (falls_behind(unit, each.computed)) {
        each.channel = unit.reduce, repeats = true;
      } else {
        repeats =
            is_later(channel_, channel, each.computed) && gathers_repeat(unit, i, each.computed);
      }
      if (repeats) i += skip_until_other_gathers(unit, i, end, each);
    }
  }

  struct Period {
    Seconds computed{}, channel{}, slowdown{};
  };

  // Whether reductions last longer than the compute that they overlap, and the whole compute of the
  // next unit overlaps them.
  bool falls_behind(const OverlapUnit& unit, Seconds period) const {
    return unit.gather <= Seconds(0.0) && reductions_overlap_ && !scatters_alone_ &&
           unit.reduce >= period && channel_ - computed_ >= period &&
           is_later(period, Seconds(0.0), unit.compute / (1.0 - loss_.channel));
  }

  bool is_later(Seconds now, Seconds then, Seconds period) const {
    const Seconds difference = now - then - period, rounding = kStreamRounding * computed_;
    return difference <= rounding && -difference <= rounding;
  }

  // Whether the gathers of units that are issued and not computed yet come one period apart.
  bool gathers_repeat(const OverlapUnit& unit, std::size_t i, Seconds period) const {
    if (unit.gather <= Seconds(0.0)) return true;
    for (std::size_t of = i; of < issued_; ++of) {
      if (!is_later(arrived_[of % arrived_.size()], arrived_[(of - 1) % arrived_.size()], period))
        return false;
    }
    return true;
  }

  // Leaves out the units that issue gathers of equal units.
  std::size_t skip_until_other_gathers(const OverlapUnit& unit, std::size_t i, std::size_t end,
                                       const Period& each) {
    const std::size_t skipped = end - issued_;
    const auto count = real(skipped);
    const std::array<Seconds, kMostPrefetch + 1> arrived = arrived_;
    for (std::size_t of = i; of < issued_; ++of) {
      arrived_[(of + skipped) % arrived_.size()] =
          unit.gather > Seconds(0.0) ? arrived[of % arrived_.size()] + count * each.computed
                                     : Seconds(0.0);
    }
    issued_ += skipped, issued_of_equal_ += static_cast<int>(skipped);
    computed_ += count * each.computed, channel_ += count * each.channel;
    slowdown_ += count * each.slowdown;
    return skipped;
  }

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

  // When `work` that starts now ends, given that both communicators have all their traffic of that
  // time already.
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
    const Seconds overlapped = rate * (channel_ - now);
    return overlapped >= work ? now + work / rate : channel_ + (work - overlapped);
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

  // Issues the gathers of the units before `end` that are not issued yet.
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
  std::size_t equal_ = 0;    // index in units_ of those whose gathers are being issued
  int issued_of_equal_ = 0;  // how many of these have been
  std::array<Seconds, kMostPrefetch + 1> arrived_{};
  std::vector<Busy> sums_;  // over replicas, those without a gap as one
  std::size_t over_ = 0;    // of them, before the unit at hand
  Seconds computed_, channel_, slowdown_;
};

}  // namespace

OverlapTimes overlap_times(std::span<const OverlapUnit> units, const OverlapBehaviour& behaviour,
                           const OverlapLoss& loss) {
  return Streams(units, behaviour, loss).run();
}

}  // namespace llmsim::sim
