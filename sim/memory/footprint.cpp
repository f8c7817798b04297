#include "sim/memory/footprint.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/base/uncertainty.h"
#include "sim/memory/chunk_layers.h"
#include "sim/memory/shards.h"
#include "sim/operators/update.h"
#include "sim/strategy/layout_ratio.h"

namespace llmsim::sim {
namespace {

// What is allocated over what is counted, as measured peaks of the cluster have it.
double measured_factor(const Run& run) {
  if (run.measured_peaks.empty()) return 1.0;
  return std::exp(run.measured_peaks.log_factor(traits_of(run.strategy)));
}

StagePeak scaled(StagePeak stage, double factor) {
  for (Bytes StagePeak::*size : {&StagePeak::idle, &StagePeak::peak, &StagePeak::temporaries})
    stage.*size = factor * (stage.*size);
  return stage;
}

void scale(MemoryPoint& point, double factor) {
  const Bytes more = (factor - 1.0) * point.allocated;
  point.allocated += more;
  point.terms[MemoryKind::MeasuredCorrection] += more;
}

std::vector<MemoryPoint> scaled(std::vector<MemoryPoint> points, double factor) {
  if (factor == 1.0) return points;
  for (MemoryPoint& point : points) scale(point, factor);
  return points;
}

// Errors where peaks of the cluster are known: of allocated and of device bytes the larger one, and
// of what is needed in the ratio that the framework's errors have.
void set_measured_errors(Memory& memory, const Run& run) {
  const PeakCorrection& peaks = run.measured_peaks;
  const LayoutTraits layout = traits_of(run.strategy);
  const StageMemory& fullest = memory.fullest();
  const auto error_of = [&](Bytes size, Bytes gaps) {
    return peaks.error(layout, {.allocated = (size - memory.context) / size,
                                .gaps = gaps / size,
                                .context = memory.context / size});
  };
  memory.error =
      std::max(peaks.error(layout, {}), error_of(memory.reserved + memory.context, fullest.lost));
  memory.needed_error =
      error_of(memory.needed(), run.framework.reserve.unrecoverable_gaps * fullest.lost) *
      run.framework.errors.needed_per_peak();
}

// Gaps among the blocks that a step allocates and frees.  The flat buffers of the update leave
// none, and fit into none.
void add_gaps(StageMemory& memory, const StagePeak& stage, const Run& run) {
  const MemoryReserve& reserve = run.framework.reserve;
  const double fragmentation = reserve.reserved_per_byte();
  const Bytes none{};
  const Bytes passing =
      std::max(none, stage.peak - stage.idle - (stage.in_update ? stage.temporaries : none));
  memory.lost = std::max(none, (fragmentation - 1.0) * passing);
  if (run.model.moe && run.strategy.cuda_graph && run.strategy.moe_captured)
    memory.captured = reserve.captured_growth * passing;
  memory.reserved = memory.peak + memory.lost + memory.captured +
                    (stage.in_update || fragmentation == 1.0 ? none : stage.temporaries);
}

// The stage before it that holds what it holds: a DualPipe is the same from both ends.
std::optional<std::size_t> twin_of(const Strategy& strategy, int stage) {
  const int other = strategy.pp - 1 - stage;
  const bool is_mirrored =
      strategy.pipeline_schedule == PipelineSchedule::DualPipe && other < stage;
  return is_mirrored ? std::optional(static_cast<std::size_t>(other)) : std::nullopt;
}

// Of each phase the highest point, in the order in which they come.
std::vector<MemoryPhase> phases_of(const std::vector<MemoryPoint>& points) {
  std::vector<MemoryPhase> phases;
  for (const MemoryPoint& point : points) {
    const auto same = [&](const MemoryPhase& phase) {
      return std::string_view(phase.phase) == point.phase;
    };
    auto phase = std::find_if(phases.begin(), phases.end(), same);
    if (phase == phases.end()) phase = phases.insert(phases.end(), {.phase = point.phase});
    if (point.allocated > phase->allocated)
      *phase = {point.phase, point.allocated, point.terms.present()};
  }
  return phases;
}

constexpr double kBlocksThatStay = 2.0;  // on the device

// Of a parameter, on the host.
double host_update_bytes(const Run& run, const ParameterStorage& storage) {
  const double sums = run.framework.host_copies.gradients_return ? storage.gradient_bytes : 0.0;
  return storage.master_bytes + state_bytes_per_parameter(run.strategy.optimizer, storage) +
         size_of(DType::Fp32).value() + sums;
}

Bytes offloaded_activations(const Run& run, const LayerPrices& prices,
                            const StageContents& contents, int stage) {
  const double passes = contents.chunks_in_flight(stage) / static_cast<double>(contents.chunks());
  double blocks = 0.0;
  for (int chunk = 0; chunk < contents.chunks(); ++chunk) {
    blocks += offloading_blocks(run.strategy, contents.chunk(stage, chunk).blocks);
  }
  // The last kind that the stage has: the one with experts, where one has them.
  std::size_t last = 0;
  for_each_kind(contents.of_kind(stage), [&](std::size_t slot, int) { last = slot; });
  return std::max(0.0, passes * blocks - kBlocksThatStay) *
         offloaded_by_block(run, prices.blocks[last]);
}

Bytes offloaded(const Run& run, const LayerPrices& prices, const StageContents& contents,
                int stage) {
  const Offload& offload = run.strategy.offload;
  const StateShards shards = state_shards(run.strategy);
  const StateShards expert_shards = expert_state_shards(run.strategy);
  const ParameterStorage storage = storage_of(run.strategy, run.framework);
  Bytes bytes;
  const double divided_experts = contents.divided_experts(stage),
               trained_experts = run.strategy.adapters ? 0.0 : divided_experts;
  const auto divided = [](double whole, double experts, double ranks, double expert_ranks) {
    return (whole - experts) / ranks + experts / expert_ranks;
  };
  if (offload.optimizer) {
    const double owned = divided(contents.trained(stage), trained_experts, shards.optimizer,
                                 expert_shards.optimizer);
    bytes += Bytes(owned * host_update_bytes(run, storage));
  }
  if (offload.parameters) {
    bytes += Bytes(
        divided(contents.held(stage), divided_experts, shards.weights, expert_shards.weights) *
        storage.weight_bytes);
  }
  if (offload.activations) bytes += offloaded_activations(run, prices, contents, stage);
  return bytes;
}

HostMemory host_memory(const Run& run, const LayerPrices& prices, const StageContents& contents) {
  const Offload& offload = run.strategy.offload;
  HostMemory memory{.capacity = run.cluster.host_memory};
  if (!offload.optimizer && !offload.parameters && !offload.activations &&
      run.framework.host_load_bytes <= 0.0)
    return memory;
  double model = 0.0;
  for (int stage = 0; stage < run.strategy.pp; ++stage) {
    memory.device = std::max(memory.device, offloaded(run, prices, contents, stage));
    model += contents.held(stage);
  }
  const Bytes loaded{model * run.framework.host_load_bytes};
  memory.loading = loaded > memory.device;
  memory.device = std::max(memory.device, loaded);
  memory.node = memory.device * run.cluster.devices_on_a_node();
  return memory;
}

}  // namespace

double Memory::fit_probability() const {
  if (needed_error <= 0.0 || needed() <= Bytes(0.0)) return fits() ? 1.0 : 0.0;
  return student_probability(std::log(capacity / needed()) / needed_error);
}

std::pair<Bytes, Bytes> Memory::interval(Bytes predicted, double level) const {
  const double factor = std::exp(error * student_quantile(0.5 + 0.5 * level));
  return {predicted / factor, factor * predicted};
}

const StageMemory& Memory::fullest() const {
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
}

Memory memory_footprint(const Run& run, const LayerPrices& prices, MemoryStages stages) {
  return memory_footprint(run, prices, StageContents(run), stages);
}

Memory memory_footprint(const Run& run, const LayerPrices& prices, const StageContents& contents,
                        MemoryStages stages) {
  StageWalks walks(run, prices, contents);
  return memory_footprint(run, prices, contents, walks, stages);
}

Memory memory_footprint(const Run& run, const LayerPrices& prices, const StageContents& contents,
                        StageWalks& walks, MemoryStages stages) {
  const bool leaves_out = stages == MemoryStages::Fullest &&
                          run.strategy.pipeline_schedule <= PipelineSchedule::Interleaved;
  const double factor = measured_factor(run);
  Memory memory;
  for (int stage = 0; stage < run.strategy.pp; ++stage) {
    if (leaves_out && !contents.stages().is_first_of_kind(stage)) continue;
    if (const std::optional<std::size_t> twin = twin_of(run.strategy, stage)) {
      const StageMemory same = memory.stages[*twin];
      memory.stages.push_back(same);
      memory.stages.back().stage = stage;
      continue;
    }
    const StagePeak peak = scaled(walks.peak(stage), factor);
    memory.stages.push_back({.stage = stage, .peak = peak.peak});
    add_gaps(memory.stages.back(), peak, run);
    memory.peak = std::max(memory.peak, memory.stages.back().peak);
    memory.reserved = std::max(memory.reserved, memory.stages.back().reserved);
  }
  memory.context = context_memory(run);
  const StageMemory& fullest = memory.fullest();
  memory.margin = run.framework.reserve.unrecoverable_gaps * fullest.lost + fullest.captured;
  memory.capacity = run.cluster.device.usable_memory;
  memory.error = run.framework.errors.memory;
  memory.needed_error = run.framework.errors.needed_memory;
  memory.device = memory.reserved + memory.context;
  if (!run.measured_peaks.empty()) set_measured_errors(memory, run);
  memory.host = host_memory(run, prices, contents);
  return memory;
}

std::vector<MemoryPhase> memory_timeline(const Run& run, const LayerPrices& prices, int stage) {
  return phases_of(
      scaled(stage_points(run, prices, StageContents(run), stage, false), measured_factor(run)));
}

MemoryPeak explain_peaks(Memory& memory, const Run& run, const LayerPrices& prices) {
  const StageContents contents(run);
  StageWalks walks(run, prices, contents);
  const double factor = measured_factor(run);
  MemoryPeak peak{.stage = memory.fullest().stage};
  for (StageMemory& stage : memory.stages) {
    if (const std::optional<std::size_t> twin = twin_of(run.strategy, stage.stage)) {
      stage.phase = memory.stages[*twin].phase, stage.terms = memory.stages[*twin].terms;
      continue;
    }
    MemoryPoint highest;
    if (stage.stage == peak.stage) {
      const std::vector<MemoryPoint> points = scaled(walks.points(stage.stage, false), factor);
      memory.timeline = phases_of(points);
      highest = *std::max_element(
          points.begin(), points.end(),
          [](const MemoryPoint& a, const MemoryPoint& b) { return a.allocated < b.allocated; });
      peak.phase = highest.phase;
      peak.micro_batch = highest.micro_batch, peak.layer = highest.layer;
      peak.passes_in_flight = highest.passes_in_flight;
      peak.blocks_in_flight = highest.blocks_in_flight;
      peak.parameters = contents.held(peak.stage);
    } else {
      highest = walks.highest(stage.stage);
      if (factor != 1.0) scale(highest, factor);
    }
    stage.phase = highest.phase, stage.terms = highest.terms.present();
  }
  return peak;
}

Bytes context_memory(const Run& run) {
  const Strategy& s = run.strategy;
  const int kinds = (s.dp > 1) + (s.tp > 1) + (s.pp > 1) + (s.cp > 1) + (s.ep > 1);
  const int further = kinds > 1 ? kinds : 0;
  return run.cluster.device.context_memory + further * run.cluster.device.communicator_memory;
}

Bytes MemoryCurve::reserved(const MemoryPoint& point) const {
  const Bytes idle = points.front().allocated;
  return idle + fragmentation * (point.allocated - idle);
}

MemoryCurve memory_curve(const Run& run, const LayerPrices& prices, int stage, bool whole_step) {
  const StageContents contents(run);
  MemoryCurve curve{.stage = stage, .fragmentation = run.framework.reserve.reserved_per_byte()};
  curve.points =
      scaled(stage_points(run, prices, contents, stage, whole_step), measured_factor(run));
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    if (curve.points[i].allocated > curve.peak().allocated) curve.highest = i;
  }
  return curve;
}

}  // namespace llmsim::sim
