#include "calibrate/profile/site_observations.h"

#include <array>
#include <cmath>

namespace llmsim::calibrate {
namespace {

constexpr double kLeastPart = 0.02;  // of the predicted step
constexpr double kMostUnlike = 1.25;
constexpr double kMovedBy = 0.02;  // of a numerical derivative
constexpr std::size_t kKinds = 4;  // GEMMs and attention, memory-bound, wires, idle

struct Times {
  sim::Seconds measured{}, predicted{};

  Times& operator+=(const Times& other) {
    measured += other.measured;
    predicted += other.predicted;
    return *this;
  }
};
using KindTimes = std::array<Times, kKinds>;

Times of_part(const StepDifference& difference, StepPart part) {
  for (const DifferenceLine& line : difference.lines)
    if (line.part == part && !line.recomputed) return {line.measured, line.predicted};
  return {};
}

// Whether a profile has a collective as it is predicted: by bytes where these are known, else by
// the number of calls.
bool is_as_predicted(const CollectiveComparison& one) {
  const sim::Bytes unknown(0.0);
  const bool by_bytes = one.message > unknown && one.predicted_message > unknown;
  const double ratio =
      by_bytes ? one.message / one.predicted_message : one.calls / one.predicted_calls;
  return ratio > 1.0 / kMostUnlike && ratio < kMostUnlike;
}

// None of traces that llmsim has drawn, which have what is exposed.
Times of_wires(const StepDifference& difference) {
  const sim::Seconds none(0.0);
  Times sum;
  for (const CollectiveComparison& one : difference.collectives)
    if (one.wire > none && one.predicted > none && is_as_predicted(one) &&
        !difference.profiled.predicted)
      sum += {one.wire, one.predicted};
  return sum;
}

KindTimes times_at(const ProfiledStep& step, sim::Run run, const hwdb::SiteEffects& effects) {
  hwdb::apply_effects(run, effects);
  const StepDifference difference =
      step_difference(std::span(&step, 1), sim::predict_without_terms(run));
  Times computing = of_part(difference, StepPart::Gemms);
  computing += of_part(difference, StepPart::Attention);
  return {computing, of_part(difference, StepPart::MemoryBound), of_wires(difference),
          of_part(difference, StepPart::Idle)};
}

}  // namespace

std::vector<SiteRow> site_observations(const ProfiledStep& step, const sim::Run& run) {
  const KindTimes at = times_at(step, run, {});
  std::array<SiteRow, kKinds> rows;
  for (const auto& [key, words, value] : hwdb::kSiteEffects) {
    hwdb::SiteEffects effects;
    effects.*value = kMovedBy;
    const KindTimes moved = times_at(step, run, effects);
    for (std::size_t k = 0; k < kKinds; ++k)
      rows[k].slopes.*value = std::log(moved[k].predicted / at[k].predicted) / kMovedBy;
  }
  const sim::Seconds whole = sim::predict_without_terms(run).step_time;
  std::vector<SiteRow> known;
  for (std::size_t k = 0; k < kKinds; ++k) {
    if (at[k].measured <= sim::Seconds(0.0) || at[k].predicted < kLeastPart * whole) continue;
    rows[k].residual = std::log(at[k].measured / at[k].predicted);
    known.push_back(rows[k]);
  }
  return known;
}

}  // namespace llmsim::calibrate
