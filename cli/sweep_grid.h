// A grid of runs: every combination of the values of options that have lists.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cli/run_options.h"

namespace llmsim::cli {

struct SweepAxis {
  std::string key;  // as in run files: "micro_batch"; "recompute"
  std::vector<std::string> values;
};

// Points are numbered with the last axis fastest.
struct SweepGrid {
  RunOptions base;
  std::vector<SweepAxis> axes;  // of two values and more

  std::size_t size() const;
  // The value of each axis there.
  std::vector<std::string> values(std::size_t point) const;
  RunOptions run(std::size_t point) const;
};

// In this order: the options of listed_options(), fields of the strategy, those of a search before
// the others (sim/search/space.h), recompute.  Throws Error for a list that is none, naming its
// option, and for more points than kMostSweepPoints.
inline constexpr std::size_t kMostSweepPoints = 100'000'000;
SweepGrid grid_of(const RunOptions& options);

// An option of a run, other than the fields of its strategy, that takes a list of values: names
// with commas between them, numbers also as ranges (number_list.h).
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
