#include "cli/predict_command.h"

#include <algorithm>
#include <array>
#include <utility>

#include "hwdb/settings.h"
#include "sim/plan.h"
#include "sim/strategy/strategy_fields.h"

namespace llmsim::cli {
namespace {

using sim::StrategyField;

// The fields of a layout that a search gives values to.
constexpr std::array kLayout{"tp",
                             "pp",
                             "virtual_stages",
                             "pipeline_schedule",
                             "embeddings_as_layers",
                             "stage_layers",
                             "cp",
                             "ep",
                             "etp",
                             "sequence_parallel",
                             "sharding",
                             "shard_size",
                             "micro_batch"};

bool is_layout(const std::string& key) {
  return key == "dp" || std::find(kLayout.begin(), kLayout.end(), key) != kLayout.end();
}

// As a shell takes it.
std::string quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("-_./=+,:").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

class Command {
 public:
  void add(const std::string& option, const std::string& value) {
    text_ += " " + option + " " + quoted(value);
  }
  void add(const std::string& option, const std::optional<std::string>& value) {
    if (value) add(option, *value);
  }
  void add_switch(const std::string& option, bool on) {
    text_ += " " + (on ? option : "--no-" + option.substr(2));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "llmsim predict";
};

// How the option of a switch says no: "!--no-flash" of its spellings.
std::string negative(const StrategyField& field) {
  const std::string options = field.options;
  const auto at = options.find('!');
  if (at == std::string::npos) return "--no-" + option_name(field).substr(2);
  return options.substr(at + 1, options.find(',', at) - at - 1);
}

void add_field(Command& command, const StrategyField& field, const sim::FieldValue& value,
               std::string& switches) {
  if (field.kind != sim::FieldKind::Switch) {
    command.add(option_name(field), sim::text_of(value));
    return;
  }
  switches += " " + (sim::text_of(value) == "true" ? option_name(field) : negative(field));
}

void add_asked(Command& command, const RunOptions& o) {
  command.add("--model", o.model);
  command.add("--gpus", o.gpus);
  command.add("--hardware", o.hardware);
  command.add("--system", o.system);
  command.add("--transport", o.transport);
  command.add("--collective-algorithm", o.algorithm);
  command.add("--seq-len", o.seq_len);
  command.add("--global-batch", o.global_batch);
  command.add("--global-batch-tokens", o.global_batch_tokens);
  if (!o.site.empty()) command.add("--site", o.site);
  command.add("--framework", o.framework);
  command.add("--framework-version", o.framework_version);
  command.add("--date", o.date);
  command.add("--offload", o.offload);
  if (o.dp_overlap) command.add_switch("--dp-overlap", *o.dp_overlap);
}

void add_settings(Command& command, const sim::SettingValues& settings) {
  for (const auto& [key, value] : settings) {
    std::string option = "--" + key;
    std::replace(option.begin(), option.end(), '_', '-');
    if (const bool* on = std::get_if<bool>(&value))
      command.add_switch(option, *on);
    else
      command.add(option, sim::text_of(value));
  }
}

}  // namespace

std::string predict_command(const RunOptions& asked, const sim::Strategy& strategy) {
  const sim::Strategy plain;
  Command command;
  std::string switches;
  add_asked(command, asked);
  for (const char* key : kLayout) {
    const StrategyField& field = *sim::find_strategy_field(key);
    const auto value = field.get(strategy);
    const bool always = std::string(key) == "sharding" || std::string(key) == "micro_batch" ||
                        (std::string(key) == "sequence_parallel" && strategy.tp > 1);
    if (value && (always || (says_something(field, strategy) && value != field.get(plain))))
      add_field(command, field, *value, switches);
  }
  command.add("--recompute", sim::text_of(strategy.recompute));
  for (const auto& [key, text] : asked.strategy) {
    const StrategyField* const field = sim::find_strategy_field(key);
    if (field && !is_layout(key)) add_field(command, *field, text, switches);
  }
  add_settings(command, asked.settings);
  return command.text() + switches;
}

}  // namespace llmsim::cli
