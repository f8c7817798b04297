// The written form of a target's table, targets/*.rows: README.md of this folder defines it.
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwdb/launch/launch_table.h"

namespace llmsim::hwdb {

// A key whose effect is small and not counted, unless it is as here, and what that effect is.
struct NotedKey {
  Term off;
  std::string effect;
};

// Fields of a run with which its program does not start, and why.
struct StartRule {
  std::vector<Term> broken_by;
  std::string reason;
};

// The releases of a program whose keys these are, from the oldest on.
struct Releases {
  std::string program;
  std::vector<Term> all;  // "0.2.2", and its date
};

struct LaunchTable {
  std::vector<Row> rows;
  // Keys that cannot matter to time or memory: as they are, or beginnings that end with '*'.
  std::vector<std::string> harmless;
  // Keys that matter and are not modelled, with the only value that does not, or kAbsent.
  std::vector<Term> refused;
  std::vector<NotedKey> noted;
  std::vector<StartRule> never;
  // Keys that name another file, and the field of a run that this file then leaves to it.
  std::vector<Term> elsewhere;
  // Words of the names of programs that train what a file cannot say, and what that is.
  std::vector<Term> programs;
  std::optional<Releases> releases;
};

// The table in the text of a file.  Throws Error "FILE: line N: ..." for what is not of the form, a
// key that no case has, a field that no run has.
LaunchTable table_of_text(std::string_view text, const std::string& file);

// That of a file which is part of the program, "torchtitan" of targets/torchtitan.rows; it is read
// when it is first asked for.
const LaunchTable& shipped_table(const std::string& name);

}  // namespace llmsim::hwdb
