#include "reports/plot.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "reports/chart.h"
#include "tests/error_of.h"

namespace llmsim::reports {
namespace {

// dp follows from the others; the last row does not fit.
constexpr const char* kSweep =
    "model,num_devices,tp,dp,recompute,feasible,step_time_s,tokens_per_s_per_device\n"
    "m,8,1,8,none,yes,4,1000\n"
    "m,8,2,4,none,yes,5,800\n"
    "m,16,1,16,none,yes,2,900\n"
    "m,16,2,8,none,yes,2.5,700\n"
    "m,64,1,64,none,yes,0.5,600\n"
    "m,64,2,32,none,out of memory,,\n";

int count(const std::string& text, const std::string& piece) {
  int n = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1))
    ++n;
  return n;
}

struct Point {
  double x, y;
  std::string tip;
};

// The marks of a drawing.
std::vector<Point> points(const std::string& svg) {
  static const std::regex mark(
      "<circle cx=\"([^\"]+)\" cy=\"([^\"]+)\" r=\"3.5\"[^>]*><title>([^<]*)</title>");
  std::vector<Point> found;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), mark); at != std::sregex_iterator();
       ++at)
    found.push_back({std::stod((*at)[1]), std::stod((*at)[2]), (*at)[3]});
  return found;
}

TEST(Plot, OfASweepHasALineForEachValueOfWhatTellsRowsApart) {
  const std::string svg = plot(data_rows(kSweep), {});
  EXPECT_EQ(count(svg, "<polyline"), 2);
  EXPECT_NE(svg.find(">tp 1</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">dp "), std::string::npos);
  EXPECT_EQ(points(svg).size(), 5u);
  EXPECT_NE(svg.find("1 of 6 rows have no tokens_per_s_per_device"), std::string::npos);
}

// Devices span a factor of 8, so that equal ratios are equal distances; values begin at 0.
TEST(Plot, PutsMarksWhereTheirValuesAre) {
  const std::vector<Point> marks = points(plot(data_rows(kSweep), {}));
  ASSERT_EQ(marks.size(), 5u);  // tp 1 at 8, 16, 64, then tp 2 at 8, 16
  EXPECT_NEAR(marks[2].x - marks[1].x, 2.0 * (marks[1].x - marks[0].x), 0.02);
  EXPECT_NEAR(marks[0].x, marks[3].x, 1e-9);
  const double bottom = 460.0;
  EXPECT_NEAR((bottom - marks[0].y) / (bottom - marks[2].y), 1000.0 / 600.0, 0.001);
  EXPECT_EQ(marks[1].tip, "num_devices 16, tp 1: 900.0 tokens/s");
}

TEST(Plot, IsTheSameFileEveryTime) {
  EXPECT_EQ(plot(data_rows(kSweep), {}), plot(data_rows(kSweep), {}));
}

TEST(Plot, OfTwoSettingsIsAHeatMap) {
  const std::string svg =
      plot(data_rows(kSweep), {.x = "num_devices", .y = "tp", .value = "step_time_s"});
  EXPECT_EQ(count(svg, "<rect x="), 6);
  EXPECT_NE(svg.find("num_devices 64, tp 2: none, out of memory"), std::string::npos);
  EXPECT_NE(svg.find("num_devices 16, tp 2: 2.500 s"), std::string::npos);
  // The shortest step is the darkest.
  const std::size_t best = svg.find("num_devices 64, tp 1: 0.5000 s");
  const std::size_t best_ms = svg.find("num_devices 64, tp 1: 500");
  const std::size_t there = std::min(best, best_ms);
  ASSERT_NE(there, std::string::npos);
  const std::size_t fill = svg.rfind("fill=\"", there);
  EXPECT_EQ(svg.substr(fill, 20), "fill=\"rgb(8,64,129)\"");
}

// A step time is known of a run that does not fit, but nobody can have it.
TEST(Plot, MarksRowsThatDoNotFitAsHollow) {
  constexpr const char* kTight =
      "tp,pp,feasible,step_time_s\n1,1,out of memory,1\n2,1,yes,2\n1,2,yes,3\n2,2,yes,4\n";
  const std::string lines = plot(data_rows(kTight), {.value = "step_time_s"});
  EXPECT_EQ(count(lines, "r=\"3.5\" fill=\"#fff\""), 1);
  EXPECT_NE(lines.find("tp 1, pp 1: 1.000 s, out of memory"), std::string::npos);
  EXPECT_NE(lines.find("1 hollow or grey: does not fit"), std::string::npos);
  const std::string map = plot(data_rows(kTight), {.y = "pp", .value = "step_time_s"});
  EXPECT_EQ(count(map, "fill=\"#f1f1f1\""), 1);
  // The best that can be had is the darkest.
  const std::size_t best = map.find("tp 2, pp 1: 2.000 s");
  ASSERT_NE(best, std::string::npos);
  EXPECT_NE(map.substr(best - 40, 40).find("rgb(8,64,129)"), std::string::npos);
}

TEST(Plot, DrawsTheChosenRows) {
  const std::string svg = plot(data_rows(kSweep), {.where = {{"tp", "2"}}});
  EXPECT_EQ(points(svg).size(), 2u);
  EXPECT_EQ(error_of([] {
              plot(data_rows(kSweep), {.where = {{"tp", "3"}}});
            }),
            "--where: no row is so");
}

TEST(Plot, OfWordsHasMarksWithoutALine) {
  const std::string svg =
      plot(data_rows("accelerator,feasible,mfu\nh100,yes,0.5\nmi300x,yes,0.4\n"), {.value = "mfu"});
  EXPECT_EQ(count(svg, "<polyline"), 0);
  EXPECT_NE(svg.find(">h100</text>"), std::string::npos);
  EXPECT_NE(svg.find("accelerator h100: 50.00 %"), std::string::npos) << svg;
}

TEST(Plot, RowsThatStandOnTheSamePlaceAreAnError) {
  EXPECT_EQ(error_of([] { plot(data_rows(kSweep), {.x = "tp", .by = {"recompute"}}); }),
            "3 rows have tp 1, recompute none and differ in num_devices; --where chooses rows, as "
            "in --where num_devices=8");
  EXPECT_EQ(error_of([] { plot(data_rows("tp,feasible,mfu\n1,yes,0.5\n"), {.value = "mfu"}); }),
            "--x: no setting varies; name the column to draw along");
  EXPECT_EQ(error_of([] { plot(data_rows(kSweep), {.value = "recompute"}); }),
            "--value = recompute: no row has a number there");
}

constexpr const char* kValidation =
    R"({"runs": [
{"id": "a", "group": "g", "measured_s": 2.0, "predicted_s": 2.0, "interval_s": [1.0, 4.0],
 "measured_peak_bytes": null, "predicted_peak_bytes": null, "peak_interval_bytes": null, "scored": ["step_time"]},
{"id": "b", "group": "h", "measured_s": 1.0, "predicted_s": 4.0, "interval_s": [3.0, 5.0],
 "measured_peak_bytes": 2e9, "predicted_peak_bytes": 1e9, "peak_interval_bytes": [5e8, 2e9], "scored": ["memory", "step_time"]},
{"id": "c", "group": "h", "measured_s": 1.0, "predicted_s": 1.0, "interval_s": null,
 "measured_peak_bytes": null, "predicted_peak_bytes": null, "peak_interval_bytes": null, "scored": []}]})";

