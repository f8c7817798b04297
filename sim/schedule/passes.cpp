#include "sim/schedule/passes.h"

#include <algorithm>
#include <span>

#include "sim/memory/chunk_layers.h"
#include "sim/schedule/communication.h"
#include "sim/schedule/launch.h"
#include "sim/schedule/offload.h"
#include "sim/schedule/overlap.h"

namespace llmsim::sim {

namespace {

constexpr std::array<const char*, kNumTerms> kNames{
    "forward_gemm", "forward_attention", "forward_memory_bound", "backward_gemm",
    "backward_attention", "backward_memory_bound", "recompute", "head_and_loss", "embedding",
    // What compute waits for.
    "tensor_parallel_exposed", "context_parallel_exposed", "expert_parallel_exposed",
    "stage_transfer_exposed", "weight_gather_exposed", "gradient_reduce_exposed", "contention",
    "gradient_copies", "launch_wait", "offload_exposed", "pipeline_bubble", "remainder",
    "straggler", "optimizer", "host"};

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

template <class Chosen>
Seconds sum_of(const Terms& terms, const Chosen& chosen, Seconds sum = {}) {
  for (int i = 0; i < kNumTerms; ++i) {
    const auto term = static_cast<Term>(i);
    if (chosen(term)) sum += terms[term];
  }
  return sum;
}

}  // namespace

// As total() adds them.
Seconds Terms::stretched() const {
  return sum_of(*this, counts_as_computed,
                (*this)[Term::PipelineBubble] + (*this)[Term::Remainder]);
}

WorkMix Terms::mix() const {
  WorkMix mix{.arithmetic = sum_of(*this, counts_as_arithmetic),
              .memory_bound = sum_of(*this, counts_as_memory_bound)};
  mix.waiting = total() - mix.arithmetic - mix.memory_bound;
  return mix;
}

namespace {

// Sums of the same times in two orders differ by less than this share.
constexpr double kSumRounding = 1e-12;

// Messages of the embedding and the LM head of a model chunk: those that come with its last
// gradients or its first weights, and those of a head whose gradients are the first to be sent.
struct EmbeddingAndHeadMessages {
  double gathered = 0.0, late = 0.0, early = 0.0;  // parameters
  DataParallelTimes root{}, head{};
};

// The weights and gradients that the passes of a model chunk communicate, whatever is recomputed.
struct ChunkExchange {
  bool has_neighbours = false;
  int units = 0;  // messages of its blocks, and one of them
  DataParallelTimes unit{};
  EmbeddingAndHeadMessages gathers{}, reductions{};
  Seconds at_once{};  // all gradients in one message, where they wait for the backward pass
  Seconds accumulation{}, reduction_copies{}, gather_copies{};  // inside the device
};

// A chunk with what its passes depend on.
struct PricedChunk {
  const Run& run;
  const LayerPrices& prices;
  const DataParallelCollectives& collectives;
  const RankParameters& rank;
  const ModelChunk& chunk;
  const ChunkExchange& exchange;
  const BlockPrice& block;                                             // the mean of the chunk's
  double recomputed = run.strategy.recompute.blocks_of(chunk.blocks);  // blocks
};

struct ComputeTerms {
  Term gemm;
  Term attention;
  Term memory_bound;
};

// What collectives that no compute hides add to the passes of so many blocks.
void add_exposed(Terms& terms, double blocks, const PassPrice& pass) {
  terms.add(Term::TensorExposed, blocks * pass.collective_exposed);
  terms.add(Term::ContextExposed, blocks * pass.context);
  terms.add(Term::ExpertExposed, blocks * pass.expert);
  terms.add(Term::Contention, blocks * pass.contention);
}

void add_blocks(Terms& terms, double blocks, const ComputeTerms& into, const PassPrice& pass) {
  terms.add(into.gemm, blocks * pass.gemm);
  terms.add(into.attention, blocks * pass.attention);
  terms.add(into.memory_bound, blocks * pass.memory_bound);
  add_exposed(terms, blocks, pass);
}

Terms forward_compute(const PricedChunk& priced) {
  Terms terms;
  add_blocks(terms, priced.chunk.blocks,
             {Term::ForwardGemm, Term::ForwardAttention, Term::ForwardMemoryBound},
             priced.block.forward);
  if (priced.chunk.embedding) terms.add(Term::Embedding, priced.prices.embedding.forward.total());
  if (priced.chunk.head) terms.add(Term::HeadAndLoss, priced.prices.head.forward.total());
  return terms;
}

Terms backward_compute(const PricedChunk& priced) {
  Terms terms;
  add_blocks(terms, priced.chunk.blocks,
             {Term::BackwardGemm, Term::BackwardAttention, Term::BackwardMemoryBound},
             priced.block.backward);
  terms.add(Term::Recompute, priced.recomputed * priced.block.recompute.compute());
  add_exposed(terms, priced.recomputed, priced.block.recompute);
  const BlockPrice& head = priced.prices.head;
  if (priced.chunk.embedding) terms.add(Term::Embedding, priced.prices.embedding.backward.total());
  if (priced.chunk.head)
    terms.add(Term::HeadAndLoss, head.recompute.total() + head.backward.total());
  terms.add(Term::GradientCopies, priced.exchange.accumulation);
  return terms;
}

// Of a pass: all, or what captured graphs leave out.
const LaunchTally& called(const PricedChunk& priced, const PassPrice& pass) {
  return priced.run.strategy.cuda_graph ? pass.ragged_launches : pass.launches;
}

// Terms that each weight of a unit is cut in slices, for its gather and for the reduction of its
// gradient.
constexpr double kGathered = 1.0, kGatheredAndReduced = 2.0;

void add_units(HostCalls& calls, const PricedChunk& priced, double blocks, double times) {
  const Run& run = priced.run;
  calls.units += blocks * units_per_block(run.model, run.framework);
  calls.slices +=
      blocks * times * slices_per_block(run.model, run.framework, run.strategy.shard_ranks());
}

HostCalls launched(const PricedChunk& priced, bool of_backward) {
  HostCalls calls;
  for_each_price(priced.prices, priced.block, priced.chunk, priced.recomputed,
                 [&](const PassPrice& price, double times, bool backward) {
                   if (backward == of_backward) calls.add(called(priced, price), times);
                 });
  add_units(calls, priced, priced.chunk.blocks, of_backward ? kGatheredAndReduced : kGathered);
  calls.moe_blocks = priced.chunk.moe_blocks;
  return calls;
}

HostCalls backward_calls(const PricedChunk& priced) {
  HostCalls calls = launched(priced, true);
  calls.recomputed_blocks = priced.recomputed;
  if (fetches_recomputed(priced.run.framework.sharded))
    add_units(calls, priced, calls.recomputed_blocks, kGathered);
  calls.moe_blocks *= 1.0 + calls.recomputed_blocks / std::max(1, priced.chunk.blocks);
  if (priced.run.framework.host.per_gradient > Seconds(0.0))
    calls.gradients = parameter_tensors(priced.run.model, priced.chunk);
  return calls;
}

PassLoad load_of(const PricedChunk& priced, Seconds compute, const HostCalls& calls) {
  const Framework& framework = priced.run.framework;
  const double factor = priced.run.cluster.device.achieved.host_call_factor;
  if (!framework.sharded.fetches_synchronise)
    return {.device = compute, .host = factor * calls.time(framework)};
  return {.device = compute,
          .host = factor * calls.launch_time(framework),
          .around = factor * calls.unit_time(framework)};
}

// `forward`, `backward`: what the operators alone take of each pass.
LaunchWaits waits_of(const PricedChunk& priced, const Terms& forward, const Terms& backward) {
  const Strategy& strategy = priced.run.strategy;
  if (strategy.cuda_graph && strategy.moe_captured) return {};
  const bool runs_ahead = strategy.pp == 1 && !priced.run.framework.sharded.fetches_synchronise;
  return launch_waits(load_of(priced, forward.total(), launched(priced, false)),
                      load_of(priced, backward.total(), backward_calls(priced)), runs_ahead);
}

// Of a pass: what comes before the blocks, they, and what comes after them.
class OverlapUnits {
 public:
  void add(const OverlapUnit& equal) { list_[size_++] = equal; }
  operator std::span<const OverlapUnit>() const { return {list_.data(), size_}; }

