#include "hwdb/profile/profile_trace.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "hwdb/profile/kineto_trace.h"
#include "hwdb/profile/nsys_export.h"
#include "hwdb/text/compressed_file.h"
#include "hwdb/text/input_file.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

// A pipe is no database.
bool is_database(const std::string& path) {
  constexpr std::string_view kBegin = "SQLite format 3";
  if (!std::filesystem::is_regular_file(path)) return false;
  std::array<char, kBegin.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), begin.size()) &&
         std::string_view(begin.data(), begin.size()) == kBegin;
}

}  // namespace

std::vector<ProfileTrace> read_profile(const std::string& path) {
  require_readable(path);
  if (is_database(path)) return read_nsys_export(path);
  CompressedFile content(path);
  std::istream stream(&content);
  try {
    return parse_trace(stream, path);
  } catch (const Error&) {
    if (content.damaged()) throw Error(path + ": its compressed data is damaged or cut off");
    throw;
  }
}

}  // namespace llmsim::hwdb
