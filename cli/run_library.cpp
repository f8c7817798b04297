#include "cli/run_library.h"

#include <utility>

#include "cli/commands.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::cli {

RunLibrary::RunLibrary(std::vector<std::string> paths) : paths_(std::move(paths)) {}

const hwdb::RunRecord& RunLibrary::run(const std::string& id) {
  if (files_.empty()) read_near();
  if (const hwdb::RunRecord* const found = find(id)) return *found;
  read_project(id);
  if (const hwdb::RunRecord* const found = find(id)) return *found;
  throw Error("run = " + id + ": no such run" + hwdb::did_you_mean(id, ids()));
}

void RunLibrary::read_near() {
  for (const std::string& path : run_files(paths_)) files_.push_back(hwdb::read_runs(path));
  for (const ShippedText& shipped : shipped_runs())
    files_.push_back(
        hwdb::parse_runs(std::string(shipped.text), std::string(shipped.name) + ".json"));
}

void RunLibrary::read_project(const std::string& id) {
  try {
    const std::vector<hwdb::RunFile> all = read_run_files({});
    files_.insert(files_.end(), all.begin(), all.end());
  } catch (const Error&) {  // the program does not stand where it was built
    throw Error("run = " + id + ": no such run" + hwdb::did_you_mean(id, ids()) +
                "; --runs FILE names a file that has it");
  }
}

const hwdb::RunRecord* RunLibrary::find(const std::string& id) const {
  for (const hwdb::RunFile& file : files_) {
    for (const hwdb::RejectedRun& rejected : file.rejected) {
      if (rejected.id == id) throw Error(rejected.reason);
    }
    for (const hwdb::RunRecord& run : file.runs) {
      if (run.id == id) return &run;
    }
  }
  return nullptr;
}

std::vector<std::string> RunLibrary::ids() const {
  std::vector<std::string> ids;
  for (const hwdb::RunFile& file : files_) {
    for (const hwdb::RunRecord& run : file.runs) ids.push_back(run.id);
  }
  return ids;
}

}  // namespace llmsim::cli
