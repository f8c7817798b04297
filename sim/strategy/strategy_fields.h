// The fields of a strategy by name: one table, which run files, options, JSON, tables and ablations
// iterate over.
//
// A key is that of the training section of a run file; a dot stands for an object in it
// ("recompute.kind").  A new field of a Strategy is a member, a row here and a formula.  Adapters
// stand in the model of a run file and are no field.
#pragma once

#include <map>
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

// What the values of a field are: "an integer from 1 to 1048576".
std::string expected_values(const StrategyField& field);

// The value in the spelling of the table ("zero-bubble" is "zb-h1"); none where the field cannot
// have it.
std::optional<FieldValue> checked(const StrategyField& field, const FieldValue& value);

// Some fields of a strategy, by key: what a run file or options state.
using PartialStrategy = std::map<std::string, FieldValue>;

// Throws Error for an unknown key, and for a value that its field cannot have.
void put(const PartialStrategy& partial, Strategy& strategy);

// The value that is stated of a field, as a bool, int, double, text or list; none where it is not.
template <class T>
std::optional<T> stated(const PartialStrategy& partial, const std::string& key) {
  const auto found = partial.find(key);
  T value{};
  if (found == partial.end() || !FieldType<T>::put(value, found->second)) return std::nullopt;
  return value;
}

}  // namespace llmsim::sim
