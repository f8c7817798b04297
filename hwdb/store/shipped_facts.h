// The data files of hwdb, as they were when the program was built.  The program needs no
// files at run time.
#pragma once

#include <span>
#include <string_view>

namespace llmsim::hwdb {

struct ShippedFacts {
  std::string_view name;  // "accelerators" for facts/accelerators.json
  std::string_view text;
};

// Every fact file that goes into the database, in the order of hwdb/CMakeLists.txt.
std::span<const ShippedFacts> shipped_facts();

// Changes whenever one of those files does.
std::string_view shipped_facts_hash();

// launch/targets/*.rows, by the names of their targets (launch/row_text.h).
std::span<const ShippedFacts> shipped_launch_rows();

// facts/frameworks.json, which is read where it lies and not through the database.
std::string_view shipped_frameworks_json();

}  // namespace llmsim::hwdb
