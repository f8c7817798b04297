// --part K/N: an answer of rows that several processes make, one part of the rows each, and `join`,
// which makes the whole of their files.
//
// A part is CSV between two marks, lines that begin with "#":
//
//   # part 3 of 16: llmsim sweep --model=gpt2 --gpus=8 --tp=1,2,4
//   tp,model,...                 the header and the rows of the part
//   # end of part 3 of 16
//
// so that parts of another question, missing and doubled parts, and files that are not complete are
// found.  The parts without their marks, one after the other, are the answer without --part.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/output.h"
#include "reports/table.h"

namespace llmsim::cli {

struct Part {
  std::size_t number = 1, count = 0;

  // No part was asked for: the answer has no marks.
  bool is_all() const { return count == 0; }
};

// Rows, or questions, from `first` to before `last`.
struct PartRange {
  std::size_t first = 0, last = 0;
};

// --part with its help.
void add_part_option(CLI::App& command, std::optional<std::string>& part,
                     const std::string& of_what, const std::string& example = "--part 3/16");

// "3/16"; without a text all.  Throws Error for another form and for K > N.
Part part_in(const std::optional<std::string>& text);

// Throws Error for another format: others have no place for marks.
void require_csv(reports::Format format);

// Of so many in all; parts differ by one row at most.
PartRange range_of(Part part, std::size_t all);

// "llmsim sweep --model=gpt2 --tp=1,2": the options that have been given, but for those that change
// nothing in an answer: --part, --jobs, --resume, -o.
std::string question_of(const CLI::App& command);

// The marks with their line ends; empty where all is asked for.
std::string first_mark(Part part, const std::string& question);
std::string last_mark(Part part);

// The CSV between its marks.
std::string marked(const std::string& csv, Part part, const std::string& question);

// The whole CSV, of the files of all parts in any order.  Throws Error naming the file that is no
// part, not complete or of another question, and the parts that are missing or there twice.
TextSource joined(const std::vector<std::string>& paths);

}  // namespace llmsim::cli
