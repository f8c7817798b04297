#include "reports/plan_screen.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "reports/result_text.h"
#include "reports/step_detail.h"
#include "sim/search/layout_costs.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;
using sim::Strategy;

constexpr std::size_t kAlternatives = 3;

// --- the winner ---

// Where no plan leaves the memory that was to stay free: how sure it is that those there are fit.
std::string risk_text(const PlanAnswer& answer) {
  if (answer.plan.headroom > 0.0 || answer.query.headroom == 0.0) return "";
  const auto fits = [](const Prediction& plan) { return plan.memory.fit_probability(); };
  const auto [least, most] = std::ranges::minmax_element(answer.plan.plans, {}, fits);
  const std::string from = probability_text(fits(*least)), to = probability_text(fits(*most));
  return "no plan is safe: they fit with " + (from == to ? "" : from + " to ") + to +
         " probability";
}

std::string settings_text(const sim::SettingValues& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += ", " + key + " = " + sim::text_of(value);
  return text;
}

Table winner_table(const PlanAnswer& answer) {
  const Prediction& winner = answer.plan.plans.front();
  const Strategy& s = winner.run.strategy;
  Table table = figures_table(title_of(winner));
  if (const std::string risk = risk_text(answer); !risk.empty()) add_figure(table, "verdict", risk);
  add_figure(table, "best layout", strategy_text(s));
  add_figure(table, "step time", step_time_text(winner));
  add_figure(table, "throughput", throughput_text(winner));
  add_figure(table, "model FLOP/s", utilisation_text(winner));
  add_figure(table, "memory", memory_text(winner.memory));
  add_figure(table, "run",
             grouped(s.global_batch) + " sequences of " + std::to_string(winner.run.model.seq_len) +
                 " tokens a step, " + recipe_text(s) + ", " + winner.run.framework.id +
                 settings_text(winner.run.settings));
  if (const auto usd = usd_per_billion_tokens(answer))
    add_figure(table, "cost", "$" + significant(*usd, 3) + " for 10^9 tokens");
  const std::string worths = worths_text(answer.assumed_switches);
  if (!worths.empty()) add_figure(table, "assumed", worths);
  return table;
}

// --- ranking ---

// Modules in short, without "selective=": "attn+norm+act".
std::string recomputed(const sim::Recompute& recompute) {
  std::string text = recompute_text(recompute);
  const std::string selective = "selective=";
  if (!text.starts_with(selective)) return text;
  text.erase(0, selective.size());
  for (const auto& [name, shorter] :
       {std::pair("core_attn", "attn"), std::pair("layernorm", "norm"),
        std::pair("activation", "act"), std::pair("shared_experts", "shared"),
        std::pair("mla_up_proj", "mla_up")}) {
    const std::size_t at = text.find(name);
    if (at != std::string::npos) text.replace(at, std::string(name).size(), shorter);
  }
  return text;
}

// "1=" of ties.
std::string place(std::size_t index, std::size_t ties) {
  return index < ties && ties > 1 ? "1=" : std::to_string(index + 1);
}

Cells plan_row(const Prediction& p, const std::string& place) {
  const Strategy& s = p.run.strategy;
  const bool named = s.pp > 1 && s.pipeline_schedule > sim::PipelineSchedule::Interleaved;
  return Cells({place, std::int64_t{s.tp}, std::int64_t{s.pp},
                named ? sim::name_of(s.pipeline_schedule) : std::to_string(s.virtual_stages),
                std::int64_t{s.cp}, std::int64_t{s.dp}, std::int64_t{s.ep},
                std::int64_t{s.expert_tensor_ranks()}, sharding_text(s),
                std::int64_t{s.micro_batch}, recomputed(s.recompute), p.step_time, p.memory.peak,
                p.memory.fit_probability()});
}

