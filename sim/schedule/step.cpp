#include "sim/schedule/step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/uncertainty.h"
#include "sim/cost/contention.h"
#include "sim/cost/kernels.h"
#include "sim/operators/update.h"
#include "sim/schedule/orthogonalisation.h"

namespace llmsim::sim {
namespace {

constexpr int kZeroGradient = 1;  // kernels that make a gradient zero

Seconds host_time(const Run& run, double owned, const ParameterStorage& storage) {
  ParameterStorage host = storage;
  host.gradient_bytes = size_of(DType::Fp32).value();
  host.main_gradient_bytes = 0.0;
  const UpdateOperators step = lower_update(run.strategy.optimizer, host, true, owned, owned);
  const Bytes clipped = run.strategy.gradient_clip ? step.clip.moved : Bytes(0.0);
  const Bytes moved = clipped + run.framework.host_copies.update_slowdown * step.update.moved;
  const Bytes up{run.strategy.offload.parameters ? 0.0 : owned * storage.weight_bytes};
  return moved / run.cluster.host_memory_share() + up / run.cluster.host_link_share();
}

Seconds device_time(const Run& run, double owned, const ParameterStorage& storage) {
  const MemoryBoundMachine machine =
      memory_bound_machine(run.cluster, run.framework, memory_bound_forms(run.model, run.strategy));
  const UpdateOperators step =
      lower_update(run.strategy.optimizer, storage, run.framework.update.fused, owned, owned);
  Seconds time;
  for (const Operator* op : {&step.norm, &step.clip, &step.update}) {
    const bool clips = run.strategy.gradient_clip && !run.framework.update.in_backward;
    const Seconds arithmetic = op->flops > Flops(0.0) ? op->flops / run.cluster.device.vector_peak
                                                      : Seconds(0.0);  // of the vector units
    if (op == &step.update || clips)
      time += std::max(memory_bound_time(*op, false, machine),
                       arithmetic + op->kernels * machine.kernel_time);
  }
  return time;
}

// Of the host, for optimizers that loop over tensors.
Seconds launch_time(const Run& run, double tensors) {
  const UpdateBehaviour& update = run.framework.update;
  if (!update.tensor_by_tensor || update.fused || run.strategy.adapters) return Seconds(0.0);
  const UpdateOperators step = lower_update(
      run.strategy.optimizer, storage_of(run.strategy, run.framework), false, 1.0, 1.0);
  const int kernels = kZeroGradient + step.update.kernels +
                      (run.strategy.gradient_clip ? step.norm.kernels + step.clip.kernels : 0);
  return tensors * kernels * run.framework.host.factor *
         run.cluster.device.achieved.host_call_factor * run.framework.host.per_kernel;
}

}  // namespace

Seconds update_time(const Run& run, const StageParameters& updated, double tensors) {
  const double owned = updated.owned(run.strategy);
  const ParameterStorage storage = storage_of(run.strategy, run.framework);
  if (run.strategy.offload.optimizer) return host_time(run, owned, storage);
  return std::max(device_time(run, owned, storage), launch_time(run, tensors));
}

namespace {

StageParameters trained_by(const RankParameters& rank, const EqualStages& stages, int stage) {
  StageParameters own;
  for (int chunk = 0; chunk < stages.layout().chunks(); ++chunk)
    own += trained_parameters(rank, stages.chunk(stage, chunk));
  return own;
}

double tensors_of(const Run& run, const EqualStages& stages, int stage) {
  double tensors = 0.0;
  for (int chunk = 0; run.framework.update.tensor_by_tensor && chunk < stages.layout().chunks();
       ++chunk)
    tensors += parameter_tensors(run.model, stages.chunk(stage, chunk));
  return tensors;
}

Seconds longest_muon_update(const Run& run, const RankParameters& rank, const EqualStages& stages) {
  const std::vector<Seconds> orthogonalisation = orthogonalisation_times(run, stages);
  Seconds longest;
  for (const EqualStages::Kind& kind : stages.kinds()) {
    Seconds time =
        update_time(run, trained_by(rank, stages, kind.first), tensors_of(run, stages, kind.first));
    for (int chunk = 0; chunk < stages.layout().chunks(); ++chunk)
      time += orthogonalisation[stages.chunk_kind(kind.first, chunk)];
    longest = std::max(longest, time);
  }
  return longest;
}

}  // namespace

Seconds longest_update(const Run& run, const RankParameters& rank, const EqualStages& stages) {
  if (!run.optimizer_step) return Seconds(0.0);
  if (run.strategy.optimizer == OptimizerKind::Muon) return longest_muon_update(run, rank, stages);
  double most = 0.0;
  StageParameters updated;
  int longest = 0;
  for (const EqualStages::Kind& kind : stages.kinds()) {
    const StageParameters own = trained_by(rank, stages, kind.first);
    const double owned = own.owned(run.strategy);
    if (owned > most) most = owned, updated = own, longest = kind.first;
  }
  return update_time(run, updated, tensors_of(run, stages, longest));
}

// Source: spread between GPUs of one node, stas00/ml-engineering compute/accelerator/README.md
// @744d01e.
double straggler_share(const Cluster& cluster) {
  return cluster.device.achieved.device_spread * expected_largest(cluster.num_devices);
}

namespace {

// Of GEMMs overlapped with all-to-alls between expert ranks.
double all_to_all_loss(const Run& run) {
  if (run.strategy.pipeline_schedule != PipelineSchedule::DualPipe) return 0.0;
  const GroupLinks links = group_links(run, GroupKind::Expert);
  return 1.0 - rates_overlapped(collective_share(links, run.cluster.device), run.cluster.device)
                   .arithmetic;
}

PipelineShape shape_of(const Run& run) {
  PipelineShape shape = pipeline_shape(run.strategy);
  const StageTransfers transfers = overlapped_transfers(run);
  shape.forward_transfer = transfers.forward, shape.backward_transfer = transfers.backward;
  shape.all_to_all_loss = all_to_all_loss(run);
  return shape;
}

}  // namespace

SharedPasses::SharedPasses(const Run& run, const RankParameters& rank)
    : run_(run), rank_(rank), exchange_(run, rank) {}

namespace {

ChunkStep chunk_step(const ChunkPassTimes& passes, int microbatches) {
  const double others = microbatches - 1.0;
  ChunkStep step{.passes = passes};
  step.times = {.forward = passes.forward.total(),
                .backward = passes.backward.total(),
                .weights = passes.weights.total(),
                .forward_all_to_all = passes.forward.expert_exposed(),
                .backward_all_to_all = passes.backward.expert_exposed()};
  step.all = others * passes.forward;
  step.all += passes.first_forward;
  step.all += others * passes.backward;
  step.all += passes.last_backward;
  step.all_time = step.all.total();
  Terms extra = passes.first_forward - passes.forward;
  extra += passes.last_backward - passes.backward;
  step.extra = extra.total();
  return step;
}

}  // namespace

const ChunkStep& SharedPasses::of(const LayerPrices& prices, const ModelChunk& chunk) {
  const Strategy& strategy = run_.strategy;
  const int microbatches = stage_layout(strategy).chunk_microbatches();
  return chunks_.of(
      run_,
      {.prices = &prices,
       .microbatches = microbatches,
       .offloading_chunks = strategy.offload.activations ? strategy.virtual_stages : 0},
      chunk, [&] {
        return chunk_step(chunk_pass_times(run_, prices, exchange_, rank_, chunk), microbatches);
      });
}

StepSimulation::StepSimulation(const Run& run, const LayerPrices& prices,
                               const StageContents& contents, SharedPasses* passes)
    : run_(run),
      strategy_(run.strategy),
      prices_(prices),
      contents_(contents),
      shared_(passes ? passes : &own_passes_.emplace(run, contents_.rank())),
      shape_(shape_of(run)),
      layout_(shape_.layout()),
      straggler_(straggler_share(run.cluster)) {
  add_passes();
}

StepSimulation::StepSimulation(const Run& run, const LayerPrices& prices, Passes)
    : StepSimulation(run, prices, StageContents(run), nullptr) {}

StepSimulation::StepSimulation(const Run& run, const LayerPrices& prices)
    : StepSimulation(run, prices, Passes{}) {
  simulate();
}

void StepSimulation::add_passes() {
  const EqualStages& stages = contents_.stages();
  steps_.reserve(stages.num_chunk_kinds());
  for (std::size_t kind = 0; kind < stages.num_chunk_kinds(); ++kind)
    steps_.push_back(&shared_->of(prices_, stages.chunk_of_kind(kind)));
  chunks_.reserve(stages.chunks().size());
  for (std::size_t place = 0; place < stages.chunks().size(); ++place)
    chunks_.push_back(steps_[stages.chunk_kind(place)]->times);
  busiest_ = busiest_stage();
  work_ = joined_terms(busiest_);
  for (int chunk = 0; chunk < layout_.chunks(); ++chunk) work_ += step(busiest_, chunk).all;
  overheads_ = {{Term::Optimizer, longest_update(run_, contents_.rank(), stages)},
                {Term::ReduceExposed, exchange().norm_time()}};
  closing_times_.reserve(stages.kinds().size());
  for (const EqualStages::Kind& kind : stages.kinds()) {
    const bool is_of_busiest = stages.kind(busiest_) == closing_times_.size();
    Seconds all;
    for (const RepeatedCollective& closing :
         closing_collectives(run_, contents_.rank(), chunks_of(kind.first))) {
      const Seconds time = repeated_time(run_, closing);
      if (is_of_busiest) overheads_.emplace_back(closing_term(closing), time);
      all += time;
    }
    closing_times_.push_back(all);
  }
  overheads_.emplace_back(Term::Host, run_.framework.host.per_step);
}

void StepSimulation::simulate() {
  const PipelineTimes pipeline = simulate_pipeline(shape_, chunks_);
  const Seconds between = longest_until_norm(pipeline) - closing_time(busiest_);
  terms_ = around_passes(between, idle_time(pipeline, busiest_, between));
  bubble_ = terms_[Term::PipelineBubble] / between;
}

namespace {

// Lowers a sum by more than its terms in another order differ by.
constexpr double kBelow = 1.0 - 1e-9;

}  // namespace

// The step grows with the time between its first and its last pass, all else equal.
Seconds StepSimulation::bound() const {
  return kBelow * around_passes(earliest_span(), Seconds(0.0)).total();
}

std::vector<ModelChunk> StepSimulation::chunks_of(int stage) const {
  std::vector<ModelChunk> chunks;
  for (int chunk = 0; chunk < layout_.chunks(); ++chunk)
    chunks.push_back(contents_.chunk(stage, chunk));
  return chunks;
}

// What the first forward and the last backward pass take beyond the others.
Seconds StepSimulation::extra_time(int stage) const {
  Seconds extra;
  for (int chunk = 0; chunk < layout_.chunks(); ++chunk) extra += step(stage, chunk).extra;
  return extra;
}

Terms StepSimulation::joined_terms(const ChunkTimes& forward, const ChunkTimes& backward) const {
  const JoinedPasses joined = joined_passes(forward, backward, shape_.all_to_all_loss);
  Terms terms;
  terms[Term::ExpertExposed] = -1.0 * joined.hidden;
  terms[Term::Contention] = joined.slowdown;
  return terms;
}

Terms StepSimulation::joined_terms(int stage) const {
  Terms terms;
  if (strategy_.pipeline_schedule != PipelineSchedule::DualPipe) return terms;
  const std::array<int, 2> pairs = joined_pairs(shape_, stage);
  for (int forward = 0; forward < 2; ++forward) {
    const int backward = 1 - forward;
    terms += pairs[static_cast<std::size_t>(forward)] *
             joined_terms(times(stage, forward), times(stage, backward));
  }
  return terms;
}

// From where the step begins for a stage until its last pass has ended.
Seconds StepSimulation::span(const PipelineTimes& pipeline, int stage) const {
  const auto s = static_cast<std::size_t>(stage);
  return updates_unsynchronised(strategy_.pipeline_schedule)
             ? pipeline.finish[s] - pipeline.start[s]
             : pipeline.finish[s];
}

// All stages wait for the stage whose gradients are the last to be summed.
Seconds StepSimulation::longest_until_norm(const PipelineTimes& pipeline) const {
  Seconds longest;
  for (int stage = 0; stage < strategy_.pp; ++stage)
    longest = std::max(longest, span(pipeline, stage) + extra_time(stage) + closing_time(stage));
  return longest;
}

// The shortest time that simulate() can find between the first pass and the closing collectives of
// the busiest stage; of schedules without earliest_finishes() what that stage does.
Seconds StepSimulation::earliest_span() const {
  const bool whole = strategy_.pipeline_schedule <= PipelineSchedule::Interleaved;
  Seconds longest = work_.total();
  if (strategy_.pp == 1 || !whole) return longest;
  const std::vector<Seconds> finishes = earliest_finishes(shape_, chunks_);
  for (int stage = 0; stage < strategy_.pp; ++stage) {
    const Seconds finish = finishes[static_cast<std::size_t>(stage)] + extra_time(stage);
    longest = std::max(longest, finish + closing_time(stage) - closing_time(busiest_));
  }
  return longest;
}

// What a stage waits for before its first pass, between its passes, and after its last one for the
// stage whose gradients are the last to be summed.
Seconds StepSimulation::idle_time(const PipelineTimes& pipeline, int stage, Seconds between) const {
  const auto s = static_cast<std::size_t>(stage);
  const Seconds before =
      updates_unsynchronised(strategy_.pipeline_schedule) ? Seconds(0.0) : pipeline.start[s];
  const Seconds after = between - (span(pipeline, stage) + extra_time(stage));
  return before + pipeline.idle[s] + after;
}

// Whose passes take longest: the others wait for it more than it waits for them.
int StepSimulation::busiest_stage() const {
  int busiest = 0;
  Seconds most;
  const bool joins = strategy_.pipeline_schedule == PipelineSchedule::DualPipe;
  for (int stage = 0; stage < strategy_.pp; ++stage) {
    Seconds time = joins ? joined_terms(stage).total() : Seconds(0.0);
    for (int chunk = 0; chunk < layout_.chunks(); ++chunk) time += step(stage, chunk).all_time;
    if (time > most) most = time, busiest = stage;
  }
  return busiest;
}

Terms StepSimulation::around_passes(Seconds between, Seconds idle) const {
  Terms terms = work_;
  if (strategy_.pp > 1) {
    terms.add(Term::PipelineBubble, idle);
    terms.add(Term::Remainder, between - work_.total() - idle);
  }
  terms.add(Term::Straggler, straggler_ * terms.stretched());
  for (const auto& [term, time] : overheads_) terms.add(term, time);
  return terms;
}

namespace {

// Of a step: what its terms and its events may differ by, as sums of up to some million times in
// other orders.
constexpr double kRounding = 1e-9;

}  // namespace

StepTimes simulate_step(const Run& run, const LayerPrices& prices) {
  const StepSimulation simulation(run, prices);
  const Terms& terms = simulation.terms();
  StepTimes step;
  step.total = terms.total();
  step.bubble = simulation.bubble();
  step.bound = simulation.bound();
  for (int i = 0; i < kNumTerms; ++i) {
    const Term term = static_cast<Term>(i);
    if (term == Term::Remainder ? std::abs(terms[term] / step.total) > kRounding
                                : terms[term] > Seconds(0.0))
      step.breakdown.push_back({name_of(term), terms[term]});
  }
  step.communication = communication_of(run, prices, simulation.exchange(),
                                        simulation.chunks_of(simulation.busiest()), terms);
  return step;
}

Seconds step_time(const Run& run, const LayerPrices& prices) {
  return StepSimulation(run, prices).terms().total();
}

}  // namespace llmsim::sim
