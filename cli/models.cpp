#include "cli/commands.h"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <memory>
#include <vector>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/run_request.h"
#include "hwdb/huggingface/own_model_types.h"
#include "hwdb/models/catalogue.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/spelling.h"
#include "reports/models.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const sim::NamedModel& entry : hwdb::catalogue())
    names.push_back(sim::family_of(entry.model.name));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<const sim::NamedModel*> entries_of(const std::string& family) {
  std::vector<const sim::NamedModel*> entries;
  for (const sim::NamedModel& entry : hwdb::catalogue()) {
    if (family.empty() || sim::family_of(entry.model.name) == lower(family))
      entries.push_back(&entry);
  }
  if (entries.empty()) {
    throw Error("--family = " + family + ": unknown" +
                hwdb::did_you_mean(lower(family), families()) + " (" +
                sim::joined(families(), ", ") + ")");
  }
  return entries;
}

// A learned position table grows with the sequence only as far as it goes.
void set_seq_len(sim::Transformer& model, const std::string& text) {
  model.seq_len = static_cast<int>(number_in("--seq-len", text, {.least = 1, .most = 1 << 24}));
  try {
    model.validate();
  } catch (const Error& error) {
    throw Error("--seq-len = " + text + ": " + error.what());
  }
}

std::string rendered(const sim::NamedModel& entry, reports::Format format,
                     const reports::Style& style) {
  if (format == reports::Format::Json) return reports::model_json(entry);
  return reports::render(reports::shape_table(entry), format, style) + "\n" +
         reports::render(reports::parameters_table(entry), format, style) + "\n" +
         reports::render(reports::training_flops_table(entry.model), format, style);
}

void add_list(CLI::App& models, int& status) {
  CLI::App* command = models.add_subcommand("list", "all known models");
  const auto options = std::make_shared<ModelListOptions>();
  add_option(*command, "--family", options->family, "NAME",
             "only this family; default all; example: --family llama");
  add_output_options(*command, options->output);
  command->callback([options, &status] { status = run_model_list(*options); });
}

void add_show(CLI::App& models, int& status) {
  CLI::App* command = models.add_subcommand(
      "show", "one model: shape, parameters by part, training FLOPs per token, source");
  const auto options = std::make_shared<ModelShowOptions>();
  add_option(*command, "model", options->name, "NAME",
             "name or alias (see llmsim models list), or a Hugging Face config.json")
      ->required();
  add_option(
      *command, "--seq-len", options->seq_len, "N",
      "tokens of a sequence, 1 to 16777216; default that of the model; example: --seq-len 8192");
  add_output_options(*command, options->output);
  command->footer("Example: llmsim models show llama-3.1-70b-proxy");
  command->callback([options, &status] { status = run_model_show(*options); });
}

void add_add(CLI::App& models, int& status) {
  CLI::App* command =
      models.add_subcommand("add", "store how a model_type of your own writes its config.json");
  const auto options = std::make_shared<ModelAddOptions>();
  add_option(*command, "file", options->file, "FILE",
             "JSON with rows of model_types; hwdb/README.md has an example")
      ->required();
  command->add_flag("--replace", options->replace, "let rows hide those of the same name");
  add_output_options(*command, options->output);
  command->callback([options, &status] { status = run_model_add(*options); });
}

}  // namespace

void add_models(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "models", "list the known models, show one in full, add your own model_type");
  command->require_subcommand(1);
  add_list(*command, status);
  add_show(*command, status);
  add_add(*command, status);
}

int run_model_list(const ModelListOptions& options) {
  format_of(options.output);
  const reports::Table table = reports::catalogue_table(entries_of(options.family));
  return print_answer(table, options.output);
}

int run_model_show(const ModelShowOptions& options) {
  const reports::Format format = format_of(options.output);
  sim::NamedModel entry = model_named("model", options.name);
  if (options.seq_len) set_seq_len(entry.model, *options.seq_len);
  for (const std::string& note : entry.notes)
    std::cerr << "warning: " << entry.source << ": " << note << "\n";
  write_result(rendered(entry, format, style_of(options.output)), options.output);
  return 0;
}

int run_model_add(const ModelAddOptions& options) {
  format_of(options.output);
  reports::Table table("Model types added", {reports::as_text("model_type")});
  for (const std::string& name :
       hwdb::add_model_types(hwdb::content_of_file(options.file), options.file, options.replace))
    table.add_row({name});
  table.add_note("stored in " + hwdb::own_model_types_path().value());
  return print_answer(table, options.output);
}

}  // namespace llmsim::cli
