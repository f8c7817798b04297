#include "hwdb/text/date.h"

#include <charconv>
#include <chrono>

namespace llmsim::hwdb {

bool is_date(const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0;
  const auto read = [&](std::size_t first, std::size_t length, auto& number) {
    const char* const end = text.data() + first + length;
    return text[first] != '-' && std::from_chars(text.data() + first, end, number).ptr == end;
  };
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  return read(0, 4, year) && read(5, 2, month) && read(8, 2, day) &&
         std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(month),
                                     std::chrono::day(day))
             .ok();
}

}  // namespace llmsim::hwdb
