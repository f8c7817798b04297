#include "reports/plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "reports/chart.h"
#include "reports/data_rows.h"
#include "reports/prediction.h"
#include "reports/units.h"
#include "sim/base/error.h"

namespace llmsim::reports {
namespace {

constexpr double kSpanOfLogarithm = 8.0;

// --- columns ---

// As tables say them; keys that no table of predictions has tell their kind by their ending.
Column column_of(const std::string& key) {
  static const Table table = summary_table("", {});
  for (const Column& column : table.columns())
    if (column.key == key) return column;
  const Kind kind = key.ends_with("_bytes")   ? Kind::Bytes
                    : key.ends_with("_per_s") ? Kind::Number
                    : key.ends_with("_s")     ? Kind::Seconds
                                              : Kind::Number;
  return {key, with_spaces(key), kind};
}

// A value in the unit of its axis.
struct Figure {
  std::string key;
  std::string title;  // with the unit
  Unit unit;

  double of(double value) const { return value / unit.size; }
  std::string text(double value) const {
    return significant(of(value)) + (unit.name.empty() ? "" : " " + unit.name);
  }
};

Figure figure_of(const std::string& key, double largest) {
  const Column column = column_of(key);
  const Unit unit = unit_for(column.kind, largest);
  const std::string name = column.header.empty() ? key : column.header;
  const std::string rate = column.kind == Kind::TokensPerSecond ? "throughput " : "";
  return {key, unit.name.empty() ? name : rate + name + " (" + unit.name + ")", unit};
}

bool is_numeric(const DataRows& data, const Rows& rows, const std::string& key) {
  return std::ranges::all_of(rows,
                             [&](std::size_t row) { return data.number(row, key).has_value(); });
}

// --- rows ---

Rows chosen_rows(const DataRows& data, const PlotRequest& request) {
  Rows rows;
  for (std::size_t row = 0; row < data.rows.size(); ++row) {
    if (std::ranges::all_of(request.where, [&](const auto& condition) {
          return data.text(row, condition.first) == condition.second;
        }))
      rows.push_back(row);
  }
  if (rows.empty()) throw Error("--where: no row is so");
  return rows;
}

// Those with a value, and how many there are without.
std::pair<Rows, std::string> rows_with(const DataRows& data, const Rows& rows,
                                       const std::string& key) {
  Rows with;
  for (const std::size_t row : rows)
    if (data.number(row, key)) with.push_back(row);
  if (with.empty()) throw Error("--value = " + key + ": no row has a number there");
  const std::size_t without = rows.size() - with.size();
  return {with, without == 0 ? ""
                             : std::to_string(without) + " of " + std::to_string(rows.size()) +
                                   " rows have no " + key};
}

double largest_of(const DataRows& data, const Rows& rows, const std::string& key) {
  double largest = 0.0;
  for (const std::size_t row : rows)
    largest = std::max(largest, std::abs(data.number(row, key).value_or(0.0)));
  return largest;
}

// The series of a chart, one for each combination of texts in some columns.
class SeriesByTexts {
 public:
  SeriesByTexts(const DataRows& data, const std::vector<std::string>& by, Chart& chart)
      : data_(data), by_(by), chart_(chart) {}

  std::vector<ChartMark>& of(std::size_t row) {
    const auto [known, is_new] =
        places_.try_emplace(texts_of(data_, row, by_), chart_.series.size());
    if (is_new) chart_.series.push_back({described(data_, row, by_), {}});
    return chart_.series[known->second].marks;
  }