Table plans_table(const std::string& title) {
  return Table(
      title,
      {as_text("place", "#"), as_integer("tp"), as_integer("pp"), as_text("virtual_stages", "vs"),
       as_integer("cp"), as_integer("dp"), as_integer("ep"), as_integer("etp"), as_text("sharding"),
       as_integer("micro_batch", "mbs"), as_text("recompute"), in_seconds("step_time_s", "step"),
       in_bytes("peak_bytes", "peak"), in_percent("fit_probability", "fits")});
}

// Once all rows are there.
void finish(Table& table, bool experts) {
  table.add_relative("relative", "to best", "step_time_s", Better::Smaller);
  if (experts)
    table.fold_constants({"ep", "etp"});
  else
    table.hide("ep"), table.hide("etp");
  table.fold_constants({"cp", "virtual_stages"});
}

// What is no row costs less than the first: in time, or in labour.
std::string faster_or_simpler(double change) { return change < 0.0 ? "faster" : "simpler"; }

// "2.9 % faster with 71 % probability; takes virtual stages".
std::string gain_text(const PlanAnswer& answer, const Prediction& dearer) {
  const Prediction& first = answer.plan.plans.front();
  const sim::LabourContext context = sim::labour_context(answer.query);
  const auto known = sim::labours_of(first.run.strategy, context);
  std::string labour;
  for (const sim::Labour* one : sim::labours_of(dearer.run.strategy, context)) {
    if (std::ranges::find(known, one) == known.end())
      labour += (labour.empty() ? "; takes " : ", ") + std::string(one->what);
  }
  const double gain = 100.0 * (1.0 - dearer.step_time / first.step_time);
  return significant(gain, 2) + " % faster with " +
         probability_text(sim::probability_faster(dearer, first)) + " probability" + labour;
}

// What is faster than the first row: what it gains, how sure that is, and what it takes more of.
void add_dearer(Table& table, const PlanAnswer& answer) {
  const std::span<const Prediction> plans = shown_plans(answer);
  const auto fastest = std::ranges::min_element(plans, {}, &Prediction::step_time);
  if (fastest->step_time < plans.front().step_time)
    add_wrapped_note(table, "row " + std::to_string(fastest - plans.begin() + 1) + " is " +
                                gain_text(answer, *fastest));
  const auto& dearer = answer.plan.dearer;
  const auto best = std::ranges::min_element(dearer, {}, &Prediction::step_time);
  if (best == dearer.end()) return;
  const std::string more =
      dearer.size() > 1 ? ", as " + std::to_string(dearer.size() - 1) + " more in the same way"
                        : "";
  const bool smaller = best->memory.needed() <= plans.front().memory.needed();
  add_wrapped_note(table, (smaller ? "smaller and " : "") + gain_text(answer, *best) + ": " +
                              strategy_text(best->run.strategy) + more);
}

Table ranking_table(const PlanAnswer& answer) {
  Table table = plans_table("Best plan of each kind");
  const std::span<const Prediction> plans = shown_plans(answer);
  const std::size_t ties = std::min(answer.plan.ties, plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) table.add_row(plan_row(plans[i], place(i, ties)));
  finish(table, plans.front().run.model.moe.has_value());
  if (!answer.regrets.empty())
    add_wrapped_note(
        table, "by risk: the first takes at most " + significant(answer.regrets.front(), 3) +
                   " times as long as the best of them, whichever property of the hardware is 1.25 "
                   "times as good or as bad; the last " +
                   significant(answer.regrets[plans.size() - 1], 3));
  if (ties > 1)
    add_wrapped_note(table, "1=: which of them is the fastest is not sure (below " +
                                percent(sim::kDecided) +
                                "); what takes less labour goes first where they are close");
  add_dearer(table, answer);
  if (const auto& tight = answer.plan.tight) {
    const double change = 100.0 * (tight->step_time / plans.front().step_time - 1.0);
    add_wrapped_note(table,
                     faster_or_simpler(change) + " with less headroom than " +
                         percent(answer.plan.headroom) + ": " + strategy_text(tight->run.strategy) +
                         ": " + human(tight->step_time) + " (" + significant(change, 2) +
                         " %), fits with " + probability_text(tight->memory.fit_probability()));
  }
  if (const auto& nearly = answer.plan.nearly_fits) {
    const sim::Memory& memory = nearly->memory;
    const double change = 100.0 * (nearly->step_time / plans.front().step_time - 1.0),
                 more = 100.0 * (memory.needed() / memory.capacity - 1.0);
    add_wrapped_note(table, faster_or_simpler(change) +
                                ", but does not fit: " + strategy_text(nearly->run.strategy) +
                                ": " + human(nearly->step_time) + " (" + significant(change, 2) +
                                " %), needs " + human(memory.needed()) + ", " +
                                significant(more, 2) + " % more than is usable");
  }
  return table;
}

