// A prediction for people (what comes out, how it is made up, what was assumed) and for machines
// (the JSON of README.md).
#pragma once

#include <span>
#include <string>

#include "reports/provenance.h"
#include "reports/reported.h"
#include "reports/table.h"
#include "sim/memory/footprint.h"
#include "sim/predict.h"

namespace llmsim::reports {

// One row per prediction: mesh, recipe, step time, rates, utilisation, peak memory and the largest
// terms of the step.  Figures that an infeasible run does not have are none.
Table summary_table(const std::string& title, std::span<const sim::Prediction> predictions);

// The run of a prediction as a run file, with the vocabulary that was asked for: it is read back as
// it was.
std::string run_text(const sim::Prediction& prediction);

// The whole answer.  For people: result, run as resolved, assumptions, breakdown, communication,
// memory, FLOPs conventions, evidence; with a published figure also what that means, with a curve
// the memory of a stage through the step.  CSV is the summary row, or the curve; JSON has the keys
// of README.md.
std::string render(const sim::Prediction& prediction, const Provenance& provenance, Format format,
                   const Style& style = {}, const std::optional<Reported>& reported = std::nullopt,
                   const std::optional<sim::MemoryCurve>& curve = std::nullopt);

}  // namespace llmsim::reports
