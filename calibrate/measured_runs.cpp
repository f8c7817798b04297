#include "calibrate/measured_runs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RunRecord;

bool scored(const RunRecord& record) {
  return record.scored.step_time && record.measured && record.measured->step_time;
}

// None for a run that cannot be predicted.
std::optional<MeasuredRun> measured_run(const RunRecord& record, hwdb::RunResolver& resolver) {
  try {
    MeasuredRun measured{.id = record.id,
                         .group = 0,
                         .run = resolver.resolve(record),
                         .measured = record.measured->step_time->value(),
                         .moe = false};
    measured.moe = sim::has_moe_errors(measured.run);
    if (sim::predict(measured.run).step_time <= sim::Seconds(0.0)) return std::nullopt;
    measured.run.facts.clear();
    return measured;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<MeasuredRun> spread_evenly(std::vector<MeasuredRun> runs, std::size_t most) {
  const std::size_t taken = std::min(runs.size(), most);
  std::vector<MeasuredRun> some;
  for (std::size_t i = 0; i < taken; ++i) some.push_back(std::move(runs[i * runs.size() / taken]));
  return some;
}

}  // namespace

MeasuredRuns measured_runs(std::span<const hwdb::RunFile> files, std::size_t most_per_group) {
  hwdb::Database database(":memory:");
  database.forget_fit(kRunFit);
  hwdb::RunResolver resolver(database);
  // Files of one group are one study.
  std::vector<std::pair<std::string, std::vector<MeasuredRun>>> groups;
  for (const hwdb::RunFile& file : files) {
    auto group = std::ranges::find(groups, file.group, [](const auto& one) { return one.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {file.group, {}});
    for (const RunRecord& record : file.runs) {
      if (!scored(record)) continue;
      if (auto run = measured_run(record, resolver)) group->second.push_back(std::move(*run));
    }
  }
  MeasuredRuns result;
  for (auto& [name, of_group] : groups) {
    if (of_group.empty()) continue;
    for (MeasuredRun& run : spread_evenly(std::move(of_group), most_per_group)) {
      run.group = result.groups.size();
      result.runs.push_back(std::move(run));
    }
    result.groups.push_back(name);
  }
  return result;
}

}  // namespace llmsim::calibrate
