#include "cli/commands.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "calibrate/count_comparison.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "cli/runtime_program.h"
#include "hwdb/runs/runtime_results.h"
#include "reports/validation.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

// Removed when it goes out of scope.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(fs::temp_directory_path() /
              ("llmsim-verify-" + std::to_string(getpid()) + ".jsonl")) {}
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(path_.string() + ".writer", ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

hwdb::RuntimeResults counted_here() {
  const TemporaryFile file;
  run_program({runtime_program().string(), "--verify", "--output", file.path(), "--device", "cpu"});
  return hwdb::read_runtime_results({file.path()});
}

std::vector<calibrate::CountComparison> count_comparisons(const hwdb::RuntimeResults& results,
                                                          const hwdb::Database& database) {
  std::vector<calibrate::CountComparison> all = calibrate::compare_counts(results, database);
  if (all.empty())
    throw Error(results.file + ": no counted steps; a file of llmsim-runtime --verify is expected");
  return all;
}

}  // namespace

void add_calibrate_verify(CLI::App& calibrate, int& status) {
  CLI::App* verify =
      calibrate.add_subcommand("verify",
                               "parameters, FLOPs, collectives and bytes of real training steps "
                               "against predicted ones; exit 1 where one differs");
  const auto options = std::make_shared<VerifyOptions>();
  add_option(*verify, "results", options->results, "FILE",
             "files of llmsim-runtime --verify; default: count here, in about a minute");
  add_output_options(*verify, options->output);
  add_database_option(*verify, options->database);
  verify->callback([options, &status] { status = run_calibrate_verify(*options); });
}

int run_calibrate_verify(const VerifyOptions& options) {
  const reports::Format format = format_of(options.output);
  const hwdb::Database database = open_database(options.database);
  const hwdb::RuntimeResults results =
      options.results.empty() ? counted_here() : hwdb::read_runtime_results(options.results);
  const std::vector<calibrate::CountComparison> all = count_comparisons(results, database);
  const bool json = format == reports::Format::Json;
  write_result(json ? reports::count_comparison_json(all)
                    : reports::render(reports::count_comparison_table(all), format,
                                      style_of(options.output)),
               options.output);
  return std::ranges::all_of(all, [](const auto& one) { return one.equal(); }) ? 0 : 1;
}

}  // namespace llmsim::cli
