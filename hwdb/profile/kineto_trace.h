// Traces in the Chrome trace event format, read event by event: those of PyTorch's profiler and of
// `llmsim trace`.
//
// Of Kineto's events these count (libkineto/src/output_json.cpp; "cat" in any case):
//
//   kernel                      of a device: ts and dur in microseconds, numbers or texts
//   gpu_memcpy, gpu_memset      copies
//   cpu_op                      with "Input Dims" of a GEMM: the shape of the kernels that have its
//                               "External id"
//   user_annotation, cpu_op     ProfilerStep#N: a step; a name with "DataLoader": waiting for data
//
// A kernel of a collective says in "args" what it is: "Collective name", "In msg nelems", "Out msg
// nelems", "dtype", "Group size", "Process Group Name", "Process Group Description"; older ones by
// name alone.  Of a predicted step the passes count, whose parts ("terms_s") become kernels one
// behind the other: recomputed blocks and the LM head are GEMMs, bubbles receives.
//
// Private to hwdb but for tests, and fuzz.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "hwdb/profile/profile_trace.h"

namespace llmsim::hwdb {

// Throws Error "FILE: ..." for other texts, and for one that is cut off.
std::vector<ProfileTrace> parse_trace(std::istream& stream, const std::string& file);

}  // namespace llmsim::hwdb
