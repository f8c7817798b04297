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
//   slow devices   in a share of the time one device is slower, and all others wait for it:
//                    (steps' time) * share * slowdown
//   failures       checkpoints, lost work, restarts, attempts to start (below)
//
//   device-hours   devices * wall time
//   money          device-hours * price
//   energy         device-hours * watts of one device, its share of the node and of the building
//
// Each with its 90 % interval (base/uncertainty.h).  Inputs whose errors count: step time, failure
// rate, restart, storage, price, watts.  The number of interruptions has the scatter of a Poisson
// process on top.
//
// A synchronous job stops whenever one of its devices or nodes fails.  Interruptions are a Poisson
// process, before as after a restart:
//
//   lambda = devices * per_device + nodes * per_node          rate of the job, 1/s
//   P(no interruption for t) = e^(-lambda t)
//
// Training goes on for tau seconds, then a checkpoint blocks it for C.  An interruption costs what
// was trained since the last checkpoint that can be read, then R: to notice it, to start the job,
// to load the checkpoint.  With an asynchronous checkpoint C is only the copy to the host, and the
// checkpoint can be read W later: that work is done again too.  U seconds of training take
//
//   T = U e^(lambda (R + W)) (e^(lambda (tau + C)) - 1) / (lambda tau)
//
// seconds on the wall (Daly's equation for W = 0), which have these components:
//
//   interruptions   lambda T                         (Wald: also those during restarts)
//   checkpoints     U C / tau
//   restarts        T (1 - e^(-lambda R))            one after each interruption, and again
//   lost work       the rest
//
// A start of n nodes succeeds with p = (1 - q)^n where a node keeps it from starting with
// probability q; 1 / p attempts of the same length on average (geometric), so R = restart / p.
//
// Sources: J. W. Young, CACM 17(9), 1974; J. T. Daly, Future Generation Computer Systems 22(3),
// 2006, equations 13, 20 and 37.  Attempts and asynchronous checkpoints: ours.  Ramp-up as
// Megatron-LM's --rampup-batch-size has it, without its increments; a slow device sets the pace of
// all: BLOOM chronicles (one slow GPU cost 5 %).
#pragma once

#include <optional>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/base/uncertainty.h"
#include "sim/run.h"

namespace llmsim::sim {

// How often devices and nodes interrupt a job.  What a node loses with its devices counts once.
struct FailureRates {
  Hertz per_device{};
  Hertz per_node{};
  double log_deviation = 0.0;  // of both together: clusters differ several times

  Hertz of_job(int devices, int nodes) const { return per_device * devices + per_node * nodes; }
};

// e^(-rate t).
double survival_probability(Hertz rate, Seconds duration);

// (1 - q)^nodes.
double start_probability(double node_start_failure, int nodes);

// The q of jobs of `nodes` nodes that start with that probability: 1 - p^(1 / nodes).
double node_start_failure(double start_probability, int nodes);

// Where checkpoints go; the slower of the two counts.
struct CheckpointStorage {
  BytesPerSecond aggregate{};  // of the file system; 0: no limit
  BytesPerSecond per_node{};   // what one node writes; 0: no limit
};

// size / min(aggregate, nodes * per_node); 0 where neither has a limit.
Seconds checkpoint_write_time(Bytes size, const CheckpointStorage& storage, int nodes);

// Training between two checkpoints that loses least, where each blocks for C and M = 1 / lambda:
//
//   Young   sqrt(2 C M)
//   Daly    sqrt(2 C M) (1 + sqrt(C / (2 M)) / 3 + C / (18 M)) - C    for C < 2 M, else M
//
// Infinite where nothing fails.
Seconds young_interval(Seconds blocking, Hertz rate);
Seconds daly_interval(Seconds blocking, Hertz rate);

// What interrupts the training of a job.
struct Interruptions {
  Hertz rate{};                    // lambda
  Seconds restart{};               // one attempt, from the failure to the first step
  double start_probability = 1.0;  // p, of an attempt
  Seconds interval{};              // tau; infinite, where nothing fails: no checkpoints
  Seconds blocking{};              // C
  Seconds delay{};                 // W
};

// The terms of a job's time on the wall; total() is T and the first start.
struct WallTime {
  Seconds training{};
  Seconds checkpoints{};
  Seconds lost_work{};
  Seconds restarts{};        // of 1 + interruptions, what one attempt each takes
  Seconds start_attempts{};  // those that failed
  double interruptions = 0.0;

  Seconds total() const { return training + checkpoints + lost_work + restarts + start_attempts; }
};

// `training` seconds of steps with all that comes between.  The first start takes restart / p too.
// Infinite where interruptions come too fast for the job to end.
WallTime wall_time(Seconds training, const Interruptions& interruptions);

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
  double node_start_failure = 0.0;  // q
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
