#include "cli/commands.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include "cli/cross_table_cells.h"
#include "cli/help_format.h"
#include "cli/job_options.h"
#include "cli/number_list.h"
#include "cli/output.h"
#include "cli/parts.h"
#include "cli/run_library.h"
#include "cli/run_options.h"
#include "hwdb/text/spelling.h"
#include "hwdb/text/table_file.h"
#include "reports/cross_table.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using namespace reports::columns;

using reports::CrossTable;

struct CompareOptions {
  std::string table;  // the name of a shipped one or a file; empty: the options make one
  RunOptions run;
  std::vector<std::string> order;  // options as they were typed
  std::string cell;                // names of values; empty: those of the table
  std::optional<std::string> convention;
  std::vector<std::string> runs;
  bool interval = false, plan = false, list = false;
  JobOptions job;
  std::string jobs = "0";
  std::optional<std::string> part;
  std::string question;  // of the marks of a part
  OutputOptions output;
  std::string database;
};

hwdb::TableFile shipped_table(const ShippedText& shipped) {
  return hwdb::parse_table_file(std::string(shipped.text), std::string(shipped.name) + ".toml");
}

std::string list_text(reports::Format format, const reports::Style& style) {
  reports::Table list("Tables", {as_text("name"), as_text("title")});
  for (const ShippedText& shipped : shipped_tables())
    list.add_row({std::string(shipped.name), shipped_table(shipped).title});
  return render(list, format, style);
}

// A shipped table wins over a file of the same name without an ending.
hwdb::TableFile table_named(const std::string& name) {
  std::vector<std::string> names;
  for (const ShippedText& shipped : shipped_tables()) {
    if (shipped.name == name) return shipped_table(shipped);
    names.emplace_back(shipped.name);
  }
  std::error_code too_long;  // for a name of a file
  if (name.ends_with(".toml") || std::filesystem::exists(name, too_long))
    return hwdb::read_table_file(name);
  throw Error(name + ": no such table" + hwdb::did_you_mean(name, names) +
              "; llmsim compare --list names all, a file ends in .toml");
}

CrossTable asked_table(const CompareOptions& options, const CellContext& context) {
  if (!options.table.empty()) return cross_table(table_named(options.table), context);
  const bool planned = options.plan || leaves_layout_open(options.run);
  if (planned && !options.run.gpus) throw CLI::RequiredError("--gpus, or a layout such as --dp,");
  return cross_table(options.run, options.order, planned, context);
}

// Known is what a prediction has.
void check_convention(const CrossTable& table) {
  std::vector<std::string> names;
  for (const reports::CrossCell& cell : table.cells) {
    if (!names.empty() || !cell.prediction) continue;
    for (const sim::Convention& known : cell.prediction->conventions) names.push_back(known.name);
  }
  const auto is_known = [&] { return std::ranges::find(names, *table.convention) != names.end(); };
  if (!table.convention || names.empty() || is_known()) return;
  throw Error("--convention = " + *table.convention + ": " + sim::alternatives(names) +
              " is expected");
}

// What the command line says of the cells wins over the file.
void put_over(const CompareOptions& options, CrossTable& table) {
  const std::vector<reports::CellValue> values = cell_values(words_in(options.cell), "--cell");
  if (!values.empty()) table.values = values;
  if (table.values.empty()) table.values = {reports::CellValue::Tflops, reports::CellValue::Mfu};
  if (options.convention) table.convention = options.convention;
  check_convention(table);
  table.interval = table.interval || options.interval;
}

// A part of the cells, as CSV.
void write_part(const CompareOptions& options, const CrossTable& table, Part part) {
  const PartRange range = range_of(part, table.cells.size());
  const reports::Table rows = reports::cell_table(table, range.first, range.last);
  write_result(marked(render(rows, reports::Format::Csv), part, options.question), options.output);
}

// Each warning once, with the first cell that has it.
void print_warnings(const CrossTable& table) {
  std::set<std::string> printed;
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    if (!table.cells[i].prediction) continue;
    for (const std::string& warning : table.cells[i].prediction->warnings) {
      if (!printed.insert(warning).second) continue;
      std::cerr << "warning: " << table.rows[i / table.columns.size()] << ", "
                << table.columns[i % table.columns.size()] << ": " << warning << "\n";
    }
  }
}

