// Run records: training runs as people write them down.
//
// A record is the JSON of one run: what was trained, on what, how, and (in a measured run) what
// came out.  The schema is described in tests/validation/runs/README.md.  Every part is optional
// when read; null means unknown.  RunResolver (run_resolver.h) fills what is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"
#include "sim/run.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {

// Units are SI and the names those of the schema.
struct RecordedModel {
  std::optional<std::string> name, architecture;
  sim::PartialTransformer fields;  // sim/model/transformer.h
  std::optional<bool> bias;        // of all layers that a GPT has them in, or of none
  std::optional<std::int64_t> num_parameters;
  std::optional<std::string> trainable;  // "all", "lora", "adapter"
  std::optional<int> lora_rank;
  std::vector<std::string> lora_targets;
};

// Every key of a model, so that it is read back as it is.
RecordedModel recorded(const sim::Transformer& model);

struct RecordedHardware {
  std::optional<std::string> accelerator, system;
  std::optional<int> num_devices, devices_per_node;
  std::optional<double> inter_node_bytes_per_s_per_device;  // one direction
  std::optional<std::string> transport;                     // "rdma", "sockets"
  std::optional<std::string> collective_algorithm;  // "auto", "ring", "tree", "hierarchical"
  bool operator==(const RecordedHardware&) const = default;
};

struct RecordedTraining {
  std::optional<std::string> framework, framework_version;
  std::optional<std::string> framework_detail, precision_detail, recompute_detail;  // free text
  sim::PartialStrategy strategy;  // sim/strategy/strategy.h
  // Values that follow from the fields of a strategy: num_microbatches = global_batch / (dp *
  // micro_batch), the gradient accumulation steps of a replica; replicate_size = dp * cp /
  // shard_size; dp_overlap is each of the two overlaps that is not stated.
  std::optional<int> num_microbatches, replicate_size;
  std::optional<bool> dp_overlap;
  sim::SettingValues settings;  // of the training program: settings.h
};

// What was measured.  Reported rates are stored as printed; only times, bytes and outcomes are
// compared with predictions.
struct Measured {
  std::optional<sim::Seconds> step_time;
  std::optional<std::string> step_time_derived_from;
  std::optional<double> tokens_per_second_per_device, reported_tflops_per_device, reported_mfu,
      reported_hfu;
  std::optional<std::string> flops_convention;
  std::optional<sim::Bytes> peak_memory;
  std::optional<std::string> memory_kind;   // "allocated", "reserved", "device"
  std::optional<std::string> memory_scope;  // "max-rank", "last-stage", "first-or-last-stage"
  std::optional<std::string> outcome;       // "ok", "oom", "crash", "flaky", "feasible"
};

// Whether a value is exact and complete enough to score a prediction by.
struct Scored {
  bool step_time = false;
  bool memory = false;
  bool outcome = false;
};

struct RunRecord {
  std::string file;
  std::string id;
  std::string group;
  std::optional<std::string> source, date, notes;  // date: "YYYY-MM-DD"
  std::optional<double> noise;                     // relative spread stated by the source
  RecordedModel model;
  RecordedHardware hardware;
  RecordedTraining training;
  std::optional<Measured> measured;
  Scored scored;
};

// A run that could not be read, with the one-line reason.
struct RejectedRun {
  std::string id;
  std::string reason;
};

struct RunFile {
  std::string file;
  std::string group;
  std::string description;
  // What its step times are made of that the model has not; empty: nothing that is known.
  std::string unmodelled{};
  std::vector<RunRecord> runs;
  std::vector<RejectedRun> rejected;  // runs with an unknown key, a wrong type or an unknown value
};

// Free text (notes, source, framework_detail, precision_detail, recompute.detail, ...) is stored to
// be printed; nothing depends on it.
//
// Runs of the JSON in `text`: {"schema": 2, "group": ..., "runs": [...]}, one run alone, or what
// `predict --format json` printed, whose run is taken as it was resolved.
// Throws Error where the text is no such JSON (with file and line); a run with a mistake, or
// with control characters in a text, is put into `rejected` and the others are read.  `file`
// names it in messages.
RunFile parse_runs(const std::string& text, const std::string& file);

// The same for a file.  Throws Error where it cannot be read.
RunFile read_runs(const std::string& path);

// The only run of a file.  Throws Error where the run is rejected, or the file has none or several.
RunRecord read_run(const std::string& path);

// The same for the text of a file.
RunRecord parse_run(const std::string& text, const std::string& file);

}  // namespace llmsim::hwdb
