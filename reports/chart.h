// Drawings as SVG files: lines or points on two axes, and heat maps.
//
// A file stands alone and asks the network for nothing; 900 pixels wide, on white, so that it
// prints.  Each mark has its values in a <title>, which browsers show under the pointer.  Numbers
// are written with two decimals: the same values give the same file.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llmsim::reports {

struct ChartAxis {
  std::string title;  // with its unit
  bool logarithmic = false;
  std::vector<std::string> words{};  // value i is the i-th of them; empty: numbers
};

struct ChartMark {
  double x = 0.0, y = 0.0;
  std::string tip;
  std::optional<std::pair<double, double>> interval{};  // of y
  bool hollow = false;                                  // out of reach: does not fit
};

struct ChartSeries {
  std::string name;  // empty: not in the legend
  std::vector<ChartMark> marks;
};

struct Chart {
  std::string title;
  std::string note;  // below
  ChartAxis x, y;
  std::vector<ChartSeries> series{};
  bool joined = true;     // a line through the marks of a series, from left to right
  bool diagonal = false;  // both axes have the same range, and a line where they are equal
};

struct HeatCell {
  std::optional<double> value{};  // none: nothing is there
  std::string tip{};
  bool hollow = false;  // does not fit: grey, and not in the scale
};

struct HeatMap {
  std::string title;
  std::string note;
  std::string x_title, y_title, value_title;  // the last with its unit
  std::vector<std::string> columns, rows;
  std::vector<std::vector<HeatCell>> cells;  // by row, then column
  bool smaller_is_better = false;
};

// Requires a mark.
std::string svg(const Chart& chart);

// Requires a row and a column.
std::string svg(const HeatMap& map);

// The text with XML's entities for <, >, & and quotes, and without characters that XML forbids.
std::string xml_text(const std::string& text);

}  // namespace llmsim::reports
