// The command line that predicts one strategy of a search.
#pragma once

#include <string>

#include "cli/run_options.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {

// "llmsim predict --model llama-70b --gpus 256 --tp 4 ...": what was asked of the search, as typed,
// and the strategy in the place of what the search chose.
std::string predict_command(const RunOptions& asked, const sim::Strategy& strategy);

}  // namespace llmsim::cli
