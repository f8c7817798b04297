#include "sim/schedule/timeline.h"

#include <algorithm>
#include <array>
#include <span>

#include "sim/schedule/pass_operators.h"
#include "sim/schedule/stage_timeline.h"
#include "sim/schedule/step.h"

namespace llmsim::sim {
namespace {

constexpr std::array<const char*, kNumStreams> kStreams{"compute",          "operators",       "tensor parallel",
                                                        "context parallel", "expert parallel", "sends forward",
                                                        "sends backward",   "data parallel",   "host copies"};

}  // namespace

const char* name_of(Stream stream) { return kStreams[static_cast<std::size_t>(stream)]; }

Timeline step_timeline(const Run& run, const LayerPrices& prices, const TimelineOptions& options) {
  const StepSimulation simulation(run, prices);
  const PassOperators operators(run);
  const auto events = pipeline_events(simulation.shape(), simulation.chunks());
  Timeline timeline{.stages = {}, .busiest = simulation.busiest(), .step_time = simulation.terms().total()};
  std::vector<StageTimelineWriter> writers;
  std::vector<Seconds> ends;
  for (std::size_t stage = 0; stage < events.size(); ++stage) {
    writers.emplace_back(run, prices, simulation, operators, options, static_cast<int>(stage));
    ends.push_back(writers.back().write_passes(events[stage]));
  }
  // Stages that update without waiting for one another have the longest of their own spans.
  const bool alone = updates_unsynchronised(run.strategy.pipeline_schedule);
  const auto start = [&](std::size_t stage) { return alone ? events[stage].front().start : Seconds(0.0); };
  Seconds longest;
  for (std::size_t stage = 0; stage < events.size(); ++stage) longest = std::max(longest, ends[stage] - start(stage));
  for (std::size_t stage = 0; stage < events.size(); ++stage) {
    writers[stage].write_end_of_step(start(stage) + longest);
    timeline.stages.push_back({.stage = static_cast<int>(stage), .events = writers[stage].sorted_events()});
  }
  return timeline;
}

}  // namespace llmsim::sim
