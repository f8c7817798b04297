// A file that may be gzipped, read as a stream of what is in it.  Private to hwdb: the only header
// that shows zlib.
#pragma once

#include <zlib.h>

#include <array>
#include <istream>
#include <streambuf>
#include <string>

namespace llmsim::hwdb {

// Holds one buffer of the content, however long that is.
class CompressedFile : public std::streambuf {
 public:
  // Throws Error where the file cannot be read.
  explicit CompressedFile(const std::string& path);
  ~CompressedFile() override { gzclose(file_); }
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;

  // Whether compressed data was damaged or cut off where reading stopped.
  bool damaged() const { return damaged_; }

 private:
  int_type underflow() override;

  static constexpr unsigned kBufferBytes = 1u << 18;

  gzFile file_;
  bool damaged_ = false;
  std::array<char, kBufferBytes> buffer_{};
};

}  // namespace llmsim::hwdb
