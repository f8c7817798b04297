// Counts of a training step by the runtime and by the simulator, which must be equal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hwdb/runs/runtime_results.h"
#include "hwdb/store/database.h"
#include "sim/run.h"

namespace llmsim::calibrate {

struct CountComparison {
  std::string name;  // "llama-3x64 bf16 tp-2 rank 1: peak bytes"
  std::int64_t predicted = 0;
  std::int64_t measured = 0;

  bool equal() const { return predicted == measured; }
};

// `run` is the step's, resolved.  In order: parameters; FLOPs of GEMMs and attention, forward and
// backward; calls and bytes of every collective that either side has; bytes between steps, after
// forward and at the peak, and on the host.
std::vector<CountComparison> compare_counts(const hwdb::CountedStep& step, const sim::Run& run);

// Of all steps of a file, which are counted alike on any device.
std::vector<CountComparison> compare_counts(const hwdb::RuntimeResults& results,
                                            const hwdb::Database& database);

}  // namespace llmsim::calibrate