// Both axes have the same range: a run whose prediction holds is on the diagonal.
TEST(Plot, OfAValidationHasExactPredictionsOnTheDiagonal) {
  const std::string svg = plot(data_rows(kValidation), {});
  const std::vector<Point> marks = points(svg);
  ASSERT_EQ(marks.size(), 2u);  // c is not scored
  const double right = 860.0, left = 90.0, top = 70.0, bottom = 460.0;
  const auto across = [&](const Point& p) { return (p.x - left) / (right - left); };
  const auto up = [&](const Point& p) { return (bottom - p.y) / (bottom - top); };
  EXPECT_NEAR(across(marks[0]), up(marks[0]), 1e-3);
  EXPECT_GT(up(marks[1]), across(marks[1]) + 0.5);  // predicted four times what was measured
  EXPECT_EQ(count(svg, "class=\"span\""), 2);
  EXPECT_NE(svg.find("2 scored runs of 3"), std::string::npos);
}

TEST(Plot, OfAValidationDrawsPeaksAndGroups) {
  EXPECT_EQ(points(plot(data_rows(kValidation), {.value = "predicted_peak_bytes"})).size(), 1u);
  EXPECT_NE(plot(data_rows(kValidation), {.by = {"group"}}).find(">group h</text>"),
            std::string::npos);
  EXPECT_EQ(error_of([] { plot(data_rows(kValidation), {.value = "mfu"}); }),
            "--value = mfu: of a validation predicted_s or predicted_peak_bytes is expected");
}

TEST(Chart, EscapesWhatXmlTakesForItsOwn) {
  EXPECT_EQ(xml_text("a<b> & \"c\"\x01"), "a&lt;b&gt; &amp; &quot;c&quot;");
  const std::string svg = plot(data_rows(kSweep), {.title = "<script>"});
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
}

}  // namespace
}  // namespace llmsim::reports
