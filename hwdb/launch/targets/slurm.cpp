// Scripts that start a training program on all nodes: by torchrun on each of them, by Slurm.
//
// What each node runs is one script, node.sh: the environment that the run needs, the rendezvous,
// and the program.  torchrun takes its options from PET_* variables, so that programs which call
// torchrun themselves find the others too.
//
// Sources: pytorch/pytorch torch/distributed/run.py; AI-Hypercomputer/maxtext max_utils.py
// (JAX_COORDINATOR_IP, NNODES, NODE_RANK); Slurm manual, sbatch and srun; those of the rows.
#include <algorithm>
#include <cctype>
#include <string>

#include "hwdb/launch/launch_fields.h"
#include "hwdb/launch/targets.h"
#include "hwdb/text/quoting.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kNodeScript = "node.sh";

bool is_jax(const std::string& framework) {
  return framework == "maxtext" || framework == "jax-toolbox" || framework == "levanter" ||
         framework == "jax";
}

// The command of the target that trains such runs; none has one of its own.
std::string program_command(const sim::Run& run) {
  const LaunchTarget* const target = target_running(run.framework.id);
  if (target) return target->command + (target->options ? target->options(run) : "");
  return is_jax(run.framework.id) ? "python3 \"$@\"" : "torchrun \"$@\"";
}

std::string node_text(const sim::Run& run, std::vector<LaunchEntry> entries) {
  const std::string& framework = run.framework.id;
  std::string text =
      "#!/bin/bash\n# " + comment_text(run.model.name) + " on " +
      std::to_string(run.strategy.num_devices()) + " devices, " + comment_text(framework) +
      ".\n# Start this on each node, in the folder of its files, with NODE_RANK and HEAD_NODE, the "
      "host of rank 0.\n# What follows goes to the program.\nset -euo pipefail\n"
      "export HEAD_NODE=${HEAD_NODE:-localhost} PORT=${PORT:-29500}\n"
      "export NODE_RANK=${NODE_RANK:-${SLURM_NODEID:-0}}\n";
  for (const LaunchEntry& entry : entries)
    text += "export " + entry.key + "=" + shell_quoted(entry.value) + "\n";
  if (is_jax(framework))
    text += "export JAX_COORDINATOR_IP=$HEAD_NODE JAX_COORDINATOR_PORT=$PORT NNODES=$PET_NNODES\n";
  else
    text +=
        "export PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=$HEAD_NODE:$PORT\n"
        "export PET_RDZV_ID=${SLURM_JOB_ID:-0}\n";
  return text + program_command(run) + "\n";
}

std::string torchrun_text(const sim::Run& run, std::vector<LaunchEntry> entries) {
  if (is_jax(run.framework.id))
    throw Error("torchrun cannot express training.framework = " + run.framework.id +
                ": JAX starts a process per node by itself, as --to slurm does");
  return node_text(run, entries);
}

LaunchFile node_file(const sim::Run& run) {
  return {kNodeScript, node_text(run, entries_of(torchrun_target(), fields_of(run)))};
}

std::string slurm_text(const sim::Run& run, std::vector<LaunchEntry> entries) {
  std::string name = run.model.name;
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '-');
  std::string text = "#!/bin/bash\n#SBATCH --job-name=" + name + "\n";
  for (const LaunchEntry& entry : entries) {
    if (!std::islower(static_cast<unsigned char>(entry.key.front()))) continue;  // of node.sh
    text += "#SBATCH --" + entry.key + (entry.value.empty() ? "" : "=" + entry.value) + "\n";
  }
  return text +
         "# Submit it in the folder of its files; partition, account and time are yours.  What "
         "follows goes\n# to the program.\nset -euo pipefail\n"
         "export HEAD_NODE=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
         "srun --kill-on-bad-exit=1 bash " +
         kNodeScript + " \"$@\"\n";
}

}  // namespace

LaunchTarget torchrun_target() {
  return {.name = "torchrun", .written = torchrun_text, .file_name = kNodeScript, .launches = true};
}

LaunchTarget slurm_target() {
  return {.name = "slurm",
          .written = slurm_text,
          .file_name = "slurm.sh",
          .launches = true,
          .node_file = node_file};
}

}  // namespace llmsim::hwdb
