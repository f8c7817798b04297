// Whether a database holds what was written there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmsim::hwdb {

struct DatabaseCheck {
  std::int64_t records = 0;          // that were read
  std::vector<std::string> damages;  // "coefficients: cannot be read after device h100_sxm ..."
};

// Reads every page (page_checksum.h) and every record of the file at `path`, and has SQLite look
// for what contradicts itself.  A file of an older schema is brought to this one first, as by any
// command.  Throws Error where there is no such file, or it is another program's.
DatabaseCheck check_database(const std::string& path);

}  // namespace llmsim::hwdb
