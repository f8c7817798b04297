// The fields of a strategy by name: one table, which run files, options, JSON, tables and ablations
// iterate over.
//
// A key is that of the training section of a run file; a dot stands for an object in it
// ("recompute.kind").  A new field of a Strategy is a member, a row here and a formula.  Adapters
// stand in the model of a run file and are no field.
#pragma once

#include <string>
#include <vector>

#include "sim/base/field.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// How a field is written where it says nothing under a strategy (the scheme of context ranks where
// there is one).
enum class Written { Always, OrNull, OrNothing };

struct StrategyField : Field<Strategy> {
  const char* value_name = "";  // of its option's value: "N", "SEQS"
  const char* help = "";     // of its option: what, default, example; empty: no option of its own
  const char* options = "";  // spellings of its option; empty: the key with dashes
  Written written = Written::Always;
  // Whether it says something; null: where it differs from a plain strategy's.
  bool (*says)(const Strategy&) = nullptr;
  bool of_framework = false;  // the framework has a default of its own (hwdb/frameworks.h)
};

const std::vector<StrategyField>& strategy_fields();

// Null for an unknown key.
const StrategyField* find_strategy_field(const std::string& key);

// Whether a field is written under a strategy; false: null or nothing stands there.
bool says_something(const StrategyField& field, const Strategy& strategy);

// Fields of a strategy by key.
using PartialStrategy = PartialRecord;

// Throws Error for an unknown key, and for a value that its field cannot have.
void put(const PartialStrategy& partial, Strategy& strategy);

}  // namespace llmsim::sim
