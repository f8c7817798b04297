#include "sim/job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "sim/base/error.h"
#include "sim/memory/shards.h"
#include "sim/model/parameters.h"
#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

constexpr Seconds kForever{std::numeric_limits<double>::infinity()};

// (e^(lambda (tau + C)) - 1) / (lambda tau): wall time of a second of training between restarts.
double interrupted_factor(const Interruptions& i) {
  const bool checkpoints = std::isfinite(i.interval.value());
  if (i.rate <= Hertz(0.0)) return checkpoints ? (i.interval + i.blocking) / i.interval : 1.0;
  return std::expm1(i.rate * (i.interval + i.blocking)) / (i.rate * i.interval);
}

}  // namespace

double survival_probability(Hertz rate, Seconds duration) { return std::exp(-(rate * duration)); }

double start_probability(double node_start_failure, int nodes) {
  return std::pow(1.0 - node_start_failure, nodes);
}

double node_start_failure(double start_probability, int nodes) {
  return 1.0 - std::pow(start_probability, 1.0 / nodes);
}

Seconds checkpoint_write_time(Bytes size, const CheckpointStorage& storage, int nodes) {
  const BytesPerSecond none{0.0}, own = storage.per_node * nodes;
  if (storage.aggregate <= none && own <= none) return Seconds(0.0);
  if (storage.aggregate <= none) return size / own;
  if (own <= none) return size / storage.aggregate;
  return size / std::min(storage.aggregate, own);
}

Seconds young_interval(Seconds blocking, Hertz rate) {
  if (rate <= Hertz(0.0)) return kForever;
  return Seconds(std::sqrt(2.0 * blocking.value() / rate.value()));
}

Seconds daly_interval(Seconds blocking, Hertz rate) {
  if (rate <= Hertz(0.0)) return kForever;
  const double share = blocking * rate / 2.0;  // C / (2 M)
  if (share >= 1.0) return Seconds(1.0 / rate.value());
  return young_interval(blocking, rate) * (1.0 + std::sqrt(share) / 3.0 + share / 9.0) - blocking;
}

WallTime wall_time(Seconds training, const Interruptions& i) {
  const Seconds restart = i.restart / i.start_probability;
  const double restarting = i.rate * restart;
  const Seconds total = training * std::exp(restarting + i.rate * i.delay) * interrupted_factor(i);
  WallTime time{.training = training};
  if (!std::isfinite(total.value())) {
    time.lost_work = kForever;
    time.interruptions = total.value();
    return time;
  }
  time.interruptions = i.rate * total;
  time.checkpoints = training * (i.blocking / i.interval);
  const Seconds all_restarts = total * -std::expm1(-restarting);
  time.lost_work = std::max(Seconds(0.0), total - training - time.checkpoints - all_restarts);
  const Seconds all_starts = all_restarts + restart;
  time.restarts = all_starts * i.start_probability;
  time.start_attempts = all_starts - time.restarts;
  return time;
}

namespace {

constexpr Seconds kHour{3600.0};
constexpr Seconds kDay{86400.0};

// The values of all inputs whose errors count; each may move to an end of its interval.
struct JobInputs {
  Seconds step_time{};
  double failures = 1.0;  // factor of the rates
  double storage = 1.0;   // factor of the bandwidths
  Seconds restart{};
};

// What follows from them.
struct JobOutcome {
  double steps = 0.0;
  Seconds useful{};
  Seconds ramp_up{};
  Seconds slow{};
  Interruptions interruptions{};
  WallTime wall{};
  Seconds write_time{};

