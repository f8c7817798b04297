#include "sim/schedule/rank_counts.h"

#include <cmath>
#include <vector>

#include "sim/memory/shards.h"
#include "sim/memory/stage_contents.h"
#include "sim/memory/step_walk.h"
#include "sim/schedule/communication.h"
#include "sim/schedule/data_exchange.h"
#include "sim/schedule/stage_work.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
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
  const std::vector<ModelPart> parts = stage_parts(run.model, run.strategy, stage);
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const StageWork work = stage_work(run, parts, shard);
  RankCounts counts;
  for (const ModelPart& part : parts) counts.parameters += whole(rank.held(part));
  counts.forward = counts_of(work.forward);
  counts.backward = counts_of(work.backward);
  add(counts.sent, work.collectives);
  add(counts.sent, data_communication(run, DataExchange(run, rank), parts));
  counts.held = held_of(stage_peak(run, layer_bytes(run), StageContents(run.model, run.strategy), stage, shard));
  return counts;
}

}  // namespace llmsim::sim
