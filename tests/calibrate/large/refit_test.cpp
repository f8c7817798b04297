// Every measured run of the project, fitted again: hwdb/facts/coefficients.json is what the model
// and the runs give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/backtest.h"
#include "calibrate/measured_runs.h"
#include "calibrate/memory_fit.h"
#include "calibrate/ratio_fit.h"
#include "calibrate/run_fit.h"
#include "hwdb/frameworks/frameworks.h"
#include "hwdb/runs/layout_errors.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/store/database.h"

namespace llmsim::calibrate {
namespace {

namespace fs = std::filesystem;

// As `llmsim calibrate fit` without arguments reads them.
std::vector<hwdb::RunFile> measured_files() {
  std::vector<std::string> paths;
  for (const char* folder : {"runs", "first_contact"}) {
    std::set<std::string> sorted;
    for (const auto& entry :
         fs::directory_iterator(LLMSIM_SOURCE_DIR "/tests/validation/" + std::string(folder)))
      if (entry.path().extension() == ".json") sorted.insert(entry.path());
    paths.insert(paths.end(), sorted.begin(), sorted.end());
  }
  std::vector<hwdb::RunFile> files;
  for (const std::string& path : paths) files.push_back(hwdb::read_runs(path));
  const auto unfitted = unfitted_groups(files);
  std::erase_if(files, [&](const hwdb::RunFile& file) { return unfitted.contains(file.group); });
  return files;
}

// One in the third digit: values stand in the file with three.
double third_digit(double value) {
  return value == 0.0 ? 1e-9 : std::pow(10.0, std::floor(std::log10(std::abs(value))) - 2.0);
}

using Key = std::tuple<std::string, std::string, std::string>;  // scope, id, key
using Rows = std::map<Key, hwdb::Coefficient>;

Rows shipped_rows(const char* fit) {
  const hwdb::Database database(":memory:");
  Rows rows;
  const auto add = [&](const std::string& scope, const std::string& id) {
    for (const hwdb::Coefficient& row : database.coefficients(scope, id))
      if (row.fitted_from.starts_with(fit)) rows[{scope, id, row.key}] = row;
  };
  for (const hwdb::HardwareRow& row : database.list(hwdb::HardwareKind::Accelerator))
    add("device", row.id);
  for (const std::string& id : hwdb::Frameworks::shipped().ids()) add("framework", id);
  add(hwdb::kLayoutScope, hwdb::kAllLayouts);
  return rows;
}

void expect_near(double shipped, double fitted, const std::string& name) {
  EXPECT_NEAR(shipped, fitted, 1.01 * third_digit(std::max(std::abs(shipped), std::abs(fitted))))
      << name
      << " differs: `llmsim calibrate fit --coefficients hwdb/facts/coefficients.json` fits again";
}

void expect_shipped(const std::vector<hwdb::Coefficient>& fitted, const Rows& shipped) {
  EXPECT_EQ(shipped.size(), fitted.size());
  for (const hwdb::Coefficient& row : fitted) {
    const std::string name = row.scope + " " + row.id + " " + row.key;
    const auto found = shipped.find({row.scope, row.id, row.key});
    ASSERT_NE(found, shipped.end()) << name << " is not in hwdb/facts/coefficients.json";
    expect_near(found->second.value, row.value, name);
    ASSERT_EQ(found->second.standard_error.has_value(), row.standard_error.has_value()) << name;
    if (row.standard_error)
      expect_near(*found->second.standard_error, *row.standard_error, name + "'s standard error");
  }
}

TEST(Refit, TheShippedRowsAreTheFittedOnes) {
  const std::vector<hwdb::RunFile> files = measured_files();
  const MeasuredRuns runs = measured_runs(files);
  const RunFit fit = run_fit(runs);
  std::vector<hwdb::Coefficient> of_times = fitted_rows(fit);
  const std::vector<hwdb::Coefficient> of_ratios = fitted_rows(ratio_fit(runs, fit));
  of_times.insert(of_times.end(), of_ratios.begin(), of_ratios.end());
  expect_shipped(of_times, shipped_rows(kRunFit));
  expect_shipped(fitted_rows(memory_fit(measured_memory(files))), shipped_rows(kMemoryFit));
}

}  // namespace
}  // namespace llmsim::calibrate
