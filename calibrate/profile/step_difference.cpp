#include "calibrate/profile/step_difference.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "calibrate/statistics.h"
#include "sim/base/error.h"
#include "sim/base/uncertainty.h"
#include "sim/cost/collective.h"

namespace llmsim::calibrate {

namespace {

using hwdb::KernelClass;
using sim::Seconds;

// --- which ranks a collective is of ---

// Words of letters: "mesh_tp" has "mesh" and "tp".
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalpha(static_cast<unsigned char>(c)))
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

// Names of groups in Megatron Core (parallel_state.py), torch's device meshes ("mesh_tp") and
// DeepSpeed; those of data ranks come first, as in EXPERT_DATA_PARALLEL_GROUP.
std::optional<StepPart> described_part(const std::string& description) {
  const std::vector<std::string> words = words_of(description);
  constexpr std::pair<const char*, StepPart> kWords[] = {
      {"data", StepPart::Data},     {"dp", StepPart::Data},
      {"fsdp", StepPart::Data},     {"edp", StepPart::Data},
      {"shard", StepPart::Data},    {"replicate", StepPart::Data},
      {"expert", StepPart::Expert}, {"ep", StepPart::Expert},
      {"etp", StepPart::Expert},    {"tensor", StepPart::Tensor},
      {"tp", StepPart::Tensor},     {"context", StepPart::Context},
      {"cp", StepPart::Context},    {"pipeline", StepPart::Pipeline},
      {"pp", StepPart::Pipeline}};
  for (const auto& [word, part] : kWords)
    if (std::ranges::find(words, word) != words.end()) return part;
  return std::nullopt;
}

StepPart part_of_group(const std::string& group) {
  constexpr std::pair<const char*, StepPart> kGroups[] = {
      {"tp", StepPart::Tensor},     {"cp", StepPart::Context},        {"ep", StepPart::Expert},
      {"etp", StepPart::Expert},    {"pp", StepPart::Pipeline},       {"pp_mirror", StepPart::Data},
      {"dp", StepPart::Data},       {"dp_replicate", StepPart::Data}, {"edp", StepPart::Data},
      {"embedding", StepPart::Data}};
  for (const auto& [name, part] : kGroups)
    if (group == name) return part;
  return StepPart::OtherCollectives;
}

// How unlike the calls of a term some calls are: logarithms of the ratios of their numbers and
// their bytes.
double distance(const ProfiledCollective& calls, const sim::CommunicationTerm& term) {
  const auto apart = [](double a, double b) {
    return a > 0.0 && b > 0.0 ? std::abs(std::log(a / b)) : 0.0;
  };
  return apart(calls.total.kernels, term.count) +
         apart(calls.call.message.value(), term.size.value());
}

// By the description of the group, else by the predicted calls that are most like these.
StepPart part_of(const ProfiledCollective& calls, const sim::Prediction& prediction) {
  if (const auto described = described_part(calls.call.description)) return *described;
  StepPart nearest = StepPart::OtherCollectives;
  double least = std::numeric_limits<double>::infinity();
  for (const sim::CommunicationTerm& term : prediction.communication) {
    const bool same_kind =
        calls.call.kind && term.collective == std::string(name_of(*calls.call.kind));
    const bool same_ranks = calls.call.ranks == 0 || calls.call.ranks == term.ranks;
    const double apart = distance(calls, term);
    if (!same_kind || !same_ranks || term.ranks < 2 || apart >= least) continue;
    least = apart;
    nearest = part_of_group(term.group);
  }
  if (nearest != StepPart::OtherCollectives) return nearest;
  const sim::Strategy& s = prediction.run.strategy;
  if (calls.call.kind == sim::CollectiveKind::SendRecv && s.pp > 1) return StepPart::Pipeline;
  // All-to-alls of NCCL are sends and receives by the names of their kernels.
  const bool exchanges = calls.call.kind == sim::CollectiveKind::AllToAll ||
                         calls.call.kind == sim::CollectiveKind::SendRecv;
  if (exchanges && s.ep > 1) return StepPart::Expert;
  if (exchanges && s.cp > 1) return StepPart::Context;
  const bool data_alone = s.tp == 1 && s.pp == 1 && s.cp == 1 && s.ep == 1;
  return data_alone ? StepPart::Data : StepPart::OtherCollectives;
}

// --- the parts of a profile ---

StepPart part_of(KernelClass kernels) {
  switch (kernels) {
    case KernelClass::Gemm: return StepPart::Gemms;
    case KernelClass::Attention: return StepPart::Attention;
    case KernelClass::Cast: return StepPart::Casts;
    case KernelClass::Optimizer: return StepPart::Optimizer;
    case KernelClass::Copy: return StepPart::Copies;
    case KernelClass::Other: return StepPart::OtherKernels;
    default: return StepPart::MemoryBound;
  }
}

StepParts profiled_parts(const ProfiledStep& step, const sim::Prediction& prediction) {
  StepParts parts;
  for (int i = 0; i < hwdb::kNumKernelClasses; ++i) {
    const auto kernels = static_cast<KernelClass>(i);
    if (kernels != KernelClass::Collective) parts[part_of(kernels)] += step.of(kernels).exposed;
  }
  for (const ProfiledCollective& calls : step.collectives)
    parts[part_of(calls, prediction)] += calls.total.exposed - calls.waiting_exposed;
  parts[StepPart::Waiting] += step.waiting();
  parts[StepPart::Loading] += step.loading;
  parts[StepPart::Idle] += step.idle;
  return parts;
}

double kernels_of(const ProfiledStep& step, StepPart part) {
  double kernels = 0.0;
  for (int i = 0; i < hwdb::kNumKernelClasses; ++i)
    if (part_of(static_cast<KernelClass>(i)) == part)
      kernels += step.classes[static_cast<std::size_t>(i)].kernels;
  return kernels;
}

// --- lines ---

DifferenceLine line_of(StepPart part, const StepDifference& difference, const StepParts& measured) {
  DifferenceLine line{
      .part = part, .measured = measured[part], .predicted = difference.predicted.parts[part]};
  if (difference.profiled.predicted || is_collective(part)) return line;
  if (part == StepPart::Gemms) line.predicted_kernels = difference.predicted.gemm_kernels;
  if (part == StepPart::Casts) line.predicted_kernels = difference.predicted.cast_kernels;
  if (part == StepPart::MemoryBound)
    line.predicted_kernels = difference.predicted.memory_bound_kernels;
  if (part == StepPart::Idle) line.kernels = difference.profiled.gaps;
  if (part < StepPart::Tensor) line.kernels = kernels_of(difference.profiled, part);
  return line;
}

// Shares of forward passes below this are counts of kernels that differ, no recomputation.
constexpr double kLeastRecomputed = 0.1;
constexpr double kLeastMoreGemms = 0.5;

// Moves the time of what is recomputed unasked from its parts to a line of its own.
DifferenceLine recomputation(StepDifference& difference, StepParts& measured) {
  const ProfiledStep& step = difference.profiled;
  const PredictedStep& predicted = difference.predicted;
  DifferenceLine line{.recomputed = true};
  const double forward = step.attention_forward.kernels,
               more = forward - predicted.attention_calls - predicted.recomputed_calls;
  if (step.predicted || predicted.attention_calls <= 0.0 || forward <= 0.0 ||
      more < kLeastRecomputed * predicted.attention_calls)
    return line;
  const double share = difference.unasked_recomputation = more / predicted.attention_calls;
  const auto move = [&](StepPart part, double of_part) {
    const Seconds moved = of_part * measured[part];
    measured[part] -= moved;
    line.measured += moved;
  };
  const Seconds attention = step.of(KernelClass::Attention).busy;
  if (attention > Seconds(0.0))
    move(StepPart::Attention, more / forward * (step.attention_forward.busy / attention));
  const double more_gemms = step.of(KernelClass::Gemm).kernels - predicted.gemm_kernels;
  if (more_gemms < kLeastMoreGemms * share * predicted.block_gemms) return line;
  const auto part_of_it = [&](Seconds again, StepPart part) {
    const Seconds all = predicted.parts[part] + share * again;
    return all > Seconds(0.0) ? share * again / all : 0.0;
  };
  move(StepPart::Gemms, part_of_it(predicted.forward_gemms, StepPart::Gemms));
  move(StepPart::MemoryBound, part_of_it(predicted.forward_memory_bound, StepPart::MemoryBound));
  return line;
}

void add_lines(StepDifference& difference, const sim::Prediction& prediction) {
  StepParts measured = profiled_parts(difference.profiled, prediction);
  const DifferenceLine again = recomputation(difference, measured);
  for (int i = 0; i < kNumStepParts; ++i)
    difference.lines.push_back(line_of(static_cast<StepPart>(i), difference, measured));
  difference.lines.push_back(again);
  std::erase_if(difference.lines, [](const DifferenceLine& line) {
    return line.measured == Seconds(0.0) && line.predicted == Seconds(0.0);
  });
  std::ranges::stable_sort(difference.lines, [](const DifferenceLine& a, const DifferenceLine& b) {
    return std::abs(a.difference().value()) > std::abs(b.difference().value());
  });
}

// --- what lines consist of ---

using CollectiveKey = std::pair<StepPart, std::string>;

std::vector<CollectiveComparison> compared_collectives(const ProfiledStep& step,
                                                       const sim::Prediction& prediction) {
  std::map<CollectiveKey, CollectiveComparison> compared;
  const auto of = [&](StepPart part, const std::string& kind, int ranks) -> CollectiveComparison& {
    CollectiveComparison& one = compared[{part, kind}];
    one.part = part;
    one.ranks = std::max(one.ranks, ranks);
    return one;
  };
  for (const ProfiledCollective& calls : step.collectives) {
    const std::string kind = calls.call.kind ? name_of(*calls.call.kind) : "";
    CollectiveComparison& one = of(part_of(calls, prediction), kind, calls.call.ranks);
    one.kind = calls.call.kind;
    one.calls += calls.total.kernels;
    one.message += calls.call.message;
    one.wire += calls.wire;
  }
  for (const sim::CommunicationTerm& term : prediction.communication) {
    if (term.ranks < 2) continue;
    CollectiveComparison& one = of(part_of_group(term.group), term.collective, term.ranks);
    for (int i = 0; i <= static_cast<int>(sim::CollectiveKind::SendRecv); ++i)
      if (std::string(term.collective) == name_of(static_cast<sim::CollectiveKind>(i)))
        one.kind = static_cast<sim::CollectiveKind>(i);
    one.predicted_calls += term.count;
    one.predicted_message += term.size;
    one.predicted += term.time;
  }
  std::vector<CollectiveComparison> list;
  for (const auto& [key, one] : compared) list.push_back(one);
  return list;
}

std::vector<GemmComparison> compared_gemms(const ProfiledStep& step,
                                           const PredictedStep& predicted) {
  std::map<hwdb::GemmShape, GemmComparison> compared;
  for (const ProfiledGemm& gemm : step.gemms) {
    const hwdb::GemmShape sizes = sorted_sizes(gemm.shape);
    GemmComparison& one = compared[sizes];
    one.shape = sizes;
    one.calls += gemm.total.kernels;
    one.time += gemm.total.busy;
  }
  for (const PredictedGemm& gemm : predicted.gemms) {
    const auto found = compared.find(gemm.shape);
    if (found == compared.end() || gemm.calls <= 0.0) continue;
    found->second.predicted_calls = gemm.calls;
    found->second.predicted_each = gemm.time / gemm.calls;
  }
  std::vector<GemmComparison> list;
  for (const auto& [sizes, one] : compared) list.push_back(one);
  std::ranges::stable_sort(
      list, [](const GemmComparison& a, const GemmComparison& b) { return a.lost() > b.lost(); });
  return list;
}

// --- ranks ---

std::vector<double> waits_of(std::span<const ProfiledStep> steps) {
  std::vector<double> waits;
  for (const ProfiledStep& step : steps) waits.push_back(step.waiting().value());
  return waits;
}

Seconds computing(const ProfiledStep& step) {
  Seconds sum;
  for (int i = 0; i < hwdb::kNumKernelClasses; ++i)
    if (const auto kernels = static_cast<KernelClass>(i);
        kernels != KernelClass::Collective && kernels != KernelClass::Copy)
      sum += step.of(kernels).exposed;
  return sum;
}

// Of stages the busiest one, which is the one that is predicted; else the rank in the middle, of an
// even number the upper one.
const ProfiledStep& representative_rank(std::span<const ProfiledStep> steps, bool stages) {
  std::vector<const ProfiledStep*> ranks;
  for (const ProfiledStep& step : steps) ranks.push_back(&step);
  if (stages)
    return **std::ranges::max_element(ranks, {}, [](const auto* s) { return computing(*s); });
  std::ranges::stable_sort(ranks, {}, [](const ProfiledStep* step) { return step->waiting(); });
  return *ranks[ranks.size() / 2];
}

std::vector<RankTimes> rank_times(std::span<const ProfiledStep> steps) {
  std::vector<RankTimes> ranks;
  if (steps.size() < 2) return ranks;
  const Seconds middle(median(waits_of(steps)));
  for (const ProfiledStep& step : steps)
    ranks.push_back({.name = step.rank ? "rank " + std::to_string(*step.rank) : step.file,
                     .step = step.step,
                     .computing = computing(step),
                     .waiting = step.waiting(),
                     .idle = step.idle,
                     .late = std::max(Seconds(0.0), middle - step.waiting())});
  return ranks;
}

sim::FlopsPerSecond rate(sim::Flops flops, Seconds time) {
  return time > Seconds(0.0) ? flops / time : sim::FlopsPerSecond(0.0);
}

// --- a step time alone ---

struct UsualError {
  StepPart part;
  double deviation;  // of ln(measured / predicted)
};

// Spreads of the hierarchy of factors that is fitted to whole runs (calibrate/README.md, "Fits of
// whole runs"): device and framework 10 %, memory-bound kernels of a study 10 %, its network 53 %,
// its hosts 29 %, the time between steps 70 %; pipelines have those of what stages compute and wait
// for, attention and optimizers those of kernels.
constexpr UsualError kUsualErrors[] = {
    {StepPart::Gemms, 0.1},    {StepPart::Attention, 0.15}, {StepPart::MemoryBound, 0.15},
    {StepPart::Casts, 0.3},    {StepPart::Optimizer, 0.3},  {StepPart::Tensor, 0.53},
    {StepPart::Context, 0.53}, {StepPart::Expert, 0.53},    {StepPart::Pipeline, 0.3},
    {StepPart::Data, 0.53},    {StepPart::Copies, 0.3},     {StepPart::Idle, 0.7}};

}  // namespace

