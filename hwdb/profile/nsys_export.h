// SQLite exports of Nsight Systems (nsys export --type sqlite): kernels, copies and marked steps.
//
//   CUPTI_ACTIVITY_KIND_KERNEL   start, end (ns), deviceId, shortName or demangledName in StringIds
//   CUPTI_ACTIVITY_KIND_MEMCPY   start, end, deviceId; CUPTI_ACTIVITY_KIND_MEMSET likewise
//   NVTX_EVENTS                  start, end, text or textId: a range "ProfilerStep#N", "step N" or
//                                "iteration N" is a step, where one process was recorded
//
// Source: NVIDIA, Nsight Systems user guide, "SQLite schema reference".
//
// Private to hwdb but for tests.
#pragma once

#include <string>
#include <vector>

#include "hwdb/profile/profile_trace.h"

namespace llmsim::hwdb {

// A trace for each device.  Throws Error "FILE: ..." for another database.
std::vector<ProfileTrace> read_nsys_export(const std::string& path);

}  // namespace llmsim::hwdb
