#include "reports/plan.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "reports/json.h"
#include "reports/prediction.h"
#include "reports/strategy_text.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;
using sim::Strategy;

std::span<const Prediction> ranking(const PlanAnswer& answer) {
  return std::span(answer.plan.plans).first(std::min(answer.shown, answer.plan.plans.size()));
}

// --- ranking ---

std::string heading(const PlanAnswer& answer) {
  const sim::Run& base = answer.query.base;
  return base.model.name + " on " + std::to_string(base.cluster.num_devices) + " x " +
         base.cluster.device.id + ": " + grouped(static_cast<std::int64_t>(answer.plan.evaluated)) +
         " strategies, " + grouped(static_cast<std::int64_t>(answer.plan.feasible)) +
         " feasible, searched in " + human(answer.duration);
}

Table ranking_table(const PlanAnswer& answer) {
  const Prediction& winner = answer.plan.plans.front();
  Table table = summary_table(heading(answer), ranking(answer));
  table.add_relative("relative", "relative", "step_time_s", Better::Smaller);
  table.hide("step_time_low_s");
  table.hide("step_time_high_s");
  table.fold_constants({"model", "accelerator", "num_devices", "seq_len", "global_batch",
                        "precision", "cp", "virtual_stages", "sequence_parallel", "feasible"});
  table.add_note("step time of the first plan: " + human(winner.interval.first) + " to " +
                 human(winner.interval.second) + " with " +
                 significant(winner.interval_level * 100.0, 2) + " % probability");
  table.add_note("memory: a device has " + human(winner.memory.capacity) +
                 ", of which the driver context takes " + human(winner.memory.context));
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
        std::any_of(list.begin(), list.end(), [&](const Difference& d) { return d.term == term; });
    if (!known) list.push_back({term, time_of(other, term) - time_of(winner, term)});
  };
  for (const sim::TimeTerm& term : winner.breakdown) add(term.name);
  for (const sim::TimeTerm& term : other.breakdown) add(term.name);
  const auto size = [](const Difference& d) { return std::max(d.time, -d.time); };
  std::stable_sort(list.begin(), list.end(),
                   [&](const auto& a, const auto& b) { return size(a) > size(b); });
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

bool same_mesh(const Strategy& a, const Strategy& b) {
  return a.tp == b.tp && a.pp == b.pp && a.cp == b.cp && a.dp == b.dp;
}

// A plan to compare the winner with, and what it is the best of.
struct Rival {
  std::string best_of;
  const Prediction* plan;
};

// The best plan of another mesh, then the best of every sharding, tp and pp that the winner does
// not use.  A plan is taken once.
class Rivals {
 public:
  explicit Rivals(const std::vector<Prediction>& plans) : plans_(plans) {
    const Strategy& winner = plans.front().run.strategy;
    add([&](const Strategy& s) { return same_mesh(s, winner) ? "" : std::string("another mesh"); },
        true);
    add([&](const Strategy& s) {
      return s.sharding == winner.sharding ? ""
                                           : std::string("sharding ") + sim::name_of(s.sharding);
    });
    add([&](const Strategy& s) { return other("tp", s.tp, winner.tp); });
    add([&](const Strategy& s) { return other("pp", s.pp, winner.pp); });
  }
  const std::vector<Rival>& list() const { return list_; }

 private:
  // The family of a strategy, such as "tp 4"; empty: the winner's own.
  using Family = std::function<std::string(const Strategy&)>;

  static std::string other(const char* name, int size, int winner) {
    return size == winner ? "" : std::string(name) + " " + std::to_string(size);
  }

