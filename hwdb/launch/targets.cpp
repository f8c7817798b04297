#include "hwdb/launch/targets.h"
#include "hwdb/frameworks/settings.h"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "hwdb/frameworks/settings.h"
#include "hwdb/launch/command_line.h"
#include "hwdb/launch/config_text.h"
#include "hwdb/launch/launch_fields.h"
#include "hwdb/launch/row_text.h"
#include "hwdb/text/quoting.h"
#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/model/transformer.h"

namespace llmsim::hwdb {
namespace {

// "Written for Megatron Core 0.15 to 0.19 (2025-12-05 to 2026-08-19)."
std::string written_for(const std::string& target) {
  const auto& releases = shipped_table(target).releases;
  if (!releases) return "Written for releases that are not recorded.";
  const Term &first = releases->all.front(), &last = releases->all.back();
  return "Written for " + releases->program + " " + first.key + " to " + last.key + " (" +
         first.value + " to " + last.value + ").";
}

std::string heading_of(const LaunchTarget& target, const sim::Run& run) {
  const std::string title = fmt::format(fmt::runtime(target.title), comment_text(run.model.name),
                                        run.strategy.num_devices());
  if (title.empty()) return "";
  const bool is_script = std::string(target.file_name).ends_with(".sh");
  return (is_script ? "#!/bin/bash\n# " : "# ") + title + "\n# " + written_for(target.name) +
         "\n# " + target.yours + "\n";
}

std::string yaml_file(const sim::Run&, std::vector<LaunchEntry> entries) {
  return yaml_text(std::move(entries));
}

// --- megatron: arguments of pretrain_gpt.py ---

std::string megatron_text(const sim::Run& run, std::vector<LaunchEntry> entries) {
  const int devices = run.strategy.num_devices();
  const int node = std::min(run.cluster.devices_per_node, devices);
  const bool hybrid = std::any_of(entries.begin(), entries.end(), [](const LaunchEntry& entry) {
    return entry.key == "--is-hybrid-model";
  });
  std::string text = "args=(\n";
  for (const LaunchEntry& entry : entries) {
    text += "  " + entry.key;
    // Several values of one option are parted by blanks.
    std::istringstream values(entry.value == "true" ? "" : entry.value);
    for (std::string value; values >> value;) text += " " + shell_quoted(value);
    text += "\n";
  }
  return text + ")\ntorchrun --nnodes " + std::to_string((devices + node - 1) / node) +
         " --nproc_per_node " + std::to_string(node) +
         (hybrid ? " pretrain_mamba.py" : " pretrain_gpt.py") + " \"${args[@]}\" \"$@\"\n";
}

LaunchTarget megatron_target() {
  return {.name = "megatron",
          .frameworks = {"megatron-lm", "megatron-fsdp"},
          .parsed = parsed_command_line,
          .beginnings = {"--tensor-model-parallel-size", "--num-layers", "--hybrid-layer-pattern"},
          .written = megatron_text,
          .file_name = "megatron.sh",
          .title = "Megatron-LM: {} on {} devices.",
          .yours =
              "Data, tokenizer, learning rate, iterations and checkpoints are yours: give them "
              "to this script.",
          .command = "bash megatron.sh \"$@\""};
}

// --- torchtitan: its job configuration ---

std::string titan_text(const sim::Run&, std::vector<LaunchEntry> entries) {
  for (LaunchEntry& entry : entries) {
    if (entry.key == "model.converters")
      entry.value = entry.value.empty() ? "[]" : "[" + toml_quoted(entry.value) + "]";
  }
  return toml_text(entries);
}

LaunchTarget torchtitan_target() {
  return {.name = "torchtitan",
          .frameworks = {"torchtitan"},
          .parsed = parsed_titan,
          .beginnings = {"model.flavor", "parallelism.data_parallel_shard_degree", "primus.model"},
          .written = titan_text,
          .file_name = "torchtitan.toml",
          .title = "torchtitan: {} on {} devices.",
          .yours = "Data, tokenizer, learning rate, steps and checkpoints are yours.",
          .command = "torchrun -m torchtitan.train --job.config_file torchtitan.toml \"$@\""};
}

// --- programs of Hugging Face ---

// The trainer's own options, which have to say what its files say, or what only they can: it does
// not start with another batch than that of DeepSpeed's file, and counts steps of accumulation by
// these.
// Sources: huggingface/transformers src/transformers/training_args.py, integrations/deepspeed.py
// (trainer_config_process).
std::string trainer_options(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  const std::string precision = name_of(s.precision);
  const auto clip = run.settings.find("gradient_clip");
  const bool clips = clip == run.settings.end() || sim::text_of(clip->second) != "false";
  return " --per_device_train_batch_size " + std::to_string(s.micro_batch) +
         " --gradient_accumulation_steps " + std::to_string(s.num_microbatches()) +
         (precision == "bf16" || precision == "fp16" ? " --" + precision + " true" : "") +
         (clips ? " --max_grad_norm 1.0" : " --max_grad_norm 0.0");
}

// Accelerate's accumulate() and the Trainer's loop leave gradients whole until the last micro-batch
// unless sync_each_batch is set.
std::string fsdp_trainer_options(const sim::Run& run) {
  if (run.framework.id != "hf-trainer-fsdp") return "";
  const auto each = run.settings.find(kSyncsEachMicrobatch);
  const bool syncs = each != run.settings.end() && sim::text_of(each->second) == "true";
  const std::string word = R"({"gradient_accumulation_kwargs": {"sync_each_batch": true}})";
  return trainer_options(run) + (syncs ? " --accelerator_config " + shell_quoted(word) : "");
}

std::string deepspeed_options(const sim::Run& run) {
  if (run.framework.id == "deepspeed") return " --deepspeed --deepspeed_config deepspeed.json";
  const bool recomputes = run.strategy.recompute.kind != sim::RecomputeKind::None;
  return " --deepspeed deepspeed.json" + trainer_options(run) +
         (recomputes ? " --gradient_checkpointing true" : "");
}

LaunchTarget deepspeed_target() {
  return {.name = "deepspeed",
          .frameworks = {"deepspeed", "hf-trainer-deepspeed"},
          .parsed = parsed_json,
          .beginnings = {"zero_optimization.stage", "train_micro_batch_size_per_gpu",
                         "train_batch_size"},
          .written = [](const sim::Run&,
                        std::vector<LaunchEntry> entries) { return json_text(entries); },
          .file_name = "deepspeed.json",
          .names_model = false,
          .left_to_program = {"recompute.kind"},
          .command = "torchrun \"$@\"",
          .options = deepspeed_options,
          .commanding = {"hf-trainer-deepspeed"}};
}

LaunchTarget accelerate_target() {
  return {.name = "accelerate",
          .frameworks = {"hf-trainer-fsdp", "fsdp1", "fsdp2", "accelerate"},
          .parsed = parsed_yaml,
          .beginnings = {"distributed_type", "fsdp_config.fsdp_version"},
          .written = yaml_file,
          .file_name = "accelerate.yaml",
          .title = "Accelerate: {} on {} devices.",
          .yours =
              "The model, its adapters, sequences of a micro-batch, data and learning rate are "
              "the program's.",
          .names_model = false,
          .left_to_program = {"micro_batch", "global_batch", "optimizer", kSyncsEachMicrobatch},
          .command =
              "accelerate launch --config_file accelerate.yaml --num_machines $PET_NNODES "
              "--machine_rank $NODE_RANK --main_process_ip $HEAD_NODE --main_process_port "
              "$PORT \"$@\"",
          .options = fsdp_trainer_options,
          .commanding = {"hf-trainer-fsdp"}};
}

// --- nemo: overrides of a Megatron-Bridge recipe ---

LaunchTarget nemo_target() {
  return {.name = "nemo",
          .frameworks = {"megatron-bridge", "nemo"},
          .parsed = parsed_overrides,
          .beginnings = {"model.tensor_model_parallel_size", "train.micro_batch_size",
                         "train.global_batch_size", "model.seq_length"},
          .written = yaml_file,
          .file_name = "nemo.yaml",
          .title = "Megatron-Bridge: overrides of the recipe of {} for {} devices.",
          .yours =
              "The model, data, learning rate and checkpoints are the recipe's: PROGRAM "
              "--config-file nemo.yaml",
          .names_model = false,
          .names_adapters = true,
          .command = "torchrun \"$@\" --config-file nemo.yaml"};
}

// --- maxtext: a configuration on top of its base.yml ---

std::string maxtext_text(const sim::Run& run, std::vector<LaunchEntry> entries) {
  const bool tpu = run.cluster.device.vendor == "Google";
  entries.insert(entries.begin(), {{"base_config", "base.yml"}, {"hardware", tpu ? "tpu" : "gpu"}});
  return yaml_text(std::move(entries));
}

LaunchTarget maxtext_target() {
  return {.name = "maxtext",
          .frameworks = {"maxtext"},
          .parsed = parsed_maxtext,
          .beginnings = {"remat_policy", "per_device_batch_size", "ici_fsdp_parallelism",
                         "base_emb_dim", "primus.model"},
          .written = maxtext_text,
          .file_name = "maxtext.yml",
          .title = "MaxText: {} on {} devices.",
          .yours =
              "Data, tokenizer, learning rate, steps and checkpoints are yours: give them as "
              "KEY=VALUE after this file.",
          .command = "python3 -m MaxText.train maxtext.yml \"$@\""};
}

// --- rows ---

// Launchers start as many processes on each node.
void check_nodes(const LaunchTarget& target, const LaunchValues& fields) {
  if (fields.contains("num_nodes")) return;
  const int devices = std::stoi(fields.at("num_devices")),
            node = std::stoi(fields.at("devices_per_node")), whole = devices / node * node,
            divisor = std::gcd(devices, node);
  throw Error(std::string(target.name) + " cannot express " + sim::equals("num_devices", devices) +
              " on nodes of " + std::to_string(node) +
              ", because each node starts as many (nearest: " + std::to_string(whole) + " or " +
              std::to_string(whole + node) + " devices, or nodes of " + std::to_string(divisor) +
              ": --gpus-per-node)");
}

// Throws Error where the program would not start with the run.
void check_start(const LaunchTarget& target, const LaunchValues& fields) {
  check_nodes(target, fields);
  for (const StartRule& rule : shipped_table(target.name).never) {
    if (all_hold(rule.broken_by, fields))
      throw Error(std::string(target.name) + " cannot express " +
                  text_of_terms(keys_of(rule.broken_by), fields) + ": " + rule.reason);
  }
}

}  // namespace

const std::vector<LaunchTarget>& all_launch_targets() {
  static const std::vector<LaunchTarget> all = [] {
    std::vector<LaunchTarget> targets{
        megatron_target(),
        torchtitan_target(),
        deepspeed_target(),
        accelerate_target(),
        reader_of("primus", "megatron-lm", parsed_primus, {"program"}),
        reader_of("nemo1", "nemo", parsed_nemo1,
                  {"model.encoder_seq_length", "model.mcore_gpt", "exp_manager.name"}),
        nemo_target(),
        maxtext_target(),
        torchrun_target(),
        slurm_target()};
    for (LaunchTarget& target : read_only_targets()) targets.push_back(std::move(target));
    return targets;
  }();
  return all;
}

const LaunchTarget* find_target(const std::string& name) {
  for (const LaunchTarget& target : all_launch_targets())
    if (target.name == name) return &target;
  return nullptr;
}

const LaunchTarget* target_running(const std::string& framework) {
  for (const LaunchTarget& target : all_launch_targets()) {
    const auto& known = target.frameworks;
    if (target.written && std::find(known.begin(), known.end(), framework) != known.end())
      return &target;
  }
  return nullptr;
}

std::vector<LaunchEntry> entries_of(const LaunchTarget& target, const LaunchValues& fields) {
  check_start(target, fields);
  std::vector<LaunchEntry> entries;
  for (const Row& row : shipped_table(target.name).rows) {
    try {
      for (LaunchEntry& entry : written_row(row, fields)) entries.push_back(std::move(entry));
    } catch (const Error& error) {
      throw Error(std::string(target.name) + " cannot express " + error.what());
    }
  }
  return entries;
}

std::string written_text(const LaunchTarget& target, const sim::Run& run) {
  return heading_of(target, run) + target.written(run, entries_of(target, fields_of(run)));
}

}  // namespace llmsim::hwdb