const char* key_of(const DifferenceLine& line) {
  return line.recomputed ? "recomputation" : sim::name_of(line.part);
}

namespace {

std::optional<sim::BytesPerSecond> bus_bandwidth(const std::optional<sim::CollectiveKind>& kind,
                                                 int ranks, sim::Bytes message, Seconds time) {
  if (!kind || ranks < 2 || message <= sim::Bytes(0.0) || time <= Seconds(0.0)) return std::nullopt;
  return bus_factor(*kind, ranks) * (message / time);
}

}  // namespace

std::optional<sim::BytesPerSecond> CollectiveComparison::busbw() const {
  return bus_bandwidth(kind, ranks, message, wire);
}

std::optional<sim::BytesPerSecond> CollectiveComparison::predicted_busbw() const {
  return bus_bandwidth(kind, ranks, predicted_message, predicted);
}

sim::Flops GemmComparison::flops_each() const {
  return sim::Flops(2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                    static_cast<double>(shape.n) * static_cast<double>(shape.k));
}

sim::Seconds GemmComparison::lost() const {
  return predicted_each ? time - calls * *predicted_each : Seconds(0.0);
}

double step_percentile(const sim::Prediction& prediction, Seconds measured) {
  const bool slower = measured > prediction.step_time;
  const Seconds end = slower ? prediction.interval.second : prediction.interval.first;
  const double reach = std::abs(std::log(end / prediction.step_time)),
               apart = std::log(measured / prediction.step_time);
  if (!(reach > 0.0)) return apart == 0.0 ? 0.5 : apart > 0.0 ? 1.0 : 0.0;
  const double tail = 0.5 * (1.0 + prediction.interval_level);
  return sim::student_probability(sim::student_quantile(tail) * apart / reach);
}

