#include "hwdb/launch/launch_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "hwdb/launch/launch_fields.h"
#include "hwdb/launch/launch_record.h"
#include "hwdb/launch/row_text.h"
#include "hwdb/launch/targets.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/read_budget.h"
#include "hwdb/text/spelling.h"
#include "hwdb/text/text_blocks.h"
#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/predict.h"

namespace llmsim::hwdb {
namespace {

const LaunchTarget& target_named(const std::string& name) {
  if (const LaunchTarget* const target = find_target(name)) return *target;
  throw Error("target " + name + ": one of " + sim::joined(launch_targets(), ", ") +
              " is expected");
}

const LaunchTarget& written_target(const std::string& name) {
  const LaunchTarget& target = target_named(name);
  if (!target.written)
    throw Error("target " + name + ": its files are read and not written; one of " +
                sim::joined(launch_targets(), ", ") + " is expected");
  return target;
}

bool is_one_of(const std::string& key, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return pattern.ends_with('*') ? key.starts_with(pattern.substr(0, pattern.size() - 1))
                                  : key == pattern;
  });
}

// "tp-comm-overlap" of "--tp-comm-overlap", as options name it.
std::string without_dashes(const std::string& key) {
  return key.substr(std::min(key.find_first_not_of('-'), key.size()));
}

std::vector<std::string> keys_in(const LaunchValues& values) {
  std::vector<std::string> keys;
  for (const auto& entry : values) keys.push_back(entry.first);
  return keys;
}

// --- reading ---

// The words of "pretrain_t5_core.py".
std::vector<std::string> words_of(const std::string& program) {
  std::vector<std::string> words(1);
  for (const unsigned char c : program) {
    if (std::isalnum(c) == 0)
      words.emplace_back();
    else
      words.back() += static_cast<char>(std::tolower(c));
  }
  return words;
}

// What a program trains is said by no key of it.
void check_program(const LaunchTarget& target, const std::string& program) {
  const std::vector<std::string> words = words_of(program);
  for (const Term& other : shipped_table(target.name).programs) {
    if (is_one_of(other.key, words))
      throw Error(program + " trains " + other.value + ": only causal decoders are read of " +
                  target.name);
  }
}

// Takes out the keys that are to be passed over by their names.
void pass_over_named(LaunchValues& values, const LaunchReading& reading, ReadLaunch& read) {
  for (const std::string& name : reading.ignored) {
    const auto found = std::find_if(values.begin(), values.end(), [&](const auto& entry) {
      return without_dashes(entry.first) == without_dashes(name);
    });
    if (found == values.end())
      throw Error("--ignore " + name + ": the file has no such key" +
                  did_you_mean(name, keys_in(values)));
    read.passed_over.push_back(found->first);
    values.erase(found);
  }
}

[[noreturn]] void refuse_unknown(const LaunchTarget& target, const std::vector<std::string>& keys) {
  std::vector<std::string> bare;
  for (const std::string& key : keys) bare.push_back(without_dashes(key));
  throw Error(sim::joined(keys, ", ") + ": not known of " + target.name + " (--ignore " +
              sim::joined(bare, ",") + " passes over " + (bare.size() == 1 ? "it" : "them") + ")" +
              did_you_mean(keys.front(), keys_of(shipped_table(target.name).rows)));
}

// Keys that do not belong to a row: listed where they cannot matter, else passed over or refused.
void sort_others(const LaunchTarget& target, LaunchValues& values, const LaunchReading& reading,
                 ReadLaunch& read) {
  const LaunchTable& table = shipped_table(target.name);
  const std::vector<std::string> known = keys_of(table.rows);
  std::vector<std::string> unknown;
  for (const auto& entry : values) {
    const std::string &key = entry.first, &value = entry.second;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto matters = std::find_if(table.refused.begin(), table.refused.end(),
                                      [&](const Term& term) { return is_one_of(key, {term.key}); });
    if (matters != table.refused.end()) {
      if (same_value(matters->value, value)) continue;
      const std::string whose = target.written ? "" : std::string(" of ") + target.name;
      throw Error(key + " = " + value + whose + ": matters and is not modelled");
    }
    const auto noted = std::find_if(table.noted.begin(), table.noted.end(),
                                    [&](const NotedKey& one) { return one.off.key == key; });
    if (noted != table.noted.end()) {
      if (!same_value(noted->off.value, value))
        read.approximated.push_back(key + " = " + value + ": " + noted->effect);
    } else if (is_one_of(key, table.harmless))
      read.not_needed.push_back(key);
    else
      unknown.push_back(key);
  }
  if (!unknown.empty() && !reading.ignores_unknown) refuse_unknown(target, unknown);
  for (const std::string& key : unknown) {
    read.passed_over.push_back(key);
    values.erase(key);
  }
}

