// A run as flat values, by the keys of run files: "tp", "recompute.kind", "model.num_layers" (of
// "model.layer_pattern" a letter for each layer), settings by their own keys; and the values of
// fields.rows, which targets state and which follow from these.
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/launch/launch_table.h"
#include "sim/run.h"

namespace llmsim::hwdb {

// What a run has a value of.
LaunchValues fields_of(const sim::Run& run);

// Of these, what no layout changes (model, settings, adapters, cluster), worked out once for many
// runs that differ in their strategies; and these with those of one run.
LaunchValues fields_without_layout(const sim::Run& run);
LaunchValues fields_with_layout(const sim::Run& run, LaunchValues without_layout);

// What a strategy states.
LaunchValues stated_fields(const sim::Strategy& strategy);

// Whether a search chooses a field, or what it follows from.
bool is_of_layout(const std::string& key);

// Whether a run may have a value of this name, or a file may say one.
bool is_launch_field(const std::string& key);

// The first field in which two runs differ, as "training.tp = 8": model, strategy, behaviour of the
// framework.  Fields with the same meaning are equal: shared experts as one or
// several, an even split of layers stated by hand or not, Adam and AdamW.
// What no cost depends on is no difference.
std::optional<std::string> first_difference(const sim::Run& run, const sim::Run& other);

// Of that, what `run` knows and `other` has otherwise or not, as "model.rope.base = 10000".
std::vector<std::string> unsaid_fields(const sim::Run& run, const sim::Run& other);

}  // namespace llmsim::hwdb
