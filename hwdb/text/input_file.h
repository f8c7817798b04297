// Files that the user names.
//
// Private to hwdb and cli: every file that is read whole is read here.
#pragma once

#include <string>

namespace llmsim::hwdb {

// The content of a file or pipe.  Throws Error "PATH: ..." where it cannot be read, for a
// device (/dev/zero has no end), and for more than 64 MiB, forty times the largest file
// of runs that exists.
std::string content_of_file(const std::string& path);

// Throws that Error for what is no file or pipe.
void require_readable(const std::string& path);

}  // namespace llmsim::hwdb
