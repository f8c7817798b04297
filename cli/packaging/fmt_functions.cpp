// The functions of fmt as functions and not inline, for a program without its shared library
// (portable.cmake): -fkeep-inline-functions keeps all that are no templates; those that are, for
// every type that the program formats, are asked for here.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <string>
#include <string_view>

std::string formatted_values(double number, float narrow, long double wide, int count,
                             long long large, std::string_view text, bool flag, char letter,
                             const void* address) {
  return fmt::format("{} {} {} {:L} {:L} {} {} {} {}", number, narrow, wide, count, large, text,
                     flag, letter, address);
}
