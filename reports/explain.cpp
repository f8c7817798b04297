#include "reports/explain.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "reports/json.h"
#include "reports/memory_peak.h"
#include "reports/units.h"
#include "sim/explain.h"

namespace llmsim::reports {
namespace {

using Keys = std::vector<std::string>;

// --- kernels ---

const Keys kStepFactors{"sustained_clock", "training_rate", "framework", "host_sharing"};

// What kernels are, their times and rates, and the factors between the peak and the rate.
template <typename Kernel>
Table kernel_table(const std::string& title, std::vector<Column> columns) {
  columns.push_back(in_seconds("time_s", "time"));
  columns.push_back(in_flops_per_s("flops_per_s", ""));
  columns.push_back(in_flops_per_s("peak_flops_per_s", "peak"));
  for (const sim::RateFactor& factor : rate_factors(Kernel{})) {
    columns.push_back(as_number(factor.key, with_spaces(factor.key)));
  }
  columns.push_back(as_text("bound_by", "bound by"));
  return Table(title, std::move(columns));
}

template <typename Kernel>
void add_kernel(Table& table, Cells row, const Kernel& kernel) {
  row.insert(row.end(), {kernel.time(), kernel.rate(), kernel.alone.peak});
  for (const sim::RateFactor& factor : rate_factors(kernel)) row.emplace_back(factor.value);
  row.emplace_back(kernel.alone.memory_bound() ? "memory" : "compute");
  table.add_row(std::move(row));
}

// What all rows share goes to notes, shapes and factors each to one.
void fold(Table& table, const Keys& shape) {
  table.fold_constants(shape);
  Keys alone;
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    const Column& column = table.columns()[c];
    const bool in_step = std::ranges::find(kStepFactors, column.key) != kStepFactors.end();
    const bool is_factor = column.kind == Kind::Number || column.key == "peak_flops_per_s";
    if (is_factor && !in_step && !table.hidden(c)) alone.push_back(column.key);
  }
  table.fold_constants(alone);
  table.fold_constants(kStepFactors);
  table.add_note("TFLOP/s = peak times all factors");
}

// Which kernels are on the memory side of the roofline.
template <typename Kernel>
std::string memory_note(const std::vector<Kernel>& kernels) {
  std::string names;
  for (const Kernel& kernel : kernels) {
    if (!kernel.alone.memory_bound()) continue;
    names += (names.empty() ? "" : ", ") + std::string(kernel.op.label) + " " +
             sim::name_of(kernel.pass);
  }
  return "bound by memory: " + (names.empty() ? "none" : names);
}

// "8192x6144x4096", with a batch of 32 "32 * 512x4096x7168".
std::string shape_text(const sim::Operator& op) {
  const std::string one =
      std::to_string(op.m) + "x" + std::to_string(op.n) + "x" + std::to_string(op.k);
  return op.batch == 1 ? one : std::to_string(op.batch) + " * " + one;
}

// What all GEMMs in a format share, once for each format: "bf16: peak 989.4 TFLOP/s, max efficiency
// 0.8076, low precision 1.000, wgrad 0.9400", the last of those that make weight gradients.
void note_formats(Table& table, const std::vector<sim::ExplainedGemm>& gemms) {
  std::map<sim::DType, std::string> shared, accumulating;
  for (const sim::ExplainedGemm& gemm : gemms) {
    shared[gemm.op.dtype] = ": peak " + human(gemm.alone.peak) + ", max efficiency " +
                            significant(gemm.alone.max_efficiency) + ", low precision " +
                            significant(gemm.in_step.low_precision);
    if (gemm.op.weight_gradient)
      accumulating[gemm.op.dtype] = ", wgrad " + significant(gemm.alone.weight_gradient);
  }
  for (const auto& [dtype, text] : shared)
    table.add_note(sim::name_of(dtype) + text + accumulating[dtype]);
}

Table gemm_table(const sim::Run& run) {
  const std::vector<sim::ExplainedGemm> gemms = sim::explained_gemms(run);
  Table table = kernel_table<sim::ExplainedGemm>(
      "GEMMs of one rank and micro-batch",
      {as_text("label", "GEMM"), as_text("pass"), as_text("shape", "m x n x k"),
       as_integer("batch"), as_integer("m"), as_integer("n"), as_integer("k"), as_text("dtype"),
       in_flops("flops", "work"), in_bytes("moved_bytes", "moves")});
  for (const sim::ExplainedGemm& gemm : gemms) {
    const sim::Operator& op = gemm.op;
    add_kernel(table,
               {op.label, sim::name_of(gemm.pass), shape_text(op), op.batch, op.m, op.n, op.k,
                sim::name_of(op.dtype), op.flops, op.moved},
               gemm);
  }
  for (const char* key : {"batch", "m", "n", "k", "flops", "moved_bytes", "peak_flops_per_s",
                          "max_efficiency", "wgrad", "low_precision", "bound_by"})
    table.hide(key);
  note_formats(table, gemms);
  fold(table, {"dtype"});
  table.add_note(memory_note(gemms));
  return table;
}

Table attention_table(const sim::Run& run) {
  const std::vector<sim::ExplainedAttention> kernels = sim::explained_attention(run);
  Table table = kernel_table<sim::ExplainedAttention>(
      "Attention of one rank and micro-batch",
      {as_text("label", "kernel"), as_text("pass"), as_text("kernel", "by"),
       as_integer("batch", "heads"), as_integer("m", "queries"), as_integer("n", "keys"),
       as_integer("k", "head"), as_text("mask"), in_flops("flops", "work"),
       in_bytes("moved_bytes", "moves")});
  for (const sim::ExplainedAttention& kernel : kernels) {
    const sim::Operator& op = kernel.op;
    add_kernel(table,
               {op.label, sim::name_of(kernel.pass), sim::name_of(run.framework.attention_kernel),
                op.batch, op.m, op.n, op.k, op.causal ? "causal" : "none", op.flops, op.moved},
               kernel);
  }
  table.hide("moved_bytes");
  table.hide("bound_by");
  fold(table, {"kernel", "batch", "m", "n", "k", "mask"});
  table.add_note(kernels.empty()
                     ? "attention of separate kernels: its GEMMs are those of --explain gemm"
                     : memory_note(kernels));
  return table;
}

// --- collectives ---

std::string algorithm_text(const sim::CollectiveTerms& terms) {
  const std::string route = sim::name_of(terms.route);
  switch (terms.route) {
    case sim::CollectiveRoute::Ring:
    case sim::CollectiveRoute::Tree:
    case sim::CollectiveRoute::InSwitch:
    case sim::CollectiveRoute::Hierarchical: return route + " " + sim::name_of(terms.protocol);
    default: return route;
  }
}

Table collective_table(const sim::Run& run) {
  Table table(
      "Collectives of a step on the busiest rank",
      {as_text("collective"), as_text("group"), as_integer("ranks"), as_text("place", "ranks"),
       as_integer("domains"), as_integer("ranks_per_domain", "ranks per domain"),
       as_integer("stride"), as_integer("groups_per_domain", "groups per domain"),
       as_number("count", "calls"), in_bytes("bytes", ""), as_text("algorithm"),
       in_seconds("alpha_s", "alpha"), in_seconds("beta_s", "beta"), in_seconds("time_s", "time"),
       in_bytes_per_s("algbw_bytes_per_s", "algbw"), in_bytes_per_s("busbw_bytes_per_s", "busbw")});
  for (const sim::ExplainedCollective& one : sim::explained_collectives(run)) {
    const auto integer = [](int value) { return std::int64_t{value}; };
    const sim::GroupPlacement& place = one.place;
    table.add_row({sim::name_of(one.call.kind), sim::name_of(one.call.group), integer(place.ranks),
                   std::to_string(place.domains) + " x " + std::to_string(place.ranks_per_domain),
                   integer(place.domains), integer(place.ranks_per_domain), integer(place.stride),
                   integer(place.groups_per_domain), one.call.calls, one.call.message,
                   algorithm_text(one.terms), one.terms.alpha, one.terms.beta(), one.terms.time,
                   one.algbw(), one.busbw()});
  }
  for (const char* key : {"ranks", "domains", "ranks_per_domain", "stride", "groups_per_domain"})
    table.hide(key);
  table.fold_constants({"group", "place", "algorithm"});
  table.add_note(
      "of one call: bytes as nccl-tests count them, time = alpha + beta; ranks: scale-up domains x "
      "ranks in each");
  table.add_note(
      "alpha: start and hops of the protocol, relative to those of Simple as in NCCL "
      "src/graph/tuning.cc");
  return table;
}

// --- coefficients ---

// Keys of the device that the kernels' factors come from, those that end in a dot with all that
// begin so.
Keys gemm_keys(const sim::Run& run) {
  Keys keys{"compute_units", "memory_bandwidth", "memory_fraction"};
  std::vector<sim::DType> dtypes;
  for (const sim::ExplainedGemm& gemm : sim::explained_gemms(run)) {
    if (std::ranges::find(dtypes, gemm.op.dtype) != dtypes.end()) continue;
    dtypes.push_back(gemm.op.dtype);
    const std::string name = sim::name_of(gemm.op.dtype);
    keys.insert(keys.end(), {"peak." + name, "gemm." + name + "."});
  }
  return keys;
}

Keys attention_keys(const sim::Run& run) {
  const std::string dtype = sim::name_of(sim::activation_dtype(run.strategy.precision));
  const std::string own =
      std::string("attention.") + sim::name_of(run.framework.attention_kernel) + ".";
  Keys keys{"compute_units",
            "memory_bandwidth",
            "memory_fraction",
            "peak." + dtype,
            "gemm." + dtype + ".kernel_time_s",
            own};
  const std::string prefix = "device." + run.cluster.device.id + ".";
  const bool has_own = std::ranges::any_of(
      run.facts, [&](const sim::Fact& fact) { return fact.key.starts_with(prefix + own); });
  // Of all kernels that have none of their own.
  if (!has_own) {
    for (const char* key : {"forward", "backward", "seq_half", "head_dim_64_factor"})
      keys.push_back(std::string("attention.") + key);
  }
  return keys;
}

struct Owners {
  Keys device, framework, cluster;
};

Owners owners_of(Explained what, const sim::Run& run) {
  const Keys in_step{"sustained_clock", "training_rate", "sharing.gemms"};
  Owners keys;
  switch (what) {
    case Explained::Gemm:
      keys = {.device = gemm_keys(run),
              .framework = {"efficiency", "gemm_efficiency", "low_precision.gemm_efficiency"},
              .cluster = {}};
      break;
    case Explained::Attention:
      keys = {.device = attention_keys(run),
              .framework = {"attention_kernel", "efficiency", "determinism.attention_backward"},
              .cluster = {}};
      break;
    case Explained::Collective:
      return {.device = {"collective_fraction", "scale_out_fraction"},
              .framework = {"collective_efficiency", "default.collective_algorithm"},
              .cluster = {"devices_per_node", "fabric.", "network."}};
    case Explained::Memory:
      return {.device = {"memory", "usable_memory", "context_memory", "communicator_memory"},
              .framework = {"storage.", "saved.", "loss.", "reserve.", "gradients.", "sharded."},
              .cluster = {}};
  }
  keys.device.insert(keys.device.end(), in_step.begin(), in_step.end());
  return keys;
}

bool belongs(const sim::Fact& fact, const std::string& owner, const Keys& keys) {
  return std::ranges::any_of(keys, [&](const std::string& key) {
    return key.back() == '.' ? fact.key.starts_with(owner + key) : fact.key == owner + key;
  });
}

}  // namespace

