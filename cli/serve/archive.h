// Files in one: a tar archive, gzipped.
//
// Sources: POSIX.1-2017, pax, "ustar Interchange Format"; RFC 1952 (gzip), 1996, whose blocks are
// stored and not compressed (RFC 1951, section 3.2.4), as launch files are small.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace llmsim::cli::serve {

struct ArchivedFile {
  std::string name;  // at most 100 bytes
  std::string text;
  bool is_executable = false;
};

std::string tar(std::span<const ArchivedFile> files);
std::string gzip(std::string_view text);

}  // namespace llmsim::cli::serve
