#include "reports/executed_step.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "reports/json.h"
#include "sim/schedule/timeline.h"

namespace llmsim::reports {
namespace {

using namespace columns;

// Seconds of the first stage's passes of these categories.
sim::Seconds time_in(const sim::Timeline& timeline,
                     std::initializer_list<std::string_view> categories) {
  sim::Seconds time{};
  for (const sim::TimelineEvent& event : timeline.stages.front().events)
    if (event.stream == sim::Stream::Compute &&
        std::ranges::find(categories, std::string_view(event.category)) != categories.end())
      time += event.duration;
  return time;
}

sim::Seconds optimizer_time(const sim::Prediction& prediction) {
  const auto term = std::ranges::find_if(prediction.breakdown, [](const sim::TimeTerm& one) {
    return std::string_view(one.name) == "optimizer";
  });
  return term == prediction.breakdown.end() ? sim::Seconds(0.0) : term->time;
}

// A measured value beside a predicted one, and by how much the prediction is off.
template <class Quantity>
std::vector<Cell> row(std::string what, const std::optional<Quantity>& measured,
                      const Quantity& predicted) {
  std::vector<Cell> cells{std::move(what), Cell(), predicted, Cell()};
  if (measured) cells[1] = *measured, cells[3] = predicted / *measured - 1.0;
  return cells;
}

Table time_table(const ExecutedStep& answer) {
  Table table("A step of " + answer.id + " on " + answer.machine,
              {as_text("part"), in_seconds("measured_s", "measured"),
               in_seconds("predicted_s", "predicted"), in_percent("error")});
  const sim::Timeline timeline =
      sim::step_timeline(answer.prediction.run, sim::layer_prices(answer.prediction.run));
  table.add_row(row("step", std::optional(answer.step), answer.prediction.step_time));
  table.add_row(row("forward passes", answer.forward, time_in(timeline, {"forward"})));
  table.add_row(row("backward passes", answer.backward,
                    time_in(timeline, {"backward", "data_gradient", "weight_gradient"})));
  table.add_row(row("optimizer", answer.optimizer, optimizer_time(answer.prediction)));
  table.add_note(fmt::format("spread of repeats {:.1f} %", 100.0 * answer.spread));
  return table;
}

Table communication_table(const ExecutedStep& answer) {
  Table table(
      "Its collectives, as predicted",
      {as_text("collective"), as_text("group"), as_integer("ranks"), as_number("calls"),
       in_bytes("bytes"), in_seconds("time_s", "time"), in_seconds("exposed_s", "exposed")});
  for (const sim::CommunicationTerm& term : answer.prediction.communication)
    table.add_row({std::string(term.collective), std::string(term.group), std::int64_t{term.ranks},
                   term.count, term.size, term.time, term.exposed});
  return table;
}

Table memory_table(const ExecutedStep& answer) {
  Table table("Peak of the fullest rank",
              {as_text("category"), in_bytes("measured_bytes", "measured"),
               in_bytes("predicted_bytes", "predicted"), in_percent("error")});
  table.add_row(row("all that tensors hold", answer.peak, answer.prediction.memory.peak));
  const std::optional<sim::Bytes> none;
  for (const sim::MemoryTerm& term : answer.prediction.memory.fullest().terms)
    table.add_row(row("  " + std::string(term.name), none, term.size));
  return table;
}

Table counts_table(const ExecutedStep& answer) {
  Table table("Counted in the step, and predicted",
              {as_text("figure"), as_integer("measured"), as_integer("predicted")});
  const auto equal =
      std::ranges::count_if(answer.counts, [](const auto& one) { return one.equal(); });
  for (const calibrate::CountComparison& one : answer.counts)
    if (!one.equal()) table.add_row({one.name, one.measured, one.predicted});
  table.add_note(
      fmt::format("{} of {} figures are equal: parameters, FLOPs, calls and bytes of "
                  "collectives, bytes that are held",
                  equal, answer.counts.size()));
  return table;
}

Json counts_json(const ExecutedStep& answer) {
  return list_json(answer.counts, [](const calibrate::CountComparison& one) {
    return Json{{"name", one.name}, {"measured", one.measured}, {"predicted", one.predicted}};
  });
}

}  // namespace

std::string step_file_text(const sim::Run& run) { return text_of(run_json(run)); }

std::string render(const ExecutedStep& answer, Format format, const Style& style) {
  const Table time = time_table(answer);
  if (format == Format::Csv) return render(time, format, style);
  if (format == Format::Json)
    return text_of({{"run", run_json(answer.prediction)},
                    {"machine", answer.machine},
                    {"changes", answer.changes},
                    {"time", rows_json(time)},
                    {"communication", rows_json(communication_table(answer))},
                    {"memory", rows_json(memory_table(answer))},
                    {"counts", counts_json(answer)}});
  std::vector<Table> tables{time, memory_table(answer)};
  if (!answer.prediction.communication.empty()) tables.push_back(communication_table(answer));
  tables.push_back(counts_table(answer));
  for (const std::string& change : answer.changes) tables.front().add_note("a proxy: " + change);
  return render(tables, format, style);
}

}  // namespace llmsim::reports