void note_defaults(const LaunchTarget& target, const LaunchValues& fields, ReadLaunch& read) {
  for (const auto& [key, value] : fields) {
    const std::string full = key.starts_with("model.") ? key : "training." + key;
    read.defaults.push_back({"assumed." + full, value, sim::Evidence::Assumed,
                             std::string("default of ") + target.name});
  }
}

// "$TP", "${PP:?}", "$(nproc)": what another place has to say.
bool is_open(const std::string& value) {
  const std::size_t at = value.find('$');
  if (at == std::string::npos || at + 1 == value.size()) return false;
  const unsigned char next = static_cast<unsigned char>(value[at + 1]);
  return std::isalnum(next) != 0 || next == '_' || next == '{' || next == '(';
}

// The option that says a field.
std::string option_of(const std::string& key) {
  if (key.starts_with("model.") && key != "model.seq_len") return "--model";
  std::string option = "--" + key.substr(key.rfind('.') + 1);
  std::replace(option.begin(), option.end(), '_', '-');
  return option == "--num-devices" ? "--gpus" : option;
}

// Puts what is given in the place of what the file leaves open.
void close_open(LaunchValues& fields, const LaunchReading& reading) {
  for (auto field = fields.begin(); field != fields.end();) {
    auto& [key, value] = *field;
    const auto given = reading.given.find(key);
    const bool drops = key.starts_with("model.") && reading.given.contains("model");
    if (!is_open(value)) {
      ++field;
    } else if (given != reading.given.end()) {
      value = given->second, ++field;
    } else if (drops) {
      field = fields.erase(field);
    } else {
      throw Error(key + " = " + value + ": left open by the file; " + option_of(key) +
                  " is expected");
    }
  }
}

// Micro-batches that go through a model chunk before the next: as many as stages are modelled.
// More of them only take memory.
void note_chunk_group(LaunchValues& fields, ReadLaunch& read) {
  const auto group = fields.extract("chunk_group");
  if (group.empty()) return;
  const std::string& text = group.mapped();
  const auto number = [&](const char* key) {
    const auto* const value = value_in(fields, key);
    return value ? sim::number_from(*value).value_or(0.0) : 1.0;
  };
  const double stages = number("pp"), count = sim::number_from(text).value_or(0.0);
  const bool chunks = number("virtual_stages") > 1 || fields.contains("layers_per_chunk") ||
                      fields.contains("stage_layout");
  if (count == stages || !chunks) return;
  const std::string says = "groups of " + text +
                           " micro-batches in a virtual stage (--microbatch-"
                           "group-size-per-virtual-pipeline-stage): as many as pipeline stages, " +
                           std::to_string(std::llround(stages)) + ", are modelled";
  if (count < stages) throw Error(says);
  read.approximated.push_back(says + "; more hold more activations");
}

// What a row says; a word of it that is left open is the program's own, and that is said.
RowReading read_closed_row(const LaunchTarget& target, const Row& row, const LaunchValues& values,
                           const LaunchValues& fields, ReadLaunch& read) {
  try {
    return read_row(row, values, fields);
  } catch (const Error& error) {
    LaunchValues closed = values;
    for (const std::string& key : keys_of({row})) {
      const auto* const value = value_in(closed, key);
      if (!value || !is_open(*value)) continue;
      read.approximated.push_back(key + " = " + *value +
                                  ": left open, the program's default is taken");
      closed.erase(key);
    }
    if (closed.size() < values.size()) return read_row(row, closed, fields);
    throw Error(std::string(error.what()) + ": no such combination of " + target.name +
                " is modelled");
  }
}

