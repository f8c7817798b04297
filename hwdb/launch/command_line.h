// Arguments of a training program in a shell script.
//
// Private to hwdb.
#pragma once

#include <string>

#include "hwdb/launch/targets.h"

namespace llmsim::hwdb {

// The arguments behind the pretraining script (*.py) of a shell script, or all words of a file that
// has none.  A key without a value is "true"; several values are joined by blanks.  A YAML file has
// them under MODEL_ARGS, as Megatron-LM's own tests.
LaunchText parsed_command_line(const std::string& text, const std::string& path);

// Experiments of Primus: arguments of Megatron-LM under their Python names, the model's name as
// "primus.model", and what its own configuration adds.  Throws Error for another program's
// experiment, which is read elsewhere.
LaunchText parsed_primus(const std::string& text, const std::string& path);

// A job configuration of torchtitan, TOML, and a configuration of MaxText as parsed_overrides(); or
// experiments of Primus with them, the model's name as "primus.model".
LaunchText parsed_titan(const std::string& text, const std::string& path);
LaunchText parsed_maxtext(const std::string& text, const std::string& path);

// A configuration of NeMo 1; devices are those of its trainer.
LaunchText parsed_nemo1(const std::string& text, const std::string& path);

// Overrides of a configuration: a YAML file, or the words KEY=VALUE of a shell script's command
// (Hydra's "+" and "++" before a key say nothing), with the file that they change as "base_config".
// Python's "True" is "true".
LaunchText parsed_overrides(const std::string& text, const std::string& path);

// A YAML file of arguments, or the options of a shell script's command by their names alone
// ("--max-length 4096" as "max_length"): of the command with most of them.
LaunchText parsed_arguments(const std::string& text, const std::string& path);

}  // namespace llmsim::hwdb
