// llmsim_fit_runs RUNS [COEFFICIENTS]: fits coefficients to the measured runs in the folder RUNS.  Prints the rows of
// hwdb/facts/coefficients.json, or puts them into the file COEFFICIENTS; on stderr what the fit is worth on groups left out.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "calibrate/leave_one_out.h"
#include "hwdb/coefficient_file.h"
#include "sim/base/error.h"

namespace {

using namespace llmsim;
using namespace llmsim::calibrate;

std::vector<hwdb::RunFile> run_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<hwdb::RunFile> files;
  for (const std::string& path : paths) files.push_back(hwdb::read_runs(path));
  return files;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(path + ": cannot be read");
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw Error(path + ": cannot be written");
}

void print_coefficients(const MeasuredRuns& runs, const LeaveOneOut& result) {
  std::fprintf(stderr, "| coefficient | prior | fitted | standard error | groups that move it, in %% |\n|---|--:|--:|--:|---|\n");
  for (std::size_t k = 0; k < runs.coefficients.size(); ++k) {
    const RunCoefficient& c = runs.coefficients[k];
    std::fprintf(stderr, "| %s %s %s | %.3g to %.0f %% | %.3g | %.1f %% |", c.scope.c_str(), c.id.c_str(), c.key.c_str(), c.prior,
                 100.0 * c.spread, c.prior * std::exp(result.fit.shifts[k]), 100.0 * result.deviations[k]);
    for (const Influence& i : result.influence[k]) {
      if (std::abs(i.shift) >= 0.005) std::fprintf(stderr, " %s %+.1f", runs.groups[i.group].c_str(), 100.0 * i.shift);
    }
    std::fprintf(stderr, " |\n");
  }
}

void print_groups(const Backtest& before, const Backtest& fitted, const Backtest& left_out) {
  std::fprintf(stderr,
               "\n| group | n | at the priors | bias | fitted | bias | left out | bias |\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
  for (std::size_t g = 0; g < before.groups.size(); ++g) {
    if (!before.groups[g].median_abs_error) continue;
    std::fprintf(stderr, "| %s | %d |", before.groups[g].group.c_str(), before.groups[g].scored);
    for (const Backtest* test : {&before, &fitted, &left_out})
      std::fprintf(stderr, " %.1f %% | %+.1f %% |", 100.0 * *test->groups[g].median_abs_error,
                   100.0 * test->groups[g].bias.value_or(0.0));
    std::fprintf(stderr, "\n");
  }
  std::fprintf(stderr, "| macro | %d | %.1f %% | | %.1f %% | | %.1f %% | |\n", before.overall.scored,
               100.0 * *before.overall.macro_median_abs_error, 100.0 * *fitted.overall.macro_median_abs_error,
               100.0 * *left_out.overall.macro_median_abs_error);
}

// What is left once fitted, by stack and device: the mean of ln(predicted / measured) of each group.
void print_residuals(const MeasuredRuns& runs, const std::vector<double>& errors) {
  std::map<std::pair<std::string, std::string>, std::map<std::size_t, std::vector<double>>> cells;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    cells[{run.run.stack.id, run.run.cluster.device.id}][run.group].push_back(errors[i]);
  }
  std::fprintf(stderr,
               "\n| stack | device | ln(predicted / measured) of left-out groups: runs, mean, deviation |\n|---|---|---|\n");
  for (const auto& [cell, groups] : cells) {
    std::fprintf(stderr, "| %s | %s |", cell.first.c_str(), cell.second.c_str());
    for (const auto& [group, of_group] : groups) {
      double mean = 0.0, square = 0.0;
      for (const double e : of_group) mean += e / static_cast<double>(of_group.size());
      for (const double e : of_group) square += (e - mean) * (e - mean) / static_cast<double>(of_group.size());
      std::fprintf(stderr, " %s %zu %+.2f %.2f;", runs.groups[group].c_str(), of_group.size(), mean, std::sqrt(square));
    }
    std::fprintf(stderr, " |\n");
  }
}

void report(const std::vector<hwdb::RunFile>& files, const MeasuredRuns& runs, const LeaveOneOut& result) {
  const auto no_interval = [](std::size_t) { return std::pair(0.0, 0.0); };
  print_coefficients(runs, result);
  print_groups(backtest_of(files, runs, result.before, no_interval), backtest_of(files, runs, result.fitted, no_interval),
               backtest_of(files, runs, result.left_out, no_interval));
  print_residuals(runs, result.left_out);
}

void fit(const std::string& folder, const std::string& coefficients) {
  const std::vector<hwdb::RunFile> files = run_files(folder);
  const MeasuredRuns runs = measured_runs(files, run_coefficients(files));
  const LeaveOneOut result = leave_one_out(runs);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(runs, result);
  report(files, runs, result);
  if (coefficients.empty())
    std::fputs(hwdb::coefficients_json(rows).c_str(), stdout);
  else
    write(coefficients, hwdb::with_fitted_rows(text_of(coefficients), coefficients, rows, kRunFit));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: llmsim_fit_runs RUNS [COEFFICIENTS]\n");
    return 2;
  }
  try {
    fit(argv[1], argc == 3 ? argv[2] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmsim_fit_runs: %s\n", error.what());
    return 1;
  }
}
