// What failures, checkpoints and restarts take from a training job.
//
// A synchronous job stops whenever one of its devices or nodes fails.  Interruptions are a Poisson
// process, before as after a restart:
//
//   lambda = devices * per_device + nodes * per_node          rate of the job, 1/s
//   P(no interruption for t) = e^(-lambda t)
//
// Training goes on for tau seconds, then a checkpoint blocks it for C.  An interruption costs what
// was trained since the last checkpoint that can be read, then R: to notice it, to start the job, to
// load the checkpoint.  With an asynchronous checkpoint C is only the copy to the host, and the
// checkpoint can be read W later: that work is done again too.  U seconds of training take
//
//   T = U e^(lambda (R + W)) (e^(lambda (tau + C)) - 1) / (lambda tau)
//
// seconds on the wall (Daly's equation for W = 0), of which are
//
//   interruptions   lambda T                         (Wald: also those during restarts)
//   checkpoints     U C / tau
//   restarts        T (1 - e^(-lambda R))            one after each interruption, itself interrupted
//   lost work       the rest
//
// A start of n nodes succeeds with p = (1 - q)^n where a node keeps it from starting with
// probability q; 1 / p attempts of the same length on average (geometric), so R = restart / p.
//
// Sources: J. W. Young, CACM 17(9), 1974; J. T. Daly, Future Generation Computer Systems 22(3),
// 2006, equations 13, 20 and 37.  Attempts and asynchronous checkpoints: ours.
#pragma once

#include "sim/base/quantity.h"

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

}  // namespace llmsim::sim
