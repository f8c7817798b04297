#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/interruption.h"
#include "cli/serve/connections.h"
#include "cli/serve/site.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

struct ServeOptions {
  serve::Place place{.address = "127.0.0.1", .port = 8080};
  std::optional<std::string> folder;
  std::string max_request = "32MiB";
  double time_limit = 600.0;
};

constexpr int kMillisecondsOfSecond = 1000;

// "32MiB", "65536".
std::size_t bytes_in(const std::string& text) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::size_t end = 0, unit = 1;
  double number = 0.0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const std::string rest = text.substr(end);
  if (rest == "KiB") unit = std::size_t{1} << 10;
  if (rest == "MiB") unit = std::size_t{1} << 20;
  if (rest == "GiB") unit = std::size_t{1} << 30;
  const double bytes = number * static_cast<double>(unit);
  const bool known = rest.empty() || unit > 1;
  if (end == 0 || !known || !(bytes >= 1.0) || bytes > static_cast<double>(kMost))
    throw Error("--max-request = " + text + ": a size up to 1GiB is expected, such as 32MiB");
  return static_cast<std::size_t>(bytes);
}

std::optional<std::filesystem::path> folder_of(const ServeOptions& options) {
  if (!options.folder) return std::nullopt;
  if (!std::filesystem::is_directory(*options.folder))
    throw Error("--folder = " + *options.folder + ": a folder that exists is expected");
  return std::filesystem::absolute(*options.folder);
}

void warn_of_others(const std::string& address) {
  if (serve::is_loopback(address)) return;
  std::cerr << "warning: --address = " << address
            << ": whoever reaches this machine can ask, as there are no users, passwords or "
               "encryption; --address 127.0.0.1 serves this machine alone\n";
}

// As Ctrl-C.
void interrupt(int) { std::raise(SIGINT); }

void run_serve(const CLI::App& program, const ServeOptions& options, const std::string& version) {
  const std::size_t largest = bytes_in(options.max_request);
  const auto folder = folder_of(options);
  const serve::Descriptor listener = serve::listening(options.place);
  const serve::Place place{options.place.address, serve::port_of(listener)};
  const auto limit =
      std::chrono::milliseconds(std::llround(options.time_limit * kMillisecondsOfSecond));
  serve::Site site(program, {.place = place, .limit = limit, .folder = folder, .version = version});
  warn_of_others(place.address);
  const Interruption interruption;
  std::signal(SIGTERM, interrupt);
  std::cout << "llmsim serves at http://" << serve::host_of(place) << "/ (Ctrl-C ends)"
            << std::endl;
  serve::serve(listener,
               {.largest_body = largest,
                .answer = [&](const serve::Request& request,
                              serve::Client& client) { return site.answer(request, client); },
                .is_ending = [&] { return interruption.came(); }});
}

void add_serve_options(CLI::App& c, ServeOptions& o) {
  constexpr int kLastPort = 65535;
  constexpr double kLeast = 1.0, kMost = 86400.0;
  add_option(c, "--port", o.place.port, "N",
             "port to listen at, 0 to 65535; default 8080; 0: any that is free; example: --port 0")
      ->check(CLI::Range(0, kLastPort));
  add_option(c, "--address", o.place.address, "ADDRESS",
             "numeric address to listen at; default 127.0.0.1, which this machine alone reaches; "
             "example: --address ::1");
  add_option(c, "--folder", o.folder, "DIR",
             "folder that keeps the pages and files of answers; default none, the last 128 are in "
             "memory; example: --folder answers");
  add_option(c, "--max-request", o.max_request, "SIZE",
             "largest request, with the files that are sent, in bytes, KiB, MiB or GiB, up to "
             "1GiB; default 32MiB; example: --max-request 256MiB");
  add_option(c, "--time-limit", o.time_limit, "SECONDS",
             "after which a command is stopped, 1 to 86400; default 600; example: --time-limit 60")
      ->check(CLI::Range(kLeast, kMost));
}

}  // namespace

void add_serve(CLI::App& program, const std::string& version, int& status) {
  CLI::App* command = program.add_subcommand(
      "serve", "a local web application: plan, predict, compare and diagnose in a browser");
  const auto options = std::make_shared<ServeOptions>();
  add_serve_options(*command, *options);
  command->footer(
      "Answers are those of the commands, each a process of its own; a question that nobody\n"
      "waits for is stopped.  Files are read from what a browser sends, and from nowhere else;\n"
      "requests of other sites and for another Host are refused.  For programs:\n"
      "  curl 'http://127.0.0.1:8080/plan.json?model=llama3-8b&gpus=16'\n"
      "Exit status: 0 ended by Ctrl-C, 1 error, 2 usage.\n"
      "Example: llmsim serve --port 8080");
  command->callback([&program, &status, options, version] {
    run_serve(program, *options, version);
    status = 0;
  });
}

}  // namespace llmsim::cli
