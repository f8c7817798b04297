#include "reports/source_tables.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace llmsim::reports {
namespace {

calibrate::SourceRow row(const std::string& id, int micro_batch) {
  calibrate::SourceRow row;
  row.record.id = id;
  row.record.training.strategy["micro_batch"] = micro_batch;
  row.record.training.strategy["precision"] = "bf16";
  row.record.training.settings["reduce_bucket_size"] = 500.0;
  row.measured_time = sim::Seconds(2.0);
  row.predicted_time = sim::Seconds(2.0);
  row.counts = true;
  return row;
}

calibrate::FilledProject project() {
  calibrate::FilledTable table;
  table.table.title = "Single";
  table.table.source = "README";
  table.rows = {row("a", 1), row("b", 2)};
  calibrate::FilledProject project;
  project.project.title = "Bench";
  project.project.about = {"What it is."};
  project.tables = {table};
  return project;
}

bool shows(const Table& table, const std::string& key) {
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    if (table.columns()[c].key == key) return !table.hidden(c);
  }
  return false;
}

TEST(SourceTable, ShowsWhatDiffersAndNotesWhatIsShared) {
  const Table table = source_table(project().tables[0]);
  EXPECT_TRUE(shows(table, "micro_batch"));
  EXPECT_TRUE(shows(table, "predicted_s"));
  EXPECT_FALSE(shows(table, "precision"));
  EXPECT_FALSE(shows(table, "measured_peak_bytes"));  // nobody has one
  EXPECT_EQ(table.notes().at(0),
            "the same in every row: precision bf16, flags reduce_bucket_size=500, scored yes");
  EXPECT_EQ(table.notes().back(), "Source: README");
}

TEST(SourceDocument, HasTheProjectsWordsAndItsTables) {
  const std::string text = source_document(project());
  EXPECT_EQ(text.rfind("# Bench\n\nWhat it is.\n", 0), 0u);
  EXPECT_NE(text.find("### Single\n"), std::string::npos);
}

TEST(SourceSummary, HasOneRowPerTable) {
  const std::vector projects{project()};
  const Table table = source_summary(projects);
  ASSERT_EQ(table.rows().size(), 1u);
  EXPECT_EQ(std::get<std::int64_t>(table.rows()[0][2]), 2);
  EXPECT_EQ(std::get<double>(table.rows()[0][4]), 0.0);
}

TEST(SourceJson, HoldsEveryRowWithBaseUnits) {
  const std::vector projects{project()};
  const nlohmann::json document = nlohmann::json::parse(source_json(projects));
  const nlohmann::json& table = document.at("projects").at(0).at("tables").at(0);
  EXPECT_EQ(table.at("rows").at(1).at("id"), "b");
  EXPECT_EQ(table.at("rows").at(1).at("measured_s"), 2.0);
  EXPECT_EQ(table.at("rows").at(0).at("micro_batch"), 1);
}

}  // namespace
}  // namespace llmsim::reports
