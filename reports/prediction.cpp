#include "reports/prediction.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "reports/json.h"
#include "reports/memory_peak.h"
#include "reports/provenance.h"
#include "reports/strategy_text.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;

// A table of names and texts.
Table figures_table(std::string title) {
  return Table(std::move(title), {{"figure", "", Kind::Text}, {"value", "", Kind::Text}});
}

bool simulated(const Prediction& p) { return p.step_time > sim::Seconds(0.0); }

std::string count(std::int64_t number, const char* one) {
  return grouped(number) + " " + one + (number == 1 ? "" : "s");
}

std::string hardware_text(const sim::Cluster& cluster) {
  const std::string name = cluster.device.id.empty() ? cluster.id : cluster.device.id;
  const std::string system =
      cluster.id.empty() || cluster.id == name ? "" : " (" + cluster.id + ")";
  return std::to_string(cluster.num_devices) + " x " + name + system;
}

std::string title_of(const Prediction& p) {
  return p.run.model.name + " on " + hardware_text(p.run.cluster);
}

// --- result ---

std::string step_time_text(const Prediction& p) {
  return human(p.step_time) + " (" + human(p.interval.first) + " to " + human(p.interval.second) +
         " with " + std::to_string(std::lround(p.interval_level * 100.0)) + " % probability)" +
         (p.slow_step_time
              ? "; " + human(*p.slow_step_time) + " while the network is in its slow state"
              : "");
}

std::string throughput_text(const Prediction& p) {
  const double all = p.tokens_per_second_per_device * p.run.cluster.num_devices;
  return significant(p.tokens_per_second_per_device) + " tokens/s per device, " + significant(all) +
         " tokens/s in all";
}

std::string utilisation_text(const Prediction& p) {
  return human(p.flops_per_device) + " per device, MFU " + percent(p.mfu) + ", HFU " +
         percent(p.hfu);
}

std::string memory_text(const sim::Memory& memory) {
  const std::string verdict =
      memory.fits() ? "fits, " + human(memory.capacity - memory.needed()) + " to spare"
                    : "OUT OF MEMORY, " + human(memory.needed() - memory.capacity) + " too much";
  const std::string gaps =
      memory.margin > sim::Bytes(0.0) ? " + " + human(memory.margin) + " gaps" : "";
  return human(memory.peak) + gaps + " + " + human(memory.context) + " context of " +
         human(memory.capacity) + " usable: " + verdict;
}

std::string host_text(const sim::HostMemory& host) {
  std::string text = human(host.device) + " per device, " + human(host.node) + " per node";
  if (host.capacity > sim::Bytes(0.0)) text += " of " + human(host.capacity);
  return host.loading ? text + " while the model is loaded" : text;
}

Table result_table(const Prediction& p) {
  Table figures = figures_table(title_of(p));
  if (p.infeasible) {
    figures.add_row({"verdict", "does not run: " + p.infeasible->rule});
    figures.add_row({"reason", p.infeasible->message});
  }
  if (simulated(p)) {
    figures.add_row({"step time", step_time_text(p)});
    figures.add_row({"throughput", throughput_text(p)});
    figures.add_row({"model FLOP/s", utilisation_text(p)});
    figures.add_row({"memory", memory_text(p.memory)});
    figures.add_row({"memory peak", peak_phase_text(p)});
    figures.add_row({"memory reserved", human(p.memory.reserved) + " by the allocator, " +
                                            human(p.memory.device) + " on the device"});
    if (p.memory.host.device > sim::Bytes(0.0))
      figures.add_row({"host memory", host_text(p.memory.host)});
    if (p.run.strategy.pp > 1)
      figures.add_row({"pipeline bubble", percent(p.bubble) + " of the busiest stage"});
  }
  for (const std::string& warning : p.warnings) figures.add_row({"warning", warning});
  return figures;
}

// --- run ---

// Padded vocabularies as asked and as trained.
std::string vocabulary_text(const Prediction& p) {
  const std::string trained = std::to_string(p.run.model.vocab_size);
  if (p.asked_vocab_size == p.run.model.vocab_size) return trained;
  const std::string rule = std::to_string(p.run.framework.vocab_multiple) + " * tp";
  return std::to_string(p.asked_vocab_size) + " padded to " + trained + " (a multiple of " + rule +
         ")";
}

std::string model_text(const Prediction& p) {
  const sim::Transformer& m = p.run.model;
  return m.name + ": " + count(p.parameters.total(), "parameter") + ", " +
         count(m.num_layers, "layer") + ", hidden " + std::to_string(m.hidden_size) + ", " +
         std::to_string(m.num_heads) + " heads (" + std::to_string(m.num_kv_heads) + " kv) of " +
         std::to_string(m.head_dim) + ", ffn " + std::to_string(m.ffn_size) + ", vocabulary " +
         vocabulary_text(p);
}

