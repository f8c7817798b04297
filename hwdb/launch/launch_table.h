// The table of a target: which keys of its file say what of a run, one row for both directions.
// Rows are written in targets/*.rows (row_text.h).
//
// A row owns some keys of the file and some fields of a run, and lists their possible combinations
// as cases.  Reading takes the first case whose keys the file has, writing takes the first case
// whose fields the run has:
//
//   kind = full, count = $  <->  recompute.kind = full, recompute.every_n = $
//
// "$", "$2" ... stand for a value that is the same on both sides.  A key that a case does not name
// is absent, or has the value that the target takes for an absent key.
//
// Private to hwdb.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llmsim::hwdb {

// Values as text.
using LaunchValues = std::map<std::string, std::string>;

// The value of a key; null where there is none.
const std::string* value_in(const LaunchValues& values, const std::string& key);

// "KEY = VALUE, KEY = VALUE" of the keys that have one.
std::string text_of_terms(const std::vector<std::string>& keys, const LaunchValues& values);

// A key of a file as it is written.
struct LaunchEntry {
  std::string key, value;
  bool is_text = false;  // a string, even where it looks like a number
};

struct Term {
  std::string key;
  std::string value;
};

std::vector<std::string> keys_of(const std::vector<Term>& terms);

inline constexpr const char* kAbsent = "<absent>";
inline constexpr const char* kPresent = "<present>";    // with any value
inline constexpr const char* kAnything = "<anything>";  // in a file: present or absent; read only

// Beginnings of values in conditions on a run: another value than what follows; among the names of
// a list "a+b", what follows.
inline constexpr const char* kNot = "<not>";
inline constexpr const char* kHas = "<has>";

enum class Direction { Both, Read, Write };

struct Case {
  std::vector<Term> file{}, run{};
  // What else holds of the run; rows that come before have read it.
  std::vector<Term> when{};
  Direction direction = Direction::Both;
};

// How several names, "a+b" in a run, are written in a file: "a b" or "[a, b]".
struct NameList {
  bool in_brackets = false;
  std::vector<std::pair<std::string, std::string>> words{};  // of the file and of the run
};

struct Row {
  std::vector<Case> cases;
  std::vector<Term> defaults{};    // of keys that are absent from the file
  std::optional<NameList> list{};  // how "$" is written in the file; none: as in the run
  bool is_text = false;
  // Written on top of settings that are not known: keys that a case does not name are written with
  // what an absent key means, or as "null".
  bool overrides = false;
};

// What a file says by one row, and whether it says it by silence.
struct RowReading {
  LaunchValues fields;
  bool by_default = false;
};

// The fields of the row that `file` has.  Throws Error "KEY = VALUE, ...: ..." for values that no
// case has.
RowReading read_row(const Row& row, const LaunchValues& file, const LaunchValues& run);

// The keys of a run.  Throws Error "FIELD = VALUE" for what no case has.
std::vector<LaunchEntry> written_row(const Row& row, const LaunchValues& run);

// Whether all terms hold of a run.
bool all_hold(const std::vector<Term>& terms, const LaunchValues& run);

// A run of which some fields are yet to be chosen: terms on those may hold.
struct OpenRun {
  LaunchValues fields;  // that are known; what is neither known nor open is absent
  std::function<bool(const std::string& key)> is_open;
};

// Whether all terms hold whatever is chosen.
bool always_hold(const std::vector<Term>& terms, const OpenRun& run);

// Whether some choice may be written by a row.
bool may_be_written(const Row& row, const OpenRun& run);

// The fields of a run that a row writes.
std::vector<std::string> fields_written(const Row& row);

// All keys that the rows own.
std::vector<std::string> keys_of(const std::vector<Row>& rows);

// Whether two values mean the same: "0", "0.0"; "1e3", "1000".
bool same_value(const std::string& a, const std::string& b);

}  // namespace llmsim::hwdb
