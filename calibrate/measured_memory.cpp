#include "calibrate/measured_memory.h"

#include <algorithm>
#include <optional>

#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RunRecord;

bool has_scored_peak(const RunRecord& record) {
  return record.scored.memory && record.measured && record.measured->peak_memory;
}

bool has_scored_outcome(const RunRecord& record) {
  if (!record.scored.outcome || !record.measured || !record.measured->outcome) return false;
  return *record.measured->outcome == "ok" || *record.measured->outcome == "oom";
}

// None for a run that cannot be predicted, or whose devices have no known memory.
std::optional<sim::Run> predictable(const RunRecord& record, hwdb::RunResolver& resolver) {
  try {
    sim::Run run = resolver.resolve(record);
    const sim::Memory memory = sim::predict(run).memory;
    if (memory.peak <= sim::Bytes(0.0) || memory.capacity <= sim::Bytes(0.0)) return std::nullopt;
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

MeasuredMemory measured_memory(std::span<const hwdb::RunFile> files) {
  hwdb::Database database(":memory:");
  database.forget_fit(kMemoryFit);
  hwdb::RunResolver resolver(database);
  MeasuredMemory result;
  for (const hwdb::RunFile& file : files) {
    for (const RunRecord& record : file.runs) {
      const bool peak = has_scored_peak(record), outcome = has_scored_outcome(record);
      if (!peak && !outcome) continue;
      const std::optional<sim::Run> run = predictable(record, resolver);
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
