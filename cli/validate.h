// `llmsim validate`: predicted against measured runs.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

namespace llmsim::cli {

struct ValidateOptions {
  std::vector<std::string> files;  // run files, or folders of them; empty: the regression set of the project
  std::string scope = "all";       // "dense", "moe", "all"
  std::string format = "table";
  bool ablations = false;               // what settings are worth, as ratios, instead of errors by group
  bool rows = false;                    // with ablations: every pair
  std::string comparisons;              // file of stated pairs; empty: the project's, if `files` is empty
  std::string tables;                   // folder of descriptions of source tables; empty: none
  bool skipped = false;                 // list every run without a prediction, not only scored ones
  std::optional<std::string> database;  // none: that of the user
};

CLI::App* add_validate(CLI::App& app, ValidateOptions& options);

// Prints the errors by group and the runs without a prediction; returns the exit code.  Throws Error for bad files or options.
int run_validate(const ValidateOptions& options);

// The run files in `paths`: files as they are, of folders every *.json in alphabetical order.  Throws Error for a path that does
// not exist and for a folder without such files.
std::vector<std::string> run_files(const std::vector<std::string>& paths);

}  // namespace llmsim::cli
