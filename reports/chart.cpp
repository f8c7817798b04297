#include "reports/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "reports/units.h"

namespace llmsim::reports {
namespace {

constexpr double kWidth = 900.0, kHeight = 560.0;
constexpr double kLeft = 90.0, kTop = 70.0, kBottom = 460.0;
constexpr double kRight = 860.0, kRightOfLegend = 620.0;
constexpr std::size_t kMostNames = 16;  // of a legend
constexpr double kSpanOfDecades = 30.0;

// Colours that those who see few colours can tell apart.  Source: Okabe & Ito 2008, Color Universal
// Design.
constexpr std::array<const char*, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#000000", "#8a8a8a"};

constexpr const char* kStyle =
    "<style>text{font:13px sans-serif;fill:#222}.head{font-size:17px;font-weight:600}"
    ".note{font-size:12px;fill:#666}.middle{text-anchor:middle}.end{text-anchor:end}"
    ".rule{stroke:#ddd}.axis{stroke:#888}.equal{stroke:#888;stroke-dasharray:5 4}"
    ".line{fill:none;stroke-width:2}.span{stroke-width:1;opacity:.45}.pale{fill:#fff}.grey{fill:#"
    "999}</style>\n";

std::string at(double value) {
  const double cents = std::round(value * 100.0) / 100.0;
  return exact(cents == 0.0 ? 0.0 : cents);
}

std::string text(double x, double y, const std::string& content, const char* kind = "") {
  return "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\" class=\"" + kind + "\">" +
         xml_text(content) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return "<line x1=\"" + at(x1) + "\" y1=\"" + at(y1) + "\" x2=\"" + at(x2) + "\" y2=\"" + at(y2) +
         "\" " + attributes + "/>\n";
}

std::string tip(const std::string& content) {
  return content.empty() ? "" : "<title>" + xml_text(content) + "</title>";
}

std::string document(const std::string& title, const std::string& note,
                     const std::string& content) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + at(kWidth) + " " +
         at(kHeight) + "\" width=\"" + at(kWidth) + "\" height=\"" + at(kHeight) + "\">\n<title>" +
         xml_text(title) + "</title>\n" + kStyle +
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" + text(kLeft, 32, title, "head") +
         content + text(kLeft, kHeight - 14, note, "note") + "</svg>\n";
}

// Where values of an axis are on the page.
struct Scale {
  double from = 0.0, to = 1.0;  // values
  double start = 0.0, end = 1.0;
  bool logarithmic = false;

  double operator()(double value) const {
    const double share =
        logarithmic ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
    return start + share * (end - start);
  }
};

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double value) { least = std::min(least, value), most = std::max(most, value); }
};

// A little more than the values; linear ones of y from 0.
Scale scale_of(Range range, bool logarithmic, bool from_zero, double start, double end) {
  if (logarithmic) {
    const double room = std::max(1.05, std::pow(range.most / range.least, 0.04));
    return {range.least / room, range.most * room, start, end, true};
  }
  if (from_zero) range.add(0.0);
  const double room = range.most > range.least ? 0.05 * (range.most - range.least)
                                               : std::max(1.0, 0.1 * std::abs(range.most));
  const double from = from_zero && range.least == 0.0 ? 0.0 : range.least - room;
  return {from, range.most + room, start, end, false};
}

// Round values, about five.
std::vector<double> linear_ticks(const Scale& scale) {
  const double rough = (scale.to - scale.from) / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10.0 * power;
  for (const double round : {5.0, 2.5, 2.0, 1.0})
    if (round * power >= rough) step = round * power;
  std::vector<double> ticks;
  for (double i = std::ceil(scale.from / step); i * step <= scale.to; ++i)
    ticks.push_back(i * step);
  return ticks;
}

// Powers of ten, and where these are few their multiples by 2 and 5.
std::vector<double> logarithmic_ticks(const Scale& scale) {
  const bool few = scale.to / scale.from < kSpanOfDecades;
  std::vector<double> ticks;
  for (double power = std::floor(std::log10(scale.from)); std::pow(10.0, power) <= scale.to;
       ++power) {
    for (const double times : {1.0, 2.0, 5.0}) {
      const double tick = times * std::pow(10.0, power);
      if ((times == 1.0 || few) && tick >= scale.from && tick <= scale.to) ticks.push_back(tick);
    }
  }
  return ticks;
}

// The values themselves where there are few, as of lists of sizes.
std::vector<double> ticks_of(const Scale& scale, const std::vector<double>& values) {
  constexpr std::size_t kFew = 10;
  if (!values.empty() && values.size() <= kFew) return values;
  return scale.logarithmic ? logarithmic_ticks(scale) : linear_ticks(scale);
}

