#include "hwdb/text/input_file.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostMiB = 64;
constexpr std::size_t kChunk = std::size_t{1} << 20;

}  // namespace

void require_readable(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_directory(status)) throw Error(path + ": cannot be read");
  if (!fs::is_regular_file(status) && !fs::is_fifo(status))
    throw Error(path + ": is a device; a file or a pipe is expected");
}

std::string content_of_file(const std::string& path) {
  require_readable(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path + ": cannot be read");
  std::string text;
  std::vector<char> chunk(kChunk);
  while (file.read(chunk.data(), static_cast<std::streamsize>(kChunk)) || file.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMostMiB * kChunk)
      throw Error(path + ": holds more than " + std::to_string(kMostMiB) +
                  " MiB; a smaller file is expected");
  }
  if (file.bad()) throw Error(path + ": cannot be read");
  return text;
}

}  // namespace llmsim::hwdb
