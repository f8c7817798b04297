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
// set before it starts.  Throws Error for quotes and brackets without an end.
std::vector<ShellWords> commands_of_script(const std::string& script,
                                           const ShellVariables& environment = {});

// What Slurm sets for a batch script by its #SBATCH lines: SLURM_NNODES, SLURM_NTASKS, ...; and, of
// --gpus-per-node, --gres and their like, SLURM_GPUS_PER_NODE.
ShellVariables slurm_environment(const std::string& script);

}  // namespace llmsim::hwdb