int run_compare(const CompareOptions& options) {
  const bool page = options.output.format == "html" && !options.list;
  const reports::Format format = page ? reports::Format::Table : format_of(options.output);
  const reports::Style style = style_of(options.output);
  if (options.list) {
    write_result(list_text(format, style), options.output);
    return 0;
  }
  cell_values(words_in(options.cell), "--cell");
  const Part part = part_in(options.part);
  if (!part.is_all()) require_csv(format);
  const hwdb::Database database = open_database(options.database);
  const CellContext context{.database = database,
                            .runs = options.runs,
                            .job = options.job,
                            .jobs = options.jobs,
                            .part = part};
  CrossTable table = asked_table(options, context);
  table.provenance.database = name_of(database);
  put_over(options, table);
  if (!part.is_all()) {
    write_part(options, table, part);
    return 0;
  }
  write_result(page ? reports::page(table) : render(table, format, style), options.output);
  print_warnings(table);
  const auto fits = [](const reports::CrossCell& cell) {
    return cell.prediction && cell.prediction->feasible();
  };
  if (std::ranges::any_of(table.cells, fits)) return 0;
  say_why_not("no cell of the table has a run that fits");
  return 3;
}

void add_cell_options(CLI::App& c, CompareOptions& o) {
  add_option(c, "--cell", o.cell, "LIST",
             "what a cell says, the first value before the others: step_time, tokens, tflops, mfu, "
             "hfu, memory, cost (USD for 10^9 tokens), layout; default that of the table, or "
             "tflops,mfu; example: --cell step_time,mfu");
  c.add_flag("--interval", o.interval,
             "each value with the interval that holds it in 9 of 10 runs; default off");
  add_option(c, "--convention", o.convention, "NAME",
             "how tflops and mfu are counted, as in predict; default exact GEMMs and causal "
             "attention; example: --convention palm");
  c.add_flag("--plan", o.plan,
             "each cell is the best plan, with what is given of its layout; default where none of "
             "--tp, --pp, --dp, --cp, --ep, --sharding is given");
  add_option(c, "--runs", o.runs, "FILE",
             "a file of measured runs, or a folder of them, that the cells of a table name; as "
             "often as needed; default those that ship; example: --runs run.json")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(c, "--price", o.job.price, "USD",
             "of cost: USD of a device-hour; default public prices; example: --price 2.5");
  add_option(c, "--jobs", o.jobs, "N",
             "threads of a search, 0 to 1024; default 0: one for each core; example: --jobs 8");
  add_part_option(c, o.part, "the cells, row by row");
  c.add_flag("--list", o.list, "the tables that ship, by name, instead");
  set_group(c, "Table",
            {"--cell", "--interval", "--convention", "--plan", "--runs", "--price", "--jobs",
             "--part", "--list"});
}

// A table says what its runs are.
void exclude_from_table(CLI::App& command, CLI::Option* table) {
  for (const char* group :
       {"Model and hardware", "Layout", "Recipe", "Experts", "Training program"}) {
    for (CLI::Option* option :
         command.get_options([&](const CLI::Option* one) { return one->get_group() == group; }))
      table->excludes(option);
  }
  table->excludes(command.get_option("--plan"));
}

}  // namespace

void add_compare(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "compare", "a table of settings by models or hardware: what each pair would reach");
  const auto options = std::make_shared<CompareOptions>();
  CLI::Option* table = add_option(*command, "TABLE", options->table, "NAME|FILE",
                                  "a table that ships (--list) or a TOML file that describes one, "
                                  "instead of options; example: gpt2-h100");
  add_run_options(*command, options->run);
  add_cell_options(*command, *options);
  exclude_from_table(*command, table);
  add_output_options(*command, options->output);
  command->get_option("--format")
      ->description(
          "table, markdown, csv, json, latex or html (one page); csv and json have base units and "
          "stable keys; default table; example: --format html");
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 done, 1 error, 2 usage, 3 no cell has a run that fits.\n"
      "Of two lists the first one typed is the rows, the second one the columns.  Without a "
      "layout\n"
      "(--tp, --pp, ...) each cell is the best plan; lists and ranges are written as for llmsim "
      "sweep.\n"
      "Examples:\n"
      "  llmsim compare gpt2-h100\n"
      "  llmsim compare --model llama3-8b,llama-70b --hardware h100,mi250x,mi300x --gpus 64\n"
      "  llmsim compare --precision bf16,fp8 --model gpt2-xl,llama3-8b --gpus 8 --sharding zero3");
  command->callback([options, command, &status] {
    if (options->table.empty() && options->run.model.empty() && !options->list)
      throw CLI::RequiredError("a TABLE or --model");
    for (const CLI::Option* typed : command->parse_order())
      options->order.push_back("--" + (typed->get_lnames().empty() ? "" : typed->get_lnames()[0]));
    options->question = question_of(*command);
    status = run_compare(*options);
  });
}

}  // namespace llmsim::cli
