#include "runtime/parallel/process_place.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

constexpr int kDefaultPort = 29500;

int number(const std::string& name, const std::string& text) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0) {
    throw Error(name + " = '" + text +
                "' is no rank, count or port: wants a whole number from 0 up");
  }
  return value;
}

class Variables {
 public:
  explicit Variables(const EnvironmentVariables& environment) : environment_(environment) {}

  bool has(const std::string& name) const { return environment_(name).has_value(); }
  std::optional<std::string> text(const std::string& name) const { return environment_(name); }
  int required(const std::string& name) const {
    const auto value = text(name);
    if (!value)
      throw Error(name +
                  " is not set, though the variables beside it are: the launcher sets all or none");
    return number(name, *value);
  }
  int otherwise(const std::string& name, int fallback) const {
    const auto value = text(name);
    return value ? number(name, *value) : fallback;
  }

 private:
  const EnvironmentVariables& environment_;
};

std::uint16_t port(const Variables& variables, int fallback) {
  const int port = variables.otherwise("MASTER_PORT", fallback);
  if (port > 65535) throw Error("MASTER_PORT = " + std::to_string(port) + " is above 65535");
  return static_cast<std::uint16_t>(port);
}

void check(const ProcessPlace& place) {
  if (place.rank >= place.ranks) {
    throw Error("rank = " + std::to_string(place.rank) + " of " + std::to_string(place.ranks) +
                " (" + place.launcher + "): ranks run from 0 to one below their number");
  }
}

ProcessPlace torchrun_place(const Variables& variables) {
  ProcessPlace place{.launcher = "torchrun",
                     .rank = variables.required("RANK"),
                     .ranks = variables.required("WORLD_SIZE")};
  place.local_rank = variables.otherwise("LOCAL_RANK", 0);
  place.local_ranks = variables.otherwise("LOCAL_WORLD_SIZE", ProcessPlace::kUnknown);
  place.store_host = variables.text("MASTER_ADDR").value_or("127.0.0.1");
  place.store_port = port(variables, kDefaultPort);
  place.keeps_store = place.rank == 0 && variables.text("TORCHELASTIC_USE_AGENT_STORE") != "True";
  place.attempt = variables.otherwise("TORCHELASTIC_RESTART_COUNT", 0);
  return place;
}

// What a launcher calls what it tells; where it does not tell how many ranks a host has, hosts are
// counted (with_hosts).
struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // null: not told
};

// Inner ones first: PALS and Flux set Hydra's variables too, and every one may run under Slurm.
constexpr LauncherVariables kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"mpiexec of PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE"},
    {"flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", nullptr},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};

// None of them names a host that rank 0 is sure to run on.
ProcessPlace place_of(const Variables& variables, const LauncherVariables& names) {
  ProcessPlace place{.launcher = names.launcher,
                     .rank = variables.required(names.rank),
                     .ranks = variables.required(names.ranks)};
  place.local_rank = variables.required(names.local_rank);
  place.local_ranks = names.local_ranks == nullptr
                          ? ProcessPlace::kUnknown
                          : variables.otherwise(names.local_ranks, ProcessPlace::kUnknown);
  const auto host = variables.text("MASTER_ADDR");
  if (!host && place.local_ranks < place.ranks) {
    throw Error("MASTER_ADDR is not set: with ranks on several nodes " + place.launcher +
                " wants it passed on, MASTER_ADDR=<host of rank 0>");
  }
  place.store_host = host.value_or("127.0.0.1");
  place.store_port = port(variables, kDefaultPort);
  place.keeps_store = place.rank == 0;
  return place;
}

// Ports from 20000 to 39999, by job, so that jobs on one node keep apart.
ProcessPlace slurm_place(const Variables& variables) {
  ProcessPlace place{.launcher = "srun",
                     .rank = variables.required("SLURM_PROCID"),
                     .ranks = variables.required("SLURM_NTASKS")};
  place.local_rank = variables.required("SLURM_LOCALID");
  // "8(x4),7".
  const std::string per_node = variables.text("SLURM_STEP_TASKS_PER_NODE").value_or("1");
  place.local_ranks =
      number("SLURM_STEP_TASKS_PER_NODE", per_node.substr(0, per_node.find_first_of("(,")));
  const auto host = variables.text("MASTER_ADDR");
  const std::string job_nodes = variables.text("SLURM_JOB_NODELIST").value_or("127.0.0.1");
  place.store_host =
      host.value_or(first_host(variables.text("SLURM_STEP_NODELIST").value_or(job_nodes)));
  place.store_port = port(variables, 20000 + variables.otherwise("SLURM_JOB_ID", 0) % 20000);
  place.keeps_store = place.rank == 0;
  return place;
}

