// log_formats.rows, as it was when the program was built.
#pragma once

#include "hwdb/text/shipped_text.h"

namespace llmsim::calibrate {

std::span<const hwdb::ShippedText> shipped_log_formats();

}  // namespace llmsim::calibrate
