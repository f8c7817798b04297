#include "reports/result_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reports/units.h"

namespace llmsim::reports {

Table figures_table(std::string title) {
  return Table(std::move(title), {as_text("figure", ""), as_text("value", "")});
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width,
                                 const std::string& end) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, to - from);
    if (!line.empty() && line.size() + 1 + word.size() + end.size() > width)
      lines.push_back(std::exchange(line, "") + end);
    line += (line.empty() ? "" : " ") + word;
    from = to + 1;
  }
  lines.push_back(line);
  return lines;
}

void add_wrapped_note(Table& table, const std::string& text) {
  for (const std::string& line : wrapped(text, kNoteWidth)) table.add_note(line);
}

void add_figure(Table& table, const std::string& name, const std::string& text) {
  constexpr std::size_t kTextWidth = 82;  // of 100 columns, beside the names of figures
  bool first = true;
  for (const std::string& line : wrapped(text, kTextWidth))
    table.add_row({std::exchange(first, false) ? name : std::string(), line});
}

std::string worths_text(std::span<const sim::SwitchWorth> worths) {
  std::string text;
  for (const sim::SwitchWorth& worth : worths) {
    const double change = 100.0 * (worth.other_way - 1.0);
    if (std::abs(change) < 1.0) continue;
    text += (text.empty() ? "" : ", ") + worth.key + (worth.on ? " on (" : " off (") +
            (change > 0.0 ? "+" : "") + significant(change, 2) + " % " +
            (worth.on ? "without)" : "with)");
  }
  return text;
}

std::string hardware_text(const sim::Cluster& cluster) {
  const std::string name = cluster.device.id.empty() ? cluster.id : cluster.device.id;
  const std::string system =
      cluster.id.empty() || cluster.id == name ? "" : " (" + cluster.id + ")";
  return std::to_string(cluster.num_devices) + " x " + name + system;
}

std::string title_of(const sim::Prediction& p) {
  return p.run.model.name + " on " + hardware_text(p.run.cluster);
}

std::string step_time_text(const sim::Prediction& p) {
  return human(p.step_time) + " (" + human(p.interval.first) + " to " + human(p.interval.second) +
         " with " + std::to_string(std::lround(p.interval_level * 100.0)) + " % probability)" +
         (p.slow_step_time
              ? "; " + human(*p.slow_step_time) + " while the network is in its slow state"
              : "");
}

std::string throughput_text(const sim::Prediction& p) {
  const double all = p.tokens_per_second_per_device * p.run.cluster.num_devices;
  return significant(p.tokens_per_second_per_device) + " tokens/s per device, " + significant(all) +
         " tokens/s in all";
}

std::string utilisation_text(const sim::Prediction& p) {
  return human(p.flops_per_device) + " per device, MFU " + percent(p.mfu) + ", HFU " +
         percent(p.hfu);
}

// "93.1 %"; nothing is sure.
std::string probability_text(double probability) {
  if (probability < 0.001) return "less than 0.1 %";
  if (probability > 0.999) return "more than 99.9 %";
  return percent(probability);
}

std::string memory_text(const sim::Memory& memory) {
  const std::string fits =
      "fits with " + probability_text(memory.fit_probability()) + " probability";
  const std::string verdict =
      memory.fits()
          ? fits + ", " + human(memory.capacity - memory.needed()) + " to spare"
          : "OUT OF MEMORY, " + human(memory.needed() - memory.capacity) + " too much; " + fits;
  const std::string gaps =
      memory.margin > sim::Bytes(0.0) ? " + " + human(memory.margin) + " gaps" : "";
  return human(memory.peak) + gaps + " + " + human(memory.context) + " context of " +
         human(memory.capacity) + " usable: " + verdict;
}

}  // namespace llmsim::reports
