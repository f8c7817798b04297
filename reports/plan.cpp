#include "reports/plan.h"

#include <algorithm>

#include "reports/json.h"
#include "reports/plan_screen.h"
#include "reports/prediction.h"
#include "reports/result_text.h"
#include "sim/search/layout_costs.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;

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
  for (const sim::SearchedField& field : sim::searched_fields()) {
    const std::string key = field.key;
    const auto found = restriction.find(key);
    if (sim::is_always_searched(field)) json[key] = "any";
    if (found == restriction.end() || field.restricted != sim::Restricted::Replaced) continue;
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
  return {{"rule", miss.rule},
          {"strategy", strategy_text(miss.strategy)},
          {"needed_bytes", or_null(is_about_memory(miss), miss.needed)},
          {"available_bytes", or_null(is_about_memory(miss), miss.available)},
          {"fit_probability", or_null(miss.fit_probability > 0.0, miss.fit_probability)}};
}

// "; the nearest, tp 8 ..., needs 92.1 GiB, 79.6 GiB usable"; nothing where no miss has these
// numbers.
std::string nearest_text(const sim::Plan& plan, const std::string& rule) {
  const sim::NearestMiss* miss = nearest_miss(plan, rule);
  if (!miss || !is_about_memory(*miss)) {
    const auto found = std::ranges::find_if(plan.nearest, is_about_memory);
    miss = found == plan.nearest.end() ? nullptr : &*found;
  }
  if (!miss) return "";
  std::string text = "; the nearest, " + strategy_text(miss->strategy) + ", needs " +
                     human(miss->needed) + ", " + human(miss->available) + " usable";
  if (miss->fit_probability > 0.0)
    text += ", fits with " + probability_text(miss->fit_probability) + " probability";
  return text;
}

Json point_json(const Prediction& p) {
  return {{"strategy", strategy_text(p.run.strategy)},
          {"training", run_json(p.run)["training"]},
          {"step_time_s", p.step_time.value()},
          {"peak_bytes", p.memory.peak.value()},
          {"fit_probability", p.memory.fit_probability()}};
}

}  // namespace

Json plan_json(const PlanAnswer& answer) {
  const sim::Plan& plan = answer.plan;
  const auto predicted = [&](const Prediction& p) { return prediction_json(p, answer.provenance); };
  const auto predicted_or_null = [&](const std::optional<Prediction>& p) {
    return p ? predicted(*p) : Json();
  };
  const auto labour_json = [&, context = sim::labour_context(answer.query)](const Prediction& p) {
    Json keys = Json::array();
    for (const sim::Labour* labour : sim::labours_of(p.run.strategy, context))
      keys.push_back(labour->key);
    return keys;
  };
  const auto odds = [&](const Prediction& p) {
    return sim::probability_faster(p, plan.plans.front());
  };
  Json rejected = Json::object();
  for (const auto& [rule, count] : plan.rejected) rejected[rule] = count;
  Json json = {{"query", query_json(answer)},
               {"evaluated", plan.evaluated},
               {"feasible", plan.feasible},
               {"priced", plan.priced},
               {"pruned", plan.pruned},
               {"rejected", rejected},
               {"seconds", answer.duration.value()},
               {"complete", plan.complete},
               {"headroom", plan.headroom},
               {"ties", std::min(plan.ties, answer.shown)},
               {"plans", list_json(shown_plans(answer), predicted)},
               {"labour", list_json(shown_plans(answer), labour_json)},
               {"faster_than_first", list_json(shown_plans(answer), odds)},
               {"dearer", list_json(plan.dearer, predicted)},
               {"tight", predicted_or_null(plan.tight)},
               {"nearly_fits", predicted_or_null(plan.nearly_fits)},
               {"command", answer.command},
               {"nearest", list_json(plan.nearest, miss_json)},
               {"pareto", list_json(plan.pareto, point_json)}};
  if (!plan.plans.empty()) {
    if (const auto usd = usd_per_billion_tokens(answer)) json["usd_per_billion_tokens"] = *usd;
  }
  if (!answer.assumed_switches.empty())
    json["assumed_switches"] = switches_json(answer.assumed_switches);
  if (answer.job) json["job"] = job_json(*answer.job);
  if (!answer.regrets.empty()) json["regrets"] = answer.regrets;
  if (!answer.changes.empty()) json["changes"] = changes_json(answer.changes);
  if (!answer.step) return json;
  // What a page shows beside the answer.
  json["step"] = step_json(*answer.step);
  json["others"] = list_json(plan.others, predicted);
  json["scaling"] = list_json(answer.scaling, [&](const ScaledPlan& scaled) {
    return Json{{"num_devices", scaled.num_devices}, {"plan", predicted_or_null(scaled.plan)}};
  });
  return json;
}

std::optional<double> usd_per_billion_tokens(const PlanAnswer& answer) {
  constexpr double kBillion = 1e9, kHour = 3600.0;
  if (answer.job && answer.job->estimate.cost)
    return answer.job->estimate.cost->value / answer.job->job.tokens * kBillion;
  if (!answer.price) return std::nullopt;
  const Prediction& winner = answer.plan.plans.front();
  return *answer.price / kHour / winner.tokens_per_second_per_device * kBillion;
}

std::string why_nothing_fits(const sim::Plan& plan) {
  const auto most = std::ranges::max_element(
      plan.rejected, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == plan.rejected.end()) return "nothing fits: no strategy has the values asked for";
  return "nothing fits: " + std::to_string(most->second) + " of " + std::to_string(plan.evaluated) +
         " strategies fail: " + most->first + nearest_text(plan, most->first);
}

std::string render(const PlanAnswer& answer, Format format, const Style& style) {
  if (format == Format::Csv) return render(summary_table("", shown_plans(answer)), format);
  if (format == Format::Json) return text_of(plan_json(answer));
  return render(plan_screen(answer), format, style);
}

}  // namespace llmsim::reports
