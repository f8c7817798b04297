// The runs that differ from a run in one option or in one property of the hardware.
#pragma once

#include <vector>

#include "cli/run_options.h"
#include "hwdb/store/database.h"
#include "reports/run_changes.h"
#include "sim/predict.h"

namespace llmsim::cli {

// The factor by which hardware is made better.
inline constexpr double kBetterHardware = 1.25;

// Every change of the strategy that breaks no rule, predicted as `llmsim predict` predicts the run
// with the options of its text:
//
//   the other recompute policies; twice and half the micro-batch, the virtual stages and the expert
//   ranks; each sharding; twice the tensor ranks, stages or context ranks on half the replicas, and
//   half of them on twice; twice the tensor ranks on half the stages, and back; each switch the
//   other way round; fp8; the optimizer or the activations on the host
//
// `prediction`: of the run that `options` ask for.
std::vector<reports::RunChange> strategy_changes(const RunOptions& options,
                                                 const sim::Prediction& prediction,
                                                 const hwdb::Database& database);

// Of a run that does not fit: one, two or three changes at once that make it fit, as few as
// are enough; where one is not enough, those that need least memory are changed further.
// Empty where none does.
std::vector<reports::RunChange> fitting_changes(const RunOptions& options,
                                                const sim::Prediction& prediction,
                                                const hwdb::Database& database);

// Each property of the hardware, kBetterHardware times as good, with the same strategy.
std::vector<reports::RunChange> hardware_changes(const sim::Prediction& prediction);

}  // namespace llmsim::cli
