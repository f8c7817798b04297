// Step times of recorded runs, with the shipped facts unless others are given.
#pragma once

#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/predict.h"

namespace llmsim::hwdb {

inline const Database& shipped_database() {
  static const Database shipped(":memory:");
  return shipped;
}

inline sim::Prediction predicted(const RunRecord& record,
                                 const Database& facts = shipped_database()) {
  RunResolver resolver(facts);
  return sim::predict(resolver.resolve(record));
}

inline double step_seconds(const RunRecord& record, const Database& facts = shipped_database()) {
  return predicted(record, facts).step_time.value();
}

}  // namespace llmsim::hwdb
