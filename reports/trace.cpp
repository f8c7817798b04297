#include "reports/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reports/json.h"
#include "reports/result_text.h"
#include "sim/memory/footprint.h"

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

// The ends of an arrow are bound to the events under way on the compute stream.  One that ends
// where the message leaves is under way a nanosecond before.
Json message_json(const sim::MessageEnd& end, int process) {
  Json json{{"ph", end.arrives ? "f" : "s"},
            {"name", end.gradients ? "gradients" : "activations"},
            {"cat", "message"},
            {"id", end.message},
            {"pid", process},
            {"tid", static_cast<int>(sim::Stream::Compute)},
            {"ts", microseconds(nanoseconds(end.time) - (end.arrives ? 0 : 1))}};
  if (end.arrives) json["bp"] = "e";
  return json;
}

// What is allocated from a time on.
struct MemorySample {
  sim::Seconds from{};
  sim::Bytes allocated{};
};

// Of a stage: idle from 0 on, each event with passes, the update, and idle at the end.
std::vector<MemorySample> memory_samples(const sim::MemoryCurve& curve,
                                         const sim::StageTimeline& stage) {
  sim::Seconds update, end;
  for (const sim::TimelineEvent& event : stage.events) {
    if (event.stream != sim::Stream::Compute) continue;
    end = std::max(end, event.start + event.duration);
    update = event.terms[sim::Term::Optimizer] > sim::Seconds(0.0) ? event.start : update;
  }
  if (update <= sim::Seconds(0.0)) update = end;
  std::vector<MemorySample> samples{{sim::Seconds(0.0), curve.points.front().allocated}};
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    const sim::MemoryPoint& point = curve.points[i];
    const bool last = i + 1 == curve.points.size();
    const sim::Seconds from = point.pass ? stage.pass_starts[static_cast<std::size_t>(*point.pass)]
                              : last     ? end
                                         : update;
    if (samples.size() > 1 && samples.back().from == from)
      samples.back().allocated = std::max(samples.back().allocated, point.allocated);
    else
      samples.push_back({from, point.allocated});
  }
  return samples;
}

Json sample_json(const MemorySample& sample, int process) {
  return {{"ph", "C"},
          {"name", "memory"},
          {"pid", process},
          {"tid", 0},
          {"ts", microseconds(nanoseconds(sample.from))},
          {"args", {{"allocated_bytes", sample.allocated.value()}}}};
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of one stage, each behind the end of the line before it.
std::string stage_lines(const sim::StageTimeline& stage, const sim::MemoryCurve& memory,
                        bool first) {
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
  for (const sim::MessageEnd& end : stage.messages)
    text += ",\n" + line(message_json(end, stage.stage));
  for (const MemorySample& sample : memory_samples(memory, stage))
    text += ",\n" + line(sample_json(sample, stage.stage));
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
                       put(stage_lines(stage, sim::memory_curve(run, prices, stage.stage),
                                       std::exchange(first, false)));
                     });
  put("\n]}\n");
}

}  // namespace llmsim::reports
