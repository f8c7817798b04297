#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "hwdb/hardware/hardware_schema.h"
#include "hwdb/runs/run_schema.h"
#include "hwdb/text/spelling.h"
#include "reports/schemas/answer_schema.h"
#include "reports/table.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using namespace reports::columns;

struct SchemaOptions {
  std::string name;  // empty: the list
  OutputOptions output;
};

using Json = nlohmann::ordered_json;

// The values of an option in a question's file; lists are texts, "1,2,4", but for options that may
// stand several times.
Json option_schema(const CLI::Option& option) {
  Json type{"string", "number", "boolean"};
  if (option.get_expected_max() == 0) type = "boolean";
  if (option.get_expected_max() > 1) type.push_back("array");
  return {{"type", type}, {"description", option.get_description()}};
}

// The section of a command: its options by all their names, and the sections of commands below it.
Json section_schema(const CLI::App& command) {
  Json properties = Json::object();
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames())
      if (option != command.get_help_ptr() && option != command.get_help_all_ptr())
        properties[name] = option_schema(*option);
  for (const CLI::App* below : command.get_subcommands({}))
    properties[below->get_name()] = section_schema(*below);
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

std::string question_schema(const CLI::App& program) {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"$id", "llmsim:question:1"},
              {"title", "Options of commands in a file"},
              {"description",
               "TOML of llmsim --question FILE COMMAND: a section for each command, [plan]."}};
  Json sections = section_schema(program);
  for (const char* name : {"question", "version"}) sections["properties"].erase(name);
  schema.update(sections);
  return schema.dump(2) + "\n";
}

struct NamedSchema {
  std::string name, of;
  std::function<std::string()> text;
};

NamedSchema answer(const char* name, const char* of) {
  return {name, of, [name] { return reports::answer_schema(name, hwdb::run_schema()); }};
}

std::vector<NamedSchema> schemas(const CLI::App& program) {
  return {{"run", "run files: predict, validate, calibrate", hwdb::run_schema},
          {"hardware", "files of hardware add", hwdb::hardware_schema},
          {"question", "files of --question", [&program] { return question_schema(program); }},
          answer("prediction", "predict --format json"),
          answer("plan", "plan --format json"),
          answer("comparison", "compare --format json"),
          answer("explanation", "predict --explain WHAT --format json"),
          answer("diagnosis", "diagnose --format json"),
          answer("difference", "diff --format json"),
          answer("validation", "validate --format json"),
          answer("table", "what else prints a table, --format json")};
}

std::string list_text(const CLI::App& program, const reports::Style& style) {
  reports::Table list("Schemas", {as_text("name"), as_text("of")});
  for (const NamedSchema& schema : schemas(program)) list.add_row({schema.name, schema.of});
  return render(list, reports::Format::Table, style);
}

std::string schema_named(const CLI::App& program, const std::string& name) {
  std::vector<std::string> names;
  for (const NamedSchema& schema : schemas(program)) {
    if (schema.name == name) return schema.text();
    names.push_back(schema.name);
  }
  throw Error("schema " + Error::printable(name) + ": no such schema" +
              hwdb::did_you_mean(name, names) + "; " + sim::alternatives(names) + " is expected");
}

int run_schema_command(const CLI::App& program, const SchemaOptions& options) {
  write_result(options.name.empty() ? list_text(program, style_of(options.output))
                                    : schema_named(program, options.name),
               options.output);
  return 0;
}

}  // namespace

void add_schema(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "schema", "the JSON Schema (draft 2020-12) of a file that is read or an answer");
  const auto options = std::make_shared<SchemaOptions>();
  add_option(
      *command, "NAME", options->name, "NAME",
      "run, hardware, question, prediction, plan, comparison, explanation, diagnosis, difference, "
      "validation or table; default: the list "
      "of them; example: run");
  add_option(*command, "-o,--output", options->output.file, "FILE",
             "write the result to a file; default standard output; example: -o run.schema.json");
  command->footer("Example: llmsim schema run");
  command->callback(
      [options, &program, &status] { status = run_schema_command(program, *options); });
}

}  // namespace llmsim::cli
