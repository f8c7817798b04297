// Settings of a training program that a run may state in addition to its layout: number formats,
// recipes, kernels, wrapping.
//
// One table names each setting, its kind and its range, and which field of the framework's
// behaviour (framework_fields.h) it sets.  Run files, options, saved runs and the conditions of
// facts/frameworks.json use this table.  A setting that a run does not state is the framework's.
#pragma once

#include <string>
#include <vector>

#include "sim/base/field.h"
#include "sim/run.h"

namespace llmsim::hwdb {

struct Setting {
  const char* key;  // in run files; the option has dashes for underscores
  // The field of the framework's behaviour that it sets; empty: rules of facts/frameworks.json
  // read it.
  const char* field;
  sim::FieldKind kind;             // a Switch, a Number, a Count or a Word
  double least, most;              // of a number
  std::vector<std::string> words;  // that a Word may be
  // The setting of the schema of which it is a detail ("precision"); empty: stands alone.
  const char* part_of;
  const char* help;     // one clause, with the unit
  const char* example;  // a value, for the help
};

// Whether gradients of sharded weights are reduced after each micro-batch; the planner asks both
// ways where the framework leaves them whole, and launch files of the Trainer say it in a word of
// their own.
inline constexpr const char* kSyncsEachMicrobatch = "grad_sync_every_microbatch";

// All settings, in the order in which people read them.
const std::vector<Setting>& run_settings();

// Null for an unknown key.
const Setting* find_setting(const std::string& key);

// The value that people type: "true", "0.1", "bf16".  Throws Error "NAME =
// TEXT: RIGHT is expected".
sim::FieldValue setting_from(const Setting& setting, const std::string& name,
                             const std::string& text);

// Whether a setting can have the value, and what it can have: "a number from 0 to 0.999".
bool can_have(const Setting& setting, const sim::FieldValue& value);
std::string values_of(const Setting& setting);

}  // namespace llmsim::hwdb
