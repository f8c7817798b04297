// Measured runs of a small model, for tests of fits.
#pragma once

#include <string>
#include <vector>

#include "calibrate/measured_runs.h"

namespace llmsim::calibrate {

// A scored run of a Llama-3 8B on eight devices that took 1 s.
inline hwdb::RunRecord sample_record(const std::string& id, const std::string& accelerator,
                                     const std::string& framework, int global_batch = 16) {
  hwdb::RunRecord record;
  record.id = id;
  record.model.name = "llama-3-8b";
  record.model.fields = {{"seq_len", 2048}};
  record.hardware.accelerator = accelerator;
  record.hardware.num_devices = 8;
  record.training.framework = framework;
  record.training.strategy["precision"] = "bf16";
  record.training.strategy["sharding"] = "zero3";
  record.training.strategy["micro_batch"] = 1;
  record.training.strategy["global_batch"] = global_batch;
  record.measured.emplace();
  record.measured->step_time = sim::Seconds(1.0);
  record.scored.step_time = true;
  return record;
}

// A group of `count` such runs, of growing batches.
inline hwdb::RunFile sample_group(const std::string& name, const std::string& accelerator,
                                  const std::string& framework, int count) {
  hwdb::RunFile file{
      .file = name + ".json", .group = name, .description = {}, .runs = {}, .rejected = {}};
  for (int i = 1; i <= count; ++i) {
    file.runs.push_back(sample_record(name + std::to_string(i), accelerator, framework, 8 * i));
    file.runs.back().group = name;
  }
  return file;
}

}  // namespace llmsim::calibrate
