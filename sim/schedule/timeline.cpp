#include "sim/schedule/timeline.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/schedule/pass_operators.h"
#include "sim/schedule/stage_work.h"
#include "sim/schedule/step.h"

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

// The passes of one stage as they were simulated, each with the terms that its time is made of and
// with what its messages take.

// Time on the compute stream: one pass, two that are joined, or several that are not shown one by
// one.
struct WorkSpan {
  std::string name;  // "F3", "B3 chunk 1", "W3", "F3 & B1"
  const char* category = "";
  std::span<const PassEvent> passes{};  // none of several
  Seconds start{};
  Seconds end{};
  Terms terms{};
  // If nothing were hidden, by the term that they are exposed as.
  std::array<Seconds, kNumTerms> messages{};

  Seconds& message(Term exposed_as) { return messages[static_cast<std::size_t>(exposed_as)]; }
  Seconds message(Term exposed_as) const { return messages[static_cast<std::size_t>(exposed_as)]; }
  void add(const WorkSpan& later);
};

void WorkSpan::add(const WorkSpan& later) {
  terms += later.terms;
  for (std::size_t i = 0; i < messages.size(); ++i) messages[i] += later.messages[i];
  end = later.end;
}

// "F3", "B3 chunk 1": of a layout with several chunks a stage, with the chunk.
std::string pass_name(const StageLayout& layout, const PipelinePass& pass) {
  const char* letter = pass.kind == PassKind::Forward          ? "F"
                       : pass.kind == PassKind::WeightGradient ? "W"
                                                               : "B";
  const std::string name = letter + std::to_string(pass.microbatch);
  return layout.chunks() > 1 ? name + " chunk " + std::to_string(pass.chunk) : name;
}

const char* category_of(PassKind kind) {
  switch (kind) {
    case PassKind::Forward: return "forward";
    case PassKind::Backward: return "backward";
    case PassKind::DataGradient: return "data_gradient";
    case PassKind::WeightGradient: return "weight_gradient";
  }
  return "";
}

bool makes_weights(PassKind kind) {
  return kind == PassKind::Backward || kind == PassKind::WeightGradient;
}

// Of one chunk, if nothing were hidden: messages of its passes to inner groups, by stream, and of
// its weights and gradients.
struct ChunkMessages {
  PassPrice forward, backward;
  Seconds gather;        // for a forward pass
  Seconds gather_again;  // for a backward pass
  Seconds reduce;
};

PassPrice forward_price(const Run& run, const LayerPrices& prices, const ModelChunk& part) {
  PassPrice pass;
  pass.add(mean_block(run, prices, part).forward, part.blocks);
  if (part.embedding) pass.add(prices.embedding.forward, 1.0);
  if (part.head) pass.add(prices.head.forward, 1.0);
  return pass;
}

PassPrice backward_price(const Run& run, const LayerPrices& prices, const ModelChunk& part) {
  const BlockPrice block = mean_block(run, prices, part);
  PassPrice pass;
  pass.add(block.backward, part.blocks);
  pass.add(block.recompute, run.strategy.recompute.blocks_of(part.blocks));
  if (part.embedding) pass.add(prices.embedding.backward, 1.0);
  if (part.head) pass.add(prices.head.recompute, 1.0), pass.add(prices.head.backward, 1.0);
  return pass;
}

std::vector<ChunkMessages> chunk_messages(const Run& run, const LayerPrices& prices,
                                          const StepSimulation& simulation, int stage) {
  std::vector<ChunkMessages> chunks;
  for (const ModelChunk& part : simulation.parts_of(stage)) {
    const DataParallelMessages shared = simulation.exchange().messages({part});
    const DataParallelMessages experts = simulation.exchange().expert_messages({part});
    chunks.push_back({.forward = forward_price(run, prices, part),
                      .backward = backward_price(run, prices, part),
                      .gather = shared.times.gather + experts.times.gather,
                      .gather_again = shared.again.time + experts.again.time,
                      .reduce = shared.times.reduce() + experts.times.reduce()});
  }
  return chunks;
}

// Of a chunk, the first forward pass.
bool is_first(std::span<const PassEvent> passes, std::size_t index) {
  const PipelinePass& pass = passes[index].pass;
  return pass.kind == PassKind::Forward &&
         std::none_of(passes.begin(), passes.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const PassEvent& before) { return before.pass.chunk == pass.chunk; });
}

