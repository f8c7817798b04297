#include "reports/result_text.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "reports/units.h"
#include "sim/base/error.h"

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

std::string Footnotes::mark(const std::string& text) {
  const auto known = std::ranges::find(texts_, text);
  const auto number = known - texts_.begin() + 1;
  if (known == texts_.end()) texts_.push_back(text);
  return "[" + std::to_string(number) + "]";
}

std::vector<std::string> Footnotes::lines() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < texts_.size(); ++i)
    lines.push_back("[" + std::to_string(i + 1) + "] " + texts_[i]);
  return lines;
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
      memory.margin > sim::Bytes(0.0)
          ? " + " + human(memory.margin) +
                (memory.fullest().captured > sim::Bytes(0.0) ? " graphs' pool and gaps" : " gaps")
          : "";
  return human(memory.peak) + gaps + " + " + human(memory.context) + " context of " +
         human(memory.capacity) + " usable: " + verdict;
}

std::string recompute_text(const sim::Recompute& recompute) { return sim::text_of(recompute); }

std::string sharding_text(const sim::Strategy& strategy) {
  const std::string name = sim::name_of(strategy.sharding);
  return strategy.replicates_shards() ? name + "/" + std::to_string(strategy.shard_size) : name;
}

std::string recipe_text(const sim::Strategy& strategy) {
  const std::string text =
      std::string(sim::name_of(strategy.precision)) + ", " + sim::name_of(strategy.optimizer);
  const auto& adapters = strategy.adapters;
  return adapters ? text + ", LoRA of rank " + std::to_string(adapters->rank) + " on " +
                        sim::joined(names_of(adapters->layers), ", ")
                  : text;
}

std::string mesh_text(const sim::Strategy& s) {
  std::string text;
  const auto add = [&](const char* name, int size) {
    if (size != 1)
      text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(size);
  };
  add("tp", s.tp);
  if (s.sequence_parallel) text += " with sp";
  add("pp", s.pp);
  add("cp", s.cp);
  if (s.cp > 1)
    text += std::string(" ") + sim::name_of(s.cp_scheme) + (s.cp_balanced ? "" : " unbalanced");
  if (s.cp > 1 && s.cp_scheme == sim::ContextScheme::AllToAllRing)
    text += " of " + std::to_string(s.context_inner_ranks()) + " ranks";
  add("dp", s.dp);
  add("ep", s.ep);
  if (s.etp) add("etp", *s.etp);
  if (s.pp > 1 && s.dp > 1 && s.mesh_order != sim::MeshOrder::PipelineLast)
    text += std::string(", ") + sim::name_of(s.mesh_order);
  return text.empty() ? "one device" : text;
}

namespace {

constexpr std::ptrdiff_t kRun = 4;  // of equal numbers of layers that are told as one

// "7+10+10+9", "2+10x3+2+0".
std::string numbers_text(const std::vector<int>& layers) {
  std::string text;
  for (auto first = layers.begin(); first != layers.end();) {
    auto last = std::find_if(first, layers.end(), [&](int other) { return other != *first; });
    const bool is_run = last - first >= kRun;
    if (!is_run) last = first + 1;
    text += (text.empty() ? "" : "+") + (is_run ? std::to_string(last - first) + "x" : "") +
            std::to_string(*first);
    first = last;
  }
  return text;
}

// ", 10 layers a stage, 6 in the last", ", layers 7+10+10+9", ", embedding and head as layers";
// nothing where the stages have equally many layers.
std::string layers_text(const sim::Strategy& s) {
  const std::vector<int>& layers = s.stage_layers;
  if (layers.empty()) return s.embeddings_as_layers ? ", embedding and head as layers" : "";
  if (layers.size() > 2 && std::equal(layers.begin() + 1, layers.end() - 1, layers.begin()))
    return ", " + std::to_string(layers.front()) +
           (s.virtual_stages > 1 ? " layers a chunk, " : " layers a stage, ") +
           std::to_string(layers.back()) + " in the last";
  return ", layers " + numbers_text(layers);
}

}  // namespace

std::string strategy_text(const sim::Strategy& s) {
  std::string text = mesh_text(s) + ", sharding " + sharding_text(s) + ", micro-batch " +
                     std::to_string(s.micro_batch) + ", recompute " + recompute_text(s.recompute);
  if (s.pp > 1 && s.pipeline_schedule > sim::PipelineSchedule::Interleaved)
    text += std::string(", ") + sim::name_of(s.pipeline_schedule);
  else if (s.virtual_stages > 1)
    text += ", " + std::to_string(s.virtual_stages) + " virtual stages";
  text += layers_text(s);
  if (s.tp > 1 && s.tp_overlap) text += ", tp overlap";
  const bool exchanges = s.ep * s.expert_tensor_ranks() > 1;
  if (exchanges && s.moe_dispatch != sim::ExpertDispatch::AllToAll)
    text += std::string(", ") + sim::name_of(s.moe_dispatch);
  if (s.ep > 1 && s.moe_overlap) text += ", moe overlap";
  return text;
}

}  // namespace llmsim::reports
