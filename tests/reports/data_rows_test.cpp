#include "reports/data_rows.h"

#include <gtest/gtest.h>

#include <string>

#include "reports/table.h"
#include "tests/error_of.h"

namespace llmsim::reports {
namespace {

Table sample() {
  Table table("", {{"name", "name", Kind::Text},
                   {"step_time_s", "time", Kind::Seconds},
                   {"tp", "tp", Kind::Integer}});
  table.add_row({std::string("plain"), sim::Seconds(0.1), std::int64_t{8}});
  table.add_row({std::string("a, \"b\"\nc"), Cell(), std::int64_t{1}});
  return table;
}

// What machine formats print is read back as it was.
TEST(DataRows, AreThoseOfATableInBothFormats) {
  for (const Format format : {Format::Csv, Format::Json}) {
    const DataRows data = data_rows(render(sample(), format));
    EXPECT_EQ(data.keys, (std::vector<std::string>{"name", "step_time_s", "tp"}));
    ASSERT_EQ(data.rows.size(), 2u);
    EXPECT_EQ(data.text(1, "name"), "a, \"b\"\nc");
    EXPECT_EQ(data.number(0, "step_time_s"), 0.1);
    EXPECT_EQ(data.number(1, "step_time_s"), std::nullopt);
    EXPECT_EQ(data.number(0, "tp"), 8.0);
    EXPECT_EQ(data.number(0, "name"), std::nullopt);
  }
}

// A spreadsheet runs "=..." of a cell; numbers stay numbers, and what is read is what was written.
TEST(DataRows, NoCellOfCsvIsAFormula) {
  Table table("", {{"name", "name", Kind::Text}});
  const std::vector<std::string> names{"=cmd|' /C calc'!A0", "+1+2", "-rf", "@SUM(A1)", "-1.5",
                                       "'quoted'",           "plain"};
  for (const std::string& name : names) table.add_row({name});
  const std::string csv = render(table, Format::Csv);
  EXPECT_EQ(csv, "name\n'=cmd|' /C calc'!A0\n'+1+2\n'-rf\n'@SUM(A1)\n-1.5\n'quoted'\nplain\n");
  const DataRows data = data_rows(csv);
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(data.text(i, "name"), names[i]);
}

TEST(DataRows, OfAValidationHaveTheEndsOfIntervals) {
  const DataRows data = data_rows(
      R"({"runs": [{"id": "a", "measured_s": 2.0, "predicted_s": 1.5, "interval_s": [1.0, 2.5],
                    "peak_interval_bytes": null, "scored": ["step_time", "memory"]}]})");
  EXPECT_TRUE(is_validation(data));
  EXPECT_EQ(data.number(0, "interval_s.high"), 2.5);
  EXPECT_EQ(data.text(0, "peak_interval_bytes.low"), "");
  EXPECT_EQ(data.text(0, "scored"), "step_time memory");
}

TEST(DataRows, OfOtherTextsAreErrors) {
  const auto why = [](const char* text) { return error_of([&] { data_rows(text); }); };
  EXPECT_EQ(why(" \n"), "is empty");
  EXPECT_EQ(why("a,b\n"), "has no rows");
  EXPECT_EQ(why("a,b\n1\n"), "row 1 has 1 fields, the header 2");
  EXPECT_EQ(why("a,a\n1,2\n"), "has a column twice");
  EXPECT_EQ(why("a\n\"1\n"), "a quoted field has no end");
  EXPECT_EQ(why("[1, 2]"), "a list of rows is expected, as sweep and validate write it");
  EXPECT_EQ(why("[{\"a\": 1}, {\"b\": 1}]"), "its objects differ in their keys");
  EXPECT_EQ(why("{"), "is no JSON, and no CSV either");
}

}  // namespace
}  // namespace llmsim::reports