 private:
  std::array<OverlapUnit, 4> list_{};
  std::size_t size_ = 0;
};

// Sharded weights: the root unit of embedding and head comes first and its gradients last.  Whole
// ones: the gradients of an untied head are the first to be sent, those of the embedding the
// last.
// `gathers`: times that each unit is gathered.
OverlapUnits overlap_units(const PricedChunk& priced, Seconds compute, double gathers,
                           bool reduces) {
  const ChunkExchange& exchange = priced.exchange;
  const EmbeddingAndHeadMessages& messages = reduces ? exchange.reductions : exchange.gathers;
  const Seconds first =
      messages.early > 0.0 ? std::min(compute, priced.prices.head.backward.total()) : Seconds(0.0);
  const bool gathers_root =
      gathers > 0.0 && (!reduces || !priced.run.framework.sharded.root_stays_gathered);
  OverlapUnits units;
  if (gathers_root && messages.gathered > 0.0) units.add({.gather = messages.root.gather});
  if (messages.early > 0.0)
    units.add(
        {.compute = first, .reduce = messages.head.scatter, .replicate = messages.head.replicate});
  units.add({.gather = gathers * exchange.unit.gather,
             .compute = (compute - first) / std::max(1, exchange.units),
             .reduce = reduces ? exchange.unit.scatter : Seconds(0.0),
             .replicate = reduces ? exchange.unit.replicate : Seconds(0.0),
             .count = exchange.units});
  if (reduces && messages.late > 0.0)
    units.add({.reduce = messages.root.scatter, .replicate = messages.root.replicate});
  return units;
}

// Spreads the pass's time over its units, runs the streams, and books what is exposed.
void add_collectives(const PricedChunk& priced, Terms& terms, double gathers, bool reduces,
                     Term exposed) {
  if (!priced.exchange.has_neighbours) return;
  const Seconds compute = terms.total();
  const Strategy& strategy = priced.run.strategy;
  const Framework& framework = priced.run.framework;
  const OverlapTimes times = overlap_times(overlap_units(priced, compute, gathers, reduces),
                                           {.prefetch = framework.sharded.prefetch_units,
                                            .gathers_overlap = strategy.gather_overlap,
                                            .reductions_overlap = strategy.gradient_overlap,
                                            .scatters_alone = framework.gradients.scatters_alone},
                                           priced.collectives.loss(terms.mix()));
  const Seconds beyond_compute = times.end - compute - times.slowdown;
  if (beyond_compute > kSumRounding * times.end) terms.add(exposed, beyond_compute);
  terms.add(Term::Contention, times.slowdown);
  // A device that waits for its host waits less when its kernels take longer.
  terms.add(Term::LaunchWait, -std::min(terms.launch_wait(), times.slowdown));
}

void add_backward_collectives(const PricedChunk& priced, Terms& terms, bool reduces, bool last) {
  const double gathers = priced.collectives.backward_gathers(priced.chunk);
  if (gathers == 0.0 && !reduces) return;
  if (gathers == 0.0 && !priced.run.strategy.gradient_overlap && last) {
    terms.add(Term::ReduceExposed, priced.exchange.at_once);
    return;
  }
  add_collectives(priced, terms, gathers, reduces,
                  reduces ? Term::ReduceExposed : Term::GatherExposed);
}

void add_host_traffic(const PricedChunk& priced, Terms& terms, bool backward, bool last) {
  const Strategy& strategy = priced.run.strategy;
  const Offload& offload = strategy.offload;
  if (!offload.activations && !offload.parameters && !offload.optimizer) return;
  HostTraffic traffic(priced.run);
  if (offload.activations)
    traffic.checkpoints(offloading_blocks(strategy, priced.chunk.blocks) *
                            offloaded_by_block(priced.run, priced.block),
                        backward);
  const double experts = priced.rank.divided_experts(priced.chunk),
               owned = trained_parameters(priced.rank, priced.chunk).owned(strategy);
  const double held = (priced.rank.held(priced.chunk) - experts) / state_shards(strategy).weights +
                      experts / expert_state_shards(strategy).weights;
  if (offload.parameters) {
    const double fetches = backward && priced.collectives.shards_weights()
                               ? priced.collectives.backward_gathers(priced.chunk)
                               : 1.0;
    traffic.weights(Bytes(fetches * held * priced.collectives.weight_wire_bytes()));
  }
  if (offload.optimizer && backward)
    traffic.gradients(owned, Bytes(owned * priced.collectives.gradient_wire_bytes()), last);
  terms.add(Term::OffloadExposed, traffic.exposed(terms.total()));
}

// `terms`: of its operators.
Terms forward_pass(const PricedChunk& priced, Terms terms, Seconds waits, bool gathers) {
  if (gathers) terms.add(Term::GradientCopies, priced.exchange.gather_copies);
  terms.add(Term::LaunchWait, waits);
  if (gathers) add_collectives(priced, terms, 1.0, false, Term::GatherExposed);
  add_host_traffic(priced, terms, false, false);
  return terms;
}

Terms backward_pass(const PricedChunk& priced, Terms terms, Seconds waits, bool reduces,
                    bool last) {
  if (reduces) terms.add(Term::GradientCopies, priced.exchange.reduction_copies);
  terms.add(Term::GradientCopies,
            priced.collectives.backward_gathers(priced.chunk) * priced.exchange.gather_copies);
  terms.add(Term::LaunchWait, waits);
  add_backward_collectives(priced, terms, reduces, last);
  add_host_traffic(priced, terms, true, last);
  return terms;
}

Terms weight_gradients(const PricedChunk& priced) {
  Terms terms;
  terms.add(Term::BackwardGemm, priced.chunk.blocks * priced.block.backward.weight_gradients);
  if (priced.chunk.head) terms.add(Term::HeadAndLoss, priced.prices.head.backward.weight_gradients);
  terms.add(Term::GradientCopies, priced.exchange.accumulation);
  return terms;
}

// Blocking transfers: each stage waits for what it receives and for what it sends.
void add_transfers(const PricedChunk& priced, ChunkPassTimes& passes) {
  if (priced.run.strategy.pp == 1 || !priced.run.framework.blocking_transfers) return;
  const double neighbours = (priced.chunk.embedding ? 0.0 : 1.0) + (priced.chunk.head ? 0.0 : 1.0);
  const Seconds forward = neighbours * transfer_time(priced.run, false),
                backward = neighbours * transfer_time(priced.run, true);
  for (Terms* times : {&passes.forward, &passes.first_forward})
    times->add(Term::TransferExposed, forward);
  for (Terms* times : {&passes.backward, &passes.last_backward})
    times->add(Term::TransferExposed, backward);
}

// Of the ends, `early` of whose gradients are sent before those of the blocks.
EmbeddingAndHeadMessages embedding_and_head_messages(const DataParallelCollectives& collectives,
                                                     const ModelChunk& chunk, double early) {
  EmbeddingAndHeadMessages messages{
      .gathered = collectives.gathered_embedding_and_head(chunk),
      .late = collectives.embedding_and_head_parameters(chunk) - early,
      .early = early};
  if (messages.late > 0.0 || messages.gathered > 0.0)
    messages.root = collectives.times(messages.late, messages.gathered);
  if (early > 0.0) messages.head = collectives.times(early, 0.0);
  return messages;
}

ChunkExchange chunk_exchange(const Run& run, const DataParallelCollectives& collectives,
                             const RankParameters& rank, const ModelChunk& chunk) {
  ChunkExchange exchange{.has_neighbours = collectives.has_neighbours()};
  // Time to copy so many bytes of every trained parameter through device memory.
  const double trained = collectives.trained_parameters(chunk);
  const auto copied = [&](double bytes) {
    return Bytes(bytes * trained) / run.cluster.device.achieved_bandwidth();
  };
  exchange.accumulation = copied(accumulation_bytes(run, collectives));
  exchange.reduction_copies = copied(reduction_copy_bytes(run, collectives));
  exchange.gather_copies = copied(gather_copy_bytes(run, collectives));
  const double experts = rank.trained_divided_experts(chunk);
  if (!run.strategy.gradient_overlap)
    exchange.at_once = collectives.times(trained - experts, 0.0).reduce() +
                       collectives.expert_times(experts, 0.0).reduce();
  if (!exchange.has_neighbours) return exchange;
  if (chunk.blocks > 0)
    exchange.units = collectives.units(chunk), exchange.unit = collectives.unit_times(chunk);
  if (collectives.gathers_once() || collectives.gathers_every_pass())
    exchange.gathers = embedding_and_head_messages(collectives, chunk, 0.0);
  exchange.reductions = embedding_and_head_messages(
      collectives, chunk, collectives.shards_weights() ? 0.0 : collectives.head_parameters(chunk));
  return exchange;
}

}  // namespace

ChunkPassTimes chunk_pass_times(const Run& run, const LayerPrices& prices,
                                const DataParallelCollectives& collectives,
                                const RankParameters& rank, const ModelChunk& chunk) {
  const ChunkExchange exchange = chunk_exchange(run, collectives, rank, chunk);
  std::optional<BlockPrice> mean;
  const BlockPrice* block = only_block(prices, chunk);
  if (!block) block = &mean.emplace(mean_block(run, prices, chunk));
  const PricedChunk priced{run, prices, collectives, rank, chunk, exchange, *block};
  const Terms forward = forward_compute(priced), backward = backward_compute(priced);
  const LaunchWaits waits = waits_of(priced, forward, backward);
  ChunkPassTimes passes;
  passes.forward = forward_pass(priced, forward, waits.forward, collectives.gathers_every_pass());
  passes.first_forward = collectives.gathers_once()
                             ? forward_pass(priced, forward, waits.forward, true)
                             : passes.forward;
  passes.backward = backward_pass(priced, backward, waits.backward,
                                  collectives.reduces_every_microbatch(), false);
  passes.last_backward = backward_pass(priced, backward, waits.backward, true, true);
  passes.weights = weight_gradients(priced);
  add_transfers(priced, passes);
  return passes;
}

}  // namespace llmsim::sim
