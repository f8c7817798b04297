// What a form asks, as words of command lines: the same options as people type.
//
// Fields have the names of options, with underscores: "model", "seq_len", "global_batch_tokens",
// "compile" = "true".  Three are no options: `options`, further words as people type them;
// `fine_tuning`, lora or qlora (frozen weights of 4 bits, nf4), of rank 16 where --lora is left
// out; and `to`, for which program launch files are written.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/serve/form.h"

namespace llmsim::cli::serve {

using Words = std::vector<std::string>;

// Words of a line, parted by spaces, in which quotation marks of both kinds hold spaces together;
// nothing else is special.  Throws Error where a quotation does not end.
Words words_in_line(const std::string& line);

// The words of a command of the program for the fields of a form; the first one is the command.
// Files that they name are below `folder`.  Throws Error for fields, options and values that the
// command does not have, and for options that write files.
Words command_words(const CLI::App& program, const std::string& command, const Form& form,
                    const std::filesystem::path& folder);

// A command line that a shell of POSIX takes: "llmsim plan --model=gpt2 '--require=mfu>40%'".
std::string shell_line(const Words& words);

// One of several questions that are compared.
struct ComparedQuestion {
  std::string label;
  Form form;
};

// Of JSON: a list of two to 20 objects of texts, each with the fields of a form and a `label`.
// Throws Error for another one.
std::vector<ComparedQuestion> compared_questions(const std::string& json);

// The table file (hwdb/text/table_file.h) of which each row is a question.  Where `planned` each
// cell is the best plan; else it is the run that is predicted.  Options of a plan that are not
// those of a run, as its goals, are left out, which its note says.
std::string table_of(const CLI::App& program, const std::vector<ComparedQuestion>& questions,
                     bool planned, const std::filesystem::path& folder);

}  // namespace llmsim::cli::serve
