// The shipped facts, and what resolves runs on them, once for all cases of a program.
#pragma once

#include <map>
#include <string>

#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"

namespace llmsim::hwdb {

inline const Database& facts() {
  static const Database database(":memory:");
  return database;
}

inline RunResolver& resolver() {
  static RunResolver one(facts());
  return one;
}

// Fields of a strategy, and settings.
using Changes = std::map<std::string, sim::FieldValue>;

inline RunRecord record_on(const std::string& model, int devices, const std::string& framework,
                           const Changes& changes) {
  RunRecord record;
  record.id = model;
  record.model.name = model;
  record.model.fields["seq_len"] = 4096;
  record.hardware.accelerator = "h100_sxm";
  record.hardware.num_devices = devices;
  record.training.framework = framework;
  record.training.strategy = {{"precision", "bf16"}, {"global_batch", 128}};
  for (const auto& [key, value] : changes) {
    if (sim::find_strategy_field(key))
      record.training.strategy[key] = value;
    else
      record.training.settings[key] = value;
  }
  return record;
}

inline sim::Run run_on(const std::string& model, int devices, const std::string& framework,
                       const Changes& changes) {
  return resolver().resolve(record_on(model, devices, framework, changes));
}

}  // namespace llmsim::hwdb
