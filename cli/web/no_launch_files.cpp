// A page has no files: launch files of training programs are not read in it, nor are what reads
// them and its libraries part of the module.
#include "hwdb/launch/launch_file.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {

ReadLaunch read_launch(const std::string& path, const LaunchReading&) {
  throw Error(path + ": a page reads no files");
}

}  // namespace llmsim::hwdb
