#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "calibrate/benchmark_fit.h"
#include "cli/commands.h"
#include "cli/help_format.h"
#include "hwdb/benchmarks/benchmark_file.h"
#include "hwdb/hardware/measured_rows.h"
#include "hwdb/hardware/user_hardware.h"
#include "hwdb/runs/site.h"
#include "hwdb/text/spelling.h"
#include "reports/table.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using namespace reports::columns;
using calibrate::BenchmarkChange;
using calibrate::BenchmarkFit;
using hwdb::BenchmarkFile;

constexpr int kMostBenchmarkFiles = 1000;

struct BenchOptions {
  std::vector<std::string> files;
  std::string like;  // empty: the device that the files name
  std::string name;  // of the device; empty: "my_" and what it is like
  std::string site;  // empty: a device is stored
  std::string collective, dtype;
  bool replace = false;
  bool dry_run = false;
  OutputOptions output;
  std::string database;
};

// The enumerator of a name, '-' and '_' alike.
template <class Enum, std::size_t N>
std::optional<Enum> enumerator_named(const char* option, const std::string& name,
                                     const Enum (&all)[N]) {
  if (name.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const Enum one : all) {
    if (hwdb::folded(name) == name_of(one)) return one;
    names.emplace_back(name_of(one));
    std::replace(names.back().begin(), names.back().end(), '_', '-');
  }
  throw Error(std::string(option) + " = " + name + ": one of " + sim::joined(names, ", ") +
              " is expected");
}

hwdb::BenchmarkDefaults defaults_of(const BenchOptions& options) {
  using sim::CollectiveKind;
  using sim::DType;
  return {.collective = enumerator_named(
              "--collective", options.collective,
              {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
               CollectiveKind::AllToAll, CollectiveKind::Broadcast, CollectiveKind::SendRecv}),
          .dtype = enumerator_named(
              "--dtype", options.dtype,
              {DType::Fp32, DType::Tf32, DType::Fp16, DType::Bf16, DType::Fp8, DType::Fp4})};
}

// "0.808", "3.12 us", "55.4 GB/s"
std::string shown(double value, const std::string& unit) {
  if (unit == "s") return fmt::format("{:.3g} us", value * 1e6);
  if (unit == "B/s") return fmt::format("{:.3g} GB/s", value * 1e-9);
  return fmt::format("{:.3g}", value);
}

// Keys as a table of a screen has room for them: GEMMs by their format.
std::string short_key(const std::string& key) {
  constexpr std::string_view kGemm = "gemm.";
  return key.starts_with(kGemm) ? key.substr(kGemm.size()) : key;
}

// What was fitted together is named once.
void add_change(const calibrate::BenchmarkPart& part, const BenchmarkChange& one, bool first,
                reports::Table& table) {
  const auto once = [&](reports::Cell cell) { return first ? cell : reports::Cell(); };
  table.add_row(
      {short_key(one.key), once(std::int64_t(part.samples)), shown(one.before, one.unit),
       shown(one.after, one.unit),
       one.standard_error ? reports::Cell(shown(*one.standard_error, one.unit)) : reports::Cell(),
       one.before > 0.0 ? reports::Cell(one.after / one.before) : reports::Cell(),
       once(part.error_before), once(part.error_after), one.key, part.measured, one.before,
       one.after, reports::cell(one.standard_error)});
}

reports::Table device_table(const BenchmarkFit& fit) {
  reports::Table table("What the benchmarks say of a device that is like " + fit.like,
                       {as_text("what"), as_integer("samples"), as_text("before_text", "before"),
                        as_text("after_text", "after"), as_text("error_text", "+-"),
                        as_factor("ratio"), in_percent("error_before", "off before"),
                        in_percent("error_after", "off after"), as_text("key"), as_text("measured"),
                        as_number("before"), as_number("after"), as_number("standard_error")});
  for (const char* machines : {"key", "measured", "before", "after", "standard_error"})
    table.hide(machines);
  for (const calibrate::BenchmarkPart& part : fit.parts) {
    for (const BenchmarkChange& one : part.changes)
      add_change(part, one, &one == &part.changes.front(), table);
    table.add_note(short_key(part.changes.front().key) + ": " + part.measured);
  }
  for (const std::string& note : fit.notes) table.add_note(note);
  table.add_note("off: median of |predicted / measured - 1|");
  return table;
}

reports::Table site_table(const hwdb::Site& site, const std::string& like) {
  reports::Table table(
      "What the benchmarks say of a site of " + like,
      {as_text("effect"), in_percent("value", "ln of it"), in_percent("standard_error", "+-")});
  for (const auto& [key, words, value] : hwdb::kSiteEffects)
    table.add_row({std::string(key), site.effects.*value, site.deviations.*value});
  table.add_note(
      "network_rate: of messages of at least 1 MiB, over several nodes where these were measured");
  table.add_note("step and host times: nothing measured, the spread of all sites stands");
  table.add_note(
      "GEMMs and clocks are no effects of a site: store them as a device, with --name instead");
  return table;
}

// What would be refused at the end is refused before the fit.
void check_name(const hwdb::Database& database, const std::string& name, bool replace) {
  const auto known = database.find(hwdb::HardwareKind::Accelerator, name);
  if (!known || replace) return;
  const bool shipped = known->origin == hwdb::Origin::Shipped;
  throw Error("--name = " + name + ": is taken by an accelerator " +
              (shipped ? "that is shipped with llmsim" : "that was added before") +
              "; choose another, or use --replace");
}

