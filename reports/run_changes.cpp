#include "reports/run_changes.h"

#include <algorithm>
#include <cmath>

#include "reports/json.h"

namespace llmsim::reports {
namespace {

constexpr double kWorthTelling = 1e-3;
constexpr std::size_t kShown = 16;

double best_time(const RunChange& change) {
  return std::min(change.relative_time, change.planned_time.value_or(change.relative_time));
}

bool is_worth_telling(const RunChange& change) {
  return change.fits && (std::abs(change.relative_time - 1.0) >= kWorthTelling ||
                         std::abs(best_time(change) - 1.0) >= kWorthTelling);
}

// "-8.1 %" of a step.
std::string change_text(double relative_time) {
  const double percent = 100.0 * (relative_time - 1.0);
  return (percent > 0.0 ? "+" : "") + significant(percent, 2) + " %";
}

}  // namespace

std::optional<Table> changes_table(const std::string& title, std::span<const RunChange> changes) {
  Table table(title,
              {as_text("change"), as_text("relative_time", "step"),
               as_text("planned_time", "planned anew"), in_percent("fit_probability", "fits")});
  std::vector<const RunChange*> told;
  bool planned = false;
  for (const RunChange& change : changes) {
    if (is_worth_telling(change)) told.push_back(&change);
    planned = planned || change.planned_time;
  }
  std::ranges::stable_sort(told, [](const RunChange* one, const RunChange* other) {
    return best_time(*one) < best_time(*other);
  });
  if (told.empty()) return std::nullopt;
  const std::size_t left_out = told.size() - std::min(told.size(), kShown);
  told.resize(told.size() - left_out);
  for (const RunChange* change : told)
    table.add_row({change->change, change_text(change->relative_time),
                   change->planned_time ? Cell(change_text(*change->planned_time)) : Cell(),
                   change->fit_probability});
  if (!planned) table.hide("planned_time");
  if (left_out > 0)
    table.add_note(std::to_string(left_out) + " slower ones are left out: --format json has them");
  return table;
}

const RunChange* nearest_fit(std::span<const RunChange> changes) {
  const RunChange* nearest = nullptr;
  for (const RunChange& change : changes) {
    if (!change.fits || change.of_hardware) continue;
    if (!nearest || change.relative_time < nearest->relative_time) nearest = &change;
  }
  return nearest;
}

std::string nearest_fit_text(std::span<const RunChange> changes) {
  if (const RunChange* const nearest = nearest_fit(changes))
    return "; " + nearest->change + " fits, with a step of " + human(nearest->step_time);
  return "; nothing near it fits: llmsim plan tries all layouts";
}

Json changes_json(std::span<const RunChange> changes) {
  return list_json(changes, [](const RunChange& change) {
    return Json{{"change", change.change},
                {"of_hardware", change.of_hardware},
                {"fits", change.fits},
                {"fit_probability", change.fit_probability},
                {"step_time_s", change.step_time.value()},
                {"needed_bytes", change.needed.value()},
                {"relative_time", change.relative_time},
                {"planned_time", or_null(change.planned_time)}};
  });
}

}  // namespace llmsim::reports
