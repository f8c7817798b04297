#include "cli/run_options.h"

#include <CLI/Error.hpp>
#include <algorithm>
#include <functional>
#include <initializer_list>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "hwdb/frameworks/settings.h"
#include "hwdb/launch/launch_file.h"
#include "sim/base/error.h"
#include "sim/search/searched_fields.h"

namespace llmsim::cli {
namespace {

// "--flash=off" and what files of options have for it; CLI11 would count, and throw what names no
// option where it cannot.
std::string not_a_switch(const std::string& text) {
  const std::initializer_list<const char*> values = {"true", "false", "on", "off",
                                                     "yes",  "no",    "1",  "0"};
  const bool right = std::ranges::any_of(
      values, [&](const char* value) { return CLI::detail::to_lower(text) == value; });
  return right ? "" : text + ": true or false is expected";
}

// On, off by the second name, or as nothing was said: CLI11 would set an optional that is given to
// add_flag.
CLI::Option* add_switch(CLI::App& command, const std::string& names,
                        const std::function<void(bool)>& set, const std::string& help) {
  const auto set_counted = [set](std::int64_t count) { set(count > 0); };
  return command.add_flag_function(names, set_counted, help)->check(not_a_switch);
}

// One row of the table of settings.
void add_setting(CLI::App& c, const hwdb::Setting& setting, RunOptions& o) {
  const std::string option = option_named(setting.key), off = "--no-" + option.substr(2);
  const bool told = setting.kind == sim::FieldKind::Switch;  // by the option itself
  const std::string help = setting.help + (told ? "" : ": " + hwdb::values_of(setting)) +
                           "; default that of the framework; example: ";
  if (told) {
    const std::string example = setting.example == std::string("false") ? off : option;
    add_switch(
        c, option + ",!" + off, [&setting, &o](bool on) { o.settings[setting.key] = on; },
        help + example)
        ->group("Training program");
    return;
  }
  const auto set = [&setting, &o, option](const std::string& text) {
    o.settings[setting.key] = hwdb::setting_from(setting, option, text);
  };
  c.add_option_function<std::string>(option, set, help + option + " " + setting.example)
      ->type_name(setting.kind == sim::FieldKind::Word ? "NAME" : "N")
      ->group("Training program");
}

void add_model(CLI::App& c, RunOptions& o) {
  add_option(c, "--model", o.model, "NAME",
             "model of the catalogue or a Hugging Face config.json; no default; example: --model "
             "llama-70b");
}

void add_work(CLI::App& c, RunOptions& o) {
  add_option(c, "--hardware", o.hardware, "ID",
             "accelerator, id or alias; default h100 in DGX nodes; example: --hardware mi300x");
  add_option(c, "--system", o.system, "ID",
             "system or node type; default the usual nodes of the accelerator; example: --system "
             "frontier");
  add_option(c, "--gpus-per-node", o.gpus_per_node, "N",
             "devices of a node that the run has, 1 to 1024; default those of the system; example: "
             "--gpus-per-node 4");
  c.get_option("--gpus-per-node")->check(CLI::Range(1, 1024));
  add_option(c, "--transport", o.transport, "NAME",
             "how collectives reach the network: rdma or sockets (no plugin); default rdma; "
             "example: --transport sockets");
  add_option(c, "--collective-algorithm", o.algorithm, "NAME",
             "auto, ring, tree or hierarchical; default auto, the fastest of ring and tree; "
             "example: --collective-algorithm tree");
  add_option(c, "--inter-node-bandwidth", o.inter_node_bandwidth, "GB/s",
             "network of a node, in one direction and for each of its devices, 0.001 to 100000; "
             "default that of the system; example: --inter-node-bandwidth 50");
  c.get_option("--inter-node-bandwidth")->check(finite_range(0.001, 100000.0));
  add_option(
      c, "--seq-len", o.seq_len, "TOKENS",
      "tokens of a sequence, 1 to 16777216; default that of the model; example: --seq-len 8192");
  add_option(c, "--document-len", o.document_len, "TOKENS",
             "tokens of a document where sequences are packed with several that do not see each "
             "other: of documents of lengths d, sum d^2 / sum d; default a sequence is one "
             "document; example: --document-len 600");
  add_option(c, "--image-tokens", o.image_tokens, "TOKENS",
             "tokens of a sequence that are images, which a model's image tower makes, 1 to "
             "16777216; default none: the text part alone is trained; example: --model "
             "gemma-3-4b --image-tokens 1024");
  c.add_flag("--freeze-vision", o.freeze_vision,
             "the image tower does not learn; default it does; example: --model gemma-3-4b "
             "--image-tokens 1024 --freeze-vision");
  c.get_option("--freeze-vision")->needs("--image-tokens");
  add_option(c, "--audio-tokens", o.audio_tokens, "TOKENS",
             "tokens of a sequence that are audio, which a model's audio tower makes, 1 to "
             "16777216; default none; example: --model qwen2-audio.json --audio-tokens 750");
  c.add_flag("--freeze-audio", o.freeze_audio,
             "the audio tower does not learn; default it does; example: --model qwen2-audio.json "
             "--audio-tokens 750 --freeze-audio");
  c.get_option("--freeze-audio")->needs("--audio-tokens");
  add_option(c, "--global-batch", o.global_batch, "SEQS",
             "sequences per optimizer step; default 4 Mi tokens, or 1024 tokens a device where "
             "that is more; example: --global-batch 1024");
  add_option(c, "--global-batch-tokens", o.global_batch_tokens, "TOKENS",
             "the same in tokens, rounded to whole sequences; default as for --global-batch; "
             "example: --global-batch-tokens 4000000");
}

// By key; all others are of the recipe.
const char* group_of(const std::string& key) {
  static const std::vector<std::string> layout(
      {"tp", "pp", "dp", "cp", "ep", "etp", "cp_scheme", "cp_inner", "cp_balanced",
       "virtual_stages", "pipeline_schedule", "embeddings_as_layers", "stage_layers", "sharding",
       "shard_size", "mesh_order", "sequence_parallel", "micro_batch"});
  if (std::ranges::find(layout, key) != layout.end()) return "Layout";
  return key.starts_with("moe_") ? "Experts" : "Recipe";
}

// One field of the strategy.
void add_field(CLI::App& c, const sim::StrategyField& field, RunOptions& o, const char* value_name,
               const std::string& help) {
  const std::string name = option_named(field.key);
  const auto set = [&field, &o](const std::string& text) { o.strategy[field.key] = text; };
  if (field.kind != sim::FieldKind::Switch) {
    c.add_option_function<std::string>(*field.options ? field.options : name, set, help)
        ->type_name(value_name)
        ->group(group_of(field.key));
    return;
  }
  add_switch(
      c, *field.options ? field.options : name + ",!--no-" + name.substr(2),
      [set](bool on) { set(on ? "true" : "false"); }, help)
      ->group(group_of(field.key));
}

void add_site(CLI::App& c, RunOptions& o) {
  add_option(c, "--site", o.site, "NAME",
             "cluster that llmsim calibrate site has measured; default none, what is known of all "
             "clusters; example: --site our-cluster");
}

void add_recipe(CLI::App& c, RunOptions& o) {
  add_option(c, "--framework,--stack", o.framework, "NAME",
             "training framework; default megatron-lm, on TPUs maxtext, on Gaudi "
             "megatron-deepspeed; example: --framework fsdp2");
  add_option(
      c, "--offload", o.offload, "LIST",
      "what lives on the host: optimizer, parameters, activations, or the inputs of modules: "
      "activations=core_attn+moe_act; default nothing; example: --offload optimizer");
  add_option(c, "--lora", o.lora, "RANK",
             "fine-tuning: weights are frozen, adapters of this rank trained, 1 to 65536; frozen "
             "weights of 4 bits (QLoRA) with --precision nf4 or int4; default none, all weights "
             "are trained; example: --lora 16");
  add_option(
      c, "--lora-targets", o.lora_targets, "LIST",
      "linear layers with adapters: q, k, v, o, gate, up, down, of mixers of states in, out, x, or "
      "attention, mlp, mixer, all; default q,v; example: --lora 16 --lora-targets all");
  c.get_option("--lora-targets")->needs("--lora");
  add_switch(
      c, "--dp-overlap,!--no-dp-overlap", [&o](bool on) { o.dp_overlap = on; },
      "both of --gradient-overlap and --gather-overlap; default those of the framework; example: "
      "--no-dp-overlap");
  add_option(c, "--date", o.date, "DAY",
             "when the software was current, YYYY-MM-DD; default today's; example: --framework "
             "megatron-lm --date 2021-06-01");
  add_option(c, "--framework-version", o.framework_version, "TEXT",
             "release of the framework, whose date counts where it is known; default that of the "
             "date; example: --framework-version 0.13");
  for (const hwdb::Setting& setting : hwdb::run_settings()) add_setting(c, setting, o);
  set_group(
      c, "Recipe",
      {"--framework", "--lora", "--lora-targets", "--dp-overlap", "--date", "--framework-version"});
  set_group(c, "Layout", {"--offload", "--recompute"});
  set_group(c, "Model and hardware",
            {"--model", "--gpus", "--hardware", "--system", "--gpus-per-node",
             "--inter-node-bandwidth", "--transport", "--collective-algorithm", "--seq-len",
             "--document-len", "--image-tokens", "--freeze-vision", "--audio-tokens",
             "--freeze-audio", "--global-batch", "--global-batch-tokens", "--site"});
}

}  // namespace

void add_run_options(CLI::App& c, RunOptions& o) {
  add_model(c, o);
  add_option(c, "--gpus", o.gpus, "N",
             "devices (an MI250X counts as two), 1 to 1048576; default dp * tp * pp * cp; example: "
             "--gpus 256");
  add_work(c, o);
  add_site(c, o);
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    if (!field.help.empty()) add_field(c, field, o, field.value_name, field.help);
  }
  add_option(
      c, "--recompute", o.recompute, "MODE",
      "none, selective[=MODULES], full[=K], every-n=[Q/]P, op[=all|qkv]; MODULES: core_attn, mlp "
      "(dense ones), moe (whole MoE models), layernorm, activation, moe_act (of experts), "
      "shared_experts, mla_up_proj; default none; example: --recompute selective=core_attn+mlp");
  add_recipe(c, o);
}