// For a shell.
std::string quoted(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+@%") ==
          std::string::npos) {
    return word;
  }
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

EnvironmentVariables process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

ProcessPlace process_place(const EnvironmentVariables& environment) {
  const Variables variables(environment);
  ProcessPlace place;
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) {
    place = torchrun_place(variables);
  } else if (const auto* const told = std::ranges::find_if(kLaunchers,
                                                           [&](const LauncherVariables& one) {
                                                             return variables.has(one.rank) &&
                                                                    variables.has(one.local_rank);
                                                           });
             told != std::end(kLaunchers)) {
    place = place_of(variables, *told);
  } else if (variables.has("SLURM_STEP_ID") && variables.has("SLURM_PROCID")) {
    place = slurm_place(variables);
  } else if (variables.has("PMIX_RANK")) {
    throw Error("PMIX_RANK = " + *variables.text("PMIX_RANK") +
                " says which rank this is and not how many there are: set RANK, WORLD_SIZE and "
                "MASTER_ADDR too, or start with torchrun");
  }
  check(place);
  return place;
}

ProcessPlace with_hosts(ProcessPlace place, const std::vector<std::string>& hosts) {
  if (place.local_ranks != ProcessPlace::kUnknown) return place;
  const auto own = hosts.begin() + place.rank;
  place.local_rank = static_cast<int>(std::count(hosts.begin(), own, *own));
  place.local_ranks = static_cast<int>(std::ranges::count(hosts, *own));
  return place;
}

int device_index(int local_rank, int devices) {
  if (devices < 1) throw Error("no device is visible to rank " + std::to_string(local_rank));
  return local_rank % devices;
}

int usual_threads(int local_ranks) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / local_ranks);
}

std::string first_host(const std::string& node_list) {
  std::string host;
  for (std::size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      host += node_list[i];
      continue;
    }
    host += node_list.substr(i + 1, node_list.find_first_of("-,]", i) - i - 1);
    i = std::min(node_list.find(']', i), node_list.size());
  }
  return host;
}

std::vector<std::string> environment_of(const ProcessPlace& place) {
  return {"RANK=" + std::to_string(place.rank),
          "WORLD_SIZE=" + std::to_string(place.ranks),
          "LOCAL_RANK=" + std::to_string(place.local_rank),
          "LOCAL_WORLD_SIZE=" + std::to_string(place.local_ranks),
          "MASTER_ADDR=" + place.store_host,
          "MASTER_PORT=" + std::to_string(place.store_port),
          std::string("TORCHELASTIC_USE_AGENT_STORE=") + (place.keeps_store ? "False" : "True"),
          "TORCHELASTIC_RESTART_COUNT=" + std::to_string(place.attempt)};
}

std::vector<LaunchLine> launch_lines(const std::vector<std::string>& command, int nodes,
                                     int ranks_per_node, bool gpus) {
  std::string words;
  for (const std::string& word : command) words += " " + quoted(word);
  const std::string n = std::to_string(nodes), per_node = std::to_string(ranks_per_node);
  return {
      {"torchrun", "torchrun --nnodes=" + n + " --nproc-per-node=" + per_node +
                       " --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:29500 --no-python" +
                       words},
      {"srun", "srun --nodes=" + n + " --ntasks-per-node=" + per_node +
                   (gpus ? " --gpus-per-node=" + per_node : "") + " --kill-on-bad-exit=1" + words},
      {"mpirun", "mpirun -np " + std::to_string(nodes * ranks_per_node) + " --map-by ppr:" +
                     per_node + ":node -x MASTER_ADDR=$(hostname) -x MASTER_PORT=29500" + words}};
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> core_share(const std::vector<int>& cores, int rank, int ranks) {
  const auto each = static_cast<std::ptrdiff_t>(cores.size()) / ranks;
  return {cores.begin() + rank * each, cores.begin() + (rank + 1) * each};
}

}  // namespace llmsim::runtime
