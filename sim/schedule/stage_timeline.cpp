#include "sim/schedule/stage_timeline.h"

#include <algorithm>
#include <utility>

#include "sim/schedule/stage_work.h"

namespace llmsim::sim {
namespace {

// What a pass can wait for, in the order in which it is drawn.
struct ExposedKind {
  Term term;
  Stream stream;
  const char* name;
};
constexpr std::array<ExposedKind, 6> kExposedKinds{{{Term::TensorExposed, Stream::Tensor, "tensor collectives"},
                                                    {Term::ContextExposed, Stream::Context, "context collectives"},
                                                    {Term::ExpertExposed, Stream::Expert, "all-to-alls"},
                                                    {Term::GatherExposed, Stream::Data, "gather weights"},
                                                    {Term::ReduceExposed, Stream::Data, "reduce gradients"},
                                                    {Term::OffloadExposed, Stream::Host, "host copies"}}};

// Shorter messages are rounding.
constexpr Seconds kNoTime{1e-13};

std::size_t place(Term term) { return static_cast<std::size_t>(term); }

Seconds time_of(const CollectiveTallies& tallies) {
  Seconds sum;
  for (const CollectiveTally& tally : tallies) sum += tally.time;
  return sum;
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

bool makes_weights(PassKind kind) { return kind == PassKind::Backward || kind == PassKind::WeightGradient; }

PassPrice forward_price(const Run& run, const LayerPrices& prices, const ModelPart& part) {
  PassPrice pass;
  pass.add(mean_block(run, prices, part).forward, part.blocks);
  if (part.embedding) pass.add(prices.embedding.forward, 1.0);
  if (part.head) pass.add(prices.head.forward, 1.0);
  return pass;
}

PassPrice backward_price(const Run& run, const LayerPrices& prices, const ModelPart& part) {
  const BlockPrice block = mean_block(run, prices, part);
  PassPrice pass;
  pass.add(block.backward, part.blocks);
  pass.add(block.recompute, run.strategy.recompute.blocks_of(part.blocks));
  if (part.embedding) pass.add(prices.embedding.backward, 1.0);
  if (part.head) pass.add(prices.head.recompute, 1.0), pass.add(prices.head.backward, 1.0);
  return pass;
}

// The operators of one of two joined passes, one after the other, each with its share of what is exposed of the pass's exchanges
// or of how much longer its compute takes.
class JoinedOperators {
 public:
  JoinedOperators(std::vector<PassOperator> operators, const JoinedPass& joined, Seconds pass, Seconds exchange)
      : operators_(std::move(operators)) {
    const double shown = exchange > Seconds(0.0) ? joined.exposed / exchange : 1.0;
    const double longer = pass > exchange ? 1.0 + joined.slowdown / (pass - exchange) : 1.0;
    for (PassOperator& op : operators_) {
      op.time *= op.exchange ? shown : longer;
      total_ += op.time;
    }
  }

  bool through() const { return place_ == operators_.size(); }
  // Share of their time; more than 1 when all are through.
  double progress() const { return through() ? 2.0 : total_ > Seconds(0.0) ? done_ / total_ : 0.0; }
  const PassOperator& next() {
    done_ += operators_[place_].time;
    return operators_[place_++];
  }

 private:
  std::vector<PassOperator> operators_;
  std::size_t place_ = 0;
  Seconds done_{}, total_{};
};

}  // namespace

void StageTimelineWriter::Work::add(const Work& other) {
  terms += other.terms;
  for (std::size_t i = 0; i < messages.size(); ++i) messages[i] += other.messages[i];
  end = other.end;
}

StageTimelineWriter::StageTimelineWriter(const Run& run, const LayerPrices& prices, const StepSimulation& simulation,
                                         const PassOperators& operators, const TimelineOptions& options, int stage)
    : run_(run),
      simulation_(simulation),
      operators_(operators),
      options_(options),
      stage_(stage),
      layout_(simulation.shape().layout()) {
  const DataExchange& exchange = simulation.exchange();
  for (const ModelPart& part : simulation.parts_of(stage)) {
    const ExchangeTimes shared = exchange.messages({part}).times, experts = exchange.expert_messages({part}).times;
    chunks_.push_back({.part = part,
                       .forward = forward_price(run, prices, part),
                       .backward = backward_price(run, prices, part),
                       .gather = shared.gather + experts.gather,
                       .reduce = shared.reduce() + experts.reduce()});
  }
}

Seconds StageTimelineWriter::write_passes(std::span<const PassEvent> passes) {
  Seconds shift;  // what gathers and reductions of this stage have taken beyond the simulated passes
  if (updates_unsynchronised(layout_.schedule)) clock_ = passes.front().start;
  for (std::size_t i = 0; i < passes.size();) {
    const std::size_t count = passes[i].pass.joins_next ? 2 : 1;
    Work work = work_of(passes, i, count);
    const Seconds simulated = passes[i].end - passes[i].start;
    work.start = passes[i].start + shift;
    shift += work.terms.total() - simulated;
    work.end = passes[i].end + shift;
    if (std::none_of(passes.begin() + static_cast<std::ptrdiff_t>(i), passes.begin() + static_cast<std::ptrdiff_t>(i + count),
                     [&](const PassEvent& event) { return is_shown(event.pass); })) {
      add_to_others(work);
    } else {
      write_others();
      write_bubble(clock_, work.start);
      write(work);
      for (std::size_t k = i; k < i + count; ++k) write_send(passes[k].pass, work.end);
      if (count == 1) write_operators(passes[i].pass, work.start, work.end);
      if (count == 2) write_joined_operators(passes[i].pass, passes[i + 1].pass, work.start, work.end);
    }
    clock_ = work.end;
    i += count;
  }
  write_others();
  return clock_;
}

StageTimelineWriter::Work StageTimelineWriter::work_of(std::span<const PassEvent> passes, std::size_t index,
                                                       std::size_t count) const {
  Work work{.name = pass_name(passes[index].pass), .category = category_of(passes[index].pass.kind)};
  for (std::size_t i = index; i < index + count; ++i) {
    const bool first = is_first(passes, i), last = is_last(passes, i);
    work.terms += pass_terms(passes[i].pass, first, last);
    add_messages(work, passes[i].pass, first, last);
  }
  if (count == 2) {
    work.terms += simulation_.joined_terms(times_of(passes[index].pass), times_of(passes[index + 1].pass));
    work.name += " & " + pass_name(passes[index + 1].pass);
    work.category = "forward_and_backward";
  }
  return work;
}

Terms StageTimelineWriter::pass_terms(const PipelinePass& pass, bool first, bool last) const {
  const PartPasses& part = simulation_.passes(stage_, pass.chunk);
  Terms terms;
  switch (pass.kind) {
    case PassKind::Forward: return first ? part.first_forward : part.forward;
    case PassKind::Backward: terms = part.backward; break;
    case PassKind::DataGradient: terms = part.backward - part.weights; break;
    case PassKind::WeightGradient: terms = part.weights; break;
  }
  if (last) terms += part.last_backward - part.backward;
  return terms;
}

void StageTimelineWriter::add_messages(Work& work, const PipelinePass& pass, bool first, bool last) const {
  const ChunkMessages& chunk = chunks_[static_cast<std::size_t>(pass.chunk)];
  const DataExchange& exchange = simulation_.exchange();
  const bool forward = pass.kind == PassKind::Forward, weights = pass.kind == PassKind::WeightGradient;
  if (!weights) {
    const PassPrice& price = forward ? chunk.forward : chunk.backward;
    work.messages[place(Term::TensorExposed)] += time_of(price.tensor_collectives);
    work.messages[place(Term::ContextExposed)] += time_of(price.context_collectives);
    work.messages[place(Term::ExpertExposed)] += time_of(price.expert_collectives) + time_of(price.expert_tensor_collectives);
  }
  const bool gathers =
      forward ? exchange.shards_weights() || (first && exchange.shards_optimizer()) : !weights && exchange.regathers_weights();
  const bool reduces = !forward && (last || (!weights && exchange.reduces_every_microbatch()));
  if (gathers) work.messages[place(Term::GatherExposed)] += chunk.gather;
  if (reduces) work.messages[place(Term::ReduceExposed)] += chunk.reduce;
}

std::string StageTimelineWriter::pass_name(const PipelinePass& pass) const {
  const char* letter = pass.kind == PassKind::Forward ? "F" : pass.kind == PassKind::WeightGradient ? "W" : "B";
  const std::string name = letter + std::to_string(pass.microbatch);
  return layout_.chunks() > 1 ? name + " chunk " + std::to_string(pass.chunk) : name;
}

// Of a chunk, the first forward pass.
bool StageTimelineWriter::is_first(std::span<const PassEvent> passes, std::size_t index) const {
  const PipelinePass& pass = passes[index].pass;
  if (pass.kind != PassKind::Forward) return false;
  return std::none_of(passes.begin(), passes.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const PassEvent& before) { return before.pass.chunk == pass.chunk; });
}

// The last pass after which the gradients of a chunk's weights are complete.
bool StageTimelineWriter::is_last(std::span<const PassEvent> passes, std::size_t index) const {
  const PipelinePass& pass = passes[index].pass;
  if (!makes_weights(pass.kind)) return false;
  return std::none_of(passes.begin() + static_cast<std::ptrdiff_t>(index) + 1, passes.end(),
                      [&](const PassEvent& after) { return after.pass.chunk == pass.chunk && makes_weights(after.pass.kind); });
}

bool StageTimelineWriter::is_shown(const PipelinePass& pass) const {
  return options_.microbatches == 0 || pass.microbatch < options_.microbatches;
}

void StageTimelineWriter::write(const Work& work) {
  events_.push_back({.stream = Stream::Compute,
                     .name = work.name,
                     .category = work.category,
                     .start = work.start,
                     .duration = work.end - work.start,
                     .terms = work.terms});
  write_communication(work);
}

// The exposed parts fill the end of the work, one after the other; what is hidden of each lies before its own.  Gathers of
// weights come before the reductions of a pass that has both.
void StageTimelineWriter::write_communication(const Work& work) {
  Seconds exposed;
  for (const ExposedKind& kind : kExposedKinds) exposed += work.terms[kind.term];
  const bool both =
      work.messages[place(Term::GatherExposed)] > Seconds(0.0) && work.messages[place(Term::ReduceExposed)] > Seconds(0.0);
  Seconds slot = work.end - exposed, gathered = work.start;
  for (const ExposedKind& kind : kExposedKinds) {
    const Seconds shown = work.terms[kind.term], time = std::max(shown, work.messages[place(kind.term)]);
    slot += shown;
    if (time <= kNoTime) continue;
    const bool early = both && kind.term == Term::GatherExposed, late = both && kind.term == Term::ReduceExposed;
    const Seconds end = early ? std::min(slot, work.start + time) : slot;
    const Seconds start = std::max(late ? gathered : work.start, end - time);
    if (early) gathered = end;
    events_.push_back({.stream = kind.stream,
                       .name = work.name + " " + kind.name,
                       .category = "communication",
                       .start = start,
                       .duration = std::max(Seconds(0.0), end - start),
                       .exposed_as = kind.term,
                       .time = time,
                       .exposed = shown});
  }
}

void StageTimelineWriter::write_bubble(Seconds start, Seconds end) {
  if (end <= start) return;
  TimelineEvent bubble{
      .stream = Stream::Compute, .name = "bubble", .category = "bubble", .start = start, .duration = end - start};
  bubble.terms[Term::PipelineBubble] = bubble.duration;
  events_.push_back(bubble);
}

void StageTimelineWriter::add_to_others(const Work& work) {
  if (has_others_) {
    others_.terms[Term::PipelineBubble] += work.start - clock_;
  } else {
    write_bubble(clock_, work.start);
    others_ = {.name = "other micro-batches", .category = "passes", .start = work.start};
  }
  has_others_ = true;
  others_.add(work);
}

void StageTimelineWriter::write_others() {
  if (has_others_) write(others_);
  has_others_ = false;
}

void StageTimelineWriter::write_send(const PipelinePass& pass, Seconds start) {
  if (pass.kind == PassKind::WeightGradient) return;
  const bool backward = pass.backward();
  const std::optional<int> to = layout_.next_stage(stage_, pass.chunk, backward);
  if (!to) return;
  Seconds& sent = sent_[backward ? 1 : 0];
  const PipelineShape& shape = simulation_.shape();
  const Seconds begin = std::max(sent, start), time = backward ? shape.backward_transfer : shape.forward_transfer;
  events_.push_back({.stream = backward ? Stream::PipelineBackward : Stream::PipelineForward,
                     .name = pass_name(pass) + " to stage " + std::to_string(*to),
                     .category = "send",
                     .start = begin,
                     .duration = time,
                     .time = time});
  sent = begin + time;
}

const ChunkTimes& StageTimelineWriter::times_of(const PipelinePass& pass) const {
  return simulation_.chunks()[static_cast<std::size_t>(layout_.part(stage_, pass.chunk))];
}

std::vector<PassOperator> StageTimelineWriter::operators_of(const PipelinePass& pass) const {
  return operators_.of(chunks_[static_cast<std::size_t>(pass.chunk)].part, pass.kind);
}

void StageTimelineWriter::write_operators(const PipelinePass& pass, Seconds start, Seconds end) {
  if (!has_operators(pass)) return;
  for (const PassOperator& op : operators_of(pass)) write_operator(op, "", start, end);
}

// The pass that is less far gives the next operator.
void StageTimelineWriter::write_joined_operators(const PipelinePass& forward, const PipelinePass& backward, Seconds start,
                                                 Seconds end) {
  if (!has_operators(forward) && !has_operators(backward)) return;
  const ChunkTimes &one = times_of(forward), &other = times_of(backward);
  const JoinedPasses joined = joined_passes(one, other, simulation_.shape().exchange_loss);
  JoinedOperators ahead(operators_of(forward), joined.forward, one.forward, one.forward_exchange);
  JoinedOperators back(operators_of(backward), joined.backward, other.backward, other.backward_exchange);
  while (!ahead.through() || !back.through()) {
    const bool first = ahead.progress() <= back.progress();
    write_operator((first ? ahead : back).next(), pass_name(first ? forward : backward) + " ", start, end);
  }
}

void StageTimelineWriter::write_operator(const PassOperator& op, const std::string& pass, Seconds& start, Seconds end) {
  TimelineEvent event{.stream = Stream::Operators,
                      .name = pass + (op.layer ? "L" + std::to_string(*op.layer) + " " : std::string()) + op.label +
                              (op.recomputed ? " again" : ""),
                      .category = name_of(op.kind),
                      .start = std::min(start, end),
                      .duration = std::max(Seconds(0.0), std::min(op.time, end - start)),
                      .time = op.message};
  start += op.time;
  events_.push_back(std::move(event));
}

void StageTimelineWriter::write_closing(const std::string& name, Term term, Stream stream, Seconds time) {
  if (time <= Seconds(0.0)) return;
  TimelineEvent event{.stream = Stream::Compute, .name = name, .category = "end_of_step", .start = clock_, .duration = time};
  event.terms[term] = time;
  events_.push_back(event);
  if (stream != Stream::Compute) {
    events_.push_back({.stream = stream,
                       .name = name,
                       .category = "communication",
                       .start = clock_,
                       .duration = time,
                       .exposed_as = term,
                       .time = time,
                       .exposed = time});
  }
  clock_ += time;
}

void StageTimelineWriter::write_end_of_step(Seconds start) {
  const Terms& step = simulation_.terms();
  write_bubble(clock_, start);
  clock_ = std::max(clock_, start);
  write_closing("wait for the slowest device", Term::Straggler, Stream::Compute, step[Term::Straggler]);
  for (const RepeatedCollective& closing : closing_collectives(run_, simulation_.parts_of(stage_))) {
    const Term term = closing_term(closing);
    const std::string name = std::string(name_of(closing.kind)) + " over " + name_of(closing.group);
    write_closing(name, term, term == Term::TensorExposed ? Stream::Tensor : Stream::Data, repeated_time(run_, closing));
  }
  write_closing("gradient norm", Term::ReduceExposed, Stream::Data, simulation_.exchange().norm_time());
  write_closing("optimizer", Term::Optimizer, Stream::Compute, step[Term::Optimizer]);
  write_closing("host", Term::Host, Stream::Compute, step[Term::Host]);
}

std::vector<TimelineEvent> StageTimelineWriter::sorted_events() {
  std::stable_sort(events_.begin(), events_.end(), [](const TimelineEvent& a, const TimelineEvent& b) {
    return a.stream != b.stream ? a.stream < b.stream : a.start < b.start;
  });
  return std::move(events_);
}

}  // namespace llmsim::sim