// "pp = 0" by the keys of the file that say it.
void check_numbers(const Row& row, const LaunchValues& said, const LaunchValues& values) {
  for (const auto& [key, value] : said) {
    try {
      check_number(key, value);
    } catch (const Error& error) {
      std::string keys;
      for (const std::string& name : keys_of({row})) {
        const auto* const text = value_in(values, name);
        if (text && text->find(value) != std::string::npos) keys += name + " = " + *text + ": ";
      }
      throw Error(keys + error.what());
    }
  }
}

LaunchValues read_rows(const LaunchTarget& target, const LaunchText& text,
                       const LaunchReading& reading, ReadLaunch& read) {
  LaunchValues fields;
  for (const Row& row : shipped_table(target.name).rows) {
    RowReading said = read_closed_row(target, row, text.values, fields, read);
    close_open(said.fields, reading);
    check_numbers(row, said.fields, text.values);
    if (said.by_default) note_defaults(target, said.fields, read);
    for (const auto& [key, value] : said.fields) fields[key] = value;
  }
  note_chunk_group(fields, read);
  if (text.num_devices) fields.emplace("num_devices", std::to_string(*text.num_devices));
  return fields;
}

// What other files say, where this one does not.
void note_other_files(const LaunchTarget& target, const LaunchValues& values, ReadLaunch& read) {
  for (const Term& other : shipped_table(target.name).elsewhere) {
    const auto* const named = value_in(values, other.key);
    if (named && !named->empty() && !read.record.training.strategy.contains(other.value))
      read.elsewhere.push_back({other.value, other.key + " = " + *named});
  }
}

ReadLaunch read_text(const LaunchTarget& target, LaunchText text, const std::string& path,
                     const LaunchReading& reading) {
  ReadLaunch read;
  read.target = target.name;
  read.states_ranks = !target.written;
  try {
    check_program(target, text.program);
    pass_over_named(text.values, reading, read);
    sort_others(target, text.values, reading, read);
    read.record = record_of(read_rows(target, text, reading, read));
    note_other_files(target, text.values, read);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
  read.record.file = path;
  read.record.id = target.name;
  if (!read.record.training.framework) read.record.training.framework = target.frameworks.front();
  return read;
}

// Every format is tried in turn, and each holds a hundred times the text while it is read.
void require_small(const std::string& text, const std::string& path) {
  constexpr std::size_t kMostMiBOfLaunch = 1;
  if (text.size() > kMostMiBOfLaunch << 20)
    throw TooLarge(path + ": holds more than " + std::to_string(kMostMiBOfLaunch) +
                   " MiB; launch files hold less");
}

// How many keys "a b" are, where the file has them all; else 0.
int keys_found(const LaunchValues& values, const std::string& keys) {
  std::istringstream stream(keys);
  int count = 0;
  for (std::string key; stream >> key; ++count)
    if (!values.contains(key)) return 0;
  return count;
}

// --- writing ---

// The hardware on which a run is resolved again.
RecordedHardware hardware_of_run(const sim::Run& run) {
  RecordedHardware hardware;
  hardware.accelerator = run.cluster.device.id;
  hardware.num_devices = run.cluster.num_devices;
  hardware.collective_algorithm = name_of(run.cluster.algorithm);
  return hardware;
}

// The model of a program that is configured; adapters are those of the run, or those that the file
// names.
RecordedModel model_of_program(const LaunchTarget& target, const sim::Run& run,
                               const RecordedModel& read) {
  RecordedModel model = recorded(run.model);
  const auto& adapters = run.strategy.adapters;
  if (target.names_adapters) {
    model.trainable = read.trainable, model.lora_rank = read.lora_rank;
    model.lora_targets = read.lora_targets;
  }
  if (target.names_adapters || !adapters) return model;
  model.trainable = "lora";
  model.lora_rank = adapters->rank;
  model.lora_targets = names_of(adapters->layers);
  return model;
}

std::string recompute_text(const sim::Run& run) {
  return std::string("recompute.kind = ") + name_of(run.strategy.recompute.kind);
}

// Throws where the file has no ranks of a kind that the run has: all that follows from their number
// would else be refused for a reason of its own.
void check_ranks(const LaunchTarget& target, const RunRecord& read, const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  for (const auto& [kind, ranks] : {std::pair{"pp", s.pp}, std::pair{"tp", s.tp},
                                    std::pair{"cp", s.cp}, std::pair{"ep", s.ep}}) {
    const auto said = read.training.strategy.find(kind);
    if (ranks != (said == read.training.strategy.end() ? 1 : sim::number_of(said->second)))
      throw Error(std::string(target.name) + " cannot express " + sim::equals(kind, ranks));
  }
}

// Whether the run has another step time or peak where its program is taken to be another.
bool predicted_otherwise(const sim::Run& run, RunRecord record, const std::string& framework,
                         RunResolver& resolver) {
  record.training.framework = framework;
  const sim::Prediction here = sim::predict_without_terms(run),
                        there = sim::predict_without_terms(resolver.resolve(record));
  return here.step_time != there.step_time || here.memory.needed() != there.memory.needed();
}

// "KEY = VALUE" of the settings that the run states and the file leaves to its program.
std::vector<std::string> settings_left(const LaunchTarget& target, const sim::Run& run) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : run.settings)
    if (is_one_of(key, target.left_to_program)) texts.push_back(key + " = " + sim::text_of(value));
  return texts;
}

