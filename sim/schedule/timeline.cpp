#include "sim/schedule/timeline.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/schedule/pass_operators.h"
#include "sim/schedule/stage_work.h"
#include "sim/schedule/step.h"
#include "sim/schedule/work_spans.h"

namespace llmsim::sim {
namespace {

constexpr std::array<const char*, kNumStreams> kStreams{
    "compute",       "operators",      "tensor parallel", "context parallel", "expert parallel",
    "sends forward", "sends backward", "data parallel",   "host copies"};

// What a pass can wait for, in the order in which it is drawn.
struct ExposedKind {
  Term term;
  Stream stream;
  const char* name;
};
constexpr std::array<ExposedKind, 7> kExposedKinds{
    {{Term::TensorExposed, Stream::Tensor, "tensor collectives"},
     {Term::ContextExposed, Stream::Context, "context collectives"},
     {Term::ExpertExposed, Stream::Expert, "all-to-alls"},
     {Term::TransferExposed, Stream::PipelineForward, "wait for stages"},
     {Term::GatherExposed, Stream::Data, "gather weights"},
     {Term::ReduceExposed, Stream::Data, "reduce gradients"},
     {Term::OffloadExposed, Stream::Host, "host copies"}}};

// Shorter messages are rounding.
constexpr Seconds kNoTime{1e-13};

// Drawing.

// What the events of one stage are drawn from.
struct Stage {
  const Run& run;
  const StepSimulation& simulation;
  const LayerPrices& operators;
  const TimelineOptions& options;
  int number;
  StageLayout layout;
  std::vector<PassEvent> passes;  // as they were simulated
};

using Events = std::vector<TimelineEvent>;

// The exposed parts fill the end of the work, one after the other; what is hidden of each lies
// before its own.  Gathers of weights come before the reductions of a pass that has both.
void draw_communication(Events& events, const WorkSpan& work) {
  Seconds exposed;
  for (const ExposedKind& kind : kExposedKinds) exposed += work.terms[kind.term];
  const bool both = work.message(Term::GatherExposed) > Seconds(0.0) &&
                    work.message(Term::ReduceExposed) > Seconds(0.0);
  Seconds slot = work.end - exposed, gathered = work.start;
  for (const ExposedKind& kind : kExposedKinds) {
    const Seconds shown = work.terms[kind.term], time = std::max(shown, work.message(kind.term));
    slot += shown;
    if (time <= kNoTime) continue;
    const bool early = both && kind.term == Term::GatherExposed,
               late = both && kind.term == Term::ReduceExposed;
    const Seconds end = early ? std::min(slot, work.start + time) : slot;
    const Seconds start = std::max(late ? gathered : work.start, end - time);
    if (early) gathered = end;
    events.push_back({.stream = kind.stream,
                      .name = work.name + " " + kind.name,
                      .category = "communication",
                      .start = start,
                      .duration = std::max(Seconds(0.0), end - start),
                      .exposed_as = kind.term,
                      .time = time,
                      .exposed = shown});
  }
}

// On the compute stream, all of it one component of the time.
void draw_compute(Events& events, const std::string& name, const char* category, Seconds start,
                  Seconds time, Term term) {
  if (time <= Seconds(0.0)) return;
  TimelineEvent& event = events.emplace_back(
      TimelineEvent{.name = name, .category = category, .start = start, .duration = time});
  event.terms[term] = time;
}

void draw_bubble(Events& events, Seconds start, Seconds end) {
  draw_compute(events, "bubble", "bubble", start, end - start, Term::PipelineBubble);
}

// `sent`: when the last send has ended, forward and backward.
void draw_send(Events& events, const Stage& stage, const PipelinePass& pass, Seconds start,
               std::array<Seconds, 2>& sent) {
  if (pass.kind == PassKind::WeightGradient) return;
  const bool backward = pass.backward();
  const std::optional<int> to = stage.layout.next_stage(stage.number, pass.chunk, backward);
  if (!to || stage.run.framework.blocking_transfers) return;
  Seconds& last = sent[backward ? 1 : 0];
  const PipelineShape& shape = stage.simulation.shape();
  const Seconds begin = std::max(last, start),
                time = backward ? shape.backward_transfer : shape.forward_transfer;
  events.push_back({.stream = backward ? Stream::PipelineBackward : Stream::PipelineForward,
                    .name = pass_name(stage.layout, pass) + " to stage " + std::to_string(*to),
                    .category = "send",
                    .start = begin,
                    .duration = time,
                    .time = time});
  last = begin + time;
}

// Messages between stages.

// The ends of each stage's messages, of all passes that are drawn whatever is beside them.  A
// message has the number of its micro-batch, of the chunk of the model it goes to, and of its
// direction.
std::vector<std::vector<MessageEnd>> message_ends(const std::vector<Stage>& stages,
                                                  const std::vector<std::vector<WorkSpan>>& works) {
  struct Interval {
    Seconds start{}, end{};
  };
  const StageLayout& layout = stages.front().layout;
  std::vector<std::array<Interval, 2>> passes(  // at both ends of a message
      2 * static_cast<std::size_t>(layout.model_chunks()) *
      static_cast<std::size_t>(layout.num_microbatches));
  std::vector<std::vector<MessageEnd>> ends(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const WorkSpan& work : works[s]) {
      for (const PassEvent& event : work.passes) {
        const PipelinePass& pass = event.pass;
        if (pass.kind == PassKind::WeightGradient ||
            !is_shown(pass, stages[s].options.microbatches))
          continue;
        const bool backward = pass.backward();
        const int stage = stages[s].number, chunk = layout.place(stage, pass.chunk);
        const auto add = [&](int to_chunk, bool arrives) {
          const std::int64_t before = std::int64_t{pass.microbatch} * layout.model_chunks();
          const std::int64_t message = 2 * (before + to_chunk) + (backward ? 1 : 0);
          ends[s].push_back({.message = message, .arrives = arrives, .gradients = backward});
          passes[static_cast<std::size_t>(message)][arrives ? 1 : 0] = {work.start, work.end};
        };
        if (layout.next_stage(stage, pass.chunk, backward)) add(chunk + (backward ? -1 : 1), false);
        // What it needs comes from where the pass the other way would send to.
        if (layout.next_stage(stage, pass.chunk, !backward)) add(chunk, true);
      }
    }
  }
  // A pass may be longer than it was simulated, which passes of other stages do not see: what is
  // made after it was needed, leaves and arrives in the middle of the pass that needs it.
  for (std::vector<MessageEnd>& of_stage : ends) {
    for (MessageEnd& end : of_stage) {
      const auto& [sent, received] = passes[static_cast<std::size_t>(end.message)];
      const Seconds middle = 0.5 * (received.start + received.end),
                    departure = std::clamp(middle, sent.start, sent.end);
      end.time = end.arrives ? std::clamp(departure, received.start, middle) : departure;
    }
  }
  return ends;
}

// Moves `start` to its end.
void draw_operator(Events& events, const PricedOperator& op, const std::string& pass,
                   Seconds& start, Seconds end) {
  events.push_back({.stream = Stream::Operators,
                    .name = pass +
                            (op.layer ? "L" + std::to_string(*op.layer) + " " : std::string()) +
                            op.label + (op.recomputed ? " again" : ""),
                    .category = name_of(op.kind),
                    .start = std::min(start, end),
                    .duration = std::max(Seconds(0.0), std::min(op.time, end - start)),
                    .time = op.message_time,
                    .flops = op.flops,
                    .moved = op.moved});
  start += op.time;
}

void draw_operators(Events& events, const Stage& stage, const WorkSpan& work) {
  const auto drawn = [&](const PassEvent& event) {
    return event.pass.microbatch < stage.options.operator_microbatches;
  };
  if (std::none_of(work.passes.begin(), work.passes.end(), drawn)) return;
  const std::vector<ModelChunk> chunks = stage.simulation.chunks_of(stage.number);
  const auto operators_of = [&](const PipelinePass& pass) {
    return pass_operators(stage.run, stage.operators, chunks[static_cast<std::size_t>(pass.chunk)],
                          pass.kind);
  };
  Seconds start = work.start;
  const PipelinePass& pass = work.passes.front().pass;
  if (work.passes.size() == 1) {
    for (const PricedOperator& op : operators_of(pass))
      draw_operator(events, op, "", start, work.end);
    return;
  }
  const PipelinePass& other = work.passes.back().pass;
  for (const JoinedOperator& op :
       joined_operators(operators_of(pass), operators_of(other),
                        stage.simulation.times(stage.number, pass.chunk),
                        stage.simulation.times(stage.number, other.chunk),
                        stage.simulation.shape().all_to_all_loss)) {
    draw_operator(events, op.op, pass_name(stage.layout, op.backward ? other : pass) + " ", start,
                  work.end);
  }
}

// Passes, bubbles between them from `start` on, sends and operators.
Events drawn_passes(const Stage& stage, const std::vector<WorkSpan>& works, Seconds start) {
  Events events;
  std::array<Seconds, 2> sent{};
  for (const WorkSpan& work : works) {
    draw_bubble(events, start, work.start);
    events.push_back({.name = work.name,
                      .category = work.category,
                      .start = work.start,
                      .duration = work.end - work.start,
                      .terms = work.terms});
    draw_communication(events, work);
    for (const PassEvent& event : work.passes) draw_send(events, stage, event.pass, work.end, sent);
    draw_operators(events, stage, work);
    start = work.end;
  }
  return events;
}

// From when the stage is through to the end of the step; at `start` its wait ends for the stage
// whose gradients are the last to be summed.
void draw_end_of_step(Events& events, const Stage& stage, Seconds through, Seconds start) {
  draw_bubble(events, through, start);
  Seconds clock = std::max(through, start);
  const auto draw = [&](const std::string& name, Term term, Stream stream, Seconds time) {
    draw_compute(events, name, "end_of_step", clock, time, term);
    if (stream != Stream::Compute && time > Seconds(0.0)) {
      events.push_back({.stream = stream,
                        .name = name,
                        .category = "communication",
                        .start = clock,
                        .duration = time,
                        .exposed_as = term,
                        .time = time,
                        .exposed = time});
    }
    clock += std::max(Seconds(0.0), time);
  };
  const Terms& step = stage.simulation.terms();
  draw("wait for the slowest device", Term::Straggler, Stream::Compute, step[Term::Straggler]);
  for (const RepeatedCollective& closing :
       closing_collectives(stage.run, stage.simulation.chunks_of(stage.number))) {
    const Term term = closing_term(closing);
    const std::string name = std::string(name_of(closing.kind)) + " over " + name_of(closing.group);
    draw(name, term, term == Term::TensorExposed ? Stream::Tensor : Stream::Data,
         repeated_time(stage.run, closing));
  }
  draw("gradient norm", Term::ReduceExposed, Stream::Data, stage.simulation.exchange().norm_time());
  draw("optimizer", Term::Optimizer, Stream::Compute, step[Term::Optimizer]);
  draw("host", Term::Host, Stream::Compute, step[Term::Host]);
}

}  // namespace

