// A prediction for people (what comes out, how it is made up, what was assumed) and for machines
// (the JSON of README.md).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/job.h"
#include "reports/provenance.h"
#include "reports/reported.h"
#include "reports/run_changes.h"
#include "reports/step_detail.h"
#include "reports/table.h"
#include "sim/memory/footprint.h"
#include "sim/predict.h"

namespace llmsim::reports {

// One row per prediction, the same columns whatever is predicted: mesh, recipe, step time,
// rates, utilisation, peak memory and the largest terms of the step.  Values that an infeasible
// run does not have are none.
Table summary_table(const std::string& title, std::span<const sim::Prediction> predictions);

// The run of a prediction with the vocabulary that was asked for, which its framework pads.
sim::Run unpadded_run(const sim::Prediction& prediction);

// That run as a run file: it is read back as it was.
std::string run_text(const sim::Prediction& prediction);

// What a screen shows in addition to a prediction.
struct PredictionExtras {
  std::optional<Reported> reported{};       // a published rate, and what it means
  std::optional<sim::MemoryCurve> curve{};  // the memory of a stage through the step
  std::optional<JobAnswer> job{};           // what all steps of a job take
  std::vector<RunChange> changes{};         // what would change it, where that is asked for
  // Of one screen: what the switches are worth that were assumed.
  std::vector<sim::SwitchWorth> assumed_switches{};
  std::optional<StepDetail> step{};  // for JSON: its timeline, operators and facts
  bool one_screen = false;           // for people: without terms, stages, conventions and evidence
};

// For people: result, run as resolved, what a step waits for; unless one screen is asked for also
// assumptions, breakdown, communication, memory, FLOPs conventions and evidence.  CSV is the
// summary row, or the curve; JSON has the keys of README.md.
std::string render(const sim::Prediction& prediction, const Provenance& provenance, Format format,
                   const Style& style = {}, const PredictionExtras& extras = {});

}  // namespace llmsim::reports