// --- why the winner wins ---

// A breakdown term of another plan beside the winner's.
struct Difference {
  std::string term;
  sim::Seconds time;  // the other plan's minus the winner's
};

sim::Seconds time_of(const Prediction& prediction, const std::string& term) {
  sim::Seconds sum{0.0};
  for (const sim::TimeTerm& t : prediction.breakdown)
    sum += t.name == term ? t.time : sim::Seconds(0.0);
  return sum;
}

// All terms of both, largest difference first.
std::vector<Difference> differences(const Prediction& winner, const Prediction& other) {
  std::vector<Difference> list;
  const auto add = [&](const std::string& term) {
    const bool known =
        std::ranges::any_of(list, [&](const Difference& d) { return d.term == term; });
    if (!known) list.push_back({term, time_of(other, term) - time_of(winner, term)});
  };
  for (const sim::TimeTerm& term : winner.breakdown) add(term.name);
  for (const sim::TimeTerm& term : other.breakdown) add(term.name);
  const auto size = [](const Difference& d) { return std::max(d.time, -d.time); };
  std::ranges::stable_sort(list, [&](const auto& a, const auto& b) { return size(a) > size(b); });
  return list;
}

// The largest terms on which the other plan loses (sign 1) or gains (sign -1) at least half a
// percent of the winner's step.
std::string largest(const std::vector<Difference>& list, double sign, sim::Seconds step) {
  std::string text;
  int named = 0;
  for (const Difference& difference : list) {
    const sim::Seconds time = sign * difference.time;
    if (time < 0.005 * step || named == 3) continue;
    text += (text.empty() ? "" : ", ") + difference.term + " " + human(time);
    ++named;
  }
  return text.empty() ? "-" : text;
}

// Tells a kind of strategy, such as "tp 4"; empty: the winner's own.
using Kinds = std::function<std::string(const Strategy&)>;

// The best plan of another mesh, then the best of every sharding, tp and pp that the winner does
// not use.  A plan is taken once.
std::vector<const Prediction*> rivals_of(const std::vector<Prediction>& plans) {
  const Strategy& winner = plans.front().run.strategy;
  const auto other = [](int size, int own) { return size == own ? "" : std::to_string(size); };
  const Kinds all_kinds[] = {
      [&](const Strategy& s) {
        const auto mesh = [](const Strategy& of) { return std::tie(of.tp, of.pp, of.cp, of.dp); };
        return std::string(mesh(s) == mesh(winner) ? "" : "another mesh");
      },
      [&](const Strategy& s) {
        return std::string(s.sharding == winner.sharding ? "" : sim::name_of(s.sharding));
      },
      [&](const Strategy& s) { return other(s.tp, winner.tp); },
      [&](const Strategy& s) { return other(s.pp, winner.pp); }};
  std::vector<const Prediction*> rivals;
  for (const Kinds& kind_of : all_kinds) {
    std::set<std::string> seen;
    for (const Prediction& plan : plans) {
      const std::string kind = kind_of(plan.run.strategy);
      if (kind.empty() || !seen.insert(kind).second) continue;
      if (std::ranges::find(rivals, &plan) == rivals.end()) rivals.push_back(&plan);
    }
  }
  return rivals;
}

