#include "reports/plan_comparison.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "reports/json.h"
#include "reports/prediction.h"
#include "reports/result_text.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;

constexpr double kDay = 86400.0;

const Prediction* winner_of(const PlanAnswer& answer) {
  return answer.plan.plans.empty() ? nullptr : &answer.plan.plans.front();
}

double tokens_per_second(const Prediction& p) {
  return p.tokens_per_second_per_device * p.run.cluster.num_devices;
}

std::optional<sim::Seconds> wall_time(const PlanAnswer& answer) {
  return answer.job ? std::optional(answer.job->estimate.wall_time.value) : std::nullopt;
}

// Smaller is better.
double figure(const PlanComparison& comparison, const PlanAnswer& answer) {
  const Prediction& winner = *winner_of(answer);
  switch (comparison.objective) {
    case sim::Objective::Memory: return winner.memory.needed().value();
    case sim::Objective::Cost: return *usd_per_billion_tokens(answer);
    case sim::Objective::Time:
      if (const auto time = wall_time(answer)) return time->value();
      break;
    case sim::Objective::Throughput: break;
  }
  return 1.0 / tokens_per_second(winner);
}

std::string joined_values(const ComparedPlan& plan) { return sim::joined(plan.values, " "); }

std::string money_text(double usd) {
  return usd < 1e4 ? "$" + significant(usd, 3)
                   : "$" + grouped(static_cast<std::int64_t>(std::llround(usd)));
}

// --- for people ---

bool keeps_layout(const PlanComparison& comparison) {
  return std::ranges::any_of(comparison.plans,
                             [](const ComparedPlan& plan) { return plan.same_layout.has_value(); });
}

std::vector<Column> columns_of(const PlanComparison& comparison) {
  std::vector<Column> columns;
  for (const std::string& key : comparison.keys) columns.push_back(as_text(key));
  const std::vector<Column> figures{
      in_seconds("step_time_s", "step"),    as_integer("tokens_per_second", "tokens/s"),
      as_integer("per_device", "a device"), in_percent("mfu", "MFU"),
      in_bytes("peak_bytes", "peak"),       in_percent("fit_probability", "fits"),
      as_text("usd", "10^9 tokens")};
  columns.insert(columns.end(), figures.begin(), figures.end());
  if (keeps_layout(comparison)) columns.push_back(in_seconds("kept_step_time_s", "same layout"));
  return columns;
}

Cells row_of(const ComparedPlan& plan) {
  Cells row(plan.values.begin(), plan.values.end());
  const Prediction* const p = winner_of(plan.answer);
  if (!p) return row;
  const bool is_feasible = plan.same_layout && plan.same_layout->feasible();
  const auto usd = usd_per_billion_tokens(plan.answer);
  const auto rate = [](double tokens) { return Cell(std::int64_t{std::llround(tokens)}); };
  row.insert(row.end(), {p->step_time, rate(tokens_per_second(*p)),
                         rate(p->tokens_per_second_per_device), p->mfu, p->memory.peak,
                         p->memory.fit_probability(), usd ? Cell(money_text(*usd)) : Cell(),
                         is_feasible ? Cell(plan.same_layout->step_time) : Cell()});
  return row;
}

std::string best_text(const PlanComparison& comparison) {
  const ComparedPlan* const best = best_of(comparison);
  const std::string in_time = comparison.deadline ? " in time" : "";
  if (!best) return "none of them " + std::string(comparison.deadline ? "ends in time" : "fits");
  if (comparison.goal == Goal::Largest) return "the largest that fits: " + joined_values(*best);
  if (comparison.goal == Goal::Smallest)
    return "the smallest that fits" + in_time + ": " + joined_values(*best);
  switch (comparison.objective) {
    case sim::Objective::Memory: return "least memory: " + joined_values(*best);
    case sim::Objective::Cost: return "cheapest" + in_time + ": " + joined_values(*best);
    case sim::Objective::Time: return "soonest: " + joined_values(*best);
    case sim::Objective::Throughput: break;
  }
  return "fastest: " + joined_values(*best);
}