  void add(const Family& family, bool first_only = false) {
    std::vector<std::string> seen;
    for (const Prediction& plan : plans_) {
      const std::string name = family(plan.run.strategy);
      if (name.empty() || std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
      seen.push_back(name);
      const auto taken = std::find_if(list_.begin(), list_.end(),
                                      [&](const Rival& rival) { return rival.plan == &plan; });
      if (taken != list_.end())
        taken->best_of += ", " + name;
      else
        list_.push_back({name, &plan});
      if (first_only) return;
    }
  }

  const std::vector<Prediction>& plans_;
  std::vector<Rival> list_;
};

Table rivals_table(const PlanAnswer& answer) {
  const Prediction& winner = answer.plan.plans.front();
  Table table("Why the first plan wins: the best of the others beside it",
              {{"best_of", "best of", Kind::Text},
               {"strategy", "strategy", Kind::Text},
               {"step_time_s", "step time", Kind::Seconds},
               {"relative", "relative", Kind::Factor},
               {"peak_bytes", "peak memory", Kind::Bytes},
               {"loses", "loses on", Kind::Text},
               {"gains", "gains on", Kind::Text}});
  const Rivals rivals(answer.plan.plans);
  for (const Rival& rival : rivals.list()) {
    const std::vector<Difference> list = differences(winner, *rival.plan);
    table.add_row({rival.best_of, strategy_text(rival.plan->run.strategy), rival.plan->step_time,
                   rival.plan->step_time / winner.step_time, rival.plan->memory.peak,
                   largest(list, 1.0, winner.step_time), largest(list, -1.0, winner.step_time)});
  }
  if (table.rows().empty())
    table.add_note("no plan of another mesh, sharding, tp or pp is among the " +
                   std::to_string(answer.plan.plans.size()) + " best");
  return table;
}

// --- Pareto front, failures, query ---

// The front has many steps that save next to nothing: people see those that save a twentieth of the
// memory.
Table pareto_table(const PlanAnswer& answer) {
  Table table("Pareto front: nothing else is both faster and smaller",
              {{"strategy", "strategy", Kind::Text},
               {"step_time_s", "step time", Kind::Seconds},
               {"peak_bytes", "peak memory", Kind::Bytes}});
  std::size_t left_out = 0;
  sim::Bytes last{0.0};
  for (const Prediction& p : answer.plan.pareto) {
    if (!table.rows().empty() && p.memory.peak > 0.95 * last) {
      ++left_out;
      continue;
    }
    last = p.memory.peak;
    table.add_row({strategy_text(p.run.strategy), p.step_time, p.memory.peak});
  }
  table.add_relative("relative", "relative", "step_time_s", Better::Smaller);
  if (left_out > 0)
    table.add_note(std::to_string(left_out) +
                   " more that save less than 5 % each: --format json has them");
  return table;
}

const sim::NearestMiss* nearest_of(const sim::Plan& plan, const std::string& rule) {
  const auto found = std::find_if(plan.nearest.begin(), plan.nearest.end(),
                                  [&](const auto& miss) { return miss.rule == rule; });
  return found == plan.nearest.end() ? nullptr : &*found;
}

// Numbers of a miss, where the rule is about memory.
bool measured(const sim::NearestMiss& miss) { return miss.needed > sim::Bytes(0.0); }

Table failures_table(const PlanAnswer& answer) {
  Table table("Why others failed", {{"rule", "rule", Kind::Text},
                                    {"count", "strategies", Kind::Integer},
                                    {"nearest", "nearest miss", Kind::Text},
                                    {"needed_bytes", "needs", Kind::Bytes},
                                    {"available_bytes", "has", Kind::Bytes}});
  for (const auto& [rule, count] : answer.plan.rejected) {
    std::vector<Cell> row{rule, static_cast<std::int64_t>(count)};
    if (const sim::NearestMiss* miss = nearest_of(answer.plan, rule)) {
      row.emplace_back(strategy_text(miss->strategy));
      if (measured(*miss)) row.insert(row.end(), {Cell(miss->needed), Cell(miss->available)});
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
  Table table("Asked for",
              {{"key", "", Kind::Text}, {"value", "", Kind::Text}, {"reason", "", Kind::Text}});
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
  add("recipe", std::string(sim::name_of(s.precision)) + ", " + sim::name_of(s.optimizer) +
                    ", framework " + base.framework.id);
  for (const sim::Fact& fact : assumptions_of(base)) {
    table.add_row({fact.key.substr(sizeof("assumed.") - 1), fact.value, "assumed: " + fact.source});
  }
  table.add_note("figures: " + coefficients_of(base));
  if (!answer.provenance.database.empty())
    table.add_note("database: " + answer.provenance.database);
  return table;
}

Table nothing_fits_table(const PlanAnswer& answer) {
  Table table(heading(answer), {{"verdict", "", Kind::Text}});
  table.add_row(
      {"nothing fits: every strategy breaks a rule or needs more memory than a device has"});
  return table;
}

std::vector<Table> tables_of(const PlanAnswer& answer) {
  std::vector<Table> tables;
  if (answer.plan.plans.empty()) {
    tables.push_back(nothing_fits_table(answer));
  } else {
    tables.push_back(ranking_table(answer));
    tables.push_back(rivals_table(answer));
    tables.push_back(pareto_table(answer));
  }
  if (!answer.plan.rejected.empty()) tables.push_back(failures_table(answer));
  tables.push_back(query_table(answer));
  return tables;
}

// --- JSON ---

const char* name_of(sim::Objective objective) {
  switch (objective) {
    case sim::Objective::Throughput: return "throughput";
    case sim::Objective::Cost: return "cost";
    case sim::Objective::Memory: return "memory";
    case sim::Objective::Time: return "time";
  }
  return "";
}

// What each searched field is restricted to.
Json search_json(const sim::Restriction& restriction) {
  Json json = Json::object();
  for (const char* key : {"tp", "pp", "dp", "cp", "ep", "micro_batch", "virtual_stages",
                          "pipeline_schedule", "sharding", "recompute"}) {
    json[key] = "any";
    const auto found = restriction.find(key);
    if (found == restriction.end()) continue;
    json[key] = Json::array();
    for (const sim::FieldValue& value : found->second) json[key].push_back(field_json(value));
  }
  return json;
}

Json query_json(const PlanAnswer& answer) {
  const sim::PlanQuery& query = answer.query;
  const Json run = run_json(query.base);
  Json training = Json::object();
  for (const char* key : {"framework", "precision", "optimizer", "global_batch", "flash_attention",
                          "compile", "offload"}) {
    training[key] = run["training"][key];
  }
  return {{"model", run["model"]},
          {"hardware", run["hardware"]},
          {"training", training},
          {"search", search_json(query.restriction)},
          {"objective", name_of(query.objective)},
          {"top", answer.shown}};
}

Json miss_json(const sim::NearestMiss& miss) {
  const auto bytes = [&](sim::Bytes size) {
    return measured(miss) ? Json(size.value()) : Json(nullptr);
  };
  return {{"rule", miss.rule},
          {"strategy", strategy_text(miss.strategy)},
          {"needed_bytes", bytes(miss.needed)},
          {"available_bytes", bytes(miss.available)}};
}

Json plan_json(const PlanAnswer& answer) {
  const sim::Plan& plan = answer.plan;
  Json rejected = Json::object(), nearest = Json::array(), plans = Json::array(),
       pareto = Json::array();
  for (const auto& [rule, count] : plan.rejected) rejected[rule] = count;
  for (const sim::NearestMiss& miss : plan.nearest) nearest.push_back(miss_json(miss));
  for (const Prediction& p : ranking(answer))
    plans.push_back(prediction_json(p, answer.provenance));
  for (const Prediction& p : plan.pareto) {
    pareto.push_back({{"training", run_json(p.run)["training"]},
                      {"step_time_s", p.step_time.value()},
                      {"peak_bytes", p.memory.peak.value()}});
  }
  return {{"query", query_json(answer)},
          {"evaluated", plan.evaluated},
          {"feasible", plan.feasible},
          {"rejected", rejected},
          {"seconds", answer.duration.value()},
          {"plans", plans},
          {"nearest", nearest},
          {"pareto", pareto}};
}

// " (tp 8 ...) needs 92.1 GiB and has 79.6 GiB"; nothing where no miss has these numbers.
std::string nearest_text(const sim::Plan& plan, const std::string& rule) {
  const sim::NearestMiss* miss = nearest_of(plan, rule);
  if (!miss || !measured(*miss)) {
    const auto found = std::find_if(plan.nearest.begin(), plan.nearest.end(), measured);
    miss = found == plan.nearest.end() ? nullptr : &*found;
  }
  if (!miss) return "";
  return "; the nearest, " + strategy_text(miss->strategy) + ", needs " + human(miss->needed) +
         " and has " + human(miss->available);
}

}  // namespace

std::string why_nothing_fits(const sim::Plan& plan) {
  const auto most =
      std::max_element(plan.rejected.begin(), plan.rejected.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == plan.rejected.end()) return "nothing fits: no strategy has the values asked for";
  return "nothing fits: of " + std::to_string(plan.evaluated) + " strategies " +
         std::to_string(most->second) + " fail by " + most->first + nearest_text(plan, most->first);
}

std::string render(const PlanAnswer& answer, Format format, const Style& style) {
  switch (format) {
    case Format::Csv: return render(summary_table("", ranking(answer)), Format::Csv);
    case Format::Json: return text_of(plan_json(answer));
    case Format::Table:
    case Format::Markdown:
    case Format::Latex: break;
  }
  return render(tables_of(answer), format, style);
}

}  // namespace llmsim::reports