  Seconds total() const { return wall.total(); }
  double overhead() const { return std::max(0.0, total() / useful - 1.0); }
};

// K ln(B / B0) / (B - B0).
double ramp_steps(const Job& job) {
  const BatchRampUp& ramp = *job.ramp_up;
  const double ratio = job.tokens_per_step / ramp.start_tokens_per_step;
  return ramp.tokens * std::log(ratio) / (job.tokens_per_step - ramp.start_tokens_per_step);
}

double steps_of(const Job& job) {
  if (!job.ramp_up) return job.tokens / job.tokens_per_step;
  return (job.tokens - job.ramp_up->tokens) / job.tokens_per_step + ramp_steps(job);
}

// `step_time` may be at an end of its interval: the step at the start of the ramp is then as well.
Seconds ramp_up_loss(const Job& job, Seconds step_time) {
  if (!job.ramp_up) return Seconds(0.0);
  const BatchRampUp& ramp = *job.ramp_up;
  const Seconds start = ramp.start_step_time * (step_time / job.step_time.value);
  const Seconds per_token =
      (step_time - start) / (job.tokens_per_step - ramp.start_tokens_per_step);
  const Seconds fixed = step_time - per_token * job.tokens_per_step;
  const Seconds time = fixed * ramp_steps(job) + per_token * ramp.tokens;
  return std::max(Seconds(0.0), time - step_time * (ramp.tokens / job.tokens_per_step));
}

// Blocking time and delay of a checkpoint whose write takes `write_time`.
void add_checkpoints(const Job& job, Seconds write_time, Interruptions& interruptions) {
  const Checkpointing& checkpoint = job.checkpoint;
  const bool copied = checkpoint.asynchronous && checkpoint.host_link > BytesPerSecond(0.0);
  interruptions.blocking = !checkpoint.asynchronous ? write_time
                           : copied                 ? checkpoint.device_size / checkpoint.host_link
                                                    : Seconds(0.0);
  interruptions.delay = checkpoint.asynchronous ? write_time : Seconds(0.0);
}

// The one that was asked for, or Daly's: at least a step, or the write of the checkpoint before, at
// most the whole training.
Seconds checkpoint_interval(const Job& job, const Interruptions& interruptions, Seconds training) {
  const Seconds asked =
      job.checkpoint.interval.value_or(daly_interval(interruptions.blocking, interruptions.rate));
  if (!std::isfinite(asked.value())) return asked;
  const Seconds least = std::max(job.step_time.value, interruptions.delay);
  return std::min(std::max(asked, least), training);
}

// `planned`: the interval is chosen once, with what is known before the job.
JobOutcome outcome(const Job& job, const JobInputs& inputs, std::optional<Seconds> planned) {
  JobOutcome out{.steps = steps_of(job)};
  out.useful = inputs.step_time * (job.tokens / job.tokens_per_step);
  out.ramp_up = ramp_up_loss(job, inputs.step_time);
  out.slow = (out.useful + out.ramp_up) * (job.slow_share * job.slowdown);
  const Seconds training = out.useful + out.ramp_up + out.slow;
  out.write_time =
      checkpoint_write_time(job.checkpoint.size, job.checkpoint.storage, job.num_nodes) /
      inputs.storage;
  Interruptions& i = out.interruptions;
  i.rate = job.failures.of_job(job.num_devices, job.num_nodes) * inputs.failures;
  i.restart = inputs.restart;
  i.start_probability = start_probability(job.node_start_failure, job.num_nodes);
  add_checkpoints(job, out.write_time, i);
  i.interval = planned.value_or(checkpoint_interval(job, i, training));
  out.wall = wall_time(training, i);
  return out;
}

// What each input alone makes of the job, at its low and its high interval.
struct OutcomeInterval {
  JobOutcome low, high;
};

std::vector<OutcomeInterval> intervals_of(const Job& job, const JobInputs& medians,
                                          Seconds planned) {
  const auto at = [&](auto member, auto value) {
    JobInputs inputs = medians;
    inputs.*member = value;
    return outcome(job, inputs, planned);
  };
  const Uncertain<double> rates{1.0, job.failures.log_deviation};
  const Uncertain<double> storage{1.0, job.checkpoint.storage_log_deviation};
  return {
      {at(&JobInputs::step_time, job.step_time.low), at(&JobInputs::step_time, job.step_time.high)},
      {at(&JobInputs::failures, rates.low()), at(&JobInputs::failures, rates.high())},
      {at(&JobInputs::storage, storage.low()), at(&JobInputs::storage, storage.high())},
      {at(&JobInputs::restart, job.restart.low()), at(&JobInputs::restart, job.restart.high())}};
}

// One output of the job with its interval.
Estimate<double> propagated(const JobOutcome& best, const std::vector<OutcomeInterval>& intervals,
                            const std::function<double(const JobOutcome&)>& output) {
  std::vector<OutputInterval> outputs;
  for (const OutcomeInterval& interval : intervals)
    outputs.push_back({output(interval.low), output(interval.high)});
  return combined(output(best), outputs);
}

// Goodput of an overhead: more of one is less of the other.
Estimate<double> goodput_of(const Estimate<double>& overhead) {
  const auto share = [](double lost) { return 1.0 / (1.0 + lost); };
  return {share(overhead.value), share(overhead.high), share(overhead.low)};
}

// The errors of the expected number and, in squares, the scatter of a Poisson process about it.
Estimate<double> with_scatter(const Estimate<double>& expected) {
  const double scatter = kIntervalDeviations * std::sqrt(expected.value);
  const double down = std::hypot(expected.value - expected.low, scatter);
  const double up = std::hypot(expected.high - expected.value, scatter);
  return {expected.value, std::max(0.0, expected.value - down), expected.value + up};
}

// An output times an independent factor.
Estimate<double> scaled(const Estimate<double>& output, const Uncertain<double>& factor,
                        double unit) {
  const double value = output.value * factor.median / unit, scale = factor.median / unit;
  const OutputInterval intervals[] = {
      {output.low * scale, value},
      {output.high * scale, value},
      {output.value * factor.low() / unit, output.value * factor.high() / unit}};
  return combined(value, intervals);
}

void require_job(bool right, const char* field, double value, const char* expected) {
  if (right) return;
  throw Error("job: " + std::string(field) + " = " + std::to_string(value) + ": " + expected +
              " is expected");
}

std::vector<JobTerm> terms_of(const JobOutcome& best) {
  return {{"useful", best.useful},
          {"ramp_up", best.ramp_up},
          {"slow_devices", best.slow},
          {"checkpoints", best.wall.checkpoints},
          {"lost_work", best.wall.lost_work},
          {"restarts", best.wall.restarts},
          {"start_attempts", best.wall.start_attempts}};
}

}  // namespace

