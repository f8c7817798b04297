// The command line that predicts one strategy of a search.
#pragma once

#include <string>

#include "cli/run_options.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {

// The options of a search, as typed, with a strategy of its space in the place of the searched
// fields and with its global batch.
RunOptions predict_options(const RunOptions& asked, const sim::Strategy& strategy);

// The same where others read it: a model's file goes by its name.
RunOptions without_folders(RunOptions options);

// " --model llama-70b --gpus 256 --tp 4 ...": the options that are set, without run files.
// `database`: the path of --db, empty without.
std::string options_text(const RunOptions& options, const std::string& database = "");

// "llmsim predict --model llama-70b --gpus 256 --tp 4 ...": the options of one
// strategy of a search.
std::string predict_command(const RunOptions& asked, const sim::Strategy& strategy,
                            const std::string& database = "");

}  // namespace llmsim::cli