std::string tick_text(const ChartAxis& axis, double value) {
  if (!axis.words.empty()) return axis.words[static_cast<std::size_t>(value)];
  return exact(std::stod(significant(value, 4)));
}

// Values of x of all marks, each once.
std::vector<double> values_of_x(const Chart& chart) {
  std::vector<double> values;
  for (const ChartSeries& series : chart.series)
    for (const ChartMark& mark : series.marks) values.push_back(mark.x);
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

struct Scales {
  Scale x, y;
};

Scales scales_of(const Chart& chart, double right) {
  Range x, y;
  for (const ChartSeries& series : chart.series) {
    for (const ChartMark& mark : series.marks) {
      x.add(mark.x), y.add(mark.y);
      if (mark.interval && !chart.diagonal)
        y.add(mark.interval->first), y.add(mark.interval->second);
    }
  }
  if (chart.diagonal) {
    for (Range* range : {&x, &y}) range->add(std::min(x.least, y.least));
    for (Range* range : {&x, &y}) range->add(std::max(x.most, y.most));
  }
  return {scale_of(x, chart.x.logarithmic, false, kLeft, right),
          scale_of(y, chart.y.logarithmic, !chart.diagonal, kBottom, kTop)};
}

std::string frame(const Chart& chart, const Scales& scales, double right) {
  std::string drawn;
  for (const double tick : ticks_of(scales.y, {})) {
    drawn += line(kLeft, scales.y(tick), right, scales.y(tick), "class=\"rule\"");
    drawn += text(kLeft - 8, scales.y(tick) + 4, tick_text(chart.y, tick), "end");
  }
  const std::vector<double> own = chart.diagonal ? std::vector<double>() : values_of_x(chart);
  for (const double tick : ticks_of(scales.x, own)) {
    drawn += line(scales.x(tick), kTop, scales.x(tick), kBottom, "class=\"rule\"");
    drawn += text(scales.x(tick), kBottom + 20, tick_text(chart.x, tick), "middle");
  }
  drawn += line(kLeft, kBottom, right, kBottom, "class=\"axis\"");
  drawn += line(kLeft, kTop, kLeft, kBottom, "class=\"axis\"");
  drawn += text((kLeft + right) / 2, kBottom + 46, chart.x.title, "middle");
  return drawn + text(kLeft, kTop - 12, chart.y.title);
}

// Small where there are many.
double radius_of(const Chart& chart) {
  std::size_t marks = 0;
  for (const ChartSeries& series : chart.series) marks += series.marks.size();
  constexpr std::size_t kMany = 300;
  return marks > kMany ? 2.0 : 3.5;
}

std::string drawn_mark(const ChartMark& mark, const Scales& scales, double radius,
                       const std::string& colour) {
  const double x = scales.x(mark.x);
  const auto inside = [&](double value) {
    return std::clamp(scales.y(std::clamp(value, scales.y.from, scales.y.to)), kTop, kBottom);
  };
  std::string drawn;
  if (mark.interval)
    drawn += line(x, inside(mark.interval->first), x, inside(mark.interval->second),
                  "class=\"span\" stroke=\"" + colour + "\"");
  return drawn + "<circle cx=\"" + at(x) + "\" cy=\"" + at(scales.y(mark.y)) + "\" r=\"" +
         at(radius) + "\" fill=\"" + (mark.hollow ? "#fff" : colour) + "\" stroke=\"" + colour +
         "\">" + tip(mark.tip) + "</circle>\n";
}

std::string drawn_series(const Chart& chart, const ChartSeries& series, const Scales& scales,
                         const std::string& colour) {
  std::string drawn;
  if (chart.joined && series.marks.size() > 1) {
    drawn += "<polyline class=\"line\" stroke=\"" + colour + "\" points=\"";
    for (const ChartMark& mark : series.marks)
      drawn += at(scales.x(mark.x)) + "," + at(scales.y(mark.y)) + " ";
    drawn.back() = '"';
    drawn += "/>\n";
  }
  const double radius = radius_of(chart);
  for (const ChartMark& mark : series.marks) drawn += drawn_mark(mark, scales, radius, colour);
  return drawn;
}

std::string colour_of(std::size_t series) { return kColours[series % kColours.size()]; }

std::string legend(const Chart& chart) {
  std::string drawn;
  double y = kTop + 8;
  for (std::size_t i = 0; i < std::min(chart.series.size(), kMostNames); ++i, y += 22) {
    drawn += "<circle cx=\"" + at(kRightOfLegend + 22) + "\" cy=\"" + at(y - 4) +
             "\" r=\"5\" fill=\"" + colour_of(i) + "\"/>\n";
    drawn += text(kRightOfLegend + 34, y, chart.series[i].name);
  }
  if (chart.series.size() > kMostNames)
    drawn += text(kRightOfLegend + 34, y,
                  "and " + std::to_string(chart.series.size() - kMostNames) + " more", "note");
  return drawn;
}

// --- heat maps ---

struct Colour {
  double red, green, blue;
};

// From pale to dark as values get better.
constexpr Colour kPale{237.0, 243.0, 250.0}, kDark{8.0, 64.0, 129.0};

std::string colour_between(double share) {
  const auto mixed = [share](double pale, double dark) {
    return std::to_string(std::lround(pale + share * (dark - pale)));
  };
  return "rgb(" + mixed(kPale.red, kDark.red) + "," + mixed(kPale.green, kDark.green) + "," +
         mixed(kPale.blue, kDark.blue) + ")";
}

Range range_of(const HeatMap& map) {
  Range range;
  for (const std::vector<HeatCell>& row : map.cells)
    for (const HeatCell& cell : row)
      if (cell.value && !cell.hollow) range.add(*cell.value);
  return range;
}

// 1 for the best value, 0 for the worst.
double goodness(const HeatMap& map, const Range& range, double value) {
  if (range.most == range.least) return 1.0;
  const double share = (value - range.least) / (range.most - range.least);
  return map.smaller_is_better ? 1.0 - share : share;
}

std::string drawn_cell(const HeatMap& map, const Range& range, const HeatCell& cell, double x,
                       double y, double width, double height) {
  const bool coloured = cell.value && !cell.hollow;
  const double good = coloured ? goodness(map, range, *cell.value) : 0.0;
  std::string drawn = "<rect x=\"" + at(x + 1) + "\" y=\"" + at(y + 1) + "\" width=\"" +
                      at(width - 2) + "\" height=\"" + at(height - 2) + "\" fill=\"" +
                      (coloured ? colour_between(good) : "#f1f1f1") + "\">" + tip(cell.tip) +
                      "</rect>\n";
  constexpr double kRoomWide = 44.0, kRoomHigh = 18.0;
  if (width >= kRoomWide && height >= kRoomHigh)
    drawn += text(x + width / 2, y + height / 2 + 4, cell.value ? significant(*cell.value, 3) : "-",
                  cell.hollow  ? "middle grey"
                  : good > 0.5 ? "middle pale"
                               : "middle");
  return drawn;
}

}  // namespace