void add_run_or_file(CLI::App& c, RunOptions& o) {
  CLI::Option* file =
      c.add_option("RUN.json", o.run_file, "a run record, instead of options; example: run.json");
  file->type_name("FILE");
  add_run_options(c, o);
  for (CLI::Option* option : c.get_options()) {
    if (option != file && option != c.get_option("--site") && option != c.get_help_ptr() &&
        option != c.get_help_all_ptr())
      file->excludes(option);
  }
}

void add_from_option(CLI::App& c, RunOptions& o) {
  CLI::Option* from =
      c.add_option("--from", o.launch_file,
                   "launch file of a training program, " + sim::alternatives(hwdb::read_targets()) +
                       ": what it says of the run, with other options in its place where they are "
                       "given; default none; example: --from train.sh --gpus 64");
  from->type_name("FILE")->excludes("RUN.json");
  c.add_option("--ignore", o.ignored,
               "keys of the launch file that are read as if they were not there; default none; "
               "example: --from train.sh --ignore swiglu")
      ->type_name("KEY,...")
      ->delimiter(',')
      ->needs(from);
  c.add_flag("--ignore-unknown", o.ignores_unknown,
             "pass over all keys of the launch file that are not known; default: they are an "
             "error; example: --from train.sh --ignore-unknown")
      ->needs(from);
  set_group(c, "Model and hardware", {"--from", "--ignore", "--ignore-unknown"});
}

