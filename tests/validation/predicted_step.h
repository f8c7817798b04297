// Step times of recorded runs with the shipped facts alone.
#pragma once

#include "hwdb/database.h"
#include "hwdb/run_resolver.h"
#include "sim/predict.h"

namespace llmsim::hwdb {

inline sim::Prediction predicted(const RunRecord& record) {
  static const Database shipped(":memory:");
  RunResolver resolver(shipped);
  return sim::predict(resolver.resolve(record));
}

inline double step_seconds(const RunRecord& record) { return predicted(record).step_time.value(); }

}  // namespace llmsim::hwdb
