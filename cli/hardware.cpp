#include "cli/commands.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cli/help_format.h"
#include "cli/output.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/hardware/hardware_document.h"
#include "hwdb/hardware/user_hardware.h"
#include "hwdb/store/database_check.h"
#include "hwdb/text/input_file.h"
#include "reports/table.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

struct HardwareOptions {
  std::string name;                // show: id or alias
  std::string file;                // add: the user's hardware
  std::vector<std::string> names;  // export
  bool replace = false;            // add: names that exist already
  OutputOptions output;
  std::string database;
};

using hwdb::HardwareKind;
using namespace reports::columns;

// The name under which a row is found: an alias may point an id elsewhere ("mi250x" is a GCD, the
// module has an alias of its own).
std::string lookup_name(const hwdb::Database& database, HardwareKind kind,
                        const hwdb::HardwareRow& row) {
  const auto found = database.find(kind, row.id);
  if (found && found->id == row.id) return row.id;
  const std::vector<std::string> aliases = database.aliases(kind, row.id);
  return aliases.empty() ? row.id : aliases.front();
}

reports::Cell peak_16_bit(const sim::Device& device) {
  const auto peak = std::max(device.matrix_peak[static_cast<std::size_t>(sim::DType::Bf16)],
                             device.matrix_peak[static_cast<std::size_t>(sim::DType::Fp16)]);
  return peak.value() > 0.0 ? reports::Cell(peak) : reports::Cell();
}

void add_rows(reports::Table& table, const hwdb::Database& database, HardwareKind kind) {
  for (const hwdb::HardwareRow& row : database.list(kind)) {
    const sim::Cluster cluster =
        hwdb::cluster(database, lookup_name(database, kind, row), 1).cluster;
    const sim::Device& device = cluster.device;
    table.add_row({row.id, kind == HardwareKind::System ? "system" : "accelerator", row.name,
                   device.id, peak_16_bit(device), device.usable_memory, device.memory_bandwidth,
                   std::int64_t{cluster.devices_per_node},
                   std::string(name_of(cluster.fabric.kind)), cluster.fabric.device_bandwidth,
                   cluster.network.node_bandwidth,
                   std::string(row.origin == hwdb::Origin::User ? "user" : "shipped"),
                   sim::joined(database.aliases(kind, row.id), " ")});
  }
}

int run_hardware_list(const HardwareOptions& options) {
  format_of(options.output);
  const hwdb::Database database = open_database(options.database);
  reports::Table table("Hardware",
                       {as_text("id"), as_text("kind"), as_text("name"), as_text("accelerator"),
                        in_flops_per_s("peak_16_bit_flops_per_s", "16-bit peak"),
                        in_bytes("usable_memory_bytes", "usable memory"),
                        in_bytes_per_s("memory_bytes_per_s", "memory rate"),
                        as_integer("devices_per_node", "per node"), as_text("fabric"),
                        in_bytes_per_s("fabric_bytes_per_s_per_device", "fabric rate"),
                        in_bytes_per_s("network_bytes_per_s_per_node", "network per node"),
                        as_text("origin"), as_text("aliases")});
  add_rows(table, database, HardwareKind::Accelerator);
  add_rows(table, database, HardwareKind::System);
  table.add_note("rates of one direction; an accelerator stands in its usual nodes; database " +
                 place_of(database));
  return print_answer(table, options.output);
}

int run_hardware_show(const HardwareOptions& options) {
  format_of(options.output);
  const hwdb::Database database = open_database(options.database);
  const hwdb::ClusterRecord record = hwdb::cluster(database, options.name, 1);
  const std::string system =
      record.cluster.id == record.cluster.device.id ? "" : record.cluster.id + ": ";
  reports::Table table(
      system + record.cluster.device.name,
      {as_text("key", "fact"), as_text("value"), as_text("evidence"), as_text("source")});
  for (const sim::Fact& fact : record.facts) {
    table.add_row({fact.key, fact.value, std::string(hwdb::name_of(fact.evidence)), fact.source});
  }
  table.add_note("database " + place_of(database));
  return print_answer(table, options.output);
}

