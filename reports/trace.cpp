#include "reports/trace.h"

#include <cmath>
#include <cstdint>
#include <vector>

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

void add_stage(std::vector<Json>& events, const sim::StageTimeline& stage) {
  events.push_back(
      metadata("process_name", stage.stage, 0, "stage " + std::to_string(stage.stage)));
  for (std::size_t i = 0; i < stage.events.size(); ++i) {
    const sim::TimelineEvent& event = stage.events[i];
    if (i == 0 || stage.events[i - 1].stream != event.stream) {
      events.push_back(metadata("thread_name", stage.stage, static_cast<int>(event.stream),
                                sim::name_of(event.stream)));
    }
    events.push_back(event_json(event, stage.stage));
  }
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string trace_json(const sim::Timeline& timeline, const sim::Run& run,
                       const Provenance& provenance) {
  std::vector<Json> events;
  for (const sim::StageTimeline& stage : timeline.stages) add_stage(events, stage);
  const Json about{{"model", run.model.name},
                   {"device", run.cluster.device.id},
                   {"strategy", strategy_text(run.strategy)},
                   {"step_time_s", timeline.step_time.value()},
                   {"busiest_stage", timeline.busiest},
                   {"database", provenance.database}};
  std::string text =
      "{\"displayTimeUnit\": \"ms\",\n\"otherData\": " + line(about) + ",\n\"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i)
    text += line(events[i]) + (i + 1 < events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

}  // namespace llmsim::reports
