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

bool has_scored_outcome(const RunRecord& record) {
  if (!record.scored.outcome || !record.measured || !record.measured->outcome) return false;
  return *record.measured->outcome == "ok" || *record.measured->outcome == "oom";
}

// None for a run that cannot be predicted, or without what is wanted of its prediction.
std::optional<sim::Run> predictable(const RunRecord& record, hwdb::RunResolver& resolver,
                                    bool (*wanted)(const sim::Prediction&)) {
  try {
    sim::Run run = resolver.resolve(record);
    if (!wanted(sim::predict(run))) return std::nullopt;
    run.facts.clear();
    return run;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::size_t index_of(std::vector<std::string>& groups, const std::string& group) {
  const auto found = std::ranges::find(groups, group);
  if (found != groups.end()) return static_cast<std::size_t>(found - groups.begin());
  groups.push_back(group);
  return groups.size() - 1;
}

}  // namespace

MeasuredRuns measured_runs(std::span<const hwdb::RunFile> files, std::size_t most_per_group) {
  hwdb::Database database(":memory:");
  database.forget_fit(kRunFit);
  hwdb::RunResolver resolver(database);
  // Files of one group are one study.
  std::vector<std::string> names;
  std::vector<std::vector<MeasuredRun>> groups;
  for (const hwdb::RunFile& file : files) {
    const std::size_t group = index_of(names, file.group);
    groups.resize(names.size());
    for (const RunRecord& record : file.runs) {
      const auto& measured = record.measured;
      if (!record.scored.step_time || !measured || !measured->step_time) continue;
      const auto wanted = [](const sim::Prediction& p) { return p.step_time > sim::Seconds(0.0); };
      if (const auto run = predictable(record, resolver, wanted))
        groups[group].push_back({.id = record.id,
                                 .run = *run,
                                 .measured = record.measured->step_time->value(),
                                 .moe = sim::has_moe_errors(*run)});
    }
  }
  MeasuredRuns result;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t taken = std::min(groups[g].size(), most_per_group);
    for (std::size_t i = 0; i < taken; ++i) {
      MeasuredRun& run = groups[g][i * groups[g].size() / taken];
      run.group = result.groups.size();
      result.runs.push_back(std::move(run));
    }
    if (taken > 0) result.groups.push_back(names[g]);
  }
  return result;
}

MeasuredMemory measured_memory(std::span<const hwdb::RunFile> files) {
  hwdb::Database database(":memory:");
  database.forget_fit(kMemoryFit);
  hwdb::RunResolver resolver(database);
  MeasuredMemory result;
  for (const hwdb::RunFile& file : files) {
    for (const RunRecord& record : file.runs) {
      const bool outcome = has_scored_outcome(record);
      const bool peak = record.scored.memory && record.measured && record.measured->peak_memory;
      if (!peak && !outcome) continue;
      const auto wanted = [](const sim::Prediction& p) {
        return p.memory.peak > sim::Bytes(0.0) && p.memory.capacity > sim::Bytes(0.0);
      };
      const std::optional<sim::Run> run = predictable(record, resolver, wanted);
      if (!run) continue;
      const std::size_t group = index_of(result.groups, file.group);
      if (peak)
        result.peaks.push_back(
            {.id = record.id, .group = group, .run = *run, .measured = *record.measured});
      if (outcome)
        result.outcomes.push_back({.id = record.id,
                                   .group = group,
                                   .run = *run,
                                   .ran = *record.measured->outcome == "ok"});
    }
  }
  return result;
}

}  // namespace llmsim::calibrate
