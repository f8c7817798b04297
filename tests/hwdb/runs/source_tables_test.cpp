#include "hwdb/runs/source_tables.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

SourceProject parsed(const std::string& table) {
  return parse_source_project(
      R"({"schema": 1, "title": "P", "groups": ["g"], "tables": [)" + table + "]}", "p.json");
}

std::string source_table_error(const std::string& table) {
  return error_of([&] { parsed(table); });
}

TEST(SourceTables, HaveRunsStagesOrComparisons) {
  const SourceTable runs =
      parsed(R"({"title": "t", "source": "s", "rows": 2, "runs": ["a-*", "b"]})").tables.at(0);
  EXPECT_EQ(runs.runs, (std::vector<std::string>{"a-*", "b"}));
  EXPECT_EQ(runs.rows, 2);
  const SourceTable stages =
      parsed(
          R"({"title": "t", "source": "s", "rows": 1, "stages": [{"run": "a", "stage": "first", "peak_bytes": 5}]})")
          .tables.at(0);
  EXPECT_EQ(stages.stages.at(0).peak, sim::Bytes(5.0));
  EXPECT_FALSE(stages.stages.at(0).allocated);
  EXPECT_NE(source_table_error(R"({"title": "t", "source": "s", "rows": 1})")
                .find("one of runs, stages and comparisons"),
            std::string::npos);
}

TEST(SourceTables, SayHowManyRowsTheSourcePrints) {
  EXPECT_NE(source_table_error(R"({"title": "t", "source": "s", "runs": ["a"]})").find("rows"),
            std::string::npos);
}

TEST(SourceTables, AnAssumptionNeedsItsReasonAndFillsOnlyWhatIsMissing) {
  const std::string head = R"({"title": "t", "source": "s", "rows": 1, "runs": ["a"], "assume": {)";
  EXPECT_NE(source_table_error(head + R"("model": {"num_heads": 80}}})").find("reason"),
            std::string::npos);
  const SourceTable table =
      parsed(head + R"("reason": "usual", "model": {"num_heads": 80, "num_layers": 7}}})")
          .tables.at(0);
  RunRecord record;
  record.model.fields["num_layers"] = 72;
  const RunRecord result = filled(record, *table.assumed);
  EXPECT_EQ(result.model.fields.at("num_heads"), sim::FieldValue(80));
  EXPECT_EQ(result.model.fields.at("num_layers"), sim::FieldValue(72));
}

TEST(Patterns, CoverTheWholeOfAnId) {
  EXPECT_TRUE(matches("a-*-c", "a-b-c"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*-x-*", "a-x-x-b"));
  EXPECT_FALSE(matches("a", "ab"));
  EXPECT_FALSE(matches("*-x", "a-x-b"));
  EXPECT_FALSE(matches("a-*", "b-a-"));
}

}  // namespace
}  // namespace llmsim::hwdb
