// The options that describe a run, shared by every command that simulates one, and what becomes of them.
//
// All values are kept as typed; run_of and query_of read them, and say which option is wrong and what would be right.  What is
// not given takes a documented default, which becomes a fact "assumed.<key>" of the run so that the answer can print it:
//
//   gpus         predict: dp * tp * pp * cp; plan has no default
//   hardware     h100 in nodes of the system dgx_h100; with --hardware alone, the usual nodes of that accelerator
//   seq_len      the training length of the model
//   global_batch 4 Mi tokens, as whole sequences that the devices (predict: dp * micro_batch) divide
//   stack        megatron-lm
//   precision    the usual 16-bit format of the device; optimizer adamw; the switches: those of the stack
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "hwdb/database.h"
#include "sim/plan.h"
#include "sim/run.h"

namespace llmsim::cli {

struct RunOptions {
  std::string model;
  std::optional<std::string> gpus{}, hardware{}, system{};
  std::optional<std::string> seq_len{}, global_batch{}, global_batch_tokens{}, micro_batch{};
  std::optional<std::string> precision{}, stack{}, optimizer{}, offload{}, recompute{}, sharding{}, shard_size{};
  std::optional<std::string> tp{}, pp{}, dp{}, cp{}, ep{}, virtual_stages{};
  bool sequence_parallel = false;
  bool no_flash = false;
  bool compile = false;
  bool cuda_graph = false;
};

// How many values the mesh and recipe options take: one (predict), or lists and ranges to search (plan).
enum class Arity { One, Many };

void add_run_options(CLI::App& command, RunOptions& options, Arity arity);

// --db PATH.
void add_database_option(CLI::App& command, std::string& path);

// The database at `path`, or at the default path where it is empty.
hwdb::Database open_database(const std::string& path);

// "path, facts of DATE (DIGEST)": for the provenance of an answer.
std::string name_of(const hwdb::Database& database);

// One run.  Throws Error for an unknown name or a value out of range.  A mesh or batch that does not multiply is kept as asked:
// the simulator answers with the rule it breaks.
sim::Run run_of(const RunOptions& options, const hwdb::Database& database);

// What to plan, with the lists that restrict the search.
sim::PlanQuery query_of(const RunOptions& options, const hwdb::Database& database);

}  // namespace llmsim::cli
