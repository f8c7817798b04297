// JSON of the simulator's values.  Private to reports: the only header that shows nlohmann-json.
#pragma once

#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "calibrate/backtest.h"
#include "reports/explain.h"
#include "reports/job.h"
#include "reports/plan.h"
#include "reports/plan_comparison.h"
#include "reports/prediction.h"
#include "reports/provenance.h"
#include "reports/reported.h"
#include "reports/run_changes.h"
#include "reports/step_detail.h"
#include "reports/step_difference.h"
#include "sim/memory/footprint.h"
#include "sim/predict.h"

namespace llmsim::reports {

// Keeps the order in which keys are written.
using Json = nlohmann::ordered_json;

// A value, of quantities in base units; null where it is not finite.
template <class T>
Json value_json(const T& value) {
  if constexpr (std::is_same_v<T, double>)
    return std::isfinite(value) ? Json(value) : Json();
  else if constexpr (requires {
                       { value.value() } -> std::same_as<double>;
                     })
    return value_json(value.value());
  else
    return value;
}

// Null where there is none.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? value_json(*value) : Json();
}
template <class T>
Json or_null(bool there, const T& value) {
  return there ? value_json(value) : Json();
}

// An object for each row of a table, by the keys of its columns.
Json rows_json(const Table& table);

// A list with `json(one)` for each of `all`.
template <class All, class ToJson>
Json list_json(const All& all, const ToJson& json) {
  Json list = Json::array();
  for (const auto& one : all) list.push_back(json(one));
  return list;
}

// A model in the schema of run records, all of it trained.
Json transformer_json(const sim::Transformer& model);

// The value of a field: a switch, a number, a word or a list.
Json field_json(const sim::FieldValue& value);

// A run as it was resolved, in the schema of run records (tests/validation/runs/README.md): reading
// it back gives the same run.
Json run_json(const sim::Run& run);
// The run of a prediction, with its vocabulary before padding: reading it back gives the same run.
Json run_json(const sim::Prediction& prediction);

// A prediction: all keys of README.md, "prediction".  Values that an infeasible run does not have
// are null.
Json prediction_json(const sim::Prediction& prediction, const Provenance& provenance);

// The same with the extras that `predict` prints (prediction.cpp).
Json prediction_json(const sim::Prediction& prediction, const Provenance& provenance,
                     const PredictionExtras& extras);

// The meaning of a published rate: the key "reported" of a prediction.
Json reported_json(const sim::Prediction& prediction, const Reported& reported);

// A whole training job: the key "job" of a prediction (job.cpp).
Json job_json(const JobAnswer& answer);

// The effects of changes of a run: the key "changes" of a prediction and
// of a plan (run_changes.cpp).
Json changes_json(std::span<const RunChange> changes);

// The GEMMs, attention kernels or collectives of a run, a row each:
// what --explain prints (explain.cpp).
Json explained_json(Explained what, const sim::Run& run);

// A step as it is drawn: the key "step" of a prediction and of a plan (step_detail.cpp).
Json step_json(const StepDetail& detail);

// The effects of switches: the key "assumed_switches".
Json switches_json(std::span<const sim::SwitchWorth> switches);

// A search with its outcome: all keys of README.md, "plan" (plan.cpp).
Json plan_json(const PlanAnswer& answer);

// Several questions: all keys of README.md (plan_comparison.cpp).
Json comparison_json(const PlanComparison& comparison);

// Predicted against measured runs: what `validate` prints (validation.cpp).
Json backtest_json(const calibrate::Backtest& backtest);

// What `diagnose` prints.
Json diagnosis_json(const Diagnosis& diagnosis, const Provenance& provenance);

// The curve of a stage's memory: the key "memory_timeline" of a prediction.  Indices from 0.
Json curve_json(const sim::MemoryCurve& curve);

// The document as text with a newline at its end, `indent` spaces for each level.  Bytes that are
// no UTF-8 are replaced.
std::string text_of(const Json& json, int indent = 2);

}  // namespace llmsim::reports
