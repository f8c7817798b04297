// Errors of predictions by class: of runs on one device, under one framework, in one number format,
// and of runs that wait for the same thing.
//
// Of a class, the errors e = ln(predicted / measured) of its scored step times: each study's median
// of |e| and median of e, means over studies; peaks of memory alike.  What a run waits for is the
// largest term of its step (schedule/passes.h) that is no arithmetic, so that a class of waits
// shows the mechanism that would have to be wrong.  Runs without a prediction are left out.  Errors
// are logarithms, without unit.  Source: ours.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/backtest.h"

namespace llmsim::calibrate {

struct Residual {
  std::string by;     // "device", "framework", "precision", "waits for"
  std::string value;  // "h100_sxm", "nemo", "fp8", "tensor_parallel_exposed"
  int studies = 0;    // with scored step times or peaks
  int runs = 0;
  std::optional<double> error, bias, coverage;  // of step times
  std::optional<double> memory_error, memory_bias;
};

// In the order of the kinds above, each kind by falling number of studies.
std::vector<Residual> residuals(const Backtest& backtest);

}  // namespace llmsim::calibrate
