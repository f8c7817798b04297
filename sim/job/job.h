// A whole training job: from the time of a step to days, device-hours, money and energy.
//
// X tokens at B tokens a step take X / B steps of t seconds: the useful time, of which goodput is
// the share on the wall.  Everything else is a loss with a name:
//
//   ramp-up        where the batch grows linearly from B0 to B over the first K tokens and a step
//                  takes t0 at B0 and a + c b between (a + c B0 = t0, a + c B = t):
//                    steps  K ln(B / B0) / (B - B0)
//                    time   a K ln(B / B0) / (B - B0) + c K
//                    loss   time - t K / B
//   slow devices   in a share of the time one device is slower than the others, and all wait for it:
//                    (steps' time) * share * slowdown
//   goodput.h      checkpoints, lost work, restarts, attempts to start
//
//   device-hours   devices * wall time
//   money          device-hours * price
//   energy         device-hours * watts of one device, its share of the node and of the building
//
// Each with its 90 % interval (estimate.h).  Inputs whose errors count: step time, failure rate,
// restart, storage, price, watts.  The number of interruptions has the scatter of a Poisson process
// on top.  Sources: goodput.h; ramp-up as Megatron-LM's --rampup-batch-size has it, without its
// increments; a slow device sets the pace of all: BLOOM chronicles (one slow GPU cost 5 %).
#pragma once

#include <optional>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/job/estimate.h"
#include "sim/job/goodput.h"
#include "sim/run.h"

namespace llmsim::sim {

// Weights, master weights and optimizer states, each once, at the framework's bytes per parameter
// (memory/shards.h, operators/update.h); of adapters only what is trained.
Bytes checkpoint_bytes(const Run& run);

// Of these what one device copies to the host: those of one of the ranks that have different ones
// (tensor and pipeline ranks, and the shard ranks of the states).
Bytes checkpoint_bytes_per_device(const Run& run);

struct Checkpointing {
  Bytes size{};
  CheckpointStorage storage{};
  double storage_log_deviation = 0.0;  // of both rates together
  // Written while training goes on: it blocks only for the copy of `device_size` at `host_link`.
  bool asynchronous = false;
  Bytes device_size{};
  BytesPerSecond host_link{};
  std::optional<Seconds> interval{};  // of training between two; none: Daly's
};

// Batches smaller than those of the job while it begins.
struct BatchRampUp {
  double start_tokens_per_step = 0.0;  // B0, below the job's tokens per step
  double tokens = 0.0;                 // K, at most the job's tokens
  Seconds start_step_time{};           // t0
};

struct Job {
  double tokens = 0.0;            // X, to train on
  double tokens_per_step = 1.0;   // B
  Estimate<Seconds> step_time{};  // t
  int num_devices = 1;
  int num_nodes = 1;
  FailureRates failures{};
  double node_start_failure = 0.0;  // q of goodput.h
  Uncertain<Seconds> restart{};
  Checkpointing checkpoint{};
  std::optional<BatchRampUp> ramp_up{};
  double slow_share = 0.0;                          // of the time in which one device is slow
  double slowdown = 0.0;                            // of a step meanwhile, 0.05: 5 % longer
  std::optional<Uncertain<double>> price{};         // USD per device-hour
  std::optional<Uncertain<double>> device_watts{};  // with its share of node and building

  // Throws Error naming the field, its value and what would be right.
  void validate() const;
};

// The job of a run: batch, devices and checkpoints are the run's; nothing fails yet, and restarts
// and writes take no time.
Job job_of(const Run& run, const Estimate<Seconds>& step_time, double tokens);

struct JobTerm {
  const char* name = "";
  Seconds time{};
};

struct JobEstimate {
  double steps = 0.0;
  // "useful", "ramp_up", "slow_devices", "checkpoints", "lost_work", "restarts", "start_attempts":
  // they add up to wall_time.value.
  std::vector<JobTerm> breakdown{};
  Estimate<Seconds> wall_time{};
  Estimate<double> goodput{};
  Estimate<double> interruptions{};
  Estimate<double> device_hours{};
  std::optional<Estimate<double>> cost{};        // USD
  std::optional<Estimate<double>> energy_mwh{};  // 10^6 watt hours

  Hertz failure_rate{};             // of the job; its inverse is the mean time between them
  double start_probability = 1.0;   // of one attempt
  double day_probability = 1.0;     // to live for 24 h without interruption
  Seconds checkpoint_interval{};    // infinite: none is written
  Seconds checkpoint_write_time{};  // until it can be read
  Seconds checkpoint_blocking{};    // of which training waits

  // Interruptions come too fast for an end.
  bool endless() const;
};

// Throws Error as Job::validate() does.
JobEstimate job_estimate(const Job& job);

}  // namespace llmsim::sim