sim::NameTable<Explained> name_table(Explained) {
  static constexpr sim::Named<Explained> kNames[] = {{Explained::Gemm, "gemm"},
                                                     {Explained::Attention, "attention"},
                                                     {Explained::Collective, "collective"},
                                                     {Explained::Memory, "memory"}};
  return kNames;
}

Table explained_table(Explained what, const sim::Run& run) {
  switch (what) {
    case Explained::Attention: return attention_table(run);
    case Explained::Collective: return collective_table(run);
    case Explained::Memory: return tensor_table(sim::predict(run));
    case Explained::Gemm: break;
  }
  return gemm_table(run);
}

std::vector<sim::Fact> facts_behind(Explained what, const sim::Run& run) {
  const Owners keys = owners_of(what, run);
  std::vector<sim::Fact> facts;
  std::ranges::copy_if(run.facts, std::back_inserter(facts), [&](const sim::Fact& fact) {
    return belongs(fact, "device." + run.cluster.device.id + ".", keys.device) ||
           belongs(fact, "framework." + run.framework.id + ".", keys.framework) ||
           belongs(fact, "cluster." + run.cluster.id + ".", keys.cluster);
  });
  return facts;
}

Json explained_json(Explained what, const sim::Run& run) {
  return rows_json(explained_table(what, run));
}

std::string render(Explained what, const sim::Run& run, const Provenance& provenance, Format format,
                   const Style& style) {
  const Table table = explained_table(what, run);
  if (format == Format::Csv) return render(table, format);
  Table evidence = evidence_table(
      what == Explained::Memory ? "Facts behind the bytes" : "Coefficients behind the factors",
      facts_behind(what, run));
  if (format == Format::Json) {
    Json json;
    json[sim::name_of(what)] = rows_json(table);
    json["coefficients"] = rows_json(evidence);
    json["provenance"] = {{"database", provenance.database}};
    return text_of(json);
  }
  if (!provenance.database.empty()) evidence.add_note("database: " + provenance.database);
  const std::array tables{table, evidence};
  return render(tables, format, style);
}

}  // namespace llmsim::reports