std::string batch_text(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  const std::int64_t tokens = std::int64_t{s.global_batch} * run.model.seq_len;
  return count(s.global_batch, "sequence") + " of " + std::to_string(run.model.seq_len) +
         " tokens = " + grouped(tokens) + " tokens per step; micro-batch " +
         std::to_string(s.micro_batch);
}

std::string switches_text(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  std::string text = s.flash_attention
                         ? std::string("attention by ") + name_of(run.framework.attention_kernel)
                         : "unfused attention";
  const auto add = [&](bool on, const char* name) {
    if (on) text += std::string(", ") + name;
  };
  add(s.sequence_parallel, "sequence parallel");
  add(s.compile, "compiled");
  add(s.fused_cross_entropy, "fused cross entropy");
  add(s.tp_overlap, "tp overlap");
  add(s.gradient_overlap && s.gather_overlap, "dp overlap");
  add(s.gradient_overlap && !s.gather_overlap, "gradient overlap");
  add(s.gather_overlap && !s.gradient_overlap, "gather overlap");
  add(s.cuda_graph, "CUDA graphs");
  add(s.offload.optimizer, "optimizer offload");
  add(s.offload.parameters, "parameter offload");
  const std::string modules = sim::text_of(s.offload.modules);
  add(s.offload.activations,
      ("activation offload" + (modules.empty() ? "" : " of " + modules)).c_str());
  return text;
}

Table run_table(const Prediction& p) {
  const sim::Run& run = p.run;
  const sim::Strategy& s = run.strategy;
  Table figures = figures_table("Run, as resolved");
  figures.add_row({"model", model_text(p)});
  figures.add_row({"hardware", hardware_text(run.cluster) + ", " +
                                   std::to_string(run.cluster.devices_per_node) + " per node"});
  figures.add_row({"mesh", mesh_text(s)});
  figures.add_row({"batch", batch_text(run)});
  figures.add_row({"recipe", std::string(sim::name_of(s.precision)) + ", " +
                                 sim::name_of(s.optimizer) + ", sharding " + sharding_text(s) +
                                 ", recompute " + recompute_text(s.recompute)});
  if (s.pp > 1) {
    figures.add_row({"pipeline", std::string(sim::name_of(s.pipeline_schedule)) + ", " +
                                     count(s.virtual_stages, "virtual stage")});
  }
  figures.add_row({"switches", switches_text(run)});
  figures.add_row({"framework", run.framework.id});
  return figures;
}

Table assumed_table(const sim::Run& run) {
  Table table("Assumed, because nothing else was said", {{"key", "value of", Kind::Text},
                                                         {"value", "assumed", Kind::Text},
                                                         {"reason", "because", Kind::Text}});
  for (const sim::Fact& fact : assumptions_of(run))
    table.add_row({fact.key.substr(sizeof("assumed.") - 1), fact.value, fact.source});
  return table;
}

// --- terms ---

Table breakdown_table(const Prediction& p) {
  Table table("Step time", {{"term", "term", Kind::Text},
                            {"time_s", "time", Kind::Seconds},
                            {"share", "share", Kind::Percent}});
  for (const sim::TimeTerm& term : p.breakdown)
    table.add_row({term.name, term.time, term.time / p.step_time});
  table.add_row({"step", p.step_time, 1.0});
  return table;
}

Table communication_table(const Prediction& p) {
  Table table("Communication of one rank, per step", {{"collective", "collective", Kind::Text},
                                                      {"group", "group", Kind::Text},
                                                      {"ranks", "ranks", Kind::Integer},
                                                      {"count", "calls", Kind::Number},
                                                      {"bytes", "sent", Kind::Bytes},
                                                      {"time_s", "time", Kind::Seconds},
                                                      {"exposed_s", "exposed", Kind::Seconds}});
  for (const sim::CommunicationTerm& term : p.communication) {
    table.add_row({term.collective, term.group, std::int64_t{term.ranks}, term.count, term.size,
                   term.time, term.exposed});
  }
  return table;
}

struct MemoryRow {
  std::vector<Cell> cells;
  const std::vector<sim::MemoryTerm>& terms;
};

sim::Bytes size_of(const std::vector<sim::MemoryTerm>& terms, const std::string& name) {
  sim::Bytes sum{0.0};
  for (const sim::MemoryTerm& term : terms) sum += term.name == name ? term.size : sim::Bytes(0.0);
  return sum;
}

