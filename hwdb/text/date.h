// Dates as run files and facts write them.
#pragma once

#include <string>

namespace llmsim::hwdb {

// Whether a text is a day of the calendar written "YYYY-MM-DD", so that dates compare as texts.
bool is_date(const std::string& text);

}  // namespace llmsim::hwdb
