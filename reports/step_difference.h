// Where the time of a measured step went, for people on one screen and for machines.
//
// Lines are parts of the step, measured and predicted, and add up to the measured step less the
// predicted one; "worth" is what the step would gain if the line were as predicted, as a share of
// the measured step.  The three that weigh most are said in words, with what would mend them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/profile/step_difference.h"
#include "reports/provenance.h"
#include "reports/table.h"
#include "sim/predict.h"

namespace llmsim::reports {

// A step as a log has it.
struct LoggedStepTime {
  sim::Seconds step{};
  double spread = 0.0;    // relative
  std::size_t lines = 0;  // of the log that count
  std::string format;     // of the log
};

// What is known of a measured step: a profile, a log, or both.
struct Diagnosis {
  sim::Prediction prediction;
  std::optional<calibrate::StepDifference> difference{};
  std::optional<LoggedStepTime> logged{};
  // Of a log alone: which part could explain it.
  std::vector<calibrate::PartFactor> factors{};
};

std::string render(const Diagnosis& diagnosis, const Provenance& provenance, Format format,
                   const Style& style = {});

// The lines that weigh most in words: what it is, what it is worth, what would mend it.
std::vector<std::string> findings(const Diagnosis& diagnosis);

}  // namespace llmsim::reports