// With one column for each term that any row has.
Table table_of_terms(const char* title, std::vector<Column> columns, std::vector<MemoryRow> rows) {
  std::vector<std::string> names;
  for (const MemoryRow& row : rows) {
    for (const sim::MemoryTerm& term : row.terms) {
      if (std::find(names.begin(), names.end(), term.name) == names.end())
        names.emplace_back(term.name);
    }
  }
  for (const std::string& name : names) columns.push_back({name + "_bytes", name, Kind::Bytes});
  Table table(title, columns);
  for (MemoryRow& row : rows) {
    for (const std::string& name : names) row.cells.emplace_back(size_of(row.terms, name));
    table.add_row(std::move(row.cells));
  }
  return table;
}

Table memory_table(const Prediction& p) {
  std::vector<MemoryRow> rows;
  for (const sim::StageMemory& stage : p.memory.stages)
    rows.push_back(
        {{std::int64_t{stage.stage}, std::string(stage.phase), stage.peak}, stage.terms});
  return table_of_terms("Memory of each pipeline stage at its peak",
                        {{"stage", "stage", Kind::Integer},
                         {"phase", "peak in", Kind::Text},
                         {"peak_bytes", "peak", Kind::Bytes}},
                        std::move(rows));
}

Table timeline_table(const Prediction& p) {
  std::vector<MemoryRow> rows;
  for (const sim::MemoryPhase& phase : p.memory.timeline)
    rows.push_back({{std::string(phase.phase), phase.allocated}, phase.terms});
  return table_of_terms(
      "Memory through a step of the fullest stage",
      {{"phase", "phase", Kind::Text}, {"allocated_bytes", "allocated", Kind::Bytes}},
      std::move(rows));
}

Table conventions_table(const Prediction& p) {
  Table table("FLOPs by convention",
              {{"convention", "convention", Kind::Text},
               {"flops", "per step", Kind::Flops},
               {"flops_per_s_per_device", "per device", Kind::FlopsPerSecond},
               {"mfu", "MFU", Kind::Percent}});
  for (const sim::Convention& c : p.conventions)
    table.add_row({c.name, c.flops_per_step, c.flops_per_device, c.mfu});
  table.add_note("MFU over " + human(p.peak) + ", the peak of " + p.run.cluster.device.id + " in " +
                 sim::name_of(sim::matmul_dtype(p.run.strategy.precision)));
  if (const std::string note = counting_note(p); !note.empty()) table.add_note(note);
  return table;
}

Table coefficient_table(const sim::Run& run, const Provenance& provenance) {
  std::vector<sim::Fact> facts;
  std::copy_if(run.facts.begin(), run.facts.end(), std::back_inserter(facts),
               [](const sim::Fact& fact) { return !fact.key.starts_with("assumed."); });
  Table table = evidence_table("Evidence", facts);
  table.add_note("figures: " + coefficients_of(run));
  if (!provenance.database.empty()) table.add_note("database: " + provenance.database);
  return table;
}

std::vector<Table> tables_of(const Prediction& p, const Provenance& provenance,
                             const std::optional<Reported>& reported) {
  std::vector<Table> tables{result_table(p), run_table(p)};
  if (!assumptions_of(p.run).empty()) tables.push_back(assumed_table(p.run));
  if (simulated(p)) {
    tables.push_back(breakdown_table(p));
    if (!p.communication.empty()) tables.push_back(communication_table(p));
    tables.push_back(memory_table(p));
    tables.push_back(peak_table(p));
    tables.push_back(timeline_table(p));
    tables.push_back(conventions_table(p));
    if (reported) tables.push_back(reported_table(p, *reported));
    tables.push_back(coefficient_table(p.run, provenance));
  }
  return tables;
}

// --- summary ---

// The three largest terms with their share of the step: "gemm 61 %, tp exposed 12 %, bubble 8 %".
std::string main_terms(const Prediction& p) {
  std::vector<sim::TimeTerm> terms = p.breakdown;
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  terms.resize(std::min<std::size_t>(terms.size(), 3));
  std::string text;
  for (const sim::TimeTerm& term : terms) {
    const double share = term.time / p.step_time;
    if (!(share >= 0.005)) continue;
    text += (text.empty() ? "" : ", ") + std::string(term.name) + " " +
            std::to_string(std::lround(share * 100.0)) + " %";
  }
  return text;
}

const std::vector<Column>& summary_columns() {
  static const std::vector<Column> columns{
      {"model", "model", Kind::Text},
      {"accelerator", "accelerator", Kind::Text},
      {"num_devices", "devices", Kind::Integer},
      {"seq_len", "seq_len", Kind::Integer},
      {"global_batch", "global batch", Kind::Integer},
      {"precision", "precision", Kind::Text},
      {"tp", "tp", Kind::Integer},
      {"sequence_parallel", "sp", Kind::Text},
      {"pp", "pp", Kind::Integer},
      {"dp", "dp", Kind::Integer},
      {"cp", "cp", Kind::Integer},
      {"sharding", "sharding", Kind::Text},
      {"micro_batch", "mbs", Kind::Integer},
      {"recompute", "recompute", Kind::Text},
      {"virtual_stages", "vs", Kind::Integer},
      {"feasible", "feasible", Kind::Text},
      {"step_time_s", "step time", Kind::Seconds},
      {"step_time_low_s", "at best", Kind::Seconds},
      {"step_time_high_s", "at worst", Kind::Seconds},
      {"tokens_per_s_per_device", "per device", Kind::TokensPerSecond},
      {"mfu", "MFU", Kind::Percent},
      {"peak_bytes", "peak memory", Kind::Bytes},
      {"main_terms", "mainly", Kind::Text}};
  return columns;
}