int run_hardware_add(const HardwareOptions& options) {
  const std::string text = hwdb::content_of_file(options.file);
  hwdb::Database database = open_database_to_write(options.database);
  const hwdb::AddedHardware added =
      hwdb::add_hardware(database, text, options.file, options.replace);
  reports::Table table("Added to " + database.path(), {as_text("id"), as_text("kind")});
  for (const std::string& id : added.accelerators) table.add_row({id, std::string("accelerator")});
  for (const std::string& id : added.systems) table.add_row({id, std::string("system")});
  if (added.num_coefficients > 0)
    table.add_note(std::to_string(added.num_coefficients) + " coefficients");
  write_result(reports::render(table, reports::Format::Table, style_of(options.output)),
               options.output);
  return 0;
}

int run_hardware_export(const HardwareOptions& options) {
  const hwdb::Database database = open_database(options.database);
  write_result(hwdb::hardware_document(database, options.names), options.output);
  return 0;
}

int run_hardware_remove(const HardwareOptions& options) {
  hwdb::Database database = open_database_to_write(options.database);
  hwdb::remove_hardware(database, options.name);
  write_result("Removed " + options.name + " from " + database.path() + "\n", {});
  return 0;
}

int run_hardware_check(const HardwareOptions& options) {
  format_of(options.output);
  const std::string path =
      options.database.empty() ? hwdb::default_database_path() : options.database;
  const hwdb::DatabaseCheck check = hwdb::check_database(path);
  const bool whole = check.damages.empty();
  reports::Table table(std::to_string(check.records) + " records of database " + path +
                           (whole ? ", all as they were written" : ""),
                       {as_text("damage", whole ? "" : "damage")});
  for (const std::string& damage : check.damages) table.add_row({damage});
  if (whole) return print_answer(table, options.output);
  table.add_note(
      "move the file away and a new one with the shipped facts will be created; your own are those "
      "of the files that hardware add and calibrate were given");
  print_answer(table, options.output);
  say_why_not("database " + path + " is damaged");
  return 1;
}

// Out of the database: to a file, or away.
void add_taking_out(CLI::App& command, const std::shared_ptr<HardwareOptions>& options,
                    int& status) {
  CLI::App* exported = command.add_subcommand(
      "export", "accelerators and systems as a file that hardware add reads elsewhere");
  add_option(*exported, "names", options->names, "ID",
             "ids or aliases, shipped or your own; example: my_gpu my_cluster")
      ->required();
  add_option(*exported, "-o,--output", options->output.file, "FILE",
             "write the result to a file; default standard output; example: -o my_gpu.json");
  add_database_option(*exported, options->database);
  exported->callback([options, &status] { status = run_hardware_export(*options); });

  CLI::App* removed = command.add_subcommand(
      "remove", "take your own accelerator or system, with its coefficients, away");
  add_option(*removed, "name", options->name, "ID", "id or alias; example: my_gpu")->required();
  add_database_option(*removed, options->database);
  removed->callback([options, &status] { status = run_hardware_remove(*options); });
}

}  // namespace

void add_hardware(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "hardware",
      "accelerators and systems: list, show with sources, add, export and remove your own, check "
      "the database");
  command->require_subcommand(1);
  const auto options = std::make_shared<HardwareOptions>();

  CLI::App* list = command->add_subcommand("list", "all accelerators and systems");
  add_output_options(*list, options->output);
  add_database_option(*list, options->database);
  list->callback([options, &status] { status = run_hardware_list(*options); });

  CLI::App* show = command->add_subcommand(
      "show", "every fact of an accelerator or system, with evidence and source");
  add_option(*show, "name", options->name, "ID", "id or alias; example: h100")->required();
  add_output_options(*show, options->output);
  add_database_option(*show, options->database);
  show->callback([options, &status] { status = run_hardware_show(*options); });

  CLI::App* add = command->add_subcommand(
      "add", "store your own hardware; hwdb/README.md has a complete example");
  add_option(*add, "file", options->file, "FILE", "JSON with accelerators, systems, coefficients")
      ->required();
  add->add_flag("--replace", options->replace, "let the file's names hide shipped or earlier ones");
  add_database_option(*add, options->database);
  add->callback([options, &status] { status = run_hardware_add(*options); });

  add_taking_out(*command, options, status);

  CLI::App* check = command->add_subcommand(
      "check", "whether the database holds what was written: every page and record is read");
  add_output_options(*check, options->output);
  add_database_option(*check, options->database);
  check->footer("Exit status: 0 all as it was written, 1 damaged or another error, 2 usage.");
  check->callback([options, &status] { status = run_hardware_check(*options); });
}

}  // namespace llmsim::cli
