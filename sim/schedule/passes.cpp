#include "sim/schedule/passes.h"

#include <algorithm>
#include <vector>

#include "sim/memory/chunk_layers.h"
#include "sim/schedule/waits.h"

namespace llmsim::sim {

namespace {

constexpr std::array<const char*, kNumTerms> kNames{"forward_gemm",
                                                    "forward_attention",
                                                    "forward_memory_bound",
                                                    "backward_gemm",
                                                    "backward_attention",
                                                    "backward_memory_bound",
                                                    "recompute",
                                                    "head_and_loss",
                                                    "embedding",
                                                    "tensor_parallel_exposed",
                                                    "context_parallel_exposed",
                                                    "expert_parallel_exposed",
                                                    "weight_gather_exposed",
                                                    "gradient_reduce_exposed",
                                                    "contention",
                                                    "gradient_copies",
                                                    "launch_wait",
                                                    "offload_exposed",
                                                    "pipeline_bubble",
                                                    "remainder",
                                                    "straggler",
                                                    "optimizer",
                                                    "host"};

}  // namespace

const char* name_of(Term term) { return kNames[static_cast<std::size_t>(term)]; }

Seconds Terms::total() const {
  constexpr auto bubble = static_cast<std::size_t>(Term::PipelineBubble),
                 remainder = static_cast<std::size_t>(Term::Remainder);
  static_assert(remainder == bubble + 1);
  Seconds sum;
  for (std::size_t i = 0; i < bubble; ++i) sum += times_[i];
  sum += times_[bubble] + times_[remainder];
  for (std::size_t i = remainder + 1; i < times_.size(); ++i) sum += times_[i];
  return sum;
}

Terms& Terms::operator+=(const Terms& other) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] += other.times_[i];
  return *this;
}

Terms operator*(double factor, Terms terms) {
  for (Seconds& time : terms.times_) time *= factor;
  return terms;
}

namespace {

// Sums of the same times in two orders differ by less than this share.
constexpr double kSumRounding = 1e-12;

class PassBuilder {
 public:
  PassBuilder(const Run& run, const LayerPrices& prices, const DataParallelCollectives& exchange,
              const RankParameters& rank, const ModelChunk& part)
      : run_(run),
        strategy_(run.strategy),
        framework_(run.framework),
        prices_(prices),
        block_(mean_block(run, prices, part)),
        exchange_(exchange),
        rank_(rank),
        part_(part) {
    if (strategy_.cuda_graph && strategy_.moe_captured) return;
    const PassLoad forward{.device = forward_compute().total(), .host = host_time(forward_calls())};
    const PassLoad backward{.device = backward_compute().total(),
                            .host = host_time(backward_calls())};
    waits_ = launch_waits(forward, backward, strategy_.pp == 1);
  }

  Terms forward(bool gathers) const {
    Terms terms = forward_compute();
    if (gathers) terms[Term::GradientCopies] += copied(gather_copy_bytes(run_, exchange_));
    terms[Term::LaunchWait] += waits_.forward;
    if (gathers) add_exchange(terms, true, false, Term::GatherExposed);
    add_host_traffic(terms, false, false);
    return terms;
  }

  Terms backward(bool reduces, bool last) const {
    Terms terms = backward_compute();
    if (reduces) terms[Term::GradientCopies] += copied(reduction_copy_bytes(run_, exchange_));
    if (exchange_.regathers_weights())
      terms[Term::GradientCopies] += copied(gather_copy_bytes(run_, exchange_));
    terms[Term::LaunchWait] += waits_.backward;
    add_backward_all_to_all(terms, reduces, last);
    add_host_traffic(terms, true, last);
    return terms;
  }

  Terms weights() const {
    Terms terms;
    terms[Term::BackwardGemm] = part_.blocks * block_.backward.weight_gradients;
    if (part_.head) terms[Term::HeadAndLoss] = prices_.head.backward.weight_gradients;
    terms[Term::GradientCopies] = accumulation();
    return terms;
  }

 private:
  struct ComputeTerms {
    Term gemm;
    Term attention;
    Term memory_bound;
  };

  void add_blocks(Terms& terms, const ComputeTerms& into, const PassPrice& pass) const {
    terms[into.gemm] += part_.blocks * pass.gemm;
    terms[into.attention] += part_.blocks * pass.attention;
    terms[into.memory_bound] += part_.blocks * pass.memory_bound;
    terms[Term::TensorExposed] += part_.blocks * pass.collective_exposed;
    terms[Term::ContextExposed] += part_.blocks * pass.context;
    terms[Term::ExpertExposed] += part_.blocks * pass.expert;
    terms[Term::Contention] += part_.blocks * pass.contention;
  }

