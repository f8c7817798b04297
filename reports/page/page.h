// An answer as one page: a self-contained HTML document, light and dark, on a screen or printed.
//
// The page holds the JSON of the answer (README.md) once, and draws it with the libraries that
// libraries.js names and its own script and style: page.html is the frame with its placeholders,
// style.css the style, and the script is figures.js (numbers and units), charts.js (Observable
// Plot), tables.js (Tabulator), sections.js, a file for each group of the page's parts, and main.js
// at the end.  It asks the network for nothing.
#pragma once

#include <optional>
#include <string>

#include "calibrate/backtest.h"
#include "reports/plan.h"
#include "reports/plan_comparison.h"
#include "reports/prediction.h"
#include "reports/step_difference.h"

namespace llmsim::reports {

// What to do where this program has no pages: it was built where their libraries could not be had
// (libraries.cmake).  The functions below then throw Error with the same words.
std::optional<std::string> missing_pages();

// The JSON in it is that of `--format json`.
std::string page(const PlanAnswer& answer);
std::string page(const PlanComparison& comparison);  // opens with the best answer
// A measured step and its prediction.
std::string page(const Diagnosis& diagnosis, const Provenance& provenance);
// Predicted against measured: the JSON of `validate`.
std::string page(const calibrate::Backtest& backtest);
std::string page(const sim::Prediction& prediction, const Provenance& provenance,
                 const PredictionExtras& extras);

}  // namespace llmsim::reports
