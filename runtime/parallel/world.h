// All ranks of a run, each a process: finds the others through the key store and
// connects groups of them.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/process_place.h"
#include "runtime/parallel/rank_groups.h"
#include "runtime/parallel/roll_call.h"

namespace llmsim::runtime {

enum class Transport { Gloo, Nccl };

class World {
 public:
  // Waits until every rank has come; throws Error that names those that have not within `timeout`,
  // which also bounds every later operation.  `Nccl` carries tensors of CUDA and ROCm devices.
  World(const ProcessPlace& place, Transport transport, std::chrono::milliseconds timeout);

  int rank() const { return roll_call_->rank(); }
  int size() const { return roll_call_->size(); }
  std::string host_of(int rank) const { return roll_call_->host_of(rank); }

  const std::shared_ptr<RollCall>& roll_call() const { return roll_call_; }

  // Called on every member, in the same order of groups.
  std::unique_ptr<Communicator> connect(const GroupMembers& members) const;
  std::unique_ptr<Communicator> connect_all() const;

 private:
  Transport transport_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<RollCall> roll_call_;
  std::string address_;
};

// This machine's name.
std::string host_name();

// The address of this machine on the way to `host`; GLOO_SOCKET_IFNAME, where set, names the
// interface instead.
std::string address_towards(const std::string& host);

}  // namespace llmsim::runtime
