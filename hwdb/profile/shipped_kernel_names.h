// Patterns of kernel names that are part of the program.  Private to hwdb.
#pragma once

#include <string_view>

namespace llmsim::hwdb {

// kernel_names.rows, as it was when the program was built.
std::string_view shipped_kernel_names();

}  // namespace llmsim::hwdb
