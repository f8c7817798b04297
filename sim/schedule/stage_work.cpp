#include "sim/schedule/stage_work.h"

#include <algorithm>
#include <cmath>

#include "sim/memory/step_walk.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/schedule/communication.h"
#include "sim/schedule/data_parallel_collectives.h"

namespace llmsim::sim {

namespace {

constexpr Bytes kNorm{4.0};

// Operators that run `times` times in a step.
void add(StageWork& work, WorkFlops& flops, const OperatorList& operators, double times) {
  for (const Operator& op : operators) {
    if (op.kind == OperatorKind::Gemm) flops.gemms += times * op.flops;
    if (op.kind == OperatorKind::Attention || op.kind == OperatorKind::Scan ||
        op.kind == OperatorKind::SelectiveScan)
      flops.attention += times * op.flops;
    if (op.kind == OperatorKind::Collective && times > 0.0)
      work.collectives.push_back({.kind = op.collective,
                                  .group = op.group,
                                  .message = op.message,
                                  .calls = times * op.launches});
  }
}

// Other frameworks sum them before they divide them.
double partial_gradients_of(const Run& run, const RankParameters& rank,
                            const std::vector<ModelChunk>& chunks, int shard) {
  Strategy strategy = run.strategy;
  if (!run.framework.sharded.flat_units) strategy.sharding = Sharding::None;
  return partial_gradients(run.model, strategy, rank, chunks,
                           strategy.shard_ranks() > 1 ? shard : 0);
}

double recomputed_of_kind(const Run& run, const ModelChunk& chunk, LayerKind kind) {
  int count = 0;
  for (int block = 0; block < chunk.blocks; ++block) {
    if (kind_of_layer(run.model, chunk.first_layer + block) == kind &&
        run.strategy.recompute.repeats(block))
      ++count;
  }
  return count;
}

bool is_end(const ModelChunk& chunk) { return chunk.embedding || chunk.head; }

// Whether the stage of these chunks is the one where a V turns: its two chunks follow one another.
bool turns(const Strategy& strategy, const std::vector<ModelChunk>& chunks) {
  return is_v_shaped(strategy.pipeline_schedule) &&
         chunks.front().first_layer + chunks.front().blocks == chunks.back().first_layer;
}

// Gradients of one copy of the chunks of a DualPipe stage, of its shard where data ranks have
// divided them.
Bytes copied_gradients(const Run& run, const RankParameters& rank,
                       const std::vector<ModelChunk>& chunks) {
  StageParameters trained;
  for (const ModelChunk& chunk : chunks) trained += trained_parameters(rank, chunk);
  return Bytes(trained.owned(run.strategy) * gradient_wire_bytes(run));
}

}  // namespace

StageWork stage_work(const Run& run, const std::vector<ModelChunk>& chunks, int shard) {
  const Framework framework = effective_framework(run.framework, run.strategy);
  const Recompute& recompute = run.strategy.recompute;
  const LayerOperators embedding = lower_embedding(run.model, run.strategy, framework);
  const LayerOperators head = lower_head(run.model, run.strategy, framework);
  const double m = stage_layout(run.strategy).chunk_microbatches();
  StageWork work;
  const LayerKinds kinds = layer_kinds(run.model);
  for (std::size_t slot = 0; slot < kinds.size(); ++slot) {
    const auto has_some = [slot](const ModelChunk& chunk) { return chunk.of_kind[slot] > 0; };
    if (std::none_of(chunks.begin(), chunks.end(), has_some)) continue;
    const LayerOperators block =
        lower_block(run.model, run.strategy, framework, recompute.kind, kinds[slot]);
    for (const ModelChunk& chunk : chunks) {
      add(work, work.forward, block.forward, m * chunk.of_kind[slot]);
      add(work, work.backward, block.backward, m * chunk.of_kind[slot]);
      add(work, work.backward, block.recompute, m * recomputed_of_kind(run, chunk, kinds[slot]));
    }
  }
  const auto add_end = [&](const LayerOperators& end) {
    add(work, work.forward, end.forward, m);
    add(work, work.backward, end.recompute, m);
    add(work, work.backward, end.backward, m);
  };
  for (const ModelChunk& chunk : chunks) {
    if (chunk.embedding) add_end(embedding);
    if (chunk.head) add_end(head);
  }
  for (const RepeatedCollective& sends : stage_messages(run, chunks))
    work.collectives.push_back(sends);
  for (const RepeatedCollective& closing : closing_collectives(run, chunks, shard))
    work.collectives.push_back(closing);
  return work;
}

StageMessage stage_message(const Run& run, bool backward) {
  const Strategy& s = run.strategy;
  const Bytes output = stage_output(run.model, s);
  const bool divides =
      backward ? run.framework.divides_sent_gradients : run.framework.divides_sent_activations;
  if (!divides || s.sequence_parallel || s.tp == 1) return {.sent = output, .gathered = {}};
  return {.sent = output / s.tp, .gathered = output};
}

std::vector<RepeatedCollective> stage_messages(const Run& run,
                                               const std::vector<ModelChunk>& chunks) {
  std::vector<RepeatedCollective> list;
  if (run.strategy.pp == 1) return list;
  // That the stage sends; it receives as many of the other.
  double activations = 0.0, gradients = 0.0;
  for (const ModelChunk& chunk : chunks)
    activations += chunk.head ? 0.0 : 1.0, gradients += chunk.embedding ? 0.0 : 1.0;
  if (turns(run.strategy, chunks)) activations -= 1.0, gradients -= 1.0;
  const double m = stage_layout(run.strategy).chunk_microbatches();
  const auto add = [&](CollectiveKind kind, GroupKind group, Bytes message, double calls) {
    if (message <= Bytes(0.0) || calls <= 0.0) return;
    const bool again = !list.empty() && list.back().kind == kind && list.back().message == message;
    if (again) list.back().calls += m * calls;
    if (!again)
      list.push_back({.kind = kind, .group = group, .message = message, .calls = m * calls});
  };
  const StageMessage forward = stage_message(run, false), backward = stage_message(run, true);
  add(CollectiveKind::SendRecv, GroupKind::Pipeline, forward.sent, activations);
  add(CollectiveKind::SendRecv, GroupKind::Pipeline, backward.sent, gradients);
  add(CollectiveKind::AllGather, GroupKind::Tensor, forward.gathered, gradients);
  add(CollectiveKind::AllGather, GroupKind::Tensor, backward.gathered, activations);
  return list;
}

std::vector<RepeatedCollective> closing_collectives(const Run& run,
                                                    const std::vector<ModelChunk>& chunks,
                                                    int shard) {
  return closing_collectives(run, rank_parameters(run.model, run.strategy), chunks, shard);
}

std::vector<RepeatedCollective> closing_collectives(const Run& run, const RankParameters& rank,
                                                    const std::vector<ModelChunk>& chunks,
                                                    int shard) {
  const Strategy& strategy = run.strategy;
  std::vector<RepeatedCollective> list;
  const auto all_reduce = [&](GroupKind group, Bytes message) {
    list.push_back({.group = group, .message = message});
  };
  if (!run.optimizer_step || strategy.adapters) return list;
  const bool tensor = strategy.tp > 1, stages = strategy.pp > 1;
  const double partial = tensor ? partial_gradients_of(run, rank, chunks, shard) : 0.0;
  if (partial > 0.0) all_reduce(GroupKind::Tensor, Bytes(partial * gradient_wire_bytes(run)));
  if (strategy.pipeline_schedule == PipelineSchedule::DualPipe)
    all_reduce(GroupKind::Mirror, copied_gradients(run, rank, chunks));
  if (!stage_layout(strategy).embedding_meets_head() && run.model.tied_embeddings &&
      std::any_of(chunks.begin(), chunks.end(), is_end)) {
    const double table = real(run.model.vocab_size) / strategy.tp * run.model.hidden_size;
    all_reduce(GroupKind::Embedding, Bytes(table * gradient_wire_bytes(run)));
  }
  if (strategy.ep > 1 && strategy.sharding == Sharding::None) all_reduce(GroupKind::Expert, kNorm);
  if (tensor) all_reduce(GroupKind::Tensor, kNorm);
  if (stages) all_reduce(GroupKind::Pipeline, kNorm);
  return list;
}

namespace {

std::int64_t whole(double value) { return std::llround(value); }

PassFlopCounts counts_of(const WorkFlops& flops) {
  return {.gemms = whole(flops.gemms.value()), .attention = whole(flops.attention.value())};
}

void add(SentTotals& sent, const std::vector<RepeatedCollective>& collectives) {
  for (const RepeatedCollective& one : collectives) {
    CollectiveTotal& total = sent[{name_of(one.group), name_of(one.kind)}];
    total.calls += whole(one.calls), total.bytes += whole((one.calls * one.message).value());
  }
}

void add(SentTotals& sent, const std::vector<CommunicationTerm>& terms) {
  for (const CommunicationTerm& term : terms) {
    CollectiveTotal& total = sent[{term.group, term.collective}];
    total.calls += whole(term.count), total.bytes += whole(term.size.value());
  }
}

HeldBytes held_of(const StagePeak& stage) {
  return {.persistent = whole(stage.idle.value()),
          .after_forward = whole(stage.after_forward.value()),
          .peak = whole(stage.peak.value()),
          .host = whole(stage.host.value()),
          .host_peak = whole(stage.host_peak.value())};
}

}  // namespace

RankCounts rank_counts(Run run, int stage, int shard) {
  run.cluster = Cluster{};
  run.cluster.num_devices = run.strategy.num_devices();
  const std::vector<ModelChunk> chunks = stage_chunks(run.model, run.strategy, stage);
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const StageWork work = stage_work(run, chunks, shard);
  RankCounts counts;
  for (const ModelChunk& chunk : chunks) counts.parameters += whole(rank.held(chunk));
  counts.forward = counts_of(work.forward);
  counts.backward = counts_of(work.backward);
  add(counts.sent, work.collectives);
  add(counts.sent, data_communication(run, DataParallelCollectives(run, rank), chunks));
  counts.held = held_of(stage_peak(run, layer_bytes(run), StageContents(run), stage, shard));
  return counts;
}

}  // namespace llmsim::sim
