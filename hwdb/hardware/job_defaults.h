// What a training job has to reckon with on a cluster unless the user says otherwise: failures,
// restarts, storage, price and power, from the facts of public clusters.
//
//   failures   of one device, with its share of the node, per second: the rate in the cluster's own
//              rows of facts/reliability.json, else the pool of all clusters that have a rate
//              (sim/base/uncertainty.h, pooled): per device-hour as printed, per node-day over the
//              devices of a node, one over mean time between interruptions times devices
//   start      chance that a node keeps a job from starting: of the cluster's own row, else none
//   restart    the mean of those that run by themselves, between the shortest and the longest
//              public time from failure to training, and of those that wait for a person, likewise;
//              shares of both by who operates the job (Operations)
//   storage    what one node writes: the cluster's own, else between the public ones; in all the
//              cluster's own, else the largest public one
//   price      of a device-hour (hardware_record.h)
//   watts      rated power of a node over its devices, else 1.8 times the device's (both of DGX
//              H100), times the fraction that nodes draw in training, times the building's PUE
//
// A cluster's own rate was observed once, and is taken to be known within a factor of 1.6
// (deviation 0.3).  Failure rates of nodes underestimate those of jobs of a thousand devices: such
// jobs of RSC-1 ran for 7.9 h, not the 28.8 h of its nodes, and OPT-175B for 7.5 h.  The pool has
// both kinds, so its deviation is large.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/store/database.h"
#include "sim/base/field.h"
#include "sim/base/uncertainty.h"
#include "sim/hardware/cluster.h"
#include "sim/job.h"
#include "sim/run.h"

namespace llmsim::hwdb {

// Who restarts a job.  The share of interruptions after which it goes on by itself is that of a
// public job of the kind (automatic_share of facts/reliability.json).
//
//   Lab         a person does, nights and weekends too: OPT-175B
//   Cluster     a scheduler tries again, and often in vain: 504 B200 of a cloud
//   Hyperscale  a team has made nearly everything start by itself, and is there day and night (the
//               shortest public wait): Llama 3
enum class Operations { Lab, Cluster, Hyperscale };

sim::NameTable<Operations> name_table(Operations);  // "lab", "cluster", "hyperscale"

// Jobs of 4,096 devices and more have such a team, others are taken for those of a cluster.
Operations usual_operations(int devices);

struct JobDefaults {
  sim::FailureRates failures{};
  double node_start_failure = 0.0;
  sim::Uncertain<sim::Seconds> restart{};
  sim::CheckpointStorage storage{};
  double storage_log_deviation = 0.0;
  std::optional<sim::Uncertain<double>> price{};         // USD per device-hour
  std::optional<sim::Uncertain<double>> device_watts{};  // with its share of node and building
  // One for each of these: "job.failures", "job.start", "job.restart", "job.checkpoint_bandwidth",
  // "job.price", "job.watts".
  std::vector<sim::Fact> facts{};
};

// `operations`: none, the usual ones of so many devices.
JobDefaults job_defaults(const Database& database, const sim::Cluster& cluster,
                         std::optional<Operations> operations = std::nullopt);

// A public cluster or job with its rate of failures of one device.
struct PublicFailureRate {
  std::string name;
  sim::Hertz per_device{};
  std::vector<std::string> systems{};  // ids of the systems that it was
  std::string source;
};

// All of facts/reliability.json that state one.
std::vector<PublicFailureRate> public_failure_rates(const Database& database);

}  // namespace llmsim::hwdb
