#include "reports/job.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "reports/json.h"
#include "reports/units.h"

namespace llmsim::reports {
namespace {

using sim::Estimate;
using sim::Seconds;

// Rounded to three digits: "419", "31,200,000", "0.0523".
std::string amount_text(double value) {
  if (!std::isfinite(value)) return "-";
  if (value < 999.5) return significant(value, 3);
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2.0);
  return grouped(std::llround(std::round(value / unit) * unit));
}

std::string interval_text(const Estimate<double>& estimate) {
  return amount_text(estimate.value) + " (" + amount_text(estimate.low) + " to " +
         amount_text(estimate.high) + ")";
}

std::string wall_time_text(const JobAnswer& answer) {
  const sim::JobEstimate& e = answer.estimate;
  if (e.endless())
    return "no end: interrupted every " + human(Seconds(1.0 / e.failure_rate.value())) +
           ", a restart takes " + human(answer.job.restart.median);
  const Estimate<Seconds>& time = e.wall_time;
  return human(time.value) + " (" + human(time.low) + " to " + human(time.high) + " with " +
         std::to_string(std::lround(sim::kJobIntervalLevel * 100.0)) + " % probability)";
}

constexpr double kSmallestLoss = 5e-5;  // of the wall time; what is less is not told
// A line takes so many losses.
constexpr std::size_t kLossesOfALine = 4;

// The losses from the largest on, as many lines as they take: "restarts 3.1 %, lost work 1.2 %".
std::vector<std::string> losses_texts(const sim::JobEstimate& e) {
  std::vector<sim::JobTerm> losses(e.breakdown.begin() + 1, e.breakdown.end());
  std::erase_if(losses, [&](const sim::JobTerm& loss) {
    return !(loss.time / e.wall_time.value >= kSmallestLoss);
  });
  std::ranges::stable_sort(losses, [](const auto& a, const auto& b) { return a.time > b.time; });
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (i % kLossesOfALine == 0) lines.emplace_back();
    const double share = losses[i].time / e.wall_time.value;
    lines.back() += (lines.back().empty() ? "" : ", ") + with_spaces(losses[i].name) + " " +
                    significant(share * 100.0, share < 0.01 ? 2 : 3) + " %";
  }
  return lines;
}

std::string interruptions_text(const sim::JobEstimate& e) {
  if (e.failure_rate <= sim::Hertz(0.0)) return "none";
  return interval_text(e.interruptions) + ", one in " +
         human(Seconds(1.0 / e.failure_rate.value())) +
         "; a day without one: " + percent(e.day_probability);
}

std::string checkpoint_text(const JobAnswer& answer) {
  const sim::JobEstimate& e = answer.estimate;
  const std::string size = human(answer.job.checkpoint.size);
  if (!std::isfinite(e.checkpoint_interval.value())) return size + ", none needed";
  const auto& asked = answer.job.checkpoint.interval;
  const std::string chosen = !asked                            ? " (optimal)"
                             : *asked == e.checkpoint_interval ? " (as asked)"
                                                               : " (the nearest that can be)";
  const std::string waits =
      answer.job.checkpoint.asynchronous ? ", training waits " + human(e.checkpoint_blocking) : "";
  return size + " in " + human(e.checkpoint_write_time) + waits + ", every " +
         human(e.checkpoint_interval) + chosen;
}

// A value and its interval under "NAME" and "NAME_interval".
void put(Json& json, const std::string& name, const std::string& unit,
         const Estimate<double>& estimate) {
  json[name + unit] = value_json(estimate.value);
  json[name + "_interval" + unit] = {value_json(estimate.low), value_json(estimate.high)};
}

Json checkpoint_json(const JobAnswer& answer) {
  const sim::JobEstimate& e = answer.estimate;
  return {{"bytes", answer.job.checkpoint.size.value()},
          {"asynchronous", answer.job.checkpoint.asynchronous},
          {"write_time_s", e.checkpoint_write_time.value()},
          {"blocking_time_s", e.checkpoint_blocking.value()},
          {"interval_s", value_json(e.checkpoint_interval)},
          {"optimal", !answer.job.checkpoint.interval.has_value()}};
}

}  // namespace

Table job_table(const JobAnswer& answer) {
  const sim::JobEstimate& e = answer.estimate;
  Table table("The whole job", {as_text("figure", ""), as_text("value", "")});
  const auto add = [&](const char* name, std::string text) {
    table.add_row({name, std::move(text)});
  };
  add("tokens", grouped(std::llround(answer.job.tokens)) + " in " +
                    grouped(std::llround(std::ceil(e.steps))) + " steps");
  add("wall time", wall_time_text(answer));
  if (!e.endless()) {
    add("goodput", percent(e.goodput.value) + " of it is useful (" + percent(e.goodput.low) +
                       " to " + percent(e.goodput.high) + ")");
    const char* name = "losses";
    for (std::string& line : losses_texts(e)) {
      add(name, std::move(line));
      name = "smaller ones";
    }
    add("interruptions", interruptions_text(e));
  }
  add("checkpoint", checkpoint_text(answer));
  const sim::Uncertain<Seconds>& restart = answer.job.restart;
  const std::string spread = " (" + human(restart.low()) + " to " + human(restart.high()) + ")";
  add("restart", human(restart.median) + (restart.log_deviation > 0.0 ? spread : ""));
  if (e.start_probability < 1.0)
    add("start", percent(e.start_probability) + " of attempts succeed");
  if (e.endless()) return table;
  add("device-hours", interval_text(e.device_hours));
  if (e.cost)
    add("cost", interval_text(*e.cost) + " USD at " + significant(answer.job.price->median, 3) +
                    " USD per device-hour");
  if (e.energy_mwh)
    add("energy", interval_text(*e.energy_mwh) + " MWh at " +
                      significant(answer.job.device_watts->median, 3) +
                      " W per device with node and building");
  return table;
}

Json job_json(const JobAnswer& answer) {
  const sim::JobEstimate& e = answer.estimate;
  const Estimate<double> wall{e.wall_time.value.value(), e.wall_time.low.value(),
                              e.wall_time.high.value()};
  Json breakdown = Json::object();
  for (const sim::JobTerm& term : e.breakdown) breakdown[term.name] = value_json(term.time);
  Json json{{"tokens", answer.job.tokens},
            {"tokens_per_step", answer.job.tokens_per_step},
            {"steps", std::ceil(e.steps)},
            {"interval_level", sim::kJobIntervalLevel}};
  put(json, "wall_time", "_s", wall);
  json["breakdown_s"] = breakdown;
  put(json, "goodput", "", e.goodput);
  put(json, "interruptions", "", e.interruptions);
  json["failures_per_s"] = e.failure_rate.value();
  json["start_probability"] = e.start_probability;
  json["day_probability"] = e.day_probability;
  json["restart_time_s"] = answer.job.restart.median.value();
  json["checkpoint"] = checkpoint_json(answer);
  put(json, "device_hours", "", e.device_hours);
  if (e.cost) put(json, "cost", "_usd", *e.cost);
  if (e.energy_mwh) put(json, "energy", "_mwh", *e.energy_mwh);
  return json;
}

}  // namespace llmsim::reports
