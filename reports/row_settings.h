// Which settings distinguish the rows of a sweep.
//
// Settings are the columns before "feasible".  Those that vary are taken in their order, each where
// rows that were alike so far differ in it: what follows from others, as dp does from tp, is none.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "reports/data_rows.h"

namespace llmsim::reports {

inline constexpr const char* kFirstFigure = "feasible";  // what stands before it are settings

using Rows = std::vector<std::size_t>;  // of the data, by index

std::set<std::string> texts_of(const DataRows& data, const Rows& rows, const std::string& key);

// The texts of some columns of a row: two rows with the same are alike.
std::vector<std::string> texts_of(const DataRows& data, std::size_t row,
                                  const std::vector<std::string>& keys);

std::vector<std::string> settings_that_vary(const DataRows& data, const Rows& rows);

// Settings that distinguish rows which are alike in `known`.
std::vector<std::string> settings_between(const DataRows& data, const Rows& rows,
                                          const std::vector<std::string>& known);

// "tp 8, micro_batch 2".
std::string described(const DataRows& data, std::size_t row, const std::vector<std::string>& keys);

// Throws Error where two rows are alike in `keys`, which names a setting in which they differ.
void require_one_row(const DataRows& data, const Rows& rows, const std::vector<std::string>& keys);

}  // namespace llmsim::reports
