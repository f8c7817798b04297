// A training step that the runtime has executed, measured and predicted: time by passes, memory by
// category, and what was counted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/count_comparison.h"
#include "reports/table.h"
#include "sim/predict.h"

namespace llmsim::reports {

struct ExecutedStep {
  std::string id;
  sim::Seconds step{};
  std::optional<sim::Seconds> forward, backward, optimizer;  // of the first stage
  double spread = 0.0;                                       // of repeats, relative
  std::optional<sim::Bytes> peak;                            // of the fullest rank
  sim::Prediction prediction;
  std::vector<calibrate::CountComparison> counts;  // of the first rank of each stage
  std::string machine;                             // "AMD EPYC 9654"
  std::vector<std::string> changes;  // what it has less of than the run that was asked
};

// The run file from which the runtime takes the step (runtime/measure/step_file.h).
std::string step_file_text(const sim::Run& run);

// Tables of time, memory and counts, these one by one only where they differ.  CSV is the first
// alone; JSON has the keys "run", "changes", "time", "communication", "memory" and "counts".
std::string render(const ExecutedStep& answer, Format format, const Style& style = {});

}  // namespace llmsim::reports
