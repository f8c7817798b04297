#include "reports/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace llmsim::reports {
namespace {

// Two runs, 1.5 s and 750 ms, of which the second has no memory figure.
Table small_table() {
  Table table("Runs", {{"name", "name", Kind::Text},
                       {"tp", "tp", Kind::Integer},
                       {"step_time_s", "step time", Kind::Seconds},
                       {"peak_bytes", "peak", Kind::Bytes},
                       {"mfu", "MFU", Kind::Percent}});
  table.add_row({"a|b_1", std::int64_t{8}, sim::Seconds(1.5), 2 * sim::GiB, 0.5});
  table.add_row({"c, \"d\"", std::int64_t{16}, sim::Seconds(0.75), {}, 0.0625});
  return table;
}

TEST(Table, AlignsTextWithOneUnitPerColumn) {
  EXPECT_EQ(render(small_table(), Format::Table),
            "Runs\n"
            "name    tp  step time (s)  peak (GiB)  MFU (%)\n"
            "a|b_1    8          1.500       2.000     50.0\n"
            "c, \"d\"  16         0.7500           -     6.25\n");
}

TEST(Table, MarkdownEscapesBars) {
  EXPECT_EQ(render(small_table(), Format::Markdown),
            "### Runs\n\n"
            "| name   |  tp | step time (s) | peak (GiB) | MFU (%) |\n"
            "| ------ | --: | ------------: | ---------: | ------: |\n"
            "| a\\|b_1 |   8 |         1.500 |      2.000 |    50.0 |\n"
            "| c, \"d\" |  16 |        0.7500 |          - |    6.25 |\n");
}

TEST(Table, CsvHasStableKeysBaseUnitsAndQuotes) {
  EXPECT_EQ(render(small_table(), Format::Csv),
            "name,tp,step_time_s,peak_bytes,mfu\n"
            "a|b_1,8,1.5,2147483648,0.5\n"
            "\"c, \"\"d\"\"\",16,0.75,,0.0625\n");
}

TEST(Table, JsonHasOneObjectPerRowAndNullForNone) {
  EXPECT_EQ(
      nlohmann::json::parse(render(small_table(), Format::Json)),
      nlohmann::json::parse(
          R"([{"name": "a|b_1", "tp": 8, "step_time_s": 1.5, "peak_bytes": 2147483648, "mfu": 0.5},
              {"name": "c, \"d\"", "tp": 16, "step_time_s": 0.75, "peak_bytes": null, "mfu": 0.0625}])"));
}

TEST(Table, LatexEscapesItsSpecialCharacters) {
  EXPECT_EQ(render(small_table(), Format::Latex),
            "\\begin{table}\n\\caption{Runs}\n\\begin{tabular}{lrrrr}\n  \\toprule\n"
            "  name & tp & step time (s) & peak (GiB) & MFU (\\%) \\\\\n  \\midrule\n"
            "  a|b\\_1 & 8 & 1.500 & 2.000 & 50.0 \\\\\n"
            "  c, \"d\" & 16 & 0.7500 & - & 6.25 \\\\\n"
            "  \\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

TEST(Table, AlignsByCharactersNotBytes) {
  Table table("", {{"name", "name", Kind::Text}, {"n", "n", Kind::Integer}});
  table.add_row(
      {"\xC2\xB5"
       "bench",
       std::int64_t{1}});
  EXPECT_EQ(render(table, Format::Table),
            "name    n\n\xC2\xB5"
            "bench  1\n");
}

TEST(Table, NewlinesInCellsDoNotBreakRows) {
  Table table("", {{"a", "a", Kind::Text}});
  table.add_row({"x\ny"});
  EXPECT_EQ(render(table, Format::Table), "a\nx y\n");
  EXPECT_EQ(render(table, Format::Markdown), "| a      |\n| ------ |\n| x<br>y |\n");
  EXPECT_EQ(render(table, Format::Csv), "a\n\"x\ny\"\n");
}

TEST(Table, ValuesThatAreNotFiniteAreNoValues) {
  Table table("", {{"t_s", "t", Kind::Seconds}, {"r", "r", Kind::Number}});
  table.add_row({sim::Seconds(std::nan("")), HUGE_VAL});
  EXPECT_EQ(render(table, Format::Table), "t (s)  r\n    -  -\n");
  EXPECT_EQ(render(table, Format::Csv), "t_s,r\n,\n");
  EXPECT_EQ(nlohmann::json::parse(render(table, Format::Json)),
            nlohmann::json::parse(R"([{"t_s": null, "r": null}])"));
}

TEST(Table, RelativeColumnStandsBesideItsSourceAndIsOneForTheBest) {
  Table table = small_table();
  table.add_relative("relative", "relative", "step_time_s", Better::Smaller);
  EXPECT_EQ(table.columns()[3].key, "relative");
  EXPECT_EQ(std::get<double>(table.rows()[0][3]), 2.0);  // 1.5 / 0.75
  EXPECT_EQ(std::get<double>(table.rows()[1][3]), 1.0);
  table.add_relative("by_mfu", "by MFU", "mfu", Better::Larger);
  EXPECT_EQ(std::get<double>(table.rows()[1].back()), 8.0);  // 0.5 / 0.0625
  EXPECT_NE(render(table, Format::Table).find("2.00x"), std::string::npos);
}

TEST(Table, RelativeToNothingIsNothing) {
  Table table("", {{"peak_bytes", "peak", Kind::Bytes}});
  table.add_row({{}});
  table.add_relative("relative", "relative", "peak_bytes", Better::Smaller);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(table.rows()[0].back()));
}

Table two_meshes() {
  Table table("", {{"tp", "tp", Kind::Integer},
                   {"pp", "pp", Kind::Integer},
                   {"time_s", "time", Kind::Seconds}});
  table.add_row({std::int64_t{1}, std::int64_t{4}, sim::Seconds(0.5)});
  table.add_row({std::int64_t{2}, std::int64_t{4}, sim::Seconds(0.5)});
  return table;
}

TEST(Table, FoldsConstantColumnsIntoANoteForPeopleOnly) {
  Table table = two_meshes();
  table.fold_constants({"tp", "pp", "time_s"});
  EXPECT_EQ(render(table, Format::Table),
            "tp\n 1\n 2\n  the same in every row: pp 4, time 500.0 ms\n");
  EXPECT_EQ(render(table, Format::Csv), "tp,pp,time_s\n1,4,0.5\n2,4,0.5\n");
}

TEST(Table, OneRowIsNotFolded) {
  Table table("", {{"tp", "tp", Kind::Integer}});
  table.add_row({std::int64_t{1}});
  table.fold_constants({"tp"});
  EXPECT_EQ(render(table, Format::Table), "tp\n 1\n");
}

TEST(Table, HiddenColumnsAreForMachines) {
  Table table = two_meshes();
  table.hide("time_s");
  EXPECT_EQ(render(table, Format::Table), "tp  pp\n 1   4\n 2   4\n");
  EXPECT_EQ(render(table, Format::Csv), "tp,pp,time_s\n1,4,0.5\n2,4,0.5\n");
}

TEST(Table, ColourIsOnlyUsedWhenAskedFor) {
  EXPECT_EQ(render(small_table(), Format::Table).find('\033'), std::string::npos);
  EXPECT_NE(render(small_table(), Format::Table, {.colour = true}).find('\033'), std::string::npos);
}

TEST(Format, NamesAreInvertible) {
  for (const char* name : {"table", "markdown", "csv", "json", "latex"})
    EXPECT_STREQ(sim::name_of(*sim::named<Format>(name)), name);
  EXPECT_FALSE(sim::named<Format>("yaml"));
}

}  // namespace
}  // namespace llmsim::reports
