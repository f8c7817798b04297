// The commands of a shell script, as far as they can be found without running it.
//
// Variables, arrays, defaults (${A:-b}), sums and products ($((A*B))), conditions on them and lists
// of commands in a word (bash -c "...") are followed.  A variable that the script does not set
// stays "$NAME"; an undecidable condition is false.
//
// Private to hwdb.
#pragma once

#include <string>
#include <vector>

#include "hwdb/launch/shell_words.h"

namespace llmsim::hwdb {

// The words of each command, and of each text that is put into a variable.  `environment`: what is
// set before it starts.  Throws Error for quotes and brackets without an end, and TooLarge where
// what it stands for costs more than a file may (read_budget.h).
std::vector<ShellWords> commands_of_script(const std::string& script,
                                           const ShellVariables& environment = {});

// What Slurm sets for a batch script by its #SBATCH lines: SLURM_NNODES, SLURM_NTASKS, ...; and, of
// --gpus-per-node, --gres and their like, SLURM_GPUS_PER_NODE.
ShellVariables slurm_environment(const std::string& script);

// A count of a launcher, the whole number at the beginning of a text; 0 where there is none from 1
// to 2^24.
int launcher_count(const std::string& text);

// The devices of nodes; 0 where a count is 0 or there are more than 2^24.
int launcher_devices(int nodes, int on_node);

}  // namespace llmsim::hwdb
