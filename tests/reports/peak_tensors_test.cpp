#include "reports/peak_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/sim/sample_run.h"

namespace llmsim::reports {
namespace {

using nlohmann::json;

sim::Prediction predicted() {
  sim::TrainingRun run = sim::small_run(4);
  run.strategy.pp = 2, run.strategy.dp = 2;
  return sim::predict(run);
}

TEST(TensorTable, RowsAddUpToThePeakLargestFirst) {
  const sim::Prediction p = predicted();
  const json rows = json::parse(render(tensor_table(p), Format::Json));
  double sum = 0.0, before = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const double size = rows[i]["size_bytes"];
    EXPECT_LE(size, before);
    sum += size, before = size;
  }
  EXPECT_EQ(rows.back()["tensor"], "peak");
  EXPECT_EQ(rows.back()["size_bytes"], p.memory.peak.value());
  EXPECT_NEAR(sum, p.memory.peak.value(), 1.0);
}

// A tensor of each of a stage's 4 blocks, for as many micro-batches as are in flight.
TEST(TensorTable, SaysOfWhichLayersAndMicroBatchesATensorIs) {
  const sim::Prediction p = predicted();
  const json rows = json::parse(render(tensor_table(p), Format::Json));
  const auto q =
      std::find_if(rows.begin(), rows.end(), [](const json& row) { return row["tensor"] == "q"; });
  ASSERT_NE(q, rows.end());
  EXPECT_EQ((*q)["shape"], "1024 x 1024");
  EXPECT_EQ((*q)["dtype"], "bf16");
  EXPECT_EQ((*q)["layers"], 4);
  EXPECT_EQ((*q)["micro_batches"], p.memory_peak.passes_in_flight);
  EXPECT_EQ((*q)["why"], "saved: core attention");
  EXPECT_EQ((*q)["kind"], "activations");
}

// Largest first the table fits a terminal.
TEST(TensorTable, LinesHaveAHundredColumns) {
  std::string text = render(tensor_table(predicted()), Format::Table);
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    EXPECT_LE(end - begin, 100U) << text.substr(begin, end - begin);
}

}  // namespace
}  // namespace llmsim::reports
