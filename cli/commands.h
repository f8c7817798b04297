// The commands.  Each adds itself to the program; parsing it runs it and sets `status` to the exit
// status: 0, or 3 where the answer is no (it says why).
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/backtest.h"
#include "cli/output.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"

namespace llmsim::cli {

inline constexpr int kUsage = 2;  // exit status of a wrong command line

void add_plan(CLI::App& program, int& status);     // the best strategies, ranked
void add_predict(CLI::App& program, int& status);  // one run in full
void add_sweep(CLI::App& program, int& status);    // predictions over a grid
// Parts of a sweep, a comparison or a plan into one.
void add_join(CLI::App& program, int& status);
void add_compare(CLI::App& program, int& status);  // tables of settings by models or hardware
// One step as a trace of every pipeline stage and stream.
void add_trace(CLI::App& program, int& status);
void add_diff(CLI::App& program, int& status);
// Where the time of a measured step went.
void add_diagnose(CLI::App& program, int& status);
void add_report(CLI::App& program, int& status);    // a plan or a run as one HTML page
void add_plot(CLI::App& program, int& status);      // a sweep or a validation as a chart
void add_export(CLI::App& program, int& status);    // the files that start a run
void add_validate(CLI::App& program, int& status);  // predicted against measured runs
// Measure this machine: run, import, compare, verify; read benchmarks: bench.
void add_calibrate(CLI::App& program, int& status);
void add_hardware(CLI::App& program, int& status);  // devices and systems: list, show, add, check
// The catalogue, and any one model in full: list, show.
void add_models(CLI::App& program, int& status);
void add_schema(CLI::App& program, int& status);  // JSON Schemas of files and answers
// Tools for agents, by the Model Context Protocol.
void add_mcp(CLI::App& program, const std::string& version, int& status);
// A local web application.
void add_serve(CLI::App& program, const std::string& version, int& status);

// --- validate ---

// The run files in `paths`: files as they are, of folders every *.json in alphabetical order.
// Throws Error for a path that does not exist and for a folder without such files.
std::vector<std::string> run_files(const std::vector<std::string>& paths);

// The same, read; without paths the runs of the project that the program was built in: the folder
// `tests/validation/runs`, and its sibling `first_contact`, where that is wanted.
std::vector<hwdb::RunFile> read_run_files(const std::vector<std::string>& paths,
                                          bool first_contact = false);

// The runs predicted and held against what was measured, with a line of progress.
calibrate::Backtest backtest_of(std::span<const hwdb::RunFile> files, calibrate::Scope scope,
                                hwdb::RunResolver& resolver);

// --- models ---

struct ModelListOptions {
  std::string family;  // empty: all
  OutputOptions output;
};

struct ModelShowOptions {
  std::string name;                    // of the catalogue, or the path of a config.json
  std::optional<std::string> seq_len;  // tokens of a training sequence; none: the model's own
  OutputOptions output;
};

struct ModelAddOptions {
  std::string file;      // rows of model_types
  bool replace = false;  // names that exist already
  OutputOptions output;
};

// 0.  Throw Error for an unknown name, family or format and for a bad file.
int run_model_list(const ModelListOptions& options);
int run_model_show(const ModelShowOptions& options);
int run_model_add(const ModelAddOptions& options);

// --- calibrate ---

struct CalibrateOptions {
  std::vector<std::string> results;  // files of llmsim-runtime; `run` writes one
  bool quick = false;
  bool resume = false;
  bool replace = false;
  int ranks = 1;             // local processes that are measured together, after one alone
  std::optional<int> nodes;  // print how to start them on so many nodes
  std::optional<int> threads;
  std::optional<double> budget;
  std::string device;
  std::string id;
  std::string step;  // run file of the one training step to measure; empty: the campaign
  OutputOptions output;
  std::string database;
};

// Which device llmsim-runtime measures and what it is called, as words of its command line.
void add_device(std::vector<std::string>& arguments, const CalibrateOptions& options);

// What the runtime would call it: "local_cpu".
std::string measured_device(const CalibrateOptions& options);

// `step` alone, or a proxy of it (calibrate/step_proxy.h), on as many ranks, with its prediction.
int run_calibrate_step(const CalibrateOptions& options);

// Starts llmsim-runtime here, for one rank and then for `ranks`, and imports what it wrote; with
// `nodes`, prints the lines that start the ranks there, and ends.
int run_calibrate_run(const CalibrateOptions& options);

// Fits the device and stores it as the user's hardware, with all coefficients.
int run_calibrate_import(const CalibrateOptions& options);

// Predicted against measured step times of the file's training steps, on the imported device.
int run_calibrate_compare(const CalibrateOptions& options);

// --- calibrate verify: what the simulator must get exactly right, counted in
// real training steps ---

struct VerifyOptions {
  std::vector<std::string> results;  // files of `llmsim-runtime --verify`; none: count here
  OutputOptions output;
  std::string database;
};

// Adds the subcommand to `calibrate`.
void add_calibrate_verify(CLI::App& calibrate, int& status);

// Adds `calibrate fit`: coefficients and error bars from measured runs.
void add_calibrate_fit(CLI::App& calibrate, int& status);

// Adds `calibrate log`: a training log and its run file to a measured run.
void add_calibrate_log(CLI::App& calibrate, int& status);

// Adds `calibrate bench`: a device, or a site, from the output of public benchmarks.
void add_calibrate_bench(CLI::App& calibrate, int& status);

// Adds `calibrate site` and `calibrate show`: how one cluster differs from the model of all.
void add_calibrate_site(CLI::App& calibrate, int& status);

// Prints a line for each count, predicted and measured.  0 where all are equal, else 1.
int run_calibrate_verify(const VerifyOptions& options);

}  // namespace llmsim::cli
