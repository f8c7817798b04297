#include "cli/serve/archive.h"

#include <algorithm>
#include <boost/crc.hpp>
#include <cstdint>

namespace llmsim::cli::serve {
namespace {

constexpr std::size_t kBlock = 512;  // of a tar archive

std::string octal(std::uint64_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0 && value > 0; value /= 8)
    text[i] = static_cast<char>('0' + value % 8);
  return text;
}

// name, mode, owner, group, size, time, checksum, type, and from byte 257 on the format.
std::string tar_header(const ArchivedFile& file) {
  constexpr std::size_t kName = 100, kChecksum = 148, kFormat = 257;
  std::string header = file.name.substr(0, kName);
  header.resize(kName, '\0');
  const std::string none("0000000\0", 8);
  header += (file.is_executable ? "0000755" : "0000644") + std::string(1, '\0') + none + none +
            octal(file.text.size(), 11) + std::string(1, '\0') + octal(0, 11) +
            std::string(1, '\0') + std::string(8, ' ') + "0";
  header.resize(kFormat, '\0');
  header += std::string("ustar\0", 6) + "00";
  header.resize(kBlock, '\0');
  std::uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  return header.replace(kChecksum, 8, octal(sum, 6) + std::string("\0 ", 2));
}

std::string little_endian(std::uint32_t value, int bytes) {
  constexpr std::uint32_t kByte = 256;
  std::string text;
  for (int i = 0; i < bytes; ++i, value /= kByte) text += static_cast<char>(value % kByte);
  return text;
}

}  // namespace

std::string tar(std::span<const ArchivedFile> files) {
  std::string archive;
  for (const ArchivedFile& file : files) {
    archive += tar_header(file) + file.text;
    archive.resize((archive.size() + kBlock - 1) / kBlock * kBlock, '\0');
  }
  return archive + std::string(2 * kBlock, '\0');
}

std::string gzip(std::string_view text) {
  constexpr std::size_t kLargest = 65535;  // of a stored block
  constexpr std::uint32_t kAll = 0xffff;
  // Magic number, deflate, no flags, no time, no extra flags, of Unix.
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  std::size_t from = 0;
  do {
    const auto size = static_cast<std::uint32_t>(std::min(kLargest, text.size() - from));
    const bool is_last = from + size == text.size();
    file += std::string(1, is_last ? '\1' : '\0') + little_endian(size, 2) +
            little_endian(kAll - size, 2);
    file += text.substr(from, size);
    from += size;
  } while (from < text.size());
  boost::crc_32_type sum;
  sum.process_bytes(text.data(), text.size());
  return file + little_endian(sum.checksum(), 4) +
         little_endian(static_cast<std::uint32_t>(text.size()), 4);
}

}  // namespace llmsim::cli::serve
