#include "runtime/measure/counted_step.h"

#include <nlohmann/json.hpp>

#include "runtime/library/memory_meter.h"
#include "sim/strategy/mesh.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;
using sim::GroupKind;

sim::SentTotals sent_over(const RankGroups& groups) {
  sim::SentTotals sent;
  for (const auto& [group, communicator] : groups.communicators()) {
    const CollectiveCounts counts = communicator->counts();
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      if (counts[kind].calls == 0) continue;
      sim::CollectiveTotal& total =
          sent[{sim::name_of(group), sim::name_of(static_cast<sim::CollectiveKind>(kind))}];
      total.calls += counts[kind].calls, total.bytes += counts[kind].bytes;
    }
  }
  return sent;
}

// Bytes of a metered device over what others held before.
class Held {
 public:
  explicit Held(c10::Device device)
      : device_(device.is_meta() ? MeteredDevice::Meta : MeteredDevice::Cpu),
        before_(held_bytes(device_).now),
        host_before_(held_bytes(device_, Place::Host).now) {}

  void between_steps(sim::HeldBytes& bytes) const {
    bytes.persistent = held_bytes(device_).now - before_;
    bytes.host = held_bytes(device_, Place::Host).now - host_before_;
    reset_peak(device_);
  }
  void after_step(sim::HeldBytes& bytes, const StepResult& result) const {
    bytes.after_forward = result.bytes_after_forward - before_;
    bytes.peak = held_bytes(device_).peak - before_;
    bytes.host_peak = held_bytes(device_, Place::Host).peak - host_before_;
  }

 private:
  MeteredDevice device_;
  std::int64_t before_;
  std::int64_t host_before_;
};

json record_of(const sim::PassFlopCounts& flops) {
  return {{"gemm_flops", flops.gemms}, {"attention_flops", flops.attention}};
}

json record_of(const sim::RankCounts& counts) {
  json sent = json::array();
  for (const auto& [name, total] : counts.sent)
    sent.push_back({{"group", name.first},
                    {"collective", name.second},
                    {"calls", total.calls},
                    {"bytes", total.bytes}});
  return {{"parameters", counts.parameters},
          {"forward", record_of(counts.forward)},
          {"backward", record_of(counts.backward)},
          {"bytes",
           {{"persistent", counts.held.persistent},
            {"after_forward", counts.held.after_forward},
            {"peak", counts.held.peak},
            {"host", counts.held.host},
            {"host_peak", counts.held.host_peak}}},
          {"sent", sent}};
}

// Place among the ranks that share units of parameters.
int shard_of(const sim::Strategy& strategy, int rank) {
  return rank / sim::group_stride(strategy, GroupKind::Data) % strategy.shard_ranks();
}

}  // namespace

void PassFlops::pass_done(bool backward) {
  const sim::PassFlopCounts now{.gemms = trace_.gemm_flops(),
                                .attention = trace_.attention_flops()};
  sim::PassFlopCounts& pass = backward ? backward_ : forward_;
  pass.gemms += now.gemms - before_.gemms;
  pass.attention += now.attention - before_.attention;
  before_ = now;
}

sim::RankCounts counted_step(const TrainingSetup& setup, int rank) {
  const Held held(setup.device);
  sim::RankCounts counts;
  const RankGroups groups = counting_groups(setup.strategy, rank);
  Trainer trainer(setup, groups);
  for (const ParameterUnit* unit : trainer.units()) counts.parameters += unit->parameters();
  trainer.step(trainer.next_batches());
  const auto batches = trainer.next_batches();
  for (const auto& [group, communicator] : groups.communicators()) communicator->reset_counts();
  held.between_steps(counts.held);
  PassFlops flops;
  StepObserver observer;
  observer.pass_done = [&](bool backward) { flops.pass_done(backward); };
  held.after_step(counts.held, trainer.step(batches, observer));
  counts.forward = flops.forward(), counts.backward = flops.backward();
  counts.sent = sent_over(groups);
  return counts;
}

std::string counted_key(const StepCase& one, int rank) {
  return one.key + " rank " + std::to_string(rank);
}

json counted_record(const StepCase& one, int rank) {
  const int stage = rank / sim::group_stride(one.setup.strategy, GroupKind::Pipeline);
  return {{"type", "counted"},
          {"key", counted_key(one, rank)},
          {"run", run_record(one, "meta")},
          {"rank", rank},
          {"stage", stage},
          {"shard", shard_of(one.setup.strategy, rank)},
          {"counts", record_of(counted_step(one.setup, rank))}};
}

}  // namespace llmsim::runtime
