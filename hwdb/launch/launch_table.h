// The table of a target: which keys of its file say what of a run, one row for both directions.
//
// A row owns some keys of the file and some fields of a run, and lists their possible combinations
// as cases.  Reading takes the first case whose keys the file has, writing takes the first case
// whose fields the run has:
//
//   {.file = {{"--recompute-granularity", "full"}, {"--recompute-num-layers", "$"}},
//    .run = {{"recompute.kind", "full"}, {"recompute.every_n", "$"}}}
//
// "$", "$2" ... stand for a value that is the same on both sides.  A key that a case does not name
// is absent, or has the value that the target takes for an absent key.
//
// Private to hwdb.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace llmsim::hwdb {

// Values as text.
using LaunchValues = std::map<std::string, std::string>;

// A key of a file as it is written.
struct LaunchEntry {
  std::string key, value;
  bool is_text = false;  // a string, even where it looks like a number
};

struct Term {
  std::string key;
  std::string value;
};

inline constexpr const char* kAbsent = "<absent>";
inline constexpr const char* kPresent = "<present>";    // with any value
inline constexpr const char* kAnything = "<anything>";  // in a file: present or absent; read only

enum class Direction { Both, Read, Write };

struct Case {
  std::vector<Term> file{}, run{};
  // What else holds of the run; rows that come before have read it.
  std::vector<Term> when{};
  Direction direction = Direction::Both;
};

struct Row {
  std::vector<Case> cases;
  std::vector<Term> defaults{};  // of keys that are absent from the file
  // How "$" is spelled in the file and in the run; null: alike.
  std::string (*spelled)(const std::string& of_run) = nullptr;
  std::string (*meant)(const std::string& of_file) = nullptr;
  bool is_text = false;
  // Written on top of settings that are not known: keys that a case does not name are written with
  // what an absent key means, or as "null".
  bool overrides = false;
};

// A key that copies one field; `fallback`: of a file without the key.
Row copied(const std::string& key, const std::string& field, const std::string& fallback = "");

// A key whose words are those of a field.
Row worded(const std::string& key, const std::string& field,
           const std::vector<std::pair<std::string, std::string>>& words,
           const std::string& fallback = "");

// A flag that is true or absent.
Row flagged(const std::string& key, const std::string& field);

// A flag that is true or false; `fallback`: of a file without the key.
Row switched(const std::string& key, const std::string& field, const std::string& fallback);

// A setting that the file states only where it is on; the run states nothing otherwise.
Row stated_flag(const std::string& key, const std::string& field, const std::string& value);

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

// All keys that the rows own.
std::vector<std::string> keys_of(const std::vector<Row>& rows);

// Whether two values mean the same: "0", "0.0"; "1e3", "1000".
bool same_value(const std::string& a, const std::string& b);

}  // namespace llmsim::hwdb
