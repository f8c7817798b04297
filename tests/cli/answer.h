// What every door must answer alike, of a run however it was given.
#pragma once

#include <ostream>
#include <string>
#include <utility>

#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim {

inline const hwdb::Database& database() {
  static const hwdb::Database shipped(":memory:");
  return shipped;
}

// What all doors must agree on.
struct Answer {
  double step_time, low, high, peak, needed, mfu, hfu;
  std::int64_t parameters;
  std::string rule;
  bool operator==(const Answer&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Answer& a) {
  return out << a.step_time << " s in " << a.low << " to " << a.high << ", peak " << a.peak
             << " of " << a.needed << ", MFU " << a.mfu << " HFU " << a.hfu << ", " << a.parameters
             << " parameters, \"" << a.rule << "\"";
}

inline Answer answer_of(const sim::Prediction& p) {
  return {.step_time = p.step_time.value(),
          .low = p.interval.first.value(),
          .high = p.interval.second.value(),
          .peak = p.memory.peak.value(),
          .needed = p.memory.needed().value(),
          .mfu = p.mfu,
          .hfu = p.hfu,
          .parameters = p.parameters.total(),
          .rule = p.infeasible ? p.infeasible->rule : ""};
}

inline hwdb::RunRecord parsed(const std::string& text) {
  hwdb::RunFile file = hwdb::parse_runs(text, "run.json");
  if (!file.rejected.empty()) throw Error(file.rejected.front().reason);
  return std::move(file.runs.front());
}

inline sim::Prediction predicted(const hwdb::RunRecord& record) {
  static hwdb::RunResolver resolver(database());
  return sim::predict(resolver.resolve(record));
}

inline Answer answer_of_text(const std::string& text) { return answer_of(predicted(parsed(text))); }

}  // namespace llmsim
