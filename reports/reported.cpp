#include "reports/reported.h"

#include "sim/base/error.h"

namespace llmsim::reports {
namespace {

using sim::Prediction;

sim::StepWork work_of(const Prediction& p) {
  return {.tokens = 0.0,
          .model = p.model_flops,
          .hardware = p.hardware_flops,
          .step_time = p.step_time,
          .num_devices = p.run.cluster.num_devices,
          .peak = p.peak};
}

const sim::Convention& convention_named(const Prediction& p, const std::string& name) {
  std::string known;
  for (const sim::Convention& convention : p.conventions) {
    if (convention.name == name) return convention;
    known += (known.empty() ? "" : ", ") + convention.name;
  }
  throw Error("convention = " + name + ": one of " + known + " is expected");
}

std::vector<sim::Convention> candidates(const Prediction& p, const Reported& reported) {
  if (!reported.convention.empty()) return {convention_named(p, reported.convention)};
  if (!reported.step_time) return p.conventions;
  const auto behind = sim::convention_behind(p.conventions, reported_rate(p, reported),
                                             *reported.step_time, p.run.cluster.num_devices);
  return behind ? std::vector{*behind} : p.conventions;
}

std::string billions(double parameters) { return significant(parameters / 1e9) + " B"; }

double mfu_of(const Prediction& p, const char* convention) {
  for (const sim::Convention& c : p.conventions) {
    if (c.name == convention) return c.mfu;
  }
  return 0.0;
}

}  // namespace

sim::FlopsPerSecond reported_rate(const Prediction& p, const Reported& reported) {
  return reported.rate ? *reported.rate : *reported.mfu * p.peak;
}

std::vector<sim::Reading> readings(const Prediction& p, const Reported& reported) {
  std::vector<sim::Reading> list;
  for (const sim::Convention& convention : candidates(p, reported))
    list.push_back(sim::reading_of(convention, reported_rate(p, reported), work_of(p)));
  return list;
}

Table reported_table(const Prediction& p, const Reported& reported) {
  Table table(
      "Reported " + human(reported_rate(p, reported)) + " per device, " +
          percent(reported_rate(p, reported) / p.peak) + " of " + human(p.peak),
      {as_text("convention", "if counted by"), in_seconds("step_time_s", "the step took"),
       as_factor("relative", "of the prediction"),
       in_flops_per_s("flops_per_s_per_device", "matrix work"), in_percent("mfu", "MFU of it")});
  const std::vector<sim::Reading> rows = readings(p, reported);
  for (const sim::Reading& row : rows)
    table.add_row(
        {row.convention, row.step_time, row.step_time / p.step_time, row.exact, row.exact_mfu});
  if (rows.size() == 1) {
    table.add_note("counted by " + rows.front().convention + ", " +
                   human(reported_rate(p, reported)) + " are " + human(rows.front().exact) +
                   " of GEMMs and causal attention");
  } else if (reported.step_time) {
    table.add_note("no convention gives the reported rate for the measured step of " +
                   human(*reported.step_time));
  }
  return table;
}

std::string counting_note(const Prediction& p) {
  const double printed = mfu_of(p, "palm"), exact = mfu_of(p, "gemm_causal");
  if (printed < 1.1 * exact) return "";
  const bool lookup = !p.run.model.tied_embeddings;
  std::string text = "a study that counts all " +
                     billions(static_cast<double>(p.parameters.total())) + " parameters";
  if (lookup)
    text += " (" + billions(static_cast<double>(p.parameters.embedding)) +
            " of them an embedding lookup, which multiplies nothing)";
  return text + " and the full square of attention would print " + percent(printed) +
         " here; exact work is " + percent(exact);
}

}  // namespace llmsim::reports
