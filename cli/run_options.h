// The options that describe a run, shared by every command that simulates one.
//
// Values are stored as typed: run_request.h reads them, and says which option is wrong and what
// would be right.
#pragma once

#include <CLI/App.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "sim/run.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {

struct RunOptions {
  std::string run_file{};     // a run record; empty: the run is described by the other options
  std::string launch_file{};  // of a training program, read instead; the other options win
  std::vector<std::string> ignored{};  // keys of it that are passed over
  bool ignores_unknown = false;        // and all that are not known
  std::string model{};
  std::optional<std::string> gpus{}, hardware{}, system{}, transport{}, algorithm{};
  std::optional<std::string> gpus_per_node{};
  std::optional<std::string> inter_node_bandwidth{};  // GB/s of a device, one direction
  std::optional<std::string> seq_len{}, document_len{}, image_tokens{}, audio_tokens{};
  std::optional<std::string> global_batch{}, global_batch_tokens{};
  std::string site{};  // a calibrated cluster; empty: none
  std::optional<std::string> framework{}, offload{}, recompute{}, date{}, framework_version{};
  std::optional<std::string> lora{}, lora_targets{};  // rank and layers of adapters
  std::optional<bool> dp_overlap{};
  bool freeze_vision = false, freeze_audio = false;
  // By key of sim/strategy/strategy.h; switches are "true" and "false".
  std::map<std::string, std::string> strategy{};
  sim::SettingValues settings{};        // hwdb/frameworks/settings.h
  std::vector<std::string> excluded{};  // of a search: "sharding=zero3"
  std::string allowed{};                // in addition to what a search tries: "fp8,zb-h1,optimizer"
};

// Options for one run, each with one value.
void add_run_options(CLI::App& command, RunOptions& options);

// The same, or the file of a run record in their place, all but --site; require_run() throws
// CLI::RequiredError where neither is given.
void add_run_or_file(CLI::App& command, RunOptions& options);
// --from: the launch file of a training program in place of a run; options override its values.
void add_from_option(CLI::App& command, RunOptions& options);
void require_run(const RunOptions& options);

// The same for a search: the mesh and the recipe take lists and ranges.
void add_search_options(CLI::App& command, RunOptions& options);

// How the option of a key is spelled: "--seq-len".
std::string option_named(const std::string& key);

// How the option of a field is spelled: "--micro-batch", "--schedule".
std::string option_name(const sim::StrategyField& field);

}  // namespace llmsim::cli
