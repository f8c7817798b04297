// The options that describe a run, shared by every command that simulates one.
//
// Values are kept as typed: run_request.h reads them, and says which option is wrong and what would be right.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/database_option.h"
#include "sim/run.h"

namespace llmsim::cli {

struct RunOptions {
  std::string model;
  std::optional<std::string> gpus{}, hardware{}, system{}, transport{}, algorithm{};
  std::optional<std::string> seq_len{}, global_batch{}, global_batch_tokens{}, micro_batch{};
  std::optional<std::string> precision{}, framework{}, optimizer{}, offload{}, recompute{}, schedule{}, sharding{}, shard_size{};
  std::optional<std::string> tp{}, pp{}, dp{}, cp{}, ep{}, virtual_stages{}, cp_scheme{}, etp{}, moe_dispatch{};
  std::optional<double> moe_imbalance{}, moe_capacity{};
  std::optional<std::string> date{}, framework_version{}, stage_layers{};
  std::optional<bool> moe_overlap{}, moe_captured{}, cp_balanced{}, sequence_parallel{}, flash{}, compile{}, cuda_graph{};
  std::optional<bool> fused_cross_entropy{}, tp_overlap{}, dp_overlap{}, gradient_overlap{}, gather_overlap{};
  std::optional<bool> embeddings_as_layers{};
  sim::SettingValues settings{};  // hwdb/settings.h
};

// Options for one run, each with one value.
void add_run_options(CLI::App& command, RunOptions& options);

// The same for a search: the mesh and the recipe take lists and ranges.
void add_search_options(CLI::App& command, RunOptions& options);

}  // namespace llmsim::cli
