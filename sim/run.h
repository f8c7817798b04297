// A run: what is trained, on what, and how.  The input of predict().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/base/field.h"
#include "sim/hardware/cluster.h"
#include "sim/model/transformer.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/peak_correction.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Where a value comes from.
enum class Evidence { DataSheet, Measured, Fitted, Assumed, Given };

// One value behind a prediction, with its source: "framework.megatron-lm.storage.gradient_bytes",
// "4", Measured, "arXiv ...".
struct Fact {
  std::string key;
  std::string value;  // as printed, with unit
  Evidence evidence = Evidence::Assumed;
  std::string source;
};

// Settings of a training program that belong to no layout, by their keys in
// run files: {"dropout", 0.1}.
using SettingValues = std::map<std::string, FieldValue>;

struct Run {
  std::string id;
  std::string group;
  std::string date;               // of the software, "YYYY-MM-DD"; empty: today's
  std::string framework_version;  // as its publisher counts; empty: that of the date
  SettingValues settings;         // those that the run states; `framework` obeys them already
  Transformer model;
  Cluster cluster;
  Strategy strategy;
  Framework framework;
  // False: a step is a micro-step without optimizer (some published timings).
  bool optimizer_step = true;
  PeakCorrection measured_peaks;      // of the cluster; empty: nothing is known of them
  std::vector<std::string> warnings;  // what the prediction is to be read with, a line each
  std::vector<Fact> facts;  // every coefficient and every assumed default, for the provenance
};

inline PeakProblem peak_problem(const Run& run) {
  return peak_problem(run.model, run.strategy, run.framework.id, run.cluster.device.id);
}

// Whether PredictionErrors::moe_site holds: experts, or expert or context ranks.
inline bool has_moe_errors(const Run& run) {
  return run.model.moe.has_value() || run.strategy.ep > 1 || run.strategy.cp > 1;
}

// Vocabulary as the framework trains it: padded to a multiple of vocab_multiple * tensor_parallel.
inline int trained_vocab_size(const Run& run) {
  return padded_vocab_size(run.model.vocab_size, run.framework.vocab_multiple, run.strategy.tp);
}

}  // namespace llmsim::sim
