#include "reports/prediction.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "reports/json.h"
#include "reports/memory_peak.h"
#include "reports/result_text.h"
#include "reports/step_detail.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;

bool simulated(const Prediction& p) { return p.step_time > sim::Seconds(0.0); }

std::string count(std::int64_t number, const char* one) {
  return grouped(number) + " " + one + (number == 1 ? "" : "s");
}

// --- result ---

std::string host_text(const sim::HostMemory& host) {
  std::string text = human(host.device) + " per device, " + human(host.node) + " per node";
  if (host.capacity > sim::Bytes(0.0)) text += " of " + human(host.capacity);
  return host.loading ? text + " while the model is loaded" : text;
}

Table result_table(const Prediction& p) {
  Table figures = figures_table(title_of(p));
  if (p.infeasible) {
    // Memory says by how much; a broken rule, in which values it is broken.
    if (simulated(p)) {
      add_figure(figures, "verdict", p.infeasible->message);
    } else {
      add_figure(figures, "verdict", "cannot run: " + p.infeasible->rule);
      add_figure(figures, "reason", p.infeasible->message);
    }
  }
  if (simulated(p)) {
    add_figure(figures, "step time", step_time_text(p));
    add_figure(figures, "throughput", throughput_text(p));
    add_figure(figures, "model FLOP/s", utilisation_text(p));
    add_figure(figures, "memory", memory_text(p.memory));
    add_figure(figures, "memory peak", peak_phase_text(p));
    const auto [least, most] = p.memory.interval(p.memory.peak, p.interval_level);
    add_figure(figures, "memory interval",
               "the peak is " + human(least) + " to " + human(most) + " with " +
                   std::to_string(std::lround(p.interval_level * 100.0)) + " % probability");
    add_figure(figures, "memory reserved",
               human(p.memory.reserved) + " by the allocator, " + human(p.memory.device) +
                   " on the device");
    if (p.memory.host.device > sim::Bytes(0.0))
      add_figure(figures, "host memory", host_text(p.memory.host));
    if (p.run.strategy.pp > 1)
      add_figure(figures, "pipeline bubble", percent(p.bubble) + " of the busiest stage");
  }
  for (const std::string& warning : p.warnings) add_figure(figures, "warning", warning);
  return figures;
}

// --- run ---

// Padded vocabularies as asked and as trained.
std::string vocabulary_text(const Prediction& p) {
  const std::string trained = std::to_string(p.run.model.vocab_size);
  if (p.unpadded_vocab_size == p.run.model.vocab_size) return trained;
  const std::string rule = std::to_string(p.run.framework.vocab_multiple) + " * tp";
  return std::to_string(p.unpadded_vocab_size) + " padded to " + trained + " (a multiple of " +
         rule + ")";
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
         " tokens" +
         (run.model.document_len ? " (documents of " + std::to_string(*run.model.document_len) + ")"
                                 : std::string()) +
         " = " + grouped(tokens) + " tokens per step; micro-batch " + std::to_string(s.micro_batch);
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
  add_figure(figures, "model", model_text(p));
  add_figure(figures, "hardware",
             hardware_text(run.cluster) + ", " + std::to_string(run.cluster.devices_per_node) +
                 " per node");
  add_figure(figures, "mesh", mesh_text(s));
  add_figure(figures, "batch", batch_text(run));
  add_figure(figures, "recipe",
             recipe_text(s) + ", sharding " + sharding_text(s) + ", recompute " +
                 recompute_text(s.recompute));
  if (s.pp > 1) {
    add_figure(figures, "pipeline",
               std::string(sim::name_of(s.pipeline_schedule)) + ", " +
                   count(s.virtual_stages, "virtual stage"));
  }
  add_figure(figures, "switches", switches_text(run));
  add_figure(figures, "framework", run.framework.id);
  return figures;
}

Table assumed_table(const sim::Run& run) {
  Table table(
      "Assumed, because nothing else was said",
      {as_text("key", "value of"), as_text("value", "assumed"), as_text("reason", "because")});
  for (const sim::Fact& fact : assumptions_of(run))
    table.add_row({fact.key.substr(sizeof("assumed.") - 1), fact.value, fact.source});
  return table;
}

// --- terms ---

Table breakdown_table(const Prediction& p) {
  Table table("Step time", {as_text("term"), in_seconds("time_s", "time"), in_percent("share")});
  for (const sim::TimeTerm& term : p.breakdown)
    table.add_row({term.name, term.time, term.time / p.step_time});
  table.add_row({"step", p.step_time, 1.0});
  return table;
}