StepDifference step_difference(std::span<const ProfiledStep> steps,
                               const sim::Prediction& prediction) {
  StepDifference difference{.profiled = representative_rank(steps, prediction.run.strategy.pp > 1),
                            .predicted = steps.front().predicted
                                             ? drawn_step(prediction)
                                             : predicted_step(prediction, steps.size() > 1)};
  const ProfiledStep& step = difference.profiled;
  difference.step = step.step;
  difference.predicted_step = prediction.step_time;
  difference.percentile = step_percentile(prediction, difference.step);
  add_lines(difference, prediction);
  difference.collectives = compared_collectives(step, prediction);
  difference.gemms = compared_gemms(step, difference.predicted);
  difference.ranks = rank_times(steps);
  difference.gemm_rate = rate(difference.predicted.gemm_flops, step.of(KernelClass::Gemm).busy);
  difference.predicted_gemm_rate =
      rate(difference.predicted.gemm_flops, difference.predicted.parts[StepPart::Gemms]);
  return difference;
}

std::vector<PartFactor> part_factors(const PredictedStep& predicted, Seconds measured) {
  std::vector<PartFactor> factors;
  for (const auto& [part, deviation] : kUsualErrors) {
    const Seconds time = predicted.parts[part];
    const double factor = (time + measured - predicted.step) / time;
    if (time <= Seconds(0.0) || !(factor > 0.0) || !std::isfinite(factor)) continue;
    factors.push_back({.part = part,
                       .predicted = time,
                       .factor = factor,
                       .deviations = std::abs(std::log(factor)) / deviation});
  }
  std::ranges::stable_sort(factors, {}, &PartFactor::deviations);
  return factors;
}

}  // namespace llmsim::calibrate
