// Values as they are written to files.
#pragma once

#include <cstdio>
#include <string>

namespace llmsim::hwdb {

// To so many significant digits, 1 to 17: 0.0123456 to 4 is 0.01235.
inline double rounded(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return std::stod(text);
}

}  // namespace llmsim::hwdb