Table communication_table(const Prediction& p) {
  Table table("Communication of one rank, per step",
              {as_text("collective"), as_text("group"), as_integer("ranks"),
               as_number("count", "calls"), in_bytes("bytes", "sent"), in_seconds("time_s", "time"),
               in_seconds("exposed_s", "exposed")});
  for (const sim::CommunicationTerm& term : p.communication) {
    table.add_row({term.collective, term.group, std::int64_t{term.ranks}, term.count, term.size,
                   term.time, term.exposed});
  }
  return table;
}

struct MemoryRow {
  Cells cells;
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
      if (std::ranges::find(names, term.name) == names.end()) names.emplace_back(term.name);
    }
  }
  for (const std::string& name : names) columns.push_back(in_bytes(name + "_bytes", name));
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
  return table_of_terms(
      "Memory of each pipeline stage at its peak",
      {as_integer("stage"), as_text("phase", "peak in"), in_bytes("peak_bytes", "peak")},
      std::move(rows));
}

Table timeline_table(const Prediction& p) {
  std::vector<MemoryRow> rows;
  for (const sim::MemoryPhase& phase : p.memory.timeline)
    rows.push_back({{std::string(phase.phase), phase.allocated}, phase.terms});
  return table_of_terms("Memory through a step of the fullest stage",
                        {as_text("phase"), in_bytes("allocated_bytes", "allocated")},
                        std::move(rows));
}

Table conventions_table(const Prediction& p) {
  Table table("FLOPs by convention",
              {as_text("convention"), in_flops("flops", "per step"),
               in_flops_per_s("flops_per_s_per_device", "per device"), in_percent("mfu", "MFU")});
  for (const sim::Convention& c : p.conventions)
    table.add_row({c.name, c.flops_per_step, c.flops_per_device, c.mfu});
  table.add_note("MFU over " + human(p.peak) + ", the peak of " + p.run.cluster.device.id + " in " +
                 sim::name_of(sim::matmul_dtype(p.run.strategy.precision)));
  if (const std::string note = counting_note(p); !note.empty()) table.add_note(note);
  return table;
}

Table coefficient_table(const sim::Run& run, const Provenance& provenance) {
  std::vector<sim::Fact> facts;
  std::ranges::copy_if(run.facts, std::back_inserter(facts),
                       [](const sim::Fact& fact) { return !fact.key.starts_with("assumed."); });
  Table table = evidence_table("Evidence", facts);
  table.add_note("values: " + coefficients_of(run));
  if (!provenance.database.empty()) table.add_note("database: " + provenance.database);
  return table;
}

Table waits_table(const Prediction& p, const PredictionExtras& extras) {
  Table table = step_bars_table(p);
  if (!extras.one_screen) return table;
  const std::string worths = worths_text(extras.assumed_switches);
  if (!worths.empty()) add_wrapped_note(table, "assumed: " + worths);
  table.add_note(std::to_string(assumptions_of(p.run).size()) +
                 " values were assumed; in all: " + coefficients_of(p.run));
  table.add_note("--verbose lists them with their sources, all terms, stages and conventions");
  return table;
}

void add_evidence(std::vector<Table>& tables, const Prediction& p, const Provenance& provenance) {
  tables.push_back(breakdown_table(p));
  if (!p.communication.empty()) tables.push_back(communication_table(p));
  tables.push_back(memory_table(p));
  tables.push_back(peak_table(p));
  tables.push_back(timeline_table(p));
  tables.push_back(conventions_table(p));
  tables.push_back(coefficient_table(p.run, provenance));
}

std::vector<Table> tables_of(const Prediction& p, const Provenance& provenance,
                             const PredictionExtras& extras, Format format) {
  std::vector<Table> tables{result_table(p)};
  if (extras.job) tables.push_back(job_table(*extras.job));
  tables.push_back(run_table(p));
  if (!extras.one_screen && !assumptions_of(p.run).empty()) tables.push_back(assumed_table(p.run));
  if (simulated(p)) {
    tables.push_back(waits_table(p, extras));
    if (const auto changes = changes_table(
            p.feasible() ? "Sensitivity: one thing changed at a time" : "What makes it fit",
            extras.changes))
      tables.push_back(*changes);
    if (extras.reported) tables.push_back(reported_table(p, *extras.reported));
    if (!extras.one_screen) add_evidence(tables, p, provenance);
  }
  if (extras.curve) tables.push_back(curve_table(p, *extras.curve, format));
  return tables;
}

