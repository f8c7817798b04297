// The record of a run whose fields a launch file has (launch_fields.h).
//
// Private to hwdb.
#pragma once

#include "hwdb/launch/launch_table.h"
#include "hwdb/runs/run_record.h"

namespace llmsim::hwdb {

// The record of what was read.  Throws Error "FIELD = VALUE: RIGHT is expected".
RunRecord record_of(LaunchValues fields);

}  // namespace llmsim::hwdb
