// Files with which training programs are started: written of a run, and read as a record of one.
//
//   megatron      arguments of Megatron-LM's pretrain_gpt.py in a shell script
//   torchtitan    its job configuration, TOML
//   deepspeed     its configuration, JSON; the model and what is recomputed are another program's
//   accelerate    a configuration of Hugging Face Accelerate with FSDP or DDP, YAML; the model and
//                 the batch are another program's
//   nemo          overrides of a Megatron-Bridge recipe, YAML or KEY=VALUE; the model is the
//                 recipe's
//   maxtext       its configuration on top of base.yml, YAML or KEY=VALUE
//   axolotl, llamafactory, trl, swift, swift-megatron, torchtune, litgpt, llm-foundry, nanotron,
//   olmo, levanter, automodel, verl    configurations of training programs (read)
//   torchrun      the script that each node runs, with the file of the run's framework (written)
//   slurm         a batch script that runs that one on all nodes (written)
//
// Each target has one table for both directions (launch_table.h).  What is written is read again
// and must resolve to the same run, so that what a target cannot express is found by the field in
// which the two differ.  A setting that the run leaves to its framework may be said by the file.
//
// A file of a target is read for what it says about a run.  Keys that no table knows are an error,
// unless they are to be passed over, and so are those that matter and are not modelled, unless the
// prediction is near without: then they are said; those that
// cannot matter (data, logging, learning rates, checkpoints) are listed.  A key that is absent has
// the program's own default, which becomes a fact "assumed.training.KEY".  A value that the file
// leaves open ("$TP", "${1:?}") is asked for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "sim/run.h"

namespace llmsim::hwdb {

struct LaunchFile {
  std::string name;
  std::string text;
  // What it leaves to its program of a model, as "model.rope.window_base = 10000": no cost depends
  // on it, but another model is trained where the program has another value.
  std::vector<std::string> unsaid = {};
};

// Names of the targets that are written, and of those that are read.
std::vector<std::string> launch_targets();
std::vector<std::string> read_targets();

// The target of "NAME" or of "NAME@RELEASE", whose files are those of all releases that are known:
// "torchtitan" of "torchtitan@0.2".  Throws Error for a release that is not one of them.
std::string target_of_release(const std::string& name);

// The framework that a target runs where nothing else is said; none for scripts that start any.
// Throws Error for an unknown target.
std::optional<std::string> framework_of_target(const std::string& target);

// The target of a framework's runs; none where there is none.
std::optional<std::string> target_of_framework(const std::string& framework);

// The framework's file with a script for Slurm on GPUs, else the framework's file alone.  Throws
// Error where no target runs the framework.
std::string usual_target(const sim::Run& run);

// The files with which `target` trains the run, its own last.  `resolver`: of the same database and
// site.  Throws Error "TARGET cannot express FIELD = VALUE".
std::vector<LaunchFile> launch_files(const sim::Run& run, const std::string& target,
                                     RunResolver& resolver);

// A field that another file says, which this one names: "sharding" of "deepspeed = z3.json".
struct SaidElsewhere {
  std::string field, named;
};

struct ReadLaunch {
  RunRecord record;
  std::string target;
  std::vector<sim::Fact> defaults;       // of the program, for what the file does not say
  std::vector<std::string> not_needed;   // keys that cannot matter
  std::vector<std::string> passed_over;  // keys that are read as if they were not there
  // Keys that matter a little, with what of them is not counted.
  std::vector<std::string> approximated;
  std::vector<SaidElsewhere> elsewhere{};
  bool states_ranks = false;  // where the file gives dp, it is of the file's number of devices
};

// What is known in addition to a file.
struct LaunchReading {
  std::optional<std::string> target = {};  // whose file it is; none: it follows from its content
  // Fields of a run that stand in for what the file leaves open ("$TP"): "tp", "num_devices"; and
  // "model", where another place says the model.
  std::map<std::string, std::string> given = {};
  std::vector<std::string> ignored = {};  // keys to pass over
  bool ignores_unknown = false;           // pass over all that are not known
};

// The target of whose keys the text of a file has most.  Throws Error where it has none.
std::string target_of_launch(const std::string& text, const std::string& path);

// A file as a record.  Throws Error naming file, key, value.
ReadLaunch read_launch(const std::string& path, const LaunchReading& reading = {});

// The same for the text of a file.
ReadLaunch parse_launch(const std::string& text, const std::string& path,
                        const LaunchReading& reading = {});

}  // namespace llmsim::hwdb
