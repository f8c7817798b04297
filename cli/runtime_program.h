// Starting llmsim-runtime, the measuring program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmsim::cli {

// Where LLMSIM_RUNTIME says, or where the build puts it, next to this program.  Throws
// Error where it is not.
std::filesystem::path runtime_program();

// Runs llmsim-runtime to its end.  Throws Error where it cannot be started or fails.
void run_program(const std::vector<std::string>& arguments);

// The same for a call that measures nothing: the first line that it prints.
std::string printed_line(const std::vector<std::string>& arguments);

}  // namespace llmsim::cli
