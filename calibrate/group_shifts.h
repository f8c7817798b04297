// What groups of measurements moved a fitted value, as its row names them.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace llmsim::calibrate {

// "step times of 3 groups: a +1.2 %, b -0.8 %": `shifts` are what each adds to the logarithm of the
// value; those below half a per cent count but are not named.
std::string group_shifts_text(std::string_view of, const std::map<std::string, double>& shifts);

}  // namespace llmsim::calibrate
