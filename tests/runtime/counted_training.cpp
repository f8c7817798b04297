#include "tests/runtime/counted_training.h"

#include "runtime/library/memory_meter.h"
#include "runtime/model/simulated_run.h"
#include "sim/memory/step_tape.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::runtime {
namespace {

constexpr sim::GroupKind kDataGroups[] = {sim::GroupKind::Data, sim::GroupKind::Shard, sim::GroupKind::Replicate};

Sent sent_in(const RankGroups& groups) {
  Sent sent;
  for (const sim::GroupKind kind : kDataGroups) {
    if (groups.of(kind) == nullptr) continue;
    const CollectiveCounts counts = groups.of(kind)->counts();
    for (std::size_t i = 0; i < kNumCollectiveKinds; ++i) {
      if (counts[i].calls == 0) continue;
      CollectiveCount& entry = sent[{sim::name_of(kind), sim::name_of(static_cast<sim::CollectiveKind>(i))}];
      entry.calls += counts[i].calls, entry.bytes += counts[i].bytes;
    }
  }
  return sent;
}

void reset_counts(const RankGroups& groups) {
  for (const sim::GroupKind kind : kDataGroups) {
    if (groups.of(kind) != nullptr) groups.of(kind)->reset_counts();
  }
}

bool of_data(const std::string& group) { return group == "dp" || group == "dp_replicate"; }

std::int64_t integer(sim::Bytes size) { return static_cast<std::int64_t>(size.value()); }

}  // namespace

Counted counted_training(const TrainingSetup& setup, int rank) {
  const MeteredDevice device = setup.device.is_meta() ? MeteredDevice::Meta : MeteredDevice::Cpu;
  const std::int64_t before = held_bytes(device).now, host_before = held_bytes(device, Place::Host).now;
  Counted counted;
  const RankGroups groups = counting_groups(setup.strategy, rank);
  Trainer trainer(setup, groups);
  for (int step = 0; step < 2; ++step) {
    const auto batches = trainer.next_batches();
    reset_counts(groups);
    counted.held.persistent = held_bytes(device).now - before;
    counted.held.host = held_bytes(device, Place::Host).now - host_before;
    reset_peak(device);
    counted.held.after_forward = trainer.step(batches).bytes_after_forward - before;
    counted.held.peak = held_bytes(device).peak - before;
    counted.held.host_peak = held_bytes(device, Place::Host).peak - host_before;
  }
  counted.data = sent_in(groups);
  return counted;
}

Counted simulated_training(const TrainingSetup& setup, int stage) { return simulated_training(simulated_run(setup), stage); }

Counted simulated_training(sim::Run run, int stage) {
  const sim::StepTape tape = sim::step_tape(run, stage);
  Counted counted;
  counted.held = {.persistent = integer(tape.persistent()),
                  .after_forward = integer(tape.after_forward),
                  .peak = integer(tape.peak),
                  .host = integer(tape.host),
                  .host_peak = integer(tape.host_peak)};
  run.cluster = sim::ideal_cluster(run.strategy.num_devices());
  for (const sim::CommunicationTerm& term : sim::predict(run).communication) {
    if (!of_data(term.group)) continue;
    CollectiveCount& entry = counted.data[{term.group, term.collective}];
    entry.calls += static_cast<std::int64_t>(term.count), entry.bytes += integer(term.size);
  }
  return counted;
}

}  // namespace llmsim::runtime
