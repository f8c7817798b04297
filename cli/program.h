// The program, for whoever has its arguments: the command line and Python.
#pragma once

#include <string>
#include <vector>

namespace llmsim::cli {

// Runs `llmsim ARGUMENTS...` and returns its exit status (README.md).  Results go to standard
// output or the file of -o, messages to std::cerr.
int run_program(const std::vector<std::string>& arguments, const std::string& version);

}  // namespace llmsim::cli