// The last pass after which the gradients of a chunk's weights are complete.
bool is_last(std::span<const PassEvent> passes, std::size_t index) {
  const PipelinePass& pass = passes[index].pass;
  if (!makes_weights(pass.kind)) return false;
  return std::none_of(passes.begin() + static_cast<std::ptrdiff_t>(index) + 1, passes.end(),
                      [&](const PassEvent& after) {
                        return after.pass.chunk == pass.chunk && makes_weights(after.pass.kind);
                      });
}

Terms pass_terms(const PartPasses& part, PassKind kind, bool first, bool last) {
  Terms terms;
  switch (kind) {
    case PassKind::Forward: return first ? part.first_forward : part.forward;
    case PassKind::Backward: terms = part.backward; break;
    case PassKind::DataGradient: terms = part.backward - part.weights; break;
    case PassKind::WeightGradient: terms = part.weights; break;
  }
  if (last) terms += part.last_backward - part.backward;
  return terms;
}

void add_messages(WorkSpan& work, const ChunkMessages& chunk,
                  const DataParallelCollectives& exchange, PassKind kind, bool first, bool last) {
  const bool forward = kind == PassKind::Forward, weights = kind == PassKind::WeightGradient;
  if (!weights) {
    const PassPrice& price = forward ? chunk.forward : chunk.backward;
    work.message(Term::TensorExposed) += time_of(price.tensor_collectives);
    work.message(Term::ContextExposed) += time_of(price.context_collectives);
    work.message(Term::ExpertExposed) +=
        time_of(price.expert_collectives) + time_of(price.expert_tensor_collectives);
  }
  const bool gathers = exchange.shards_weights() || (first && exchange.shards_optimizer());
  const bool reduces = !forward && (last || (!weights && exchange.reduces_every_microbatch()));
  if (forward && gathers) work.message(Term::GatherExposed) += chunk.gather;
  if (!forward && !weights) work.message(Term::GatherExposed) += chunk.gather_again;
  if (reduces) work.message(Term::ReduceExposed) += chunk.reduce;
}

// Of the pass at `index`, and of the next one where they are joined.
WorkSpan span_of(const StepSimulation& simulation, const std::vector<ChunkMessages>& chunks,
                 int stage, std::span<const PassEvent> passes, std::size_t index) {
  const StageLayout layout = simulation.shape().layout();
  const PipelinePass& pass = passes[index].pass;
  const std::size_t count = pass.joins_next ? 2 : 1;
  WorkSpan work{.name = pass_name(layout, pass),
                .category = category_of(pass.kind),
                .passes = passes.subspan(index, count)};
  for (std::size_t i = index; i < index + count; ++i) {
    const PipelinePass& one = passes[i].pass;
    const bool first = is_first(passes, i), last = is_last(passes, i);
    work.terms += pass_terms(simulation.passes(stage, one.chunk), one.kind, first, last);
    add_messages(work, chunks[static_cast<std::size_t>(one.chunk)], simulation.exchange(), one.kind,
                 first, last);
  }
  if (count == 2) {
    const PipelinePass& other = passes[index + 1].pass;
    work.terms += simulation.joined_terms(simulation.times(stage, pass.chunk),
                                          simulation.times(stage, other.chunk));
    work.name += " & " + pass_name(layout, other);
    work.category = "forward_and_backward";
  }
  return work;
}

// All `passes` of a stage, which must outlive the result.  Those of micro-batches from `shown` on
// (0: of none) that follow one another are one span, the bubbles between them with it.  Gathers and
// reductions of weights of this stage make a pass longer than it was simulated, and the later ones
// later.
std::vector<WorkSpan> work_spans(const Run& run, const LayerPrices& prices,
                                 const StepSimulation& simulation, int stage,
                                 std::span<const PassEvent> passes, int shown) {
  const std::vector<ChunkMessages> chunks = chunk_messages(run, prices, simulation, stage);
  const auto is_shown = [shown](const PassEvent& event) {
    return shown == 0 || event.pass.microbatch < shown;
  };
  std::vector<WorkSpan> spans;
  // What gathers and reductions of this stage have taken beyond the simulated passes.
  Seconds shift;
  for (std::size_t i = 0; i < passes.size();) {
    WorkSpan work = span_of(simulation, chunks, stage, passes, i);
    const PassEvent& simulated = passes[i];
    work.start = simulated.start + shift;
    shift += work.terms.total() - (simulated.end - simulated.start);
    work.end = simulated.end + shift;
    i += work.passes.size();
    if (std::any_of(work.passes.begin(), work.passes.end(), is_shown)) {
      spans.push_back(std::move(work));
      continue;
    }
    if (spans.empty() || !spans.back().passes.empty()) {
      spans.push_back({.name = "other micro-batches", .category = "passes", .start = work.start});
    } else {
      spans.back().terms[Term::PipelineBubble] += work.start - spans.back().end;
    }
    spans.back().add(work);
  }
  return spans;
}