// The best of other kinds, and what they lose and gain.
Table rivals_table(const PlanAnswer& answer) {
  const Prediction& winner = answer.plan.plans.front();
  Table table =
      figures_table("Alternatives, and the time that they lose and gain against the first");
  std::vector<Prediction> all = answer.plan.plans;
  all.insert(all.end(), answer.plan.dearer.begin(), answer.plan.dearer.end());
  all.insert(all.end(), answer.plan.others.begin(), answer.plan.others.end());
  std::stable_sort(all.begin() + 1, all.end(),
                   [](const auto& a, const auto& b) { return a.step_time < b.step_time; });
  for (const Prediction* const rival : rivals_of(all)) {
    if (table.rows().size() >= 2 * kAlternatives && !answer.verbose) break;
    const std::vector<Difference> list = differences(winner, *rival);
    add_figure(table, significant(rival->step_time / winner.step_time, 3) + "x",
               strategy_text(rival->run.strategy));
    add_figure(table, "",
               "loses: " + largest(list, 1.0, winner.step_time) +
                   "; gains: " + largest(list, -1.0, winner.step_time));
  }
  if (table.rows().empty())
    table.add_note("no plan of another mesh, sharding, tp or pp is among the " +
                   std::to_string(answer.plan.plans.size()) + " best");
  return table;
}

// --- on request ---

// The front has many steps that save next to nothing: people see those that save a twentieth of the
// memory.
Table pareto_table(const PlanAnswer& answer) {
  Table table = plans_table("Pareto front: nothing else is both faster and smaller");
  std::size_t left_out = 0;
  sim::Bytes last{0.0};
  for (const Prediction& p : answer.plan.pareto) {
    if (!table.rows().empty() && p.memory.peak > 0.95 * last) {
      ++left_out;
      continue;
    }
    last = p.memory.peak;
    table.add_row(plan_row(p, std::to_string(table.rows().size() + 1)));
  }
  finish(table, answer.plan.pareto.front().run.model.moe.has_value());
  if (left_out > 0)
    table.add_note(std::to_string(left_out) +
                   " more that save less than 5 % each: --format json has them");
  return table;
}

Table failures_table(const PlanAnswer& answer) {
  Table table("Why others failed",
              {as_text("rule"), as_integer("count", "strategies"),
               as_text("nearest", "nearest miss"), in_bytes("needed_bytes", "needed"),
               in_bytes("available_bytes", "usable"), in_percent("fit_probability", "fits")});
  for (const auto& [rule, count] : answer.plan.rejected) {
    Cells row{rule, static_cast<std::int64_t>(count)};
    if (const sim::NearestMiss* miss = nearest_miss(answer.plan, rule)) {
      row.emplace_back(strategy_text(miss->strategy));
      if (is_about_memory(*miss))
        row.insert(row.end(), {Cell(miss->needed), Cell(miss->available)});
      if (miss->fit_probability > 0.0) row.emplace_back(miss->fit_probability);
    }
    row.resize(table.columns().size());
    table.add_row(std::move(row));
  }
  return table;
}

Table query_table(const PlanAnswer& answer) {
  const sim::Run& base = answer.query.base;
  const sim::Strategy& s = base.strategy;
  const std::int64_t tokens = std::int64_t{s.global_batch} * base.model.seq_len;
  Table table("Asked for", {as_text("key", ""), as_text("value", ""), as_text("reason", "")});
  const auto add = [&](const char* key, const std::string& value) {
    table.add_row({key, value, std::string()});
  };
  add("model",
      base.model.name + ", " + grouped(sim::parameters(base.model).total()) + " parameters");
  add("hardware", std::to_string(base.cluster.num_devices) + " x " + base.cluster.device.id + ", " +
                      std::to_string(base.cluster.devices_per_node) + " per node (" +
                      base.cluster.id + ")");
  add("batch", grouped(s.global_batch) + " sequences of " + std::to_string(base.model.seq_len) +
                   " tokens = " + grouped(tokens) + " tokens per step");
  add("recipe", recipe_text(s) + ", framework " + base.framework.id);
  for (const sim::Fact& fact : assumptions_of(base)) {
    table.add_row({fact.key.substr(sizeof("assumed.") - 1), fact.value, "assumed: " + fact.source});
  }
  table.add_note("values: " + coefficients_of(base));
  if (!answer.provenance.database.empty())
    table.add_note("database: " + answer.provenance.database);
  return table;
}