 private:
  const DataRows& data_;
  const std::vector<std::string>& by_;
  Chart& chart_;
  std::map<std::vector<std::string>, std::size_t> places_;
};

// --- sweeps ---

// Why a row cannot be had; empty where it can.
std::string why_not(const DataRows& data, std::size_t row) {
  if (!data.has(kFirstFigure) || data.text(row, kFirstFigure) == "yes") return "";
  return data.text(row, kFirstFigure);
}

std::string with_reason(const std::string& tip, const std::string& why_not) {
  return why_not.empty() ? tip : tip + ", " + why_not;
}

// Of the drawing: rows without a value, and those that cannot be had.
std::string note_of(const DataRows& data, const Rows& rows, const std::string& without) {
  const auto hollow =
      std::ranges::count_if(rows, [&](std::size_t row) { return !why_not(data, row).empty(); });
  if (hollow == 0) return without;
  return (without.empty() ? "" : without + "; ") + std::to_string(hollow) +
         " hollow or grey: does not fit";
}

std::string sweep_title(const DataRows& data, const Rows& rows, const PlotRequest& request) {
  if (!request.title.empty()) return request.title;
  std::string title;
  for (const char* key : {"model", "accelerator", "num_devices"}) {
    if (!data.has(key) || texts_of(data, rows, key).size() != 1) continue;
    const std::string text = data.text(rows.front(), key);
    title +=
        (title.empty() ? "" : ", ") + text + (std::string(key) == "num_devices" ? " devices" : "");
  }
  return title.empty() ? "Sweep" : title;
}

std::string first_setting(const DataRows& data, const Rows& rows) {
  const std::vector<std::string> settings = settings_that_vary(data, rows);
  if (settings.empty()) throw Error("--x: no setting varies; name the column to draw along");
  for (const std::string& key : settings)
    if (is_numeric(data, rows, key)) return key;
  return settings.front();
}

// Values of a setting in order: numbers by size, words as they come.
std::vector<std::string> values_of(const DataRows& data, const Rows& rows, const std::string& key) {
  std::vector<std::string> values;
  for (const std::size_t row : rows)
    if (std::ranges::find(values, data.text(row, key)) == values.end())
      values.push_back(data.text(row, key));
  if (is_numeric(data, rows, key))
    std::ranges::sort(values, [](const std::string& a, const std::string& b) {
      return std::stod(a) < std::stod(b);
    });
  return values;
}

std::size_t index_of(const std::vector<std::string>& values, const std::string& value) {
  return static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
}

// Numbers in their unit, or words by their place.
class AlongX {
 public:
  AlongX(const DataRows& data, const Rows& rows, const std::string& key)
      : data_(data), key_(key), figure_(figure_of(key, largest_of(data, rows, key))) {
    if (!is_numeric(data, rows, key)) words_ = values_of(data, rows, key);
  }

  double of(std::size_t row) const {
    return words_.empty() ? figure_.of(*data_.number(row, key_))
                          : static_cast<double>(index_of(words_, data_.text(row, key_)));
  }
  bool has_words() const { return !words_.empty(); }

  ChartAxis axis(const Rows& rows, bool asked_for) const {
    double least = of(rows.front()), most = least;
    for (const std::size_t row : rows)
      least = std::min(least, of(row)), most = std::max(most, of(row));
    const bool wide = words_.empty() && least > 0.0 && most >= kSpanOfLogarithm * least;
    return {figure_.title, wide || (asked_for && least > 0.0 && words_.empty()), words_};
  }

