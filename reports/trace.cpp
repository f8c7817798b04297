#include "reports/trace.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "reports/json.h"
#include "reports/strategy_text.h"

namespace llmsim::reports {
namespace {

std::int64_t nanoseconds(sim::Seconds time) { return std::llround(time.value() * 1e9); }

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

Json metadata(const char* kind, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json terms_json(const sim::Terms& terms) {
  Json json = Json::object();
  for (int i = 0; i < sim::kNumTerms; ++i) {
    const auto term = static_cast<sim::Term>(i);
    if (terms[term] != sim::Seconds(0.0)) json[sim::name_of(term)] = terms[term].value();
  }
  return json;
}

Json arguments(const sim::TimelineEvent& event) {
  Json args = Json::object();
  if (event.stream == sim::Stream::Compute) args["terms_s"] = terms_json(event.terms);
  if (event.time > sim::Seconds(0.0)) args["message_s"] = event.time.value();
  if (event.flops > sim::Flops(0.0)) args["flops"] = event.flops.value();
  if (event.moved > sim::Bytes(0.0)) args["moved_bytes"] = event.moved.value();
  if (event.exposed_as) {
    args["exposed_as"] = sim::name_of(*event.exposed_as);
    args["exposed_s"] = event.exposed.value();
  }
  return args;
}

// Both ends are rounded, so that events that touch still do.
Json event_json(const sim::TimelineEvent& event, int process) {
  const std::int64_t start = nanoseconds(event.start),
                     end = nanoseconds(event.start + event.duration);
  return {{"ph", "X"},
          {"name", event.name},
          {"cat", event.category},
          {"pid", process},
          {"tid", static_cast<int>(event.stream)},
          {"ts", microseconds(start)},
          {"dur", microseconds(end - start)},
          {"args", arguments(event)}};
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of one stage, each behind the end of the line before it.
std::string stage_lines(const sim::StageTimeline& stage, bool first) {
  std::string text = first ? "" : ",\n";
  text += line(metadata("process_name", stage.stage, 0, "stage " + std::to_string(stage.stage)));
  for (std::size_t i = 0; i < stage.events.size(); ++i) {
    const sim::TimelineEvent& event = stage.events[i];
    if (i == 0 || stage.events[i - 1].stream != event.stream) {
      text += ",\n" + line(metadata("thread_name", stage.stage, static_cast<int>(event.stream),
                                    sim::name_of(event.stream)));
    }
    text += ",\n" + line(event_json(event, stage.stage));
  }
  return text;
}

std::string beginning(const sim::Run& run, const sim::TimelineSummary& summary,
                      const Provenance& provenance) {
  const Json about{{"model", run.model.name},
                   {"device", run.cluster.device.id},
                   {"strategy", strategy_text(run.strategy)},
                   {"step_time_s", summary.step_time.value()},
                   {"busiest_stage", summary.busiest},
                   {"database", provenance.database}};
  return "{\"displayTimeUnit\": \"ms\",\n\"otherData\": " + line(about) + ",\n\"traceEvents\": [\n";
}

}  // namespace

void write_trace(const sim::Run& run, const sim::LayerPrices& prices,
                 const sim::TimelineOptions& options, const Provenance& provenance,
                 const std::function<void(std::string_view)>& put) {
  bool first = true;
  sim::draw_timeline(run, prices, options,
                     [&](const sim::TimelineSummary& summary, const sim::StageTimeline& stage) {
                       if (first) put(beginning(run, summary, provenance));
                       put(stage_lines(stage, std::exchange(first, false)));
                     });
  put("\n]}\n");
}

}  // namespace llmsim::reports