void store_device(hwdb::Database& database, const BenchmarkFit& fit, const std::string& name,
                  const std::string& source, bool replace) {
  const std::vector<hwdb::Coefficient> rows = fit.coefficients(name, source);
  hwdb::add_hardware(
      database,
      hwdb::hardware_document_like(database, fit.like, name, fit.power_limit, rows, source),
      "--name " + name, replace);
  // Without the rows of an earlier device of that name.
  database.in_transaction([&] {
    database.forget("device", name);
    for (const hwdb::Coefficient& row : rows) database.put(row);
  });
}

std::string stored_note(const BenchOptions& options, const hwdb::Database& database,
                        const std::string& what, const std::string& next) {
  if (options.dry_run) return "not stored (--dry-run)";
  return "stored as " + what + " in " + place_of(database) + "; go on with: llmsim predict " + next;
}

constexpr const char* kNextRun = " --model llama3-8b --gpus 8";

reports::Table device_answer(const BenchOptions& options, const std::string& like,
                             const std::vector<BenchmarkFile>& files, hwdb::Database& database) {
  const std::string name = options.name.empty() ? "my_" + like : options.name;
  if (!options.dry_run) check_name(database, name, options.replace);
  const BenchmarkFit fit = calibrate::fit_benchmarks(database, like, files);
  reports::Table table = device_table(fit);
  if (!options.dry_run)
    store_device(database, fit, name, "llmsim calibrate bench: " + calibrate::source_of(files),
                 options.replace);
  table.add_note(
      stored_note(options, database, "accelerator " + name, "--hardware " + name + kNextRun));
  return table;
}

// A site of step times knows more than benchmarks do.
void check_site(const hwdb::Database& database, const std::string& name, bool replace) {
  hwdb::check_site_name(database, name, replace);
  if (database.coefficients("site", name).empty()) return;
  const hwdb::Site known = hwdb::site(database, name);
  if (!known.cells.empty() || !known.memory.peaks.empty())
    throw Error("--site = " + name +
                ": is a site that was fitted to runs, which say more than benchmarks; choose "
                "another");
}

reports::Table site_answer(const BenchOptions& options, const std::string& like,
                           const std::vector<BenchmarkFile>& files, hwdb::Database& database) {
  if (!options.dry_run) check_site(database, options.site, options.replace);
  const hwdb::Site site = calibrate::benchmarked_site(database, like, files, options.site);
  if (!options.dry_run) hwdb::put_site(database, site, options.replace);
  reports::Table table = site_table(site, like);
  table.add_note(stored_note(options, database, "site " + options.site,
                             "--site " + options.site + " --hardware " + like + kNextRun));
  return table;
}

hwdb::Database database_of(const BenchOptions& options) {
  return options.dry_run ? open_database(options.database)
                         : open_database_to_write(options.database);
}

std::string like_of(const BenchOptions& options, const hwdb::Database& database,
                    const std::vector<BenchmarkFile>& files) {
  return options.like.empty() ? calibrate::benchmarked_device(database, files)
                              : database.get(hwdb::HardwareKind::Accelerator, options.like).id;
}

int run_calibrate_bench(const BenchOptions& options) {
  format_of(options.output);
  const std::vector<BenchmarkFile> files =
      hwdb::read_benchmark_files(options.files, defaults_of(options));
  hwdb::Database database = database_of(options);
  const std::string like = like_of(options, database, files);
  reports::Table table = options.site.empty() ? device_answer(options, like, files, database)
                                              : site_answer(options, like, files, database);
  for (const BenchmarkFile& file : files)
    table.add_note("read " + file.file + ": " + file.program + ", " + std::to_string(file.rows()) +
                   " rows");
  return print_answer(table, options.output);
}

void add_names(CLI::App& command, BenchOptions& options) {
  add_option(command, "--like", options.like, "DEVICE",
             "device of the catalogue that the measured one is, but for what was measured; default "
             "the one that the files name; example: --like h100_sxm");
  CLI::Option* const name =
      add_option(command, "--name", options.name, "NAME",
                 "what to call the device that is stored; default my_ and the name of what it is "
                 "like; example: --name my_h100");
  CLI::Option* const site =
      add_option(command, "--site", options.site, "NAME",
                 "store what collectives and copies say as a site of that device instead, for "
                 "predict and plan --site; default none; example: --site our-cluster");
  site->excludes(name);  // both would count the same measurements twice
}

}  // namespace

void add_calibrate_bench(CLI::App& calibrate, int& status) {
  CLI::App* command = calibrate.add_subcommand(
      "bench", "store a device that is like one that ships but for what benchmarks of it say");
  const auto options = std::make_shared<BenchOptions>();
  add_option(*command, "files", options->files, "FILE",
             "output of benchmarks, in any mix: " + hwdb::benchmark_programs())
      ->required()
      ->expected(1, kMostBenchmarkFiles);
  add_names(*command, *options);
  add_option(*command, "--collective", options->collective, "KIND",
             "of tables that do not say theirs: all-reduce, all-gather, reduce-scatter, "
             "all-to-all, broadcast, send-recv; default none; example: --collective all-reduce");
  add_option(*command, "--dtype", options->dtype, "FORMAT",
             "of GEMMs that do not say theirs: fp32, tf32, fp16, bf16, fp8, fp4; default none; "
             "example: --dtype bf16");
  command->add_flag("--replace", options->replace,
                    "let the device or site take the place of an earlier one of that name");
  command->add_flag("--dry-run", options->dry_run, "show what would be stored, and store nothing");
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "The values of the device that ships are priors: a few measurements move what they can.\n"
      "Example: llmsim calibrate bench all_reduce.txt mamf.txt clocks.csv --name my_h100\n"
      "         llmsim calibrate bench nccl.txt --like h100_sxm --site our-cluster");
  command->callback([options, &status] { status = run_calibrate_bench(*options); });
}

}  // namespace llmsim::cli