std::string xml_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') escaped += c;
    }
  }
  return escaped;
}

std::string svg(const Chart& chart) {
  const bool named = std::ranges::any_of(
      chart.series, [](const ChartSeries& series) { return !series.name.empty(); });
  const double right = named ? kRightOfLegend : kRight;
  const Scales scales = scales_of(chart, right);
  std::string drawn = frame(chart, scales, right);
  if (chart.diagonal) drawn += line(kLeft, kBottom, right, kTop, "class=\"equal\"");
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    drawn += drawn_series(chart, chart.series[i], scales, colour_of(i));
  if (named) drawn += legend(chart);
  return document(chart.title, chart.note, drawn);
}

std::string svg(const HeatMap& map) {
  const Range range = range_of(map);
  const double width = (kRight - kLeft) / static_cast<double>(map.columns.size()),
               height = (kBottom - kTop) / static_cast<double>(map.rows.size());
  std::string drawn = text(kLeft, kTop - 12, map.value_title + "; rows: " + map.y_title);
  for (std::size_t row = 0; row < map.rows.size(); ++row) {
    drawn +=
        text(kLeft - 8, kTop + (static_cast<double>(row) + 0.5) * height + 4, map.rows[row], "end");
    for (std::size_t column = 0; column < map.columns.size(); ++column)
      drawn += drawn_cell(map, range, map.cells[row][column],
                          kLeft + static_cast<double>(column) * width,
                          kTop + static_cast<double>(row) * height, width, height);
  }
  for (std::size_t column = 0; column < map.columns.size(); ++column)
    drawn += text(kLeft + (static_cast<double>(column) + 0.5) * width, kBottom + 20,
                  map.columns[column], "middle");
  drawn += text((kLeft + kRight) / 2, kBottom + 46, map.x_title, "middle");
  return document(map.title, map.note, drawn);
}

}  // namespace llmsim::reports