const char* name_of(Stream stream) { return kStreams[static_cast<std::size_t>(stream)]; }

void draw_timeline(const Run& run, const LayerPrices& prices, const TimelineOptions& options,
                   const std::function<void(const TimelineSummary&, const StageTimeline&)>& draw) {
  const StepSimulation simulation(run, prices);
  const TimelineSummary summary{simulation.busiest(), simulation.terms().total()};
  const LayerPrices operators = layers_with_operators(run);
  std::vector<Stage> stages;
  for (std::vector<PassEvent>& passes : pipeline_events(simulation.shape(), simulation.chunks())) {
    const int stage = static_cast<int>(stages.size());
    stages.push_back({run, simulation, operators, options, stage, simulation.shape().layout(),
                      std::move(passes)});
  }
  // Stages that update without waiting for one another have the longest of their own spans.
  const bool alone = updates_unsynchronised(run.strategy.pipeline_schedule);
  const auto start_of = [&](const Stage& stage) {
    return alone ? stage.passes.front().start : Seconds(0.0);
  };
  std::vector<std::vector<WorkSpan>> works;
  Seconds longest;
  for (const Stage& stage : stages) {
    works.push_back(
        work_spans(run, prices, simulation, stage.number, stage.passes, options.microbatches));
    longest = std::max(
        longest, works.back().back().end - start_of(stage) + simulation.closing_time(stage.number));
  }
  std::vector<std::vector<MessageEnd>> messages = message_ends(stages, works);
  for (const Stage& stage : stages) {
    const std::vector<WorkSpan>& of_stage = works[static_cast<std::size_t>(stage.number)];
    const Seconds start = start_of(stage);
    Events events = drawn_passes(stage, of_stage, start);
    draw_end_of_step(events, stage, of_stage.back().end,
                     start + longest - simulation.closing_time(stage.number));
    std::stable_sort(events.begin(), events.end(),
                     [](const TimelineEvent& a, const TimelineEvent& b) {
                       return a.stream != b.stream ? a.stream < b.stream : a.start < b.start;
                     });
    std::vector<Seconds> starts;
    for (const WorkSpan& work : of_stage) starts.insert(starts.end(), work.covered, work.start);
    draw(summary, {.stage = stage.number,
                   .events = std::move(events),
                   .messages = std::move(messages[static_cast<std::size_t>(stage.number)]),
                   .pass_starts = std::move(starts)});
  }
}

Timeline step_timeline(const Run& run, const LayerPrices& prices, const TimelineOptions& options) {
  Timeline timeline;
  draw_timeline(run, prices, options,
                [&](const TimelineSummary& summary, const StageTimeline& stage) {
                  static_cast<TimelineSummary&>(timeline) = summary;
                  timeline.stages.push_back(stage);
                });
  return timeline;
}

}  // namespace llmsim::sim
