#include "hwdb/launch/launch_table.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/number_text.h"

namespace llmsim::hwdb {
namespace {

bool is_variable(const std::string& value) { return !value.empty() && value.front() == '$'; }

// Puts a variable's value, or compares it with the one it has.
bool binds(const Term& term, const std::string& value, LaunchValues& variables) {
  const auto [place, is_new] = variables.emplace(term.value, value);
  return is_new || same_value(place->second, value);
}

bool has_name(const std::string& names, const std::string& name) {
  return ("+" + names + "+").find("+" + name + "+") != std::string::npos;
}

bool holds(const Term& term, const std::string* value, LaunchValues& variables) {
  const auto behind = [&](const char* sign) { return term.value.substr(std::strlen(sign)); };
  if (term.value.starts_with(kNot)) return value && !same_value(behind(kNot), *value);
  if (term.value.starts_with(kHas)) return value && has_name(*value, behind(kHas));
  if (term.value == kAnything) return true;
  if (term.value == kAbsent) return !value;
  if (!value) return false;
  if (term.value == kPresent) return true;
  return is_variable(term.value) ? binds(term, *value, variables) : same_value(term.value, *value);
}

bool all_hold(const std::vector<Term>& terms, const LaunchValues& values, LaunchValues& variables) {
  return std::all_of(terms.begin(), terms.end(), [&](const Term& term) {
    return holds(term, value_in(values, term.key), variables);
  });
}

// The term of a key; null where there is none.
const Term* term_of(const std::vector<Term>& terms, const std::string& key) {
  const auto found =
      std::find_if(terms.begin(), terms.end(), [&](const Term& term) { return term.key == key; });
  return found == terms.end() ? nullptr : &*found;
}

void add_keys(const std::vector<Term>& terms, std::vector<std::string>& keys) {
  for (const Term& term : terms) {
    if (std::find(keys.begin(), keys.end(), term.key) == keys.end()) keys.push_back(term.key);
  }
}

std::vector<std::string> file_keys(const Row& row) {
  std::vector<std::string> keys;
  for (const Case& one : row.cases) add_keys(one.file, keys);
  return keys;
}

// The keys of the row as the target takes them.
LaunchValues with_defaults(const Row& row, const LaunchValues& file) {
  LaunchValues values;
  for (const std::string& key : file_keys(row)) {
    if (const auto* const value = value_in(file, key)) values[key] = *value;
  }
  for (const Term& term : row.defaults) values.emplace(term.key, term.value);
  return values;
}

// Whether all keys that the case does not name are as if absent.
bool leaves_nothing(const Row& row, const Case& one, const LaunchValues& values) {
  return std::all_of(values.begin(), values.end(), [&](const auto& entry) {
    const Term* const usual = term_of(row.defaults, entry.first);
    return term_of(one.file, entry.first) || (usual && same_value(usual->value, entry.second));
  });
}

bool writes(const Case& one, const LaunchValues& run, LaunchValues& variables) {
  variables.clear();
  return one.direction != Direction::Read && all_hold(one.run, run, variables) &&
         all_hold(one.when, run, variables);
}

// "a+b" as the file has it; a number stays one.
std::string listed(const std::string& names, const NameList& list) {
  if (names.empty() || sim::number_from(names)) return names;
  std::vector<std::string> parts;
  std::istringstream stream(names);
  for (std::string part; std::getline(stream, part, '+');) {
    const auto word = std::find_if(list.words.begin(), list.words.end(),
                                   [&](const auto& pair) { return pair.second == part; });
    parts.push_back(word == list.words.end() ? part : word->first);
  }
  return list.in_brackets ? "[" + sim::joined(parts, ", ") + "]" : sim::joined(parts, " ");
}

// The names of a list, with brackets or without, as "a+b".
std::string joined_names(const std::string& text, const NameList& list) {
  std::vector<std::string> parts;
  std::string names = text;
  std::erase_if(names, [](char c) { return c == '[' || c == ']'; });
  std::istringstream stream(names);
  const char separator = list.in_brackets ? ',' : ' ';
  for (std::string part; std::getline(stream >> std::ws, part, separator);) {
    part.erase(part.find_last_not_of(' ') + 1);
    const auto word = std::find_if(list.words.begin(), list.words.end(),
                                   [&](const auto& pair) { return pair.first == part; });
    parts.push_back(word == list.words.end() ? part : word->second);
  }
  return sim::joined(parts, "+");
}

// The value of a term, of a variable as `in_list` has the names of a list.
std::string value_of(const Row& row, const Term& term, const LaunchValues& variables,
                     std::string (*in_list)(const std::string& names, const NameList& list)) {
  if (!is_variable(term.value)) return term.value;
  const std::string& value = variables.at(term.value);
  return row.list ? in_list(value, *row.list) : value;
}

// What the keys that the case does not name mean.
void add_unnamed(const Row& row, const Case& one, std::vector<LaunchEntry>& entries) {
  for (const std::string& key : file_keys(row)) {
    if (term_of(one.file, key)) continue;
    const Term* const usual = term_of(row.defaults, key);
    entries.push_back({key, usual ? usual->value : "null", row.is_text});
  }
}

}  // namespace

const std::string* value_in(const LaunchValues& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

std::string text_of_terms(const std::vector<std::string>& keys, const LaunchValues& values) {
  std::vector<std::string> terms;
  for (const std::string& key : keys)
    if (const auto* const value = value_in(values, key)) terms.push_back(key + " = " + *value);
  return sim::joined(terms, ", ");
}

bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto first = sim::number_from(a), second = sim::number_from(b);
  return first && second && *first == *second;
}

bool all_hold(const std::vector<Term>& terms, const LaunchValues& run) {
  LaunchValues variables;
  return all_hold(terms, run, variables);
}

bool always_hold(const std::vector<Term>& terms, const OpenRun& run) {
  const bool known = std::none_of(terms.begin(), terms.end(),
                                  [&](const Term& term) { return run.is_open(term.key); });
  return known && all_hold(terms, run.fields);
}

bool may_be_written(const Row& row, const OpenRun& run) {
  const auto may_hold = [&](std::vector<Term> terms, LaunchValues& variables) {
    std::erase_if(terms, [&](const Term& term) { return run.is_open(term.key); });
    return all_hold(terms, run.fields, variables);
  };
  bool says_something = false;
  for (const Case& one : row.cases) {
    if (one.direction == Direction::Read) continue;
    LaunchValues variables;
    if (may_hold(one.run, variables) && may_hold(one.when, variables)) return true;
    for (const Term& term : one.run)
      says_something = says_something || run.is_open(term.key) || run.fields.contains(term.key);
  }
  return !says_something;
}

std::vector<std::string> fields_written(const Row& row) {
  std::vector<std::string> fields;
  for (const Case& one : row.cases) {
    if (one.direction != Direction::Read) add_keys(one.run, fields);
  }
  return fields;
}

RowReading read_row(const Row& row, const LaunchValues& file, const LaunchValues& run) {
  const LaunchValues values = with_defaults(row, file);
  const std::vector<std::string> keys = file_keys(row);
  const bool silent =
      std::none_of(keys.begin(), keys.end(), [&](const auto& key) { return file.contains(key); });
  for (const Case& one : row.cases) {
    LaunchValues variables, others;
    if (one.direction == Direction::Write || !all_hold(one.file, values, variables) ||
        !leaves_nothing(row, one, values) || !all_hold(one.when, run, others))
      continue;
    RowReading reading{.fields = {}, .by_default = silent};
    for (const Term& term : one.run) {
      if (term.value.starts_with('<')) continue;
      reading.fields[term.key] = value_of(row, term, variables, joined_names);
    }
    return reading;
  }
  if (silent) return {};
  throw Error(text_of_terms(keys, file));
}

std::vector<LaunchEntry> written_row(const Row& row, const LaunchValues& run) {
  LaunchValues variables;
  for (const Case& one : row.cases) {
    if (!writes(one, run, variables)) continue;
    std::vector<LaunchEntry> entries;
    for (const Term& term : one.file) {
      if (term.value.starts_with('<')) continue;
      entries.push_back({term.key, value_of(row, term, variables, listed), row.is_text});
    }
    if (row.overrides) add_unnamed(row, one, entries);
    return entries;
  }
  const std::string text = text_of_terms(fields_written(row), run);
  if (text.empty()) return {};
  throw Error(text);
}

std::vector<std::string> keys_of(const std::vector<Term>& terms) {
  std::vector<std::string> keys;
  for (const Term& term : terms) keys.push_back(term.key);
  return keys;
}

std::vector<std::string> keys_of(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const Row& row : rows) {
    for (const std::string& key : file_keys(row)) keys.push_back(key);
  }
  return keys;
}

}  // namespace llmsim::hwdb
