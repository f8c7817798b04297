#include "calibrate/spreads.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace llmsim::calibrate {
namespace {

constexpr double kPriorGroups = 4.0;
constexpr double kNinetyPercent = 1.645;

// Sums over one side, each group counting once.
struct Side {
  double squares = 0.0;
  double groups = 0.0;

  double spread() const { return groups > 0.0 ? std::sqrt(squares / groups) : 0.0; }
};

struct Sides {
  Side faster, slower;
};

void add(Sides& sides, double slowness, double weight) {
  Side& side = slowness > 0.0 ? sides.slower : sides.faster;
  side.squares += weight * slowness * slowness;
  side.groups += weight;
}

Spread spread_of(const Sides& sides) {
  return {.faster = sides.faster.spread(),
          .slower = sides.slower.spread(),
          .groups_faster = sides.faster.groups,
          .groups_slower = sides.slower.groups};
}

Sides with_prior(Sides sides, const Spread& all) {
  sides.faster.squares += kPriorGroups * all.faster * all.faster;
  sides.slower.squares += kPriorGroups * all.slower * all.slower;
  sides.faster.groups += kPriorGroups;
  sides.slower.groups += kPriorGroups;
  return sides;
}

Spreads spreads_without(const MeasuredRuns& runs, const std::vector<double>& errors,
                        std::optional<std::size_t> without) {
  std::map<std::size_t, double> count;
  std::map<std::pair<std::size_t, std::string>, double> count_of_framework;
  for (const MeasuredRun& run : runs.runs) {
    count[run.group] += 1.0;
    count_of_framework[{run.group, run.run.framework.id}] += 1.0;
  }
  Sides all;
  std::map<std::string, Sides> by_framework;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    if (without == run.group) continue;
    add(all, -errors[i], 1.0 / count[run.group]);
    add(by_framework[run.run.framework.id], -errors[i],
        1.0 / count_of_framework[{run.group, run.run.framework.id}]);
  }
  Spreads result{.all = spread_of(all), .by_framework = {}};
  for (const auto& [framework, sides] : by_framework)
    result.by_framework[framework] = spread_of(with_prior(sides, result.all));
  return result;
}

std::set<std::string> groups_of(const MeasuredRuns& runs, const std::string& framework) {
  std::set<std::string> groups;
  for (const MeasuredRun& run : runs.runs) {
    if (run.run.framework.id == framework) groups.insert(runs.groups[run.group]);
  }
  return groups;
}

std::string told_by(const std::set<std::string>& groups) {
  std::string text =
      kSpreadFit + std::to_string(groups.size()) + (groups.size() == 1 ? " group" : " groups");
  const char* separator = ": ";
  for (const std::string& group : groups) {
    text += separator + group;
    separator = ", ";
  }
  return text;
}

hwdb::Coefficient row(const std::string& framework, const char* key, double spread, double groups,
                      const std::string& told) {
  const double value = spread * student_factor(groups);
  return {.scope = "framework",
          .id = framework,
          .key = key,
          .value = value,
          .standard_error = value / std::sqrt(2.0 * groups),
          .evidence = sim::Evidence::Fitted,
          .source =
              "root mean square of ln(measured / predicted) of left-out studies, with four "
              "studies' worth of all frameworks, times "
              "Student's quantile over the normal one",
          .fitted_from = told};
}

}  // namespace

double student_factor(double studies) {
  const double n = std::max(kPriorGroups, studies), z = kNinetyPercent, z2 = z * z;
  const double first = (z2 + 1.0) / (4.0 * n),
               second = ((5.0 * z2 + 16.0) * z2 + 3.0) / (96.0 * n * n);
  const double third = (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / (384.0 * n * n * n);
  return 1.0 + first + second + third;
}

const Spread& Spreads::of(const std::string& framework) const {
  const auto found = by_framework.find(framework);
  return found == by_framework.end() ? all : found->second;
}

Spreads spreads(const MeasuredRuns& runs, const std::vector<double>& errors) {
  return spreads_without(runs, errors, std::nullopt);
}

std::vector<std::pair<double, double>> left_out_intervals(const MeasuredRuns& runs,
                                                          const std::vector<double>& errors) {
  std::vector<Spreads> without;
  for (std::size_t g = 0; g < runs.groups.size(); ++g)
    without.push_back(spreads_without(runs, errors, g));
  std::vector<std::pair<double, double>> intervals;
  for (const MeasuredRun& run : runs.runs) {
    const Spread& spread = without[run.group].of(run.run.framework.id);
    intervals.emplace_back(-kNinetyPercent * spread.faster * student_factor(spread.groups_faster),
                           kNinetyPercent * spread.slower * student_factor(spread.groups_slower));
  }
  return intervals;
}

std::vector<hwdb::Coefficient> spread_rows(const MeasuredRuns& runs, const Spreads& spreads) {
  std::vector<hwdb::Coefficient> rows;
  for (const auto& [framework, spread] : spreads.by_framework) {
    const std::string told = told_by(groups_of(runs, framework));
    rows.push_back(row(framework, "spread_faster", spread.faster, spread.groups_faster, told));
    rows.push_back(row(framework, "spread_slower", spread.slower, spread.groups_slower, told));
  }
  return rows;
}

}  // namespace llmsim::calibrate