// --- summary ---

// The three largest terms with their share of the step: "gemm 61 %, tp exposed 12 %, bubble 8 %".
std::string main_terms(const Prediction& p) {
  std::vector<sim::TimeTerm> terms = p.breakdown;
  std::ranges::stable_sort(terms, [](const auto& a, const auto& b) { return a.time > b.time; });
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

Cells summary_row(const Prediction& p) {
  const sim::Strategy& s = p.run.strategy;
  const auto integer = [](int value) { return std::int64_t{value}; };
  const auto yes = [](bool on) { return on ? "yes" : "no"; };
  Cells row({p.run.model.name, p.run.cluster.device.id, integer(p.run.cluster.num_devices),
             integer(p.run.model.seq_len), integer(s.global_batch), sim::name_of(s.precision)});
  row.insert(
      row.end(),
      {integer(s.tp), yes(s.sequence_parallel), integer(s.pp), integer(s.dp), integer(s.cp),
       integer(s.ep), integer(s.expert_tensor_ranks()), sharding_text(s), integer(s.micro_batch),
       recompute_text(s.recompute), sim::name_of(s.pipeline_schedule), integer(s.virtual_stages),
       yes(s.tp_overlap), p.run.model.moe ? sim::name_of(s.moe_dispatch) : "", yes(s.moe_overlap),
       p.feasible() ? std::string("yes") : p.infeasible->rule});
  if (simulated(p)) {
    row.insert(row.end(),
               {p.step_time, p.interval.first, p.interval.second, p.tokens_per_second_per_device,
                p.mfu, p.memory.peak, p.memory.fit_probability(), main_terms(p)});
  }
  return row;
}

}  // namespace

Table summary_table(const std::string& title, std::span<const Prediction> predictions) {
  std::vector<Column> columns({as_text("model"), as_text("accelerator"),
                               as_integer("num_devices", "devices"), as_integer("seq_len"),
                               as_integer("global_batch", "global batch"), as_text("precision")});
  columns.insert(columns.end(),
                 {as_integer("tp"), as_text("sequence_parallel", "sp"), as_integer("pp"),
                  as_integer("dp"), as_integer("cp"), as_integer("ep"), as_integer("etp"),
                  as_text("sharding"), as_integer("micro_batch", "mbs"), as_text("recompute"),
                  as_text("pipeline_schedule", "schedule"), as_integer("virtual_stages", "vs"),
                  as_text("tp_overlap", "tp overlap"), as_text("moe_dispatch", "dispatch"),
                  as_text("moe_overlap", "moe overlap")});
  columns.insert(
      columns.end(),
      {as_text("feasible"), in_seconds("step_time_s", "step time"),
       in_seconds("step_time_low_s", "at best"), in_seconds("step_time_high_s", "at worst"),
       in_tokens_per_s("tokens_per_s_per_device", "per device"), in_percent("mfu", "MFU"),
       in_bytes("peak_bytes", "peak memory"), in_percent("fit_probability", "P(fits)"),
       as_text("main_terms", "mainly")});
  Table table(title, std::move(columns));
  for (const Prediction& prediction : predictions) {
    Cells row = summary_row(prediction);
    row.resize(table.columns().size());
    table.add_row(std::move(row));
  }
  return table;
}

Json prediction_json(const Prediction& prediction, const Provenance& provenance,
                     const PredictionExtras& extras) {
  Json json = prediction_json(prediction, provenance);
  if (extras.reported && simulated(prediction))
    json["reported"] = reported_json(prediction, *extras.reported);
  if (extras.curve) json["memory_timeline"] = curve_json(*extras.curve);
  if (extras.job) json["job"] = job_json(*extras.job);
  if (!extras.changes.empty()) json["changes"] = changes_json(extras.changes);
  if (!extras.assumed_switches.empty())
    json["assumed_switches"] = switches_json(extras.assumed_switches);
  if (extras.step) json["step"] = step_json(*extras.step);
  return json;
}

std::string render(const Prediction& prediction, const Provenance& provenance, Format format,
                   const Style& style, const PredictionExtras& extras) {
  if (format == Format::Json) return text_of(prediction_json(prediction, provenance, extras));
  if (format == Format::Csv)
    return render(extras.curve ? curve_table(prediction, *extras.curve, format)
                               : summary_table("", {&prediction, 1}),
                  format);
  return render(tables_of(prediction, provenance, extras, format), format, style);
}

}  // namespace llmsim::reports
