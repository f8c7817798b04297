// Enumerators by the names that people type.
//
// An enumeration has names where `name_table(Enum)` beside it gives them: one table serves both directions.  Of several names of
// one enumerator the first is written, and all are read.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace llmsim::sim {

template <class Enum>
struct Named {
  Enum value;
  const char* name;
};

template <class Enum>
using NameTable = std::span<const Named<Enum>>;

template <class Enum>
concept HasNames = requires(Enum value) {
  { name_table(value) } -> std::same_as<NameTable<Enum>>;
};

template <HasNames Enum>
const char* name_of(Enum value) {
  for (const Named<Enum>& known : name_table(value)) {
    if (known.value == value) return known.name;
  }
  return "";
}

// The enumerator of a name; none for an unknown one.
template <HasNames Enum>
std::optional<Enum> named(const std::string& name) {
  for (const Named<Enum>& known : name_table(Enum{})) {
    if (name == known.name) return known.value;
  }
  return std::nullopt;
}

// The names that are written, in the order of the table.
template <HasNames Enum>
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Named<Enum>& known : name_table(Enum{})) {
    if (name_of(known.value) == known.name) names.emplace_back(known.name);
  }
  return names;
}

}  // namespace llmsim::sim