  Terms forward_compute() const {
    Terms terms;
    add_blocks(terms, {Term::ForwardGemm, Term::ForwardAttention, Term::ForwardMemoryBound},
               block_.forward);
    if (part_.embedding) terms[Term::Embedding] += prices_.embedding.forward.total();
    if (part_.head) terms[Term::HeadAndLoss] += prices_.head.forward.total();
    return terms;
  }

  Terms backward_compute() const {
    Terms terms;
    const double recomputed = strategy_.recompute.blocks_of(part_.blocks);
    add_blocks(terms, {Term::BackwardGemm, Term::BackwardAttention, Term::BackwardMemoryBound},
               block_.backward);
    terms[Term::Recompute] += recomputed * block_.recompute.compute();
    terms[Term::TensorExposed] += recomputed * block_.recompute.collective_exposed;
    terms[Term::ContextExposed] += recomputed * block_.recompute.context;
    terms[Term::ExpertExposed] += recomputed * block_.recompute.expert;
    terms[Term::Contention] += recomputed * block_.recompute.contention;
    if (part_.embedding) terms[Term::Embedding] += prices_.embedding.backward.total();
    if (part_.head)
      terms[Term::HeadAndLoss] += prices_.head.recompute.total() + prices_.head.backward.total();
    terms[Term::GradientCopies] += accumulation();
    return terms;
  }

  Seconds accumulation() const { return copied(accumulation_bytes(run_, exchange_)); }

  // Time to copy this much of every trained parameter through device memory.
  Seconds copied(double bytes_per_parameter) const {
    return Bytes(bytes_per_parameter * exchange_.trained_parameters(part_)) /
           run_.cluster.device.achieved_bandwidth();
  }

  // Of a pass: all, or what captured graphs leave out.
  const LaunchTally& called(const PassPrice& pass) const {
    return strategy_.cuda_graph ? pass.ragged_launches : pass.launches;
  }

  HostCalls forward_calls() const {
    HostCalls calls;
    calls.add(called(block_.forward), part_.blocks);
    if (part_.embedding) calls.add(called(prices_.embedding.forward), 1.0);
    if (part_.head) calls.add(called(prices_.head.forward), 1.0);
    calls.units = part_.blocks * units_per_block(run_.model, framework_);
    return calls;
  }

  HostCalls backward_calls() const {
    HostCalls calls;
    calls.recomputed_blocks = strategy_.recompute.blocks_of(part_.blocks);
    calls.add(called(block_.backward), part_.blocks);
    calls.add(called(block_.recompute), calls.recomputed_blocks);
    if (part_.embedding) calls.add(called(prices_.embedding.backward), 1.0);
    if (part_.head) calls.add(called(prices_.head.recompute), 1.0);
    if (part_.head) calls.add(called(prices_.head.backward), 1.0);
    const double fetched =
        part_.blocks + (framework_.sharded.modules_are_units ? calls.recomputed_blocks : 0.0);
    calls.units = fetched * units_per_block(run_.model, framework_);
    return calls;
  }

  Seconds host_time(const HostCalls& calls) const {
    return run_.cluster.device.achieved.host_call_factor * calls.time(framework_);
  }

  void add_backward_all_to_all(Terms& terms, bool reduces, bool last) const {
    const bool gathers = exchange_.regathers_weights();
    if (!gathers && !reduces) return;
    if (!gathers && !strategy_.gradient_overlap && last) {
      // All gradients of the part in one message, after the backward pass.
      terms[Term::ReduceExposed] +=
          exchange_.times(exchange_.trained_parameters(part_) - rank_.trained_apart(part_), 0.0)
              .reduce();
      terms[Term::ReduceExposed] +=
          exchange_.expert_times(rank_.trained_apart(part_), 0.0).reduce();
      return;
    }
    add_exchange(terms, gathers, reduces, reduces ? Term::ReduceExposed : Term::GatherExposed);
  }

  // Spreads the pass's time over its units, runs the streams, and books what is exposed.
  void add_exchange(Terms& terms, bool gathers, bool reduces, Term exposed) const {
    const Seconds compute = terms.total();
    const std::vector<OverlapUnit> units = overlap_units(compute, gathers, reduces);
    const OverlapBehaviour habits{.prefetch = framework_.sharded.prefetch_units,
                                  .gathers_overlap = strategy_.gather_overlap,
                                  .reductions_overlap = strategy_.gradient_overlap,
                                  .scatters_alone = framework_.gradients.scatters_alone};
    const OverlapTimes times = overlap_times(units, habits, exchange_.loss(work_mix(terms)));
    const Seconds beyond_compute = times.end - compute - times.slowdown;
    if (beyond_compute > kSumRounding * times.end) terms[exposed] += beyond_compute;
    terms[Term::Contention] += times.slowdown;
    // A device that waits for its host waits less when its kernels take longer.
    terms[Term::LaunchWait] -= std::min(terms[Term::LaunchWait], times.slowdown);
  }

