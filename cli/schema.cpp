#include <algorithm>
#include <array>
#include <memory>
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

struct NamedSchema {
  const char* name;
  const char* of;
  std::string (*text)();
};

template <const char* const& name>
std::string answer() {
  return reports::answer_schema(name, hwdb::run_schema());
}

constexpr const char *kPrediction = "prediction", *kPlan = "plan", *kComparison = "comparison",
                     *kExplanation = "explanation";

constexpr std::array kSchemas{
    NamedSchema{"run", "run files: predict, validate, calibrate", hwdb::run_schema},
    NamedSchema{"hardware", "files of hardware add", hwdb::hardware_schema},
    NamedSchema{kPrediction, "predict --format json", answer<kPrediction>},
    NamedSchema{kPlan, "plan --format json", answer<kPlan>},
    NamedSchema{kComparison, "compare --format json", answer<kComparison>},
    NamedSchema{kExplanation, "predict --explain WHAT --format json", answer<kExplanation>}};

std::string list_text(const reports::Style& style) {
  reports::Table list("Schemas", {as_text("name"), as_text("of")});
  for (const NamedSchema& schema : kSchemas)
    list.add_row({std::string(schema.name), std::string(schema.of)});
  return render(list, reports::Format::Table, style);
}

std::string schema_named(const std::string& name) {
  std::vector<std::string> names;
  for (const NamedSchema& schema : kSchemas) {
    if (schema.name == name) return schema.text();
    names.emplace_back(schema.name);
  }
  throw Error("schema " + Error::printable(name) + ": no such schema" +
              hwdb::did_you_mean(name, names) + "; " + sim::alternatives(names) + " is expected");
}

int run_schema_command(const SchemaOptions& options) {
  write_result(
      options.name.empty() ? list_text(style_of(options.output)) : schema_named(options.name),
      options.output);
  return 0;
}

}  // namespace

void add_schema(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "schema", "the JSON Schema (draft 2020-12) of a file that is read or an answer");
  const auto options = std::make_shared<SchemaOptions>();
  add_option(*command, "NAME", options->name, "NAME",
             "run, hardware, prediction, plan, comparison or explanation; default: the list of "
             "them; example: run");
  add_option(*command, "-o,--output", options->output.file, "FILE",
             "write the result to a file; default standard output; example: -o run.schema.json");
  command->footer("Example: llmsim schema run");
  command->callback([options, &status] { status = run_schema_command(*options); });
}

}  // namespace llmsim::cli
