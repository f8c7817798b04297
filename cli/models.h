// llmsim models list|show: the catalogue, and any one model in full.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/output.h"

namespace llmsim::cli {

struct ModelListOptions {
  std::string family;  // empty: all
  OutputOptions output;
};

struct ModelShowOptions {
  std::string name;                    // of the catalogue, or the path of a config.json
  std::optional<std::string> seq_len;  // tokens of a training sequence; none: the model's own
  OutputOptions output;
};

// Adds the command; parsing it runs it and sets `status` to the exit status.
void add_models(CLI::App& program, int& status);

// 0.  Throw Error for an unknown name, family or format and for a bad file.
int run_model_list(const ModelListOptions& options);
int run_model_show(const ModelShowOptions& options);

}  // namespace llmsim::cli