  // Recomputed blocks and the head count as what most of them is, GEMMs.
  static WorkMix work_mix(const Terms& terms) {
    WorkMix mix;
    for (const Term term : {Term::ForwardGemm, Term::ForwardAttention, Term::BackwardGemm,
                            Term::BackwardAttention, Term::Recompute, Term::HeadAndLoss}) {
      mix.arithmetic += terms[term];
    }
    for (const Term term : {Term::ForwardMemoryBound, Term::BackwardMemoryBound, Term::Embedding,
                            Term::GradientCopies}) {
      mix.memory_bound += terms[term];
    }
    mix.waiting = terms.total() - mix.arithmetic - mix.memory_bound;
    return mix;
  }

  // Sharded weights: the root unit of embedding and head comes first and its gradients last.  Whole
  // ones: the gradients of an untied head are the first to be sent, those of the embedding the
  // last.
  std::vector<OverlapUnit> overlap_units(Seconds compute, bool gathers, bool reduces) const {
    const double ends = exchange_.end_parameters(part_), gathered = exchange_.gathered_ends(part_);
    const double early =
        exchange_.shards_weights() || !reduces ? 0.0 : exchange_.head_parameters(part_);
    const DataParallelTimes root = exchange_.times(ends - early, gathered),
                            head = exchange_.times(early, 0.0);
    const DataParallelTimes times = exchange_.unit_times(part_);
    const int count = part_.blocks > 0 ? exchange_.units(part_) : 0;
    const Seconds first =
        early > 0.0 ? std::min(compute, prices_.head.backward.total()) : Seconds(0.0);
    const bool gathers_root = gathers && (!reduces || !framework_.sharded.root_stays_gathered);
    std::vector<OverlapUnit> units;
    units.reserve(static_cast<std::size_t>(count) + 3);
    if (gathers_root && gathered > 0.0) units.push_back({.gather = root.gather});
    if (early > 0.0)
      units.push_back({.compute = first, .reduce = head.scatter, .replicate = head.replicate});
    const OverlapUnit unit{.gather = gathers ? times.gather : Seconds(0.0),
                           .compute = (compute - first) / std::max(1, count),
                           .reduce = reduces ? times.scatter : Seconds(0.0),
                           .replicate = reduces ? times.replicate : Seconds(0.0)};
    units.insert(units.end(), static_cast<std::size_t>(count), unit);
    if (reduces && ends > early)
      units.push_back({.reduce = root.scatter, .replicate = root.replicate});
    return units;
  }

  void add_host_traffic(Terms& terms, bool backward, bool last) const {
    HostTraffic traffic(run_);
    if (strategy_.offload.activations)
      traffic.checkpoints(
          offloading_blocks(strategy_, part_.blocks) * offloaded_by_block(run_, block_), backward);
    const double apart = rank_.apart(part_), trained_apart = rank_.trained_apart(part_);
    const double owned =
        (exchange_.trained_parameters(part_) - trained_apart) / strategy_.shard_ranks() +
        trained_apart / strategy_.expert_shard_ranks();
    const double held = (rank_.held(part_) - apart) / state_shards(strategy_).weights +
                        apart / expert_state_shards(strategy_).weights;
    if (strategy_.offload.parameters) traffic.weights(Bytes(held * exchange_.weight_wire_bytes()));
    if (strategy_.offload.optimizer && backward)
      traffic.gradients(owned, Bytes(owned * exchange_.gradient_wire_bytes()), last);
    terms[Term::OffloadExposed] += traffic.exposed(terms.total());
  }

  const Run& run_;
  const Strategy& strategy_;
  const Framework& framework_;
  const LayerPrices& prices_;
  BlockPrice block_;  // the mean of the part's
  const DataParallelCollectives& exchange_;
  const RankParameters& rank_;
  const ModelChunk& part_;
  LaunchWaits waits_;
};

}  // namespace

PartPasses part_passes(const Run& run, const LayerPrices& prices,
                       const DataParallelCollectives& exchange, const RankParameters& rank,
                       const ModelChunk& part) {
  const PassBuilder builder(run, prices, exchange, rank, part);
  PartPasses passes;
  passes.forward = builder.forward(exchange.shards_weights());
  const bool gathers_once = exchange.shards_optimizer() && !exchange.shards_weights();
  passes.first_forward = gathers_once ? builder.forward(true) : passes.forward;
  passes.backward = builder.backward(exchange.reduces_every_microbatch(), false);
  passes.last_backward = builder.backward(true, true);
  passes.weights = builder.weights();
  return passes;
}

}  // namespace llmsim::sim
