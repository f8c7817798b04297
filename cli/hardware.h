// llmsim hardware: what the database knows of accelerators and systems, and adding one's own.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/output.h"

namespace llmsim::cli {

struct HardwareOptions {
  std::string name;      // show: id or alias
  std::string file;      // add: the user's hardware
  bool replace = false;  // add: names that exist already
  OutputOptions output;
  std::string database;
};

// Adds the command with its subcommands list, show and add; parsing one runs it and sets `status` to the exit status.
void add_hardware(CLI::App& program, int& status);

// One row per accelerator and system.
int run_hardware_list(const HardwareOptions& options);

// Every fact of one accelerator in its usual nodes, or of one system, with its evidence and source.
int run_hardware_show(const HardwareOptions& options);

// Checks the file and stores what it describes; all or nothing.
int run_hardware_add(const HardwareOptions& options);

}  // namespace llmsim::cli
