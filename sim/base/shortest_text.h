// Numbers as texts that lose nothing.
#pragma once

#include <string>

namespace llmsim::sim {

// The shortest text that reads back as the same number, as std::to_chars(double) writes it: "0.1",
// "1e+20".  That function is missing in the standard library of LLVM before 14, which compilers to
// WebAssembly still bring.  Of powers of two the text may have one digit more.  Assumes a finite
// number.
std::string shortest_text(double number);

}  // namespace llmsim::sim
