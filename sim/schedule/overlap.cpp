#include "sim/schedule/overlap.h"

#include <algorithm>
#include <array>

namespace llmsim::sim {
namespace {

Seconds serial_time(std::span<const OverlapUnit> units) {
  Seconds sum;
  for (const OverlapUnit& unit : units) sum += unit.gather + unit.compute + unit.reduce + unit.replicate;
  return sum;
}

class Streams {
 public:
  Streams(std::span<const OverlapUnit> units, int prefetch)
      : units_(units), ahead_(static_cast<std::size_t>(std::clamp(prefetch, 0, kMostPrefetch))) {}

  Seconds run() {
    issue_gathers(std::max<std::size_t>(ahead_, 1), Seconds(0.0));
    for (std::size_t i = 0; i < units_.size(); ++i) compute(i);
    return std::max({computed_, channel_, replicas_});
  }

 private:
  void compute(std::size_t i) {
    const Seconds start = std::max(computed_, arrived_[i % arrived_.size()]);
    if (ahead_ > 0) issue_gathers(i + ahead_ + 1, start);
    computed_ = start + units_[i].compute;
    if (ahead_ == 0) issue_gathers(i + 2, computed_);
    if (units_[i].reduce > Seconds(0.0)) channel_ = std::max(channel_, computed_) + units_[i].reduce;
    if (units_[i].replicate > Seconds(0.0)) replicas_ = std::max(replicas_, channel_) + units_[i].replicate;
  }

  // Those of the units before `end` that are not issued yet.
  void issue_gathers(std::size_t end, Seconds now) {
    for (; issued_ < std::min(end, units_.size()); ++issued_) {
      const Seconds gather = units_[issued_].gather;
      if (gather > Seconds(0.0)) channel_ = std::max(channel_, now) + gather;
      arrived_[issued_ % arrived_.size()] = gather > Seconds(0.0) ? channel_ : Seconds(0.0);
    }
  }

  std::span<const OverlapUnit> units_;
  std::size_t ahead_;
  std::size_t issued_ = 0;
  std::array<Seconds, kMostPrefetch + 1> arrived_{};
  Seconds computed_, channel_, replicas_;
};

}  // namespace

Seconds overlap_end(std::span<const OverlapUnit> units, int prefetch, bool overlap) {
  return overlap ? Streams(units, prefetch).run() : serial_time(units);
}

}  // namespace llmsim::sim