// What the run has of that which the file leaves to its program.
void take_from_program(const LaunchTarget& target, const sim::Run& run, RecordedTraining& read) {
  for (const std::string& key : target.left_to_program) {
    const sim::StrategyField* const field = sim::find_strategy_field(key);
    if (const auto setting = run.settings.find(key); !field && setting != run.settings.end())
      read.settings.insert(*setting);
    if (const auto value = field ? field->get(run.strategy) : std::nullopt)
      read.strategy.emplace(key, *value);
  }
}

// Throws where the file means another run; gives what it leaves to its program.
std::vector<std::string> check_written(const LaunchTarget& target, const LaunchFile& file,
                                       const sim::Run& run, RunResolver& resolver) {
  ReadLaunch read = read_text(target, target.parsed(file.text, file.name), file.name, {});
  RunRecord& record = read.record;
  if (!target.names_model) record.model = model_of_program(target, run, record.model);
  take_from_program(target, run, record.training);
  // The file says more than the run where it has to (grouped GEMMs of experts: on or off).
  std::erase_if(record.training.settings,
                [&](const auto& setting) { return !run.settings.contains(setting.first); });
  record.hardware = hardware_of_run(run);
  const auto read_as = std::exchange(record.training.framework, run.framework.id);
  if (!run.date.empty()) record.date = run.date;
  if (!run.framework_version.empty()) record.training.framework_version = run.framework_version;
  check_ranks(target, record, run);
  const sim::Run written = resolver.resolve(record);
  const auto difference = first_difference(run, written);
  if (difference) throw Error(std::string(target.name) + " cannot express " + *difference);
  std::vector<std::string> unsaid = unsaid_fields(run, written);
  const bool recomputes = run.strategy.recompute.kind != sim::RecomputeKind::None;
  if (is_one_of("recompute.kind", target.left_to_program) && recomputes)
    unsaid.push_back(recompute_text(run));
  for (std::string& text : settings_left(target, run)) unsaid.push_back(std::move(text));
  if (read_as && *read_as != run.framework.id &&
      predicted_otherwise(run, record, *read_as, resolver))
    unsaid.push_back("training.framework = " + run.framework.id + " (of " + *read_as +
                     " where it is read)");
  return unsaid;
}

}  // namespace

std::vector<std::string> launch_targets() {
  std::vector<std::string> names;
  for (const LaunchTarget& target : all_launch_targets()) {
    if (target.written) names.emplace_back(target.name);
  }
  return names;
}

std::vector<std::string> read_targets() {
  std::vector<std::string> names;
  for (const LaunchTarget& target : all_launch_targets()) {
    if (target.parsed) names.emplace_back(target.name);
  }
  return names;
}

