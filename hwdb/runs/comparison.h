// Comparisons: pairs of runs that differ in one setting, as a study states where the records alone
// do not show it.
//
// A file {"schema": 1, "comparisons": [...]} with, for each,
//
//   setting, source                  what was switched ("flash_attention", "transport", ...), and
//                                    where it is said
//   group                            the study
//   off, on                          ids of measured runs without and with the setting; or
//   run, without, speedup            the run with the setting, in the schema of run records; a JSON
//                                    merge patch (RFC 7396) that takes the setting away; and the
//                                    stated relative gain in speed, 0.12 for +12 %
//   values                           what the setting was without and with it, where the records do
//                                    not tell; else "off" and "on"
//   noise                            relative, or none
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/runs/run_record.h"

namespace llmsim::hwdb {

struct Comparison {
  std::string setting, group, source;
  std::vector<std::string> values;  // two, or none
  std::optional<std::string> off_id, on_id;
  std::optional<RunRecord> off, on;
  std::optional<double> speedup, noise;
};

// Throws Error where the text is no such JSON, naming file, comparison and key.
std::vector<Comparison> parse_comparisons(const std::string& text, const std::string& file);
std::vector<Comparison> read_comparisons(const std::string& path);

}  // namespace llmsim::hwdb