// Drawing.

// What the events of one stage are drawn from.
struct Stage {
  const Run& run;
  const StepSimulation& simulation;
  const PassOperators& operators;
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

void draw_bubble(Events& events, Seconds start, Seconds end) {
  if (end <= start) return;
  TimelineEvent bubble{.stream = Stream::Compute,
                       .name = "bubble",
                       .category = "bubble",
                       .start = start,
                       .duration = end - start};
  bubble.terms[Term::PipelineBubble] = bubble.duration;
  events.push_back(bubble);
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

// Moves `start` to its end.
void draw_operator(Events& events, const PassOperator& op, const std::string& pass, Seconds& start,
                   Seconds end) {
  events.push_back({.stream = Stream::Operators,
                    .name = pass +
                            (op.layer ? "L" + std::to_string(*op.layer) + " " : std::string()) +
                            op.label + (op.recomputed ? " again" : ""),
                    .category = name_of(op.kind),
                    .start = std::min(start, end),
                    .duration = std::max(Seconds(0.0), std::min(op.time, end - start)),
                    .time = op.message,
                    .flops = op.flops,
                    .moved = op.moved});
  start += op.time;
}

void draw_operators(Events& events, const Stage& stage, const WorkSpan& work) {
  const auto drawn = [&](const PassEvent& event) {
    return event.pass.microbatch < stage.options.operator_microbatches;
  };
  if (std::none_of(work.passes.begin(), work.passes.end(), drawn)) return;
  const std::vector<ModelChunk> parts = stage.simulation.parts_of(stage.number);
  const auto operators_of = [&](const PipelinePass& pass) {
    return stage.operators.of(parts[static_cast<std::size_t>(pass.chunk)], pass.kind);
  };
  Seconds start = work.start;
  const PipelinePass& pass = work.passes.front().pass;
  if (work.passes.size() == 1) {
    for (const PassOperator& op : operators_of(pass))
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
    events.push_back({.stream = Stream::Compute,
                      .name = work.name,
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

// From when the stage is through to the end of the step; `start` is when the passes that all wait
// for have ended.
void draw_end_of_step(Events& events, const Stage& stage, Seconds through, Seconds start) {
  draw_bubble(events, through, start);
  Seconds clock = std::max(through, start);
  const auto draw = [&](const std::string& name, Term term, Stream stream, Seconds time) {
    if (time <= Seconds(0.0)) return;
    TimelineEvent event{.stream = Stream::Compute,
                        .name = name,
                        .category = "end_of_step",
                        .start = clock,
                        .duration = time};
    event.terms[term] = time;
    events.push_back(event);
    if (stream != Stream::Compute) {
      events.push_back({.stream = stream,
                        .name = name,
                        .category = "communication",
                        .start = clock,
                        .duration = time,
                        .exposed_as = term,
                        .time = time,
                        .exposed = time});
    }
    clock += time;
  };
  const Terms& step = stage.simulation.terms();
  draw("wait for the slowest device", Term::Straggler, Stream::Compute, step[Term::Straggler]);
  for (const RepeatedCollective& closing :
       closing_collectives(stage.run, stage.simulation.parts_of(stage.number))) {
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
  const TimelineSummary summary{.busiest = simulation.busiest(),
                                .step_time = simulation.terms().total()};
  const PassOperators operators(run);
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
    longest = std::max(longest, works.back().back().end - start_of(stage));
  }
  for (const Stage& stage : stages) {
    const std::vector<WorkSpan>& of_stage = works[static_cast<std::size_t>(stage.number)];
    const Seconds start = start_of(stage);
    Events events = drawn_passes(stage, of_stage, start);
    draw_end_of_step(events, stage, of_stage.back().end, start + longest);
    std::stable_sort(events.begin(), events.end(),
                     [](const TimelineEvent& a, const TimelineEvent& b) {
                       return a.stream != b.stream ? a.stream < b.stream : a.start < b.start;
                     });
    draw(summary, {.stage = stage.number, .events = std::move(events)});
  }
}

Timeline step_timeline(const Run& run, const LayerPrices& prices, const TimelineOptions& options) {
  Timeline timeline;
  draw_timeline(run, prices, options,
                [&](const TimelineSummary& summary, const StageTimeline& stage) {
                  timeline.stages.push_back(stage);
                  timeline.busiest = summary.busiest, timeline.step_time = summary.step_time;
                });
  return timeline;
}

}  // namespace llmsim::sim
