// Numbers as texts that lose nothing, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace llmsim::sim {

// The shortest text that reads back as the same number, as std::to_chars(double) writes it:
// "0.1", "1e+20".  That function is missing in the standard library of LLVM before
// 14.  Of powers of two the text may have one digit more.
// Assumes a finite number.
std::string shortest_text(double number);

// The finite number that the whole of a text writes: "0.1", "1e+20"; none of "", "1 GB", "nan".
std::optional<double> number_from(const std::string& text);

// "tp = 3".
std::string equals(const std::string& name, std::int64_t value);

// Throws Error where `value` does not divide `whole`, with those that do: "tp = 3 does not divide
// num_heads = 4 (1, 2, 4 do)".
void require_divides(const std::string& name, int value, const std::string& whole_name, int whole);

}  // namespace llmsim::sim