std::string target_of_release(const std::string& name) {
  const auto [target, release] = parted(name, "@");
  if (name.find('@') == std::string::npos) return name;
  const auto& known = shipped_table(written_target(target).name).releases;
  if (!known) throw Error("target " + name + ": no releases of " + target + " are told apart");
  std::vector<std::string> names;
  for (const Term& one : known->all) {
    if (one.key == release || one.key.starts_with(release + ".")) return target;
    names.push_back(one.key);
  }
  throw Error("target " + name + ": is written for " + known->program + " " +
              sim::alternatives(names));
}

std::optional<std::string> framework_of_target(const std::string& target) {
  const std::vector<std::string>& frameworks = written_target(target).frameworks;
  return frameworks.empty() ? std::nullopt : std::optional(frameworks.front());
}

std::optional<std::string> target_of_framework(const std::string& framework) {
  const LaunchTarget* const target = target_running(framework);
  return target ? std::optional<std::string>(target->name) : std::nullopt;
}

std::string usual_target(const sim::Run& run) {
  const std::string& vendor = run.cluster.device.vendor;
  if (vendor == "NVIDIA" || vendor == "AMD") return slurm_target().name;
  const auto target = target_of_framework(run.framework.id);
  if (!target) throw Error("--to: no target runs " + run.framework.id + " on devices of " + vendor);
  return *target;
}

std::vector<LaunchFile> launch_files(const sim::Run& run, const std::string& name,
                                     RunResolver& resolver) {
  const LaunchTarget& target = written_target(name);
  if (!target.launches && !is_one_of(run.framework.id, target.frameworks))
    throw Error(name + " cannot express training.framework = " + run.framework.id + ": " +
                sim::alternatives(target.frameworks) + " is expected");
  LaunchFile file{target.file_name, written_text(target, run)};
  if (target.parsed) file.unsaid = check_written(target, file, run, resolver);
  std::vector<LaunchFile> files;
  const auto* const program = target.launches ? target_running(run.framework.id) : nullptr;
  if (program) files = launch_files(run, program->name, resolver);
  if (program && is_one_of(run.framework.id, program->commanding)) {
    std::erase(files.back().unsaid, recompute_text(run));
    for (const std::string& text : settings_left(*program, run))
      std::erase(files.back().unsaid, text);
  }
  if (target.node_file) files.push_back(target.node_file(run));
  files.push_back(file);
  return files;
}

std::string target_of_launch(const std::string& text, const std::string& path) {
  require_small(text, path);
  std::map<LaunchParser, LaunchValues> read;  // by each format once
  std::optional<TooLarge> too_large;
  const auto read_as = [&](const LaunchTarget& target) {
    LaunchValues& values = read[target.parsed];  // nothing where the file has another format
    try {
      values = target.parsed(text, path).values;
    } catch (const TooLarge& error) {
      too_large = error;
    } catch (const Error&) {
    }
  };
  const LaunchTarget* best = nullptr;
  int most = 0;
  for (const LaunchTarget& target : all_launch_targets()) {
    if (!target.parsed) continue;
    if (!read.contains(target.parsed)) read_as(target);
    for (const std::string& keys : target.beginnings) {
      const int found = keys_found(read[target.parsed], keys);
      if (found > most) best = &target, most = found;
    }
  }
  if (!best && too_large) throw *too_large;
  if (!best) throw Error(path + ": no file of " + sim::joined(read_targets(), ", "));
  return best->name;
}

ReadLaunch parse_launch(const std::string& text, const std::string& path,
                        const LaunchReading& reading) {
  require_small(text, path);
  const LaunchTarget& known =
      target_named(reading.target ? *reading.target : target_of_launch(text, path));
  if (!known.parsed) throw Error(path + ": files of " + known.name + " are written and not read");
  return read_text(known, known.parsed(text, path), path, reading);
}

ReadLaunch read_launch(const std::string& path, const LaunchReading& reading) {
  return parse_launch(content_of_file(path), path, reading);
}

}  // namespace llmsim::hwdb