Table figures_of(const PlanComparison& comparison) {
  const sim::Run& first = comparison.plans.front().answer.query.base;
  const bool models = std::ranges::find(comparison.keys, "model") != comparison.keys.end();
  Table table((models ? "" : first.model.name + ": ") + "the best plan of each question",
              columns_of(comparison));
  for (const ComparedPlan& plan : comparison.plans) {
    Cells row = row_of(plan);
    row.resize(table.columns().size());
    table.add_row(std::move(row));
  }
  table.add_note(best_text(comparison));
  if (keeps_layout(comparison)) {
    table.add_note("same layout: the best layout of " + joined_values(comparison.plans.front()) +
                   ", unchanged");
    for (const ComparedPlan& plan : comparison.plans) {
      if (!plan.same_layout || plan.same_layout->feasible()) continue;
      add_wrapped_note(table, "on " + joined_values(plan) +
                                  " it is infeasible: " + plan.same_layout->infeasible->message);
    }
  }
  for (const ComparedPlan& plan : comparison.plans) {
    if (!winner_of(plan.answer))
      add_wrapped_note(table, joined_values(plan) + ": " + why_nothing_fits(plan.answer.plan));
  }
  return table;
}

Table layouts_of(const PlanComparison& comparison) {
  Table table = figures_table("Their layouts");
  for (const ComparedPlan& plan : comparison.plans) {
    if (const Prediction* const p = winner_of(plan.answer))
      add_figure(table, joined_values(plan), strategy_text(p->run.strategy));
  }
  return table;
}

std::string days_text(const sim::JobEstimate& job) {
  const auto days = [](sim::Seconds time) { return significant(time.value() / kDay, 3); };
  if (job.endless()) return "it never ends: interruptions come too fast";
  return days(job.wall_time.value) + " days (" + days(job.wall_time.low) + " to " +
         days(job.wall_time.high) + ")";
}

// None where no job was asked for.
std::optional<Table> jobs_of(const PlanComparison& comparison) {
  Table table = figures_table("The whole job, with 90 % intervals");
  for (const ComparedPlan& plan : comparison.plans) {
    if (!plan.answer.job) continue;
    const sim::JobEstimate& job = plan.answer.job->estimate;
    add_figure(table, joined_values(plan),
               days_text(job) + (job.cost ? ", " + money_text(job.cost->value) : ""));
  }
  return table.rows().empty() ? std::nullopt : std::optional(table);
}

}  // namespace

Json comparison_json(const PlanComparison& comparison) {
  const auto plan_of = [&](const ComparedPlan& plan) {
    Json asked = Json::object();
    for (std::size_t i = 0; i < comparison.keys.size(); ++i)
      asked[comparison.keys[i]] = plan.values[i];
    return Json{
        {"asked", asked},
        {"answers", answers(comparison, plan.answer)},
        {"kept",
         plan.same_layout ? prediction_json(*plan.same_layout, plan.answer.provenance) : Json()},
        {"answer", plan_json(plan.answer)}};
  };
  const ComparedPlan* const best = best_of(comparison);
  return {{"keys", comparison.keys},
          {"best", or_null(best != nullptr, best - comparison.plans.data())},
          {"plans", list_json(comparison.plans, plan_of)}};
}

bool answers(const PlanComparison& comparison, const PlanAnswer& answer) {
  if (!winner_of(answer)) return false;
  const auto time = wall_time(answer);
  return !comparison.deadline || (time && *time <= *comparison.deadline);
}

const ComparedPlan* best_of(const PlanComparison& comparison) {
  const ComparedPlan* best = nullptr;
  const auto order = [&](const ComparedPlan& plan) {
    const int devices = plan.answer.query.base.cluster.num_devices;
    return std::tuple(comparison.goal == Goal::Smallest ? devices : 0,
                      figure(comparison, plan.answer));
  };
  for (const ComparedPlan& plan : comparison.plans) {
    if (!answers(comparison, plan.answer)) continue;
    if (!best || comparison.goal == Goal::Largest || order(plan) < order(*best)) best = &plan;
  }
  return best;
}

std::string render(const PlanComparison& comparison, Format format, const Style& style) {
  if (format == Format::Json) return text_of(comparison_json(comparison));
  if (format == Format::Csv) {
    std::vector<Prediction> winners;
    for (const ComparedPlan& plan : comparison.plans) {
      if (const Prediction* const p = winner_of(plan.answer)) winners.push_back(*p);
    }
    return render(summary_table("", winners), format);
  }
  std::vector<Table> tables{figures_of(comparison)};
  if (const auto jobs = jobs_of(comparison)) tables.push_back(*jobs);
  if (best_of(comparison)) tables.push_back(layouts_of(comparison));
  return render(tables, format, style);
}

}  // namespace llmsim::reports
