// Which rank this process is, as whoever started it says in the environment, and how to start one
// on several nodes.
//
//   torchrun, and our own parent process   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
//                                          MASTER_ADDR, MASTER_PORT
//   srun                                   SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID,
//                                          SLURM_JOB_NODELIST, in a step (SLURM_STEP_ID)
//   mpirun                                 OMPI_COMM_WORLD_* (Open MPI), MV2_COMM_WORLD_*
//                                          (MVAPICH2), PMI_* and MPI_LOCAL* (MPICH, Intel MPI)
//   mpiexec of PALS                        PALS_RANKID, PALS_LOCAL_RANKID, PMI_SIZE
//   flux                                   FLUX_TASK_RANK, FLUX_TASK_LOCAL_ID, FLUX_JOB_SIZE
//
// An inner launcher wins over the one that it runs under: mpirun starts its daemons with srun, and
// passes their variables on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace llmsim::runtime {

struct ProcessPlace {
  static constexpr int kUnknown = 0;

  std::string launcher = "none";  // "torchrun", "srun", "mpirun", ...
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;                    // among those on this host: the device to use
  int local_ranks = 1;                   // on this host; kUnknown: whoever started it does not say
  std::string store_host = "127.0.0.1";  // where the run's key store is
  std::uint16_t store_port = 29500;
  bool keeps_store = true;  // the launcher does not: rank 0 must
  int attempt = 0;          // restarts under torchrun
};

using EnvironmentVariables = std::function<std::optional<std::string>(const std::string& name)>;
EnvironmentVariables process_environment();

// Throws Error naming a variable that is missing, is no number, or contradicts another.
ProcessPlace process_place(const EnvironmentVariables& environment);

// Where ranks of a host are not known, those of equal host names (by rank), in order.
ProcessPlace with_hosts(ProcessPlace place, const std::vector<std::string>& hosts);

// Which of `devices` visible ones a rank of a host uses; launchers may show each rank its own
// alone, as `srun --gpus-per-task=1` does.  Throws Error where none is visible.
int device_index(int local_rank, int devices);

// The first host of a Slurm list: "gpu[007-012,20],login1" gives "gpu007".
std::string first_host(const std::string& node_list);

// The environment that tells a process its place, in torchrun's variables.
std::vector<std::string> environment_of(const ProcessPlace& place);

// The lines that start `command` with `ranks_per_node` ranks on each of `nodes` nodes; `gpus`: a
// GPU each.
struct LaunchLine {
  std::string launcher;
  std::string line;
};
std::vector<LaunchLine> launch_lines(const std::vector<std::string>& command, int nodes,
                                     int ranks_per_node, bool gpus);

// Which cores the ranks of one host compute on.
//
// A rank that is bound to cores of its own finds them free when it has waited for others: else a
// scheduler may have put their threads there, and it waits for a time slice of theirs.

// Of one of `local_ranks` ranks of this host, where nothing is said.
int usual_threads(int local_ranks);

// Those that this process may run on.
std::vector<int> allowed_cores();

// The part of `cores` of one of so many ranks: blocks of equal size, what is left over goes to
// none.  Empty for fewer cores than ranks, which are not bound then.
std::vector<int> core_share(const std::vector<int>& cores, int rank, int ranks);

}  // namespace llmsim::runtime
