#include "reports/sheet.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmsim::reports {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TablePage, HasTablesAsPeopleReadThem) {
  Table table("Times < 1 & more",
              {{"name", "name", Kind::Text}, {"time_s", "time", Kind::Seconds}});
  table.add_row({std::string("a<b>"), sim::Seconds(0.25)});
  table.add_row({std::string("c"), sim::Seconds(0.5)});
  table.add_note("A \"note\" & more");
  const std::vector<Table> tables{table};
  const std::string page = table_page("Page", tables);
  EXPECT_TRUE(page.starts_with("<!doctype html>\n"));
  EXPECT_TRUE(has(page, "<title>Page</title>"));
  EXPECT_TRUE(has(page, "<caption>Times &lt; 1 &amp; more</caption>"));
  EXPECT_TRUE(has(page, "<tr><th>name</th><th class=\"right\">time (ms)</th></tr>"));
  EXPECT_TRUE(has(page, "<tr><td>a&lt;b&gt;</td><td class=\"right\">250.0</td></tr>"));
  EXPECT_TRUE(has(page, "<p>A \"note\" &amp; more</p>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

// It asks the network for nothing.
TEST(TablePage, IsSelfContained) {
  const std::vector<Table> tables{Table("t", {{"a", "a", Kind::Text}})};
  const std::string page = table_page("t", tables);
  for (const char* what : {"http", "src=", "href=", "@import", "url("})
    EXPECT_FALSE(has(page, what)) << what;
}

}  // namespace
}  // namespace llmsim::reports
