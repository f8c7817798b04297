#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <string>

#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "cli/shell_texts.h"
#include "hwdb/text/table_file.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

constexpr int kError = 1;

int report_error(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "llmsim: " << message << "\n";
  return kError;
}

// Help and the version go to standard output, complaints to standard error.
int report_usage(const CLI::App& program, const CLI::ParseError& error) {
  if (const auto* const key = dynamic_cast<const CLI::ConfigError*>(&error)) {
    report_error("--question: " + std::string(key->what()) +
                 ": no option of a command has that name");
    return kUsage;
  }
  std::ostringstream answer;
  const int status = program.exit(error, answer, std::cerr);
  write_result(answer.str(), {});
  return status == 0 ? 0 : kUsage;
}

// "help", "help plan" and "version" as options.
void put_options(std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  if (arguments.front() == "version") arguments.front() = "--version";
  if (arguments.front() != "help") return;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
}

int run(std::vector<std::string> arguments, const std::string& version) {
  put_options(arguments);
  CLI::App program{
      "llmsim: how fast, in how much memory and with which parallelism will this model train here?",
      "llmsim"};
  int status = 0;
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_help_flag("-h,--help", "the usual options, and the names of the others");
  program.set_help_all_flag("--help-all", "every option, with unit, default and example");
  program.set_version_flag("--version", "llmsim " + version);
  program.require_subcommand(1);
  program.footer(
      "Examples:\n"
      "  llmsim plan --model llama-70b --gpus 256\n"
      "  llmsim predict --model llama3-8b --gpus 64 --hardware a100 --sharding zero3 --format "
      "json\n"
      "llmsim COMMAND --help has the usual options, --help-all explains each.");
  program
      .set_config("--question", "",
                  "options of the command that follows, in a TOML file with a section for each "
                  "command; default none; example: llmsim --question question.toml plan")
      ->type_name("FILE");
  program.allow_config_extras(CLI::config_extras_mode::error);
  add_plan(program, status);
  add_predict(program, status);
  add_sweep(program, status);
  add_join(program, status);
  add_plot(program, status);
  add_compare(program, status);
  add_trace(program, status);
  add_diff(program, status);
  add_diagnose(program, status);
  add_export(program, status);
  add_report(program, status);
  add_validate(program, status);
  add_calibrate(program, status);
  add_hardware(program, status);
  add_models(program, status);
  add_schema(program, status);
  add_mcp(program, version, status);
  add_serve(program, version, status);
  add_shell_texts(program, version, status);
  if (arguments.empty()) {
    std::cerr << program.help();
    return kUsage;
  }
  if (const auto complaint = misspelling(program, arguments)) {
    report_error(*complaint);
    return kUsage;
  }
  try {
    std::ranges::reverse(arguments);  // as CLI11 takes them
    program.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return report_usage(program, error);
  }
  return status;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const std::string& version) {
  try {
    return run(arguments, version);
  } catch (const hwdb::UnknownKey& error) {
    report_error(error.what());
    return kUsage;
  } catch (const Error& error) {
    return report_error(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    constexpr std::size_t kShown = 80;
    std::string path = error.path1().string();
    if (path.size() > kShown) path = path.substr(0, kShown) + "...";
    return report_error(Error::printable(path) + ": " + error.code().message());
  } catch (const std::bad_alloc&) {
    return report_error("not enough memory for this question; a smaller one is expected");
  } catch (const std::exception& error) {  // of a library: a fault of this program
    return report_error("an unexpected fault, please report it: " + Error::printable(error.what()));
  }
}

}  // namespace llmsim::cli
