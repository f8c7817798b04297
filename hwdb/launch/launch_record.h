// The record of a run whose fields a launch file has (launch_fields.h).
//
// Private to hwdb.
#pragma once

#include <string>

#include "hwdb/launch/launch_table.h"
#include "hwdb/runs/run_record.h"

namespace llmsim::hwdb {

// The record of what was read.  Throws Error "FIELD = VALUE: RIGHT is expected".
RunRecord record_of(LaunchValues fields);

// Throws Error "KEY = 0: RIGHT is expected" where a number is out of the range of its field, which
// others are divided by.
void check_number(const std::string& key, const std::string& text);

}  // namespace llmsim::hwdb