void require_run(const RunOptions& options) {
  if (options.run_file.empty() && options.model.empty() && options.launch_file.empty())
    throw CLI::RequiredError("RUN.json or --model");
}

// Any field of the table of strategies, by its key.
void add_pins(CLI::App& c, RunOptions& o) {
  const auto pin = [&o](const std::string& text) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const bool known = sim::find_strategy_field(key) || key == "recompute";
    if (equals == std::string::npos || !known)
      throw Error("--fix = " + text +
                  ": KEY=VALUES with the key of a run file is expected, as in tp=1,2 or "
                  "sequence_parallel=true");
    const std::string values = text.substr(equals + 1);
    if (key == "recompute")
      o.recompute = values;
    else
      o.strategy[key] = values;
  };
  c.add_option_function<std::vector<std::string>>(
       "--fix",
       [pin](const std::vector<std::string>& texts) {
         for (const std::string& text : texts) pin(text);
       },
       "a field of the strategy and the values it may have, by its key in run files; as often as "
       "needed; default none; example: --fix sequence_parallel=true")
      ->type_name("KEY=LIST")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(c, "--exclude", o.excluded, "KEY=LIST",
             "a searched field of the strategy and values it may not have; as often as needed; "
             "default none; example: --exclude sharding=zero3,hsdp")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(c, "--allow", o.allowed, "LIST",
             "tried too: schedules (zb-h1, zb-v, v-half, v-min, dualpipe), and a plan each with "
             "precisions (fp8) and with the optimizer, parameters or activations on the host; "
             "default none; "
             "example: --allow zb-h1,fp8");
  set_group(c, "Layout", {"--fix", "--exclude", "--allow"});
}

void add_search_options(CLI::App& c, RunOptions& o) {
  add_model(c, o);
  add_option(c, "--gpus", o.gpus, "N",
             "devices (an MI250X counts as two), 1 to 1048576, or a list of them; no default; "
             "example: --gpus 256");
  add_work(c, o);
  add_site(c, o);
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    const sim::SearchedField* const searched = sim::find_searched_field(field.key);
    if (searched && *searched->help)
      add_field(c, field, o, "LIST", searched->help);
    else if (!field.help.empty() &&
             !(searched && searched->restricted != sim::Restricted::Excluded))
      add_field(c, field, o, field.value_name, field.help);
  }
  add_option(c, "--recompute", o.recompute, "LIST",
             "what is recomputed, as in predict; default none, selective, every-n=4, every-n=2, "
             "full, full=1 to full=4, and cheap modules where the framework can; example: "
             "--recompute none,full");
  add_recipe(c, o);
  add_pins(c, o);
}

std::string option_named(const std::string& key) {
  std::string option = "--" + key;
  std::ranges::replace(option, '_', '-');
  return option;
}

std::string option_name(const sim::StrategyField& field) {
  const std::string options = field.options;
  return options.empty() ? option_named(field.key) : options.substr(0, options.find(','));
}

}  // namespace llmsim::cli
