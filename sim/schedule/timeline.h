// A step as events on every stage and stream: the times that step.h sums, as a drawing.
//
// It is the same simulation (StepSimulation).  Every second of a stage between the start of the
// step and its end is one event on its compute stream: a pass of a micro-batch, a bubble, or one of
// the things after the last pass.  Such an event has the terms that its time is made of; those of
// the busiest stage add up to the breakdown of the step.  What a pass waits for is at its end, kind
// by kind, and events on the other streams stand where that is:
//
//   compute        [ pass: compute, as long as ...         | tp | ep | data ]
//   tensor              [ its collectives: hidden, exposed ]
//   expert                                                 [ exposed ]
//   data             [ gather or reduction: hidden,          exposed ]
//
// `time` of a communication event is that of all its messages if nothing were hidden, `exposed`
// what the pass waits for.  The first forward pass of a chunk that gathers updated weights, and its
// last backward pass that sends gradients, are longer by what they expose of it; other stages do
// not see that, as in step.h.  Sends between stages have no exposed time: waiting for a stage is
// bubble.  The operators of two joined passes are merged by how far either pass has come, with the
// exposed share of their all-to-alls and the time by which these slow compute down.  Sends of one
// direction that are in flight together are drawn one after the other.
//
// A message carries the result of a pass to the pass of the same micro-batch through the next model
// chunk, forward or backward.  It leaves where the first of these ends and arrives in the second.
//
// After the last pass of a stage, and a bubble where other stages end later, come the wait for the
// slowest device, closing collectives and the norm of the gradients, the update (the longest of all
// stages), and the host.
//
// The drawing is ours; what it draws has the sources of step.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/passes.h"

namespace llmsim::sim {

enum class Stream {
  Compute,
  Operators,
  Tensor,
  Context,
  Expert,
  PipelineForward,
  PipelineBackward,
  Data,
  Host
};
inline constexpr int kNumStreams = static_cast<int>(Stream::Host) + 1;

// "compute", "operators", "tensor parallel", ...
const char* name_of(Stream stream);

struct TimelineEvent {
  Stream stream = Stream::Compute;
  std::string name;           // "F3", "B3 chunk 1", "W3", "F3 & B1", "bubble", "optimizer"
  const char* category = "";  // "forward", "backward", "data_gradient", ...
  Seconds start{};
  Seconds duration{};

  Terms terms{};  // Compute: what the duration is made of

  std::optional<Term> exposed_as{};  // communication: the term that its exposed time is part of
  Seconds time{};                    // of its messages, hidden or not
  Seconds exposed{};

  // Operators: what one computes, and moves through device memory.
  Flops flops{};
  Bytes moved{};
};

// One end of a message between stages.
struct MessageEnd {
  std::int64_t message = 0;  // its number: both ends have it
  bool arrives = false;
  bool gradients = false;  // goes backward, with gradients; else activations
  Seconds time{};          // in a pass on the compute stream; of what leaves, or at its end
};

struct StageTimeline {
  int stage = 0;
  std::vector<TimelineEvent> events;   // stream after stream, each in order and without overlaps
  std::vector<MessageEnd> messages{};  // of the passes that are drawn one by one
  // When the event begins that each pass of the stage is part of, in the order of the schedule.
  std::vector<Seconds> pass_starts{};
};

struct TimelineSummary {
  int busiest = 0;      // the stage whose terms are the step's
  Seconds step_time{};  // from the start of its first event to the end of its last
};

struct Timeline : TimelineSummary {
  std::vector<StageTimeline> stages{};
};

struct TimelineOptions {
  // Draw the passes of this many, all others of a stage between them as one event; 0: of all.
  int microbatches = 0;
  int operator_microbatches = 1;  // of these also the operators, one by one
};

// Gives each stage to `draw` before it makes the next one's events: a step of many micro-batches
// with all its operators has gigabytes of them.  Requires a run that breaks no rule.
void draw_timeline(const Run& run, const LayerPrices& prices, const TimelineOptions& options,
                   const std::function<void(const TimelineSummary&, const StageTimeline&)>& draw);

// All stages at once.
Timeline step_timeline(const Run& run, const LayerPrices& prices,
                       const TimelineOptions& options = {});

}  // namespace llmsim::sim
