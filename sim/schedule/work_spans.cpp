#include "sim/schedule/work_spans.h"

#include <algorithm>
#include <utility>

namespace llmsim::sim {
namespace {

const char* category_of(PassKind kind) {
  constexpr const char* names[] = {"forward", "backward", "data_gradient", "weight_gradient"};
  return names[static_cast<std::size_t>(kind)];
}

bool makes_weights(PassKind kind) {
  return kind == PassKind::Backward || kind == PassKind::WeightGradient;
}

// Of one chunk, if nothing were hidden: messages of its passes to inner groups, by stream, and of
// its weights and gradients.
struct ChunkMessages {
  std::array<PassPrice, 2> passes;  // forward, backward
  Seconds gather;                   // for a forward pass
  Seconds gather_again;             // for a backward pass
  Seconds reduce;
};

std::vector<ChunkMessages> chunk_messages(const Run& run, const LayerPrices& prices,
                                          const StepSimulation& simulation, int stage) {
  std::vector<ChunkMessages> chunks;
  for (const ModelChunk& chunk : simulation.chunks_of(stage)) {
    const DataParallelMessages shared = simulation.exchange().messages({chunk});
    const DataParallelMessages experts = simulation.exchange().expert_messages({chunk});
    ChunkMessages& all = chunks.emplace_back();
    for_each_price(prices, mean_block(run, prices, chunk), chunk,
                   run.strategy.recompute.blocks_of(chunk.blocks),
                   [&](const PassPrice& price, double times, bool backward) {
                     all.passes[backward ? 1 : 0].add(price, times);
                   });
    all.gather = shared.times.gather + experts.times.gather;
    all.gather_again = shared.again.time + experts.again.time;
    all.reduce = shared.times.reduce() + experts.times.reduce();
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

Terms pass_terms(const ChunkPassTimes& chunk, PassKind kind, bool first, bool last) {
  Terms terms;
  switch (kind) {
    case PassKind::Forward: return first ? chunk.first_forward : chunk.forward;
    case PassKind::Backward: terms = chunk.backward; break;
    case PassKind::DataGradient: terms = chunk.backward - chunk.weights; break;
    case PassKind::WeightGradient: terms = chunk.weights; break;
  }
  if (last) terms += chunk.last_backward - chunk.backward;
  return terms;
}

void add_messages(WorkSpan& work, const ChunkMessages& chunk,
                  const DataParallelCollectives& exchange, PassKind kind, bool first, bool last) {
  const bool forward = kind == PassKind::Forward, weights = kind == PassKind::WeightGradient;
  if (!weights) {
    const PassPrice& price = chunk.passes[forward ? 0 : 1];
    work.message(Term::TensorExposed) += time_of(price.tensor_collectives);
    work.message(Term::ContextExposed) += time_of(price.context_collectives) +
                                          time_of(price.context_inner_collectives) +
                                          time_of(price.context_outer_collectives);
    work.message(Term::ExpertExposed) +=
        time_of(price.expert_collectives) + time_of(price.expert_tensor_collectives);
  }
  const bool gathers = exchange.gathers_every_pass() || (first && exchange.gathers_once());
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
                .passes = passes.subspan(index, count),
                .covered = count};
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

}  // namespace

void WorkSpan::add(const WorkSpan& later) {
  terms += later.terms;
  covered += later.covered;
  for (std::size_t i = 0; i < messages.size(); ++i) messages[i] += later.messages[i];
  end = later.end;
}

std::string pass_name(const StageLayout& layout, const PipelinePass& pass) {
  const char* letter = pass.kind == PassKind::Forward          ? "F"
                       : pass.kind == PassKind::WeightGradient ? "W"
                                                               : "B";
  const std::string name = letter + std::to_string(pass.microbatch);
  return layout.chunks() > 1 ? name + " chunk " + std::to_string(pass.chunk) : name;
}

bool is_shown(const PipelinePass& pass, int shown) { return shown == 0 || pass.microbatch < shown; }

std::vector<WorkSpan> work_spans(const Run& run, const LayerPrices& prices,
                                 const StepSimulation& simulation, int stage,
                                 std::span<const PassEvent> passes, int shown) {
  const std::vector<ChunkMessages> chunks = chunk_messages(run, prices, simulation, stage);
  const auto drawn = [shown](const PassEvent& event) { return is_shown(event.pass, shown); };
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
    if (std::any_of(work.passes.begin(), work.passes.end(), drawn)) {
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

}  // namespace llmsim::sim
