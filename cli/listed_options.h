// Options of a run, other than the fields of its strategy, that take a list of values: names with
// commas between them, numbers also as ranges (number_list.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/run_options.h"

namespace llmsim::cli {

struct ListedOption {
  const char* key;                    // "seq_len"
  std::string* (*text)(RunOptions&);  // null where it is not given
  bool numbers = false;
};

// Model, system, hardware, framework, precision, optimizer, lora,
// seq_len, document_len, global_batch, gpus.
std::span<const ListedOption> listed_options();

// "--seq-len".
std::string option_of(const ListedOption& listed);

// The values in `text`, one where it is no list; what a number is wrong by is said where it is read
// alone.  Throws Error naming the option.
std::vector<std::string> values_of(const ListedOption& listed, const std::string& text);

}  // namespace llmsim::cli