// Expert ranks and those that divide an expert, among the columns of MoE models only.
constexpr std::ptrdiff_t kExpertColumn = 11;
const std::vector<Column>& expert_columns() {
  static const std::vector<Column> columns{{"ep", "ep", Kind::Integer},
                                           {"etp", "etp", Kind::Integer}};
  return columns;
}
std::vector<Cell> expert_cells(const sim::Strategy& strategy) {
  return {std::int64_t{strategy.ep}, std::int64_t{strategy.expert_tensor_ranks()}};
}

// The schedule, where one is none that virtual stages tell.
constexpr std::ptrdiff_t kScheduleColumn = 15;
const Column& schedule_column() {
  static const Column column{"pipeline_schedule", "schedule", Kind::Text};
  return column;
}

bool has_named_schedule(const Prediction& p) {
  const sim::PipelineSchedule schedule = p.run.strategy.pipeline_schedule;
  return schedule > sim::PipelineSchedule::Interleaved || schedule == sim::PipelineSchedule::GPipe;
}

std::vector<Cell> summary_row(const Prediction& p) {
  const sim::Strategy& s = p.run.strategy;
  const auto integer = [](int value) { return std::int64_t{value}; };
  std::vector<Cell> row{p.run.model.name,
                        p.run.cluster.device.id,
                        integer(p.run.cluster.num_devices),
                        integer(p.run.model.seq_len),
                        integer(s.global_batch),
                        sim::name_of(s.precision),
                        integer(s.tp),
                        s.sequence_parallel ? "yes" : "no",
                        integer(s.pp),
                        integer(s.dp),
                        integer(s.cp),
                        sharding_text(s),
                        integer(s.micro_batch),
                        recompute_text(s.recompute),
                        integer(s.virtual_stages),
                        p.feasible() ? std::string("yes") : p.infeasible->rule};
  if (simulated(p)) {
    const std::vector<Cell> figures{
        p.step_time, p.interval.first, p.interval.second, p.tokens_per_second_per_device,
        p.mfu,       p.memory.peak,    main_terms(p)};
    row.insert(row.end(), figures.begin(), figures.end());
  }
  row.resize(summary_columns().size());
  return row;
}

}  // namespace

Table summary_table(const std::string& title, std::span<const Prediction> predictions) {
  const bool experts = std::any_of(predictions.begin(), predictions.end(),
                                   [](const Prediction& p) { return p.run.model.moe.has_value(); });
  const bool schedules = std::any_of(predictions.begin(), predictions.end(), has_named_schedule);
  std::vector<Column> columns = summary_columns();
  if (schedules) columns.insert(columns.begin() + kScheduleColumn, schedule_column());
  if (experts)
    columns.insert(columns.begin() + kExpertColumn, expert_columns().begin(),
                   expert_columns().end());
  Table table(title, columns);
  for (const Prediction& prediction : predictions) {
    std::vector<Cell> row = summary_row(prediction);
    if (schedules)
      row.insert(row.begin() + kScheduleColumn,
                 sim::name_of(prediction.run.strategy.pipeline_schedule));
    if (experts) {
      const std::vector<Cell> cells = expert_cells(prediction.run.strategy);
      row.insert(row.begin() + kExpertColumn, cells.begin(), cells.end());
    }
    table.add_row(row);
  }
  return table;
}

std::string render(const Prediction& prediction, const Provenance& provenance, Format format,
                   const Style& style, const std::optional<Reported>& reported,
                   const std::optional<sim::MemoryCurve>& curve) {
  switch (format) {
    case Format::Csv:
      return render(
          curve ? curve_table(prediction, *curve, format) : summary_table("", {&prediction, 1}),
          Format::Csv);
    case Format::Json: {
      Json json = prediction_json(prediction, provenance);
      if (reported && simulated(prediction))
        json["reported"] = reported_json(prediction, *reported);
      if (curve) json["memory_timeline"] = curve_json(*curve);
      return text_of(json);
    }
    case Format::Table:
    case Format::Markdown:
    case Format::Latex: break;
  }
  std::vector<Table> tables = tables_of(prediction, provenance, reported);
  if (curve) tables.push_back(curve_table(prediction, *curve, format));
  return render(tables, format, style);
}

}  // namespace llmsim::reports
