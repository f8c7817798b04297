#include "hwdb/text/compressed_file.h"

#include "hwdb/text/input_file.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {

CompressedFile::CompressedFile(const std::string& path) : file_(nullptr) {
  require_readable(path);
  file_ = gzopen(path.c_str(), "rb");
  if (!file_) throw Error(path + ": cannot be read");
  gzbuffer(file_, kBufferBytes);
}

CompressedFile::int_type CompressedFile::underflow() {
  const int count = gzread(file_, buffer_.data(), kBufferBytes);
  int status = Z_OK;
  gzerror(file_, &status);
  damaged_ = damaged_ || count < 0 || (status != Z_OK && status != Z_STREAM_END);
  if (count <= 0) return traits_type::eof();
  setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
  return traits_type::to_int_type(buffer_.front());
}

}  // namespace llmsim::hwdb
