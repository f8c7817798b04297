// The effect of one change of a run: of a switch or number of its strategy, or of a
// property of the hardware.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "reports/table.h"
#include "sim/predict.h"

namespace llmsim::reports {

struct RunChange {
  std::string change;  // "--micro-batch 2", "network x 1.25"
  bool of_hardware = false;
  bool fits = false;
  double fit_probability = 0.0;
  // Time of a step relative to the run's.
  double relative_time = 1.0;
  // The same with the best layout for the changed hardware; none: not searched.
  std::optional<double> planned_time{};
  sim::Seconds step_time{};
  sim::Bytes needed{};  // of the fullest device
};

// The changes that fit and change the step by a thousandth at least, the fastest first, on one
// screen; none where there is none.
std::optional<Table> changes_table(const std::string& title, std::span<const RunChange> changes);

// The fastest of those that fit; null where none does.
const RunChange* nearest_fit(std::span<const RunChange> changes);

// "; --recompute full fits, with a step of 12.1 s"; where none does, what to do.
std::string nearest_fit_text(std::span<const RunChange> changes);

}  // namespace llmsim::reports
