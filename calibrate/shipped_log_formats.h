// log_formats.rows, as it was when the program was built.
#pragma once

#include <string_view>

namespace llmsim::calibrate {

std::string_view shipped_log_formats();

}  // namespace llmsim::calibrate