 private:
  const DataRows& data_;
  std::string key_;
  Figure figure_;
  std::vector<std::string> words_;
};

std::string lines_of(const DataRows& data, const Rows& all, const PlotRequest& request,
                     const std::string& value) {
  const std::string x = request.x.empty() ? first_setting(data, all) : request.x;
  std::vector<std::string> by = request.by;
  if (by.empty()) by = settings_between(data, all, {x});
  std::vector<std::string> keys{x};
  keys.insert(keys.end(), by.begin(), by.end());
  require_one_row(data, all, keys);
  const auto [rows, note] = rows_with(data, all, value);
  const Figure figure = figure_of(value, largest_of(data, rows, value));
  const AlongX along(data, rows, x);
  Chart chart{.title = sweep_title(data, all, request),
              .note = note_of(data, rows, note),
              .x = along.axis(rows, request.log_x),
              .y = {figure.title, request.log_y, {}},
              .joined = !along.has_words()};
  SeriesByTexts series(data, by, chart);
  for (const std::size_t row : rows) {
    const double number = *data.number(row, value);
    if (request.log_y && number <= 0.0) throw Error("--log: " + value + " is not positive");
    series.of(row).push_back(
        {.x = along.of(row),
         .y = figure.of(number),
         .tip = with_reason(described(data, row, keys) + ": " + figure.text(number),
                            why_not(data, row)),
         .hollow = !why_not(data, row).empty()});
  }
  for (ChartSeries& one : chart.series)
    std::ranges::sort(one.marks, [](const ChartMark& a, const ChartMark& b) { return a.x < b.x; });
  return svg(chart);
}

std::string map_of(const DataRows& data, const Rows& all, const PlotRequest& request,
                   const std::string& value) {
  if (!request.by.empty()) throw Error("--by: belongs to lines; a heat map has --x and --y");
  std::vector<std::string> settings = settings_between(data, all, {request.y});
  if (request.x.empty() && settings.empty()) throw Error("--x: nothing varies beside " + request.y);
  const std::string x = request.x.empty() ? settings.front() : request.x;
  require_one_row(data, all, {x, request.y});
  const auto [rows, note] = rows_with(data, all, value);
  const Figure figure = figure_of(value, largest_of(data, rows, value));
  const Kind kind = column_of(value).kind;
  HeatMap map{.title = sweep_title(data, all, request),
              .note = note_of(data, rows, note),
              .x_title = column_of(x).header,
              .y_title = column_of(request.y).header,
              .value_title = figure.title,
              .columns = values_of(data, all, x),
              .rows = values_of(data, all, request.y),
              .cells = {},
              .smaller_is_better = kind == Kind::Seconds || kind == Kind::Bytes};
  map.cells.resize(map.rows.size(), std::vector<HeatCell>(map.columns.size()));
  for (const std::size_t row : all) {
    const std::optional<double> number = data.number(row, value);
    HeatCell& cell = map.cells[index_of(map.rows, data.text(row, request.y))]
                              [index_of(map.columns, data.text(row, x))];
    if (number) cell.value = figure.of(*number);
    cell.hollow = !why_not(data, row).empty();
    cell.tip = with_reason(
        described(data, row, {x, request.y}) + ": " + (number ? figure.text(*number) : "none"),
        why_not(data, row));
  }
  return svg(map);
}

// --- validations ---

// What is drawn of a validation.
struct Scored {
  const char *measured, *predicted, *interval, *scored, *title;
};
constexpr Scored kStepTime{"measured_s", "predicted_s", "interval_s", "step_time", "step time"};
constexpr Scored kPeak{"measured_peak_bytes", "predicted_peak_bytes", "peak_interval_bytes",
                       "memory", "peak memory"};

const Scored& scored_by(const std::string& value) {
  for (const Scored* one : {&kStepTime, &kPeak})
    if (value.empty() || value == one->predicted) return *one;
  throw Error("--value = " + value + ": of a validation " + kStepTime.predicted + " or " +
              kPeak.predicted + " is expected");
}

ChartMark mark_of(const DataRows& data, std::size_t row, const Scored& what, const Figure& figure) {
  const double measured = *data.number(row, what.measured),
               predicted = *data.number(row, what.predicted);
  const std::string interval = what.interval;
  const std::optional<double> low = data.number(row, interval + ".low"),
                              high = data.number(row, interval + ".high");
  ChartMark mark{.x = figure.of(measured),
                 .y = figure.of(predicted),
                 .tip = data.text(row, "id") + ": measured " + figure.text(measured) +
                        ", predicted " + figure.text(predicted)};
  if (low && high) mark.interval = {figure.of(*low), figure.of(*high)};
  return mark;
}

bool is_scored(const DataRows& data, std::size_t row, const Scored& what) {
  const std::string words = " " + data.text(row, "scored") + " ",
                    word = std::string(" ") + what.scored + " ";
  return words.find(word) != std::string::npos &&
         data.number(row, what.measured).value_or(0.0) > 0.0 &&
         data.number(row, what.predicted).value_or(0.0) > 0.0;
}

std::string scatter_of(const DataRows& data, const Rows& all, const PlotRequest& request) {
  if (!request.x.empty() || !request.y.empty())
    throw Error("--x and --y: a validation is drawn as predicted against measured");
  const Scored& what = scored_by(request.value);
  Rows rows;
  for (const std::size_t row : all)
    if (is_scored(data, row, what)) rows.push_back(row);
  if (rows.empty()) throw Error(std::string("no run has a scored ") + what.title);
  const Figure figure = figure_of(what.predicted, largest_of(data, rows, what.measured));
  const auto axis = [&](const std::string& which) {
    return ChartAxis{which + " " + what.title + " (" + figure.unit.name + ")", true, {}};
  };
  Chart chart{.title = request.title.empty()
                           ? std::string("Predicted against measured ") + what.title
                           : request.title,
              .note = std::to_string(rows.size()) + " scored runs of " +
                      std::to_string(all.size()) + "; vertical lines are intervals",
              .x = axis("measured"),
              .y = axis("predicted"),
              .joined = false,
              .diagonal = true};
  SeriesByTexts series(data, request.by, chart);
  for (const std::size_t row : rows) series.of(row).push_back(mark_of(data, row, what, figure));
  return svg(chart);
}

}  // namespace

std::string plot(const DataRows& data, const PlotRequest& request) {
  const Rows rows = chosen_rows(data, request);
  if (is_validation(data)) return scatter_of(data, rows, request);
  const std::string value = request.value.empty() ? "tokens_per_s_per_device" : request.value;
  if (!data.has(value)) throw Error("--value: no column " + value + "; name the one to draw");
  return request.y.empty() ? lines_of(data, rows, request, value)
                           : map_of(data, rows, request, value);
}

}  // namespace llmsim::reports