Table nothing_fits_table(const PlanAnswer& answer) {
  const sim::Run& base = answer.query.base;
  Table table(base.model.name + " on " + std::to_string(base.cluster.num_devices) + " x " +
                  base.cluster.device.id,
              {as_text("verdict", "")});
  table.add_row(
      {"nothing fits: every strategy breaks a rule or needs more memory than a device has"});
  return table;
}

// --- what was looked at ---

std::string search_text(const PlanAnswer& answer) {
  const sim::Plan& plan = answer.plan;
  // By the whole strategy, or by its pipeline.
  const std::size_t ruled_out = plan.pruned + plan.feasible - plan.priced;
  std::size_t memory = 0, rules = 0;
  for (const auto& [rule, count] : plan.rejected)
    (rule.starts_with("out of") ? memory : rules) += count;
  const auto number = [](std::size_t count) { return grouped(static_cast<std::int64_t>(count)); };
  return number(plan.evaluated) + " strategies in " + human(answer.duration) + ": " +
         number(plan.priced) + " simulated, " + number(ruled_out) + " ruled out by bounds, " +
         number(memory) + " out of memory, " + number(rules) + " against rules";
}

Table closing_table(const PlanAnswer& answer) {
  Table table("The same by hand", {as_text("command", "")});
  for (const std::string& line : wrapped(answer.command, kNoteWidth, " \\")) table.add_row({line});
  add_wrapped_note(table, search_text(answer));
  if (!answer.verbose)
    table.add_note(std::to_string(assumptions_of(answer.query.base).size()) +
                   " values were assumed: --verbose lists them, and what failed");
  return table;
}

}  // namespace

const sim::NearestMiss* nearest_miss(const sim::Plan& plan, const std::string& rule) {
  const auto found =
      std::ranges::find_if(plan.nearest, [&](const auto& miss) { return miss.rule == rule; });
  return found == plan.nearest.end() ? nullptr : &*found;
}

std::span<const Prediction> shown_plans(const PlanAnswer& answer) {
  return std::span(answer.plan.plans).first(std::min(answer.shown, answer.plan.plans.size()));
}

bool is_about_memory(const sim::NearestMiss& miss) { return miss.needed > sim::Bytes(0.0); }

std::vector<Table> plan_screen(const PlanAnswer& answer) {
  std::vector<Table> tables;
  if (answer.plan.plans.empty()) {
    tables.push_back(nothing_fits_table(answer));
    if (!answer.plan.rejected.empty()) tables.push_back(failures_table(answer));
    tables.push_back(query_table(answer));
    return tables;
  }
  tables.push_back(winner_table(answer));
  if (answer.job) tables.push_back(job_table(*answer.job));
  tables.push_back(step_bars_table(answer.plan.plans.front()));
  tables.push_back(ranking_table(answer));
  tables.push_back(rivals_table(answer));
  if (const auto changes =
          changes_table("Sensitivity: one thing changed at a time", answer.changes))
    tables.push_back(*changes);
  if (!answer.plan.pareto.empty()) tables.push_back(pareto_table(answer));
  if (answer.verbose) {
    tables.push_back(failures_table(answer));
    tables.push_back(query_table(answer));
  }
  if (!answer.command.empty()) tables.push_back(closing_table(answer));
  return tables;
}

}  // namespace llmsim::reports
