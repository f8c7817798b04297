// Several questions in one command line.
//
//   --gpus 64,128,256 --hardware h100,mi300x     one for each pair, the devices fastest
//
// Lists of questions are taken by --model, --hardware, --system, --framework, --precision,
// --optimizer, --lora, --seq-len, --document-len, --global-batch and --gpus, numbers also as
// ranges (number_list.h); lists of all other options restrict one search.  What --allow names
// in addition to schedules is a question each: the usual precision and another, nothing on
// the host and something.
#pragma once

#include <string>
#include <vector>

#include "cli/run_options.h"

namespace llmsim::cli {

struct PlanQuestion {
  RunOptions run;                   // with one value in the place of each list
  std::vector<std::string> values;  // of PlanQuestions::keys
};

struct PlanQuestions {
  std::vector<std::string> keys;  // of what differs, and always last "gpus": "hardware", "gpus"
  std::vector<PlanQuestion> list;
};

// Numbers of devices ascend.  Throws Error for a list that is none, naming its option.
PlanQuestions questions_of(const RunOptions& options);

// The numbers of devices that are tried where somebody asks for the smallest
// cluster: 1, 2, 4 to 65,536.
inline constexpr const char* kEveryPowerOfTwo = "1-65536*2";

}  // namespace llmsim::cli
