#include "reports/step_detail.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "reports/explain.h"
#include "reports/json.h"
#include "sim/base/dtype.h"
#include "sim/model/tower.h"

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

constexpr const char* kRest = "the rest";

struct Ending {
  std::string_view ending;
  const char* part;
};

// The first that a term ends with.
constexpr std::array kParts{Ending{"head_and_loss", "GEMMs"},
                            Ending{"recompute", "recomputation"},
                            Ending{"gemm", "GEMMs"},
                            Ending{"attention", "attention"},
                            Ending{"memory_bound", "memory-bound kernels"},
                            Ending{"embedding", "memory-bound kernels"},
                            Ending{"gradient_copies", "memory-bound kernels"},
                            Ending{"optimizer", "memory-bound kernels"},
                            Ending{"offload_exposed", "host"},
                            Ending{"exposed", "communication"},
                            Ending{"contention", "communication"},
                            Ending{"bubble", "pipeline bubble"},
                            Ending{"launch_wait", "host"},
                            Ending{"host", "host"},
                            Ending{"straggler", "slowest device"}};

const char* part_of(std::string_view term) {
  const auto found = std::ranges::find_if(
      kParts, [&](const Ending& known) { return term.ends_with(known.ending); });
  return found == kParts.end() ? kRest : found->part;
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
    json[sim::name_of(what)] = explained_json(what, detail.run);
  json["facts"] = list_json(detail.run.facts, fact_json);
  return json;
}

namespace {

// Null without a tower that runs.
const char* name_of_towers(const sim::Transformer& model) {
  const bool sees = model.vision && model.vision->tokens > 0,
             hears = model.audio && model.audio->tokens > 0;
  return sees && hears ? "towers" : sees ? "image tower" : hears ? "audio tower" : nullptr;
}

}  // namespace

std::vector<StepPart> step_parts(const sim::Prediction& prediction) {
  std::vector<StepPart> parts;
  for (const sim::TimeTerm& term : prediction.breakdown) {
    const char* const tower =
        std::string_view(term.name) == "embedding" ? name_of_towers(prediction.run.model) : nullptr;
    const char* const name = tower ? tower : part_of(term.name);
    const auto known = std::ranges::find_if(
        parts, [&](const StepPart& part) { return std::string_view(part.name) == name; });
    if (known == parts.end())
      parts.push_back({name, term.time});
    else
      known->time += term.time;
  }
  std::erase_if(parts, [](const StepPart& part) { return part.time <= sim::Seconds(0.0); });
  std::ranges::stable_sort(
      parts, [](const StepPart& one, const StepPart& other) { return one.time > other.time; });
  return parts;
}

std::vector<std::string> step_bars(const sim::Prediction& prediction, int width) {
  std::vector<std::string> lines;
  for (const StepPart& part : step_parts(prediction)) {
    const double share = part.time / prediction.step_time;
    if (share < 0.01) continue;
    lines.push_back(fmt::format("{:<20}  {:3} %  {}", part.name, std::lround(share * 100.0),
                                std::string(std::lround(share * width), '#')));
  }
  return lines;
}

Table step_bars_table(const sim::Prediction& prediction) {
  constexpr int kWidth = 50;
  Table table("What a step waits for", {as_text("part", "")});
  for (const std::string& line : step_bars(prediction, kWidth)) table.add_row({line});
  return table;
}

}  // namespace llmsim::reports
