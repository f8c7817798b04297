#include "cli/predict_command.h"

#include <algorithm>

#include "cli/strategy_options.h"
#include "hwdb/frameworks/settings.h"
#include "hwdb/models/catalogue.h"
#include "hwdb/text/quoting.h"
#include "sim/search/searched_fields.h"

namespace llmsim::cli {
namespace {

using sim::StrategyField;

// The mesh and what divides the model stand first in a command, in this order; other searched
// fields follow in that of their table.
const std::vector<std::string>& layout_keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> keys({"tp", "pp", "virtual_stages", "pipeline_schedule",
                                   "embeddings_as_layers", "stage_layers", "cp", "ep", "etp",
                                   "sequence_parallel", "sharding", "shard_size", "mesh_order",
                                   "micro_batch"});
    for (const sim::SearchedField& field : sim::searched_fields()) {
      const bool is_known = std::ranges::find(keys, field.key) != keys.end();
      if (!is_known && !field.is_rest && sim::find_strategy_field(field.key))
        keys.emplace_back(field.key);
    }
    return keys;
  }();
  return all;
}

class Command {
 public:
  void add(const std::string& option, const std::string& value) {
    text_ += " " + option + " " + hwdb::shell_quoted(value);
  }
  void add(const std::string& option, const std::optional<std::string>& value) {
    if (value) add(option, *value);
  }
  void add_switch(const std::string& option, bool on) {
    text_ += " " + (on ? option : "--no-" + option.substr(2));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// How the option of a switch says no: "!--no-flash" of its spellings.
std::string negative(const StrategyField& field) {
  const std::string options = field.options;
  const auto at = options.find('!');
  if (at == std::string::npos) return "--no-" + option_name(field).substr(2);
  return options.substr(at + 1, options.find(',', at) - at - 1);
}

// `text`: as RunOptions::strategy has it.
void add_field(Command& command, const std::string& key, const std::string& text,
               std::string& switches) {
  const StrategyField& field = *sim::find_strategy_field(key);
  if (field.kind != sim::FieldKind::Switch)
    command.add(option_name(field), text);
  else
    switches += " " + (text == "true" ? option_name(field) : negative(field));
}

void add_asked(Command& command, const RunOptions& o) {
  if (!o.model.empty()) command.add("--model", o.model);
  command.add("--gpus", o.gpus);
  command.add("--hardware", o.hardware);
  command.add("--system", o.system);
  command.add("--gpus-per-node", o.gpus_per_node);
  command.add("--transport", o.transport);
  command.add("--collective-algorithm", o.algorithm);
  command.add("--inter-node-bandwidth", o.inter_node_bandwidth);
  command.add("--seq-len", o.seq_len);
  command.add("--document-len", o.document_len);
  command.add("--image-tokens", o.image_tokens);
  command.add("--audio-tokens", o.audio_tokens);
  command.add("--global-batch", o.global_batch);
  command.add("--global-batch-tokens", o.global_batch_tokens);
  if (!o.site.empty()) command.add("--site", o.site);
  command.add("--framework", o.framework);
  command.add("--framework-version", o.framework_version);
  command.add("--date", o.date);
  command.add("--offload", o.offload);
  command.add("--lora", o.lora);
  command.add("--lora-targets", o.lora_targets);
  if (o.freeze_vision) command.add_switch("--freeze-vision", true);
  if (o.freeze_audio) command.add_switch("--freeze-audio", true);
  if (o.dp_overlap) command.add_switch("--dp-overlap", *o.dp_overlap);
}

void add_settings(Command& command, const sim::SettingValues& settings) {
  for (const auto& [key, value] : settings) {
    const std::string option = option_named(key);
    if (const bool* on = std::get_if<bool>(&value))
      command.add_switch(option, *on);
    else
      command.add(option, sim::text_of(value));
  }
}

// In the order of a layout, then the others.
void add_fields(Command& command, const RunOptions& options, std::string& switches) {
  const std::vector<std::string>& layout = layout_keys();
  for (const std::string& key : layout) {
    const auto found = options.strategy.find(key);
    if (found != options.strategy.end()) add_field(command, key, found->second, switches);
  }
  command.add("--recompute", options.recompute);
  for (const auto& [key, text] : options.strategy) {
    if (std::ranges::find(layout, key) == layout.end()) add_field(command, key, text, switches);
  }
}

}  // namespace

RunOptions predict_options(const RunOptions& asked, const sim::Strategy& strategy) {
  const sim::Strategy plain;
  RunOptions options = asked;
  std::erase_if(options.strategy, [](const auto& field) {
    const sim::SearchedField* const searched = sim::find_searched_field(field.first);
    return searched && (!searched->opt_in || is_searched(field.first, field.second));
  });
  for (const std::string& key : layout_keys()) {
    const bool opt_in = sim::find_searched_field(key)->opt_in,
               is_left = options.strategy.contains(key);
    if (opt_in && (is_left || !asked.strategy.contains(key))) continue;
    const StrategyField& field = *sim::find_strategy_field(key);
    const auto value = field.get(strategy);
    const bool always = opt_in || key == "sharding" || key == "micro_batch" ||
                        (strategy.tp > 1 && (key == "sequence_parallel" || key == "tp_overlap"));
    if (value && (always || (is_stated(field, strategy) && value != field.get(plain))))
      options.strategy[key] = sim::text_of(*value);
  }
  options.recompute = sim::text_of(strategy.recompute);
  // The default batch of a search suits the devices, that of one run its replicas.
  options.global_batch = std::to_string(strategy.global_batch);
  options.global_batch_tokens.reset();
  return options;
}

RunOptions without_folders(RunOptions options) {
  if (!hwdb::find_model(options.model)) options.model = without_folder(options.model);
  return options;
}

std::string options_text(const RunOptions& options, const std::string& database) {
  Command command;
  std::string switches;
  add_asked(command, options);
  add_fields(command, options, switches);
  add_settings(command, options.settings);
  if (!database.empty()) command.add("--db", database);
  return command.text() + switches;
}

std::string predict_command(const RunOptions& asked, const sim::Strategy& strategy,
                            const std::string& database) {
  return "llmsim predict" + options_text(predict_options(asked, strategy), database);
}

}  // namespace llmsim::cli
