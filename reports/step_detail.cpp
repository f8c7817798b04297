#include "reports/step_detail.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "reports/explain.h"
#include "reports/json.h"
#include "sim/base/dtype.h"

namespace llmsim::reports {
namespace {

constexpr std::int64_t kPasses = 1600;

// To the nanosecond, as traces have it.
double rounded(sim::Seconds time) {
  return static_cast<double>(std::llround(time.value() * 1e9)) / 1e9;
}

// One stream of a stage; an event is [name, category, start, duration, exposed time].
Json stream_json(const sim::StageTimeline& stage, sim::Stream stream) {
  Json events = Json::array();
  for (const sim::TimelineEvent& event : stage.events) {
    if (event.stream != stream) continue;
    events.push_back({event.name, event.category, rounded(event.start), rounded(event.duration),
                      rounded(event.exposed)});
  }
  return {{"stream", sim::name_of(stream)}, {"events", events}};
}

// Of the busiest stage all streams, of the others compute.
Json drawn_stage_json(const sim::StageTimeline& stage, bool busiest) {
  Json streams = Json::array();
  for (int i = 0; i < sim::kNumStreams; ++i) {
    const auto stream = static_cast<sim::Stream>(i);
    if (stream != sim::Stream::Compute && !busiest) continue;
    Json json = stream_json(stage, stream);
    if (!json["events"].empty()) streams.push_back(std::move(json));
  }
  return {{"stage", stage.stage}, {"streams", streams}};
}

Json timeline_json(const StepDetail& detail) {
  const auto stage_of = [&](const sim::StageTimeline& stage) {
    return drawn_stage_json(stage, stage.stage == detail.timeline.busiest);
  };
  return {{"step_time_s", detail.timeline.step_time.value()},
          {"busiest_stage", detail.timeline.busiest},
          {"drawn_microbatches", detail.drawn_microbatches},
          {"stages", list_json(detail.timeline.stages, stage_of)}};
}

Json roofline_json(const sim::Run& run) {
  const sim::Device& device = run.cluster.device;
  const sim::DType dtype = sim::matmul_dtype(run.strategy.precision);
  return {{"format", sim::name_of(dtype)},
          {"peak_flops_per_s", device.matrix_peak[static_cast<std::size_t>(dtype)].value()},
          {"memory_bytes_per_s", device.memory_bandwidth.value()},
          {"achieved_memory_bytes_per_s", device.achieved_bandwidth().value()}};
}

Json fact_json(const sim::Fact& fact) {
  return {{"key", fact.key},
          {"value", fact.value},
          {"evidence", name_of(fact.evidence)},
          {"source", fact.source}};
}

}  // namespace

StepDetail step_detail(const sim::Prediction& prediction) {
  const sim::Run& run = prediction.run;
  const sim::Strategy& s = run.strategy;
  const std::int64_t all =
      s.global_batch / std::max<std::int64_t>(1, std::int64_t{s.dp} * s.micro_batch);
  const std::int64_t passes_of_each = std::int64_t{2} * s.pp * std::max(1, s.virtual_stages);
  const std::int64_t drawn =
      std::min(all, std::max<std::int64_t>(2 * s.pp, kPasses / passes_of_each));
  const sim::TimelineOptions options{.microbatches = static_cast<int>(drawn),
                                     .operator_microbatches = 0};
  return {.run = run,
          .timeline = sim::step_timeline(run, sim::layer_prices(run), options),
          .drawn_microbatches = static_cast<int>(drawn)};
}

Json step_json(const StepDetail& detail) {
  Json json = {{"timeline", timeline_json(detail)}, {"roofline", roofline_json(detail.run)}};
  for (const Explained what :
       {Explained::Gemm, Explained::Attention, Explained::Collective, Explained::Memory})
    json[name_of(what)] = explained_json(what, detail.run);
  json["facts"] = list_json(detail.run.facts, fact_json);
  return json;
}

}  // namespace llmsim::reports
