#include "reports/run_difference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/json.h"

namespace llmsim::reports {
namespace {

using namespace columns;

// A term of both runs; 0 where a run has none.
template <class Quantity>
struct Line {
  std::string name;
  Quantity first{}, second{};

  Quantity difference() const { return second - first; }
};

template <class Quantity, class Terms, class Value>
std::vector<Line<Quantity>> lines_of(const Terms& first, const Terms& second, const Value& value) {
  std::vector<Line<Quantity>> lines;
  const auto line = [&](const char* name) -> Line<Quantity>& {
    const auto known = std::ranges::find(lines, name, &Line<Quantity>::name);
    if (known != lines.end()) return *known;
    lines.push_back({.name = name});
    return lines.back();
  };
  for (const auto& term : first) line(term.name).first += value(term);
  for (const auto& term : second) line(term.name).second += value(term);
  std::ranges::stable_sort(lines, [](const Line<Quantity>& a, const Line<Quantity>& b) {
    return std::abs(a.difference().value()) > std::abs(b.difference().value());
  });
  return lines;
}

template <class Quantity>
void add(Table& table, const Line<Quantity>& line, const Quantity& whole) {
  table.add_row({line.name, line.first, line.second, line.difference(),
                 whole == Quantity{} ? Cell() : Cell(line.difference() / whole)});
}

Table time_table(const RunDifference& of) {
  const sim::Seconds whole = of.first.step_time;
  Table table("The step, term by term",
              {as_text("term"), in_seconds("first_s", of.first_name),
               in_seconds("second_s", of.second_name), in_seconds("difference_s", "difference"),
               in_percent("of_first_step", "of the first step")});
  for (const Line<sim::Seconds>& line :
       lines_of<sim::Seconds>(of.first.breakdown, of.second.breakdown,
                              [](const sim::TimeTerm& term) { return term.time; }))
    add(table, line, whole);
  add(table, {"step", of.first.step_time, of.second.step_time}, whole);
  return table;
}

Table memory_table(const RunDifference& of) {
  const sim::Bytes whole = of.first.memory.needed();
  Table table("Memory of the fullest device, term by term",
              {as_text("term"), in_bytes("first_bytes", of.first_name),
               in_bytes("second_bytes", of.second_name), in_bytes("difference_bytes", "difference"),
               in_percent("of_first", "of the first's")});
  for (const Line<sim::Bytes>& line :
       lines_of<sim::Bytes>(of.first.memory.fullest().terms, of.second.memory.fullest().terms,
                            [](const sim::MemoryTerm& term) { return term.size; }))
    add(table, line, whole);
  add(table, {"gaps", of.first.memory.margin, of.second.memory.margin}, whole);
  add(table, {"context", of.first.memory.context, of.second.memory.context}, whole);
  add(table, {"needed", of.first.memory.needed(), of.second.memory.needed()}, whole);
  return table;
}

// "" for what a run does not state.
std::string text_in(const Json& json) {
  if (json.is_null()) return "";
  return json.is_string() ? json.get<std::string>() : json.dump();
}

// Values under equal keys that differ, objects looked into.
void add_settings(Table& table, const std::string& key, const Json& first, const Json& second) {
  if (first == second) return;
  if (!first.is_object() || !second.is_object()) {
    table.add_row({key, text_in(first), text_in(second)});
    return;
  }
  Json all = first;
  for (const auto& [name, value] : second.items())
    if (!all.contains(name)) all[name] = nullptr;
  for (const auto& [name, value] : all.items()) {
    const std::string inner = key.empty() ? name : key + "." + name;
    add_settings(table, inner, first.contains(name) ? first.at(name) : Json(),
                 second.contains(name) ? second.at(name) : Json());
  }
}

Table settings_table(const RunDifference& of) {
  Table table("What they say differently", {as_text("setting"), as_text("first", of.first_name),
                                            as_text("second", of.second_name)});
  const Json first = run_json(of.first), second = run_json(of.second);
  for (const char* part : {"model", "hardware", "training"})
    add_settings(table, part, first.at(part), second.at(part));
  if (table.rows().empty()) table.add_note("nothing: they are one run");
  return table;
}

}  // namespace

std::string render(const RunDifference& difference, Format format, const Style& style) {
  const std::vector<Table> tables{settings_table(difference), time_table(difference),
                                  memory_table(difference)};
  if (format == Format::Csv) return render(tables[1], format, style);
  if (format == Format::Json)
    return text_of({{"first", difference.first_name},
                    {"second", difference.second_name},
                    {"settings", rows_json(tables[0])},
                    {"time", rows_json(tables[1])},
                    {"memory", rows_json(tables[2])}});
  return render(tables, format, style);
}

}  // namespace llmsim::reports
