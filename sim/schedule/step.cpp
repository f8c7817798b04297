#include "sim/schedule/step.h"

#include <algorithm>
#include <cmath>

#include "sim/schedule/passes.h"
#include "sim/schedule/pipeline.h"
#include "sim/schedule/update_time.h"

namespace llmsim::sim {
namespace {

// How much slower the slowest of n equal devices is: the expected largest of n normal deviations, sigma sqrt(2 ln n).
// Source: spread between GPUs of one node, stas00/ml-engineering compute/accelerator/README.md @744d01e.
double straggler_share(const Cluster& cluster) {
  return cluster.device.achieved.device_spread * std::sqrt(2.0 * std::log(static_cast<double>(cluster.num_devices)));
}

class StepSimulation {
 public:
  StepSimulation(const Run& run, const LayerPrices& prices)
      : run_(run),
        strategy_(run.strategy),
        prices_(prices),
        parts_(model_parts(run.model, run.strategy)),
        rank_(rank_parameters(run.model, run.strategy)),
        exchange_(run, rank_),
        pipeline_links_(group_links(run.strategy, GroupKind::Pipeline, run.cluster, run.stack.collective_efficiency)),
        transfer_(stage_transfer()) {
    passes_.reserve(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) passes_.push_back(passes_of(i));
    const PipelineTimes pipeline = run_pipeline();
    busiest_ = busiest_stage(pipeline);
    terms_ = stage_terms(busiest_);
    const Seconds between = pipeline.finish[static_cast<std::size_t>(busiest_)];
    terms_[Term::PipelineBubble] += between - (terms_.total() - extra_terms(busiest_).total());
    terms_[Term::Straggler] = straggler_share(run.cluster) * compute_time();
    if (run.optimizer_step) terms_[Term::Optimizer] = longest_update();
    terms_[Term::ReduceExposed] += exchange_.norm_time();
    add_closing_exchanges();
    terms_[Term::Host] = run.stack.host.per_step;
    bubble_ = terms_[Term::PipelineBubble] / between;
  }

  Seconds total() const { return terms_.total(); }

  StepTimes times() const {
    StepTimes step;
    step.total = terms_.total();
    step.bubble = bubble_;
    for (int i = 0; i < kNumTerms; ++i) {
      const Term term = static_cast<Term>(i);
      if (terms_[term] > Seconds(0.0)) step.breakdown.push_back({name_of(term), terms_[term]});
    }
    step.communication = communication_of(run_, prices_, exchange_, transfer_, parts_of(busiest_), terms_);
    return step;
  }

 private:
  // Most parts are alike: an equal part before this one has the same passes.
  PartPasses passes_of(std::size_t index) const {
    const auto end = parts_.begin() + static_cast<std::ptrdiff_t>(index);
    const auto twin = std::find(parts_.begin(), end, parts_[index]);
    if (twin != end) return passes_[static_cast<std::size_t>(twin - parts_.begin())];
    return part_passes(run_, prices_, exchange_, rank_, parts_[index]);
  }

  PipelineTimes run_pipeline() const {
    std::vector<ChunkTimes> chunks;
    chunks.reserve(passes_.size());
    for (const PartPasses& part : passes_) chunks.push_back({.forward = part.forward.total(), .backward = part.backward.total()});
    PipelineShape shape = pipeline_shape(strategy_);
    shape.transfer = transfer_.time;
    return simulate_pipeline(shape, chunks);
  }

  StageTransfer stage_transfer() const {
    const Bytes size = stage_output(run_.model, strategy_);
    return {.size = size, .time = collective_time(CollectiveKind::SendRecv, size, pipeline_links_)};
  }

  std::vector<ModelPart> parts_of(int stage) const {
    std::vector<ModelPart> parts;
    parts.reserve(static_cast<std::size_t>(strategy_.virtual_stages));
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) parts.push_back(parts_[part_index(strategy_, stage, chunk)]);
    return parts;
  }

  // Everything a stage does in a step, bubble excluded.
  Terms stage_terms(int stage) const {
    Terms terms;
    const double others = strategy_.num_microbatches() - 1.0;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      const PartPasses& part = passes_[part_index(strategy_, stage, chunk)];
      terms += others * part.forward + part.first_forward + others * part.backward + part.last_backward;
    }
    return terms;
  }

  // What the first forward and the last backward pass take beyond the others.
  Terms extra_terms(int stage) const {
    Terms terms;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      const PartPasses& part = passes_[part_index(strategy_, stage, chunk)];
      terms += (part.first_forward - part.forward) + (part.last_backward - part.backward);
    }
    return terms;
  }

  int busiest_stage(const PipelineTimes& pipeline) const {
    int busiest = 0;
    Seconds latest;
    for (int stage = 0; stage < strategy_.pipeline_parallel; ++stage) {
      const Seconds end = pipeline.finish[static_cast<std::size_t>(stage)] + extra_terms(stage).total();
      if (end > latest) latest = end, busiest = stage;
    }
    return busiest;
  }

  // Device time of the busiest stage that its clock can stretch, with the bubble that scales with it.
  Seconds compute_time() const {
    Seconds sum = terms_[Term::PipelineBubble];
    for (const Term term :
         {Term::ForwardGemm, Term::ForwardAttention, Term::ForwardMemoryBound, Term::BackwardGemm, Term::BackwardAttention,
          Term::BackwardMemoryBound, Term::Recompute, Term::HeadAndLoss, Term::GradientCopies}) {
      sum += terms_[term];
    }
    return sum;
  }

  // Of the stage that updates most.
  Seconds longest_update() const {
    double most = 0.0, parameters = 0.0, experts = 0.0;
    for (int stage = 0; stage < strategy_.pipeline_parallel; ++stage) {
      double shared = 0.0, apart = 0.0;
      for (const ModelPart& part : parts_of(stage)) {
        shared += rank_.trained(part) - rank_.trained_apart(part);
        apart += rank_.trained_apart(part);
      }
      const double owned = shared / strategy_.shard_ranks() + apart / strategy_.expert_shard_ranks();
      if (owned > most) most = owned, parameters = shared, experts = apart;
    }
    return update_time(run_, parameters, experts);
  }

  void add_closing_exchanges() {
    for (const RepeatedCollective& closing : closing_collectives(run_, parts_of(busiest_)))
      terms_[closing_term(closing)] += closing_time(run_, closing);
  }

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  std::vector<ModelPart> parts_;
  RankParameters rank_;
  DataExchange exchange_;
  GroupLinks pipeline_links_;
  StageTransfer transfer_;
  std::vector<PartPasses> passes_;
  int busiest_ = 0;
  Terms terms_;
  double bubble_ = 0.0;
};

}  // namespace

StepTimes simulate_step(const Run& run, const LayerPrices& prices) { return StepSimulation(run, prices).times(); }

Seconds step_time(const Run& run, const LayerPrices& prices) { return StepSimulation(run, prices).total(); }

}  // namespace llmsim::sim