Bytes checkpoint_bytes(const Run& run) {
  const ParameterStorage storage = storage_of(run.strategy, run.framework);
  const double states =
      storage.master_bytes + state_bytes_per_parameter(run.strategy.optimizer, storage);
  if (!run.strategy.adapters)
    return Bytes(real(parameters(run.model).total()) * (storage.weight_bytes + states));
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  return Bytes(rank.adapters(count_layers(run.model, 0, run.model.num_layers)) * run.strategy.tp *
               (storage.weight_bytes + states));
}

Bytes checkpoint_bytes_per_device(const Run& run) {
  const Strategy& s = run.strategy;
  return checkpoint_bytes(run) / (s.tp * s.pp * state_shards(s).optimizer);
}

Job job_of(const Run& run, const Estimate<Seconds>& step_time, double tokens) {
  const std::int64_t per_step = std::int64_t{run.strategy.global_batch} * run.model.seq_len;
  return {.tokens = tokens,
          .tokens_per_step = real(per_step),
          .step_time = step_time,
          .num_devices = run.cluster.num_devices,
          .num_nodes = run.cluster.num_nodes(),
          .checkpoint = {.size = checkpoint_bytes(run),
                         .device_size = checkpoint_bytes_per_device(run),
                         .host_link = run.cluster.host_link_share()}};
}

void Job::validate() const {
  require_job(tokens_per_step > 0.0, "tokens_per_step", tokens_per_step, "a positive number");
  require_job(tokens >= tokens_per_step, "tokens", tokens, "at least the tokens of one step");
  require_job(step_time.value > Seconds(0.0), "step_time", step_time.value.value(),
              "a positive time");
  require_job(slow_share >= 0.0 && slow_share <= 1.0, "slow_share", slow_share, "0 to 1");
  require_job(node_start_failure >= 0.0 && node_start_failure < 1.0, "node_start_failure",
              node_start_failure, "0 to below 1");
  if (!ramp_up) return;
  require_job(
      ramp_up->start_tokens_per_step > 0.0 && ramp_up->start_tokens_per_step < tokens_per_step,
      "ramp_up.start_tokens_per_step", ramp_up->start_tokens_per_step,
      "fewer tokens than those of a step");
  require_job(ramp_up->tokens > 0.0 && ramp_up->tokens <= tokens, "ramp_up.tokens", ramp_up->tokens,
              "at most the tokens of the job");
}

bool JobEstimate::endless() const { return !std::isfinite(wall_time.value.value()); }

JobEstimate job_estimate(const Job& job) {
  job.validate();
  const JobInputs medians{.step_time = job.step_time.value, .restart = job.restart.median};
  const JobOutcome best = outcome(job, medians, std::nullopt);
  const Interruptions& i = best.interruptions;
  const std::vector<OutcomeInterval> intervals = intervals_of(job, medians, i.interval);
  const Estimate<double> seconds =
      propagated(best, intervals, [](const JobOutcome& o) { return o.total().value(); });
  JobEstimate estimate{
      .steps = best.steps,
      .breakdown = terms_of(best),
      .wall_time = {Seconds(seconds.value), Seconds(seconds.low), Seconds(seconds.high)},
      .goodput = goodput_of(propagated(best, intervals, &JobOutcome::overhead)),
      .interruptions = with_scatter(
          propagated(best, intervals, [](const JobOutcome& o) { return o.wall.interruptions; })),
      .device_hours = scaled(seconds, {1.0 * job.num_devices}, kHour.value()),
      .failure_rate = i.rate,
      .start_probability = i.start_probability,
      .day_probability = survival_probability(i.rate, kDay),
      .checkpoint_interval = i.interval,
      .checkpoint_write_time = best.write_time,
      .checkpoint_blocking = i.blocking};
  if (job.price) estimate.cost = scaled(estimate.device_hours, *job.price, 1.0);
  if (job.device_watts) estimate.energy_mwh = scaled(estimate.device_hours, *job.device_watts, 1e6);
  return estimate;
}

}  // namespace llmsim::sim
