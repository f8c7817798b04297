// llmsim-runtime: measures the device it stands on, with libtorch.
#include <getopt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/library/device.h"
#include "runtime/measure/campaign.h"
#include "runtime/measure/counted_cases.h"
#include "runtime/measure/rank_campaign.h"
#include "runtime/measure/step_file.h"
#include "runtime/parallel/local_ranks.h"
#include "runtime/parallel/process_place.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

constexpr int kError = 1, kUsage = 2;
constexpr std::size_t kLongestId = 64;  // the database takes no longer one
constexpr double kQuickBudget = 110.0, kFullBudget = 3600.0;

constexpr const char* kHelp =
    "llmsim-runtime: measures the device it stands on: operators, and whole training steps\n"
    "\n"
    "usage: llmsim-runtime --output FILE [OPTIONS]\n"
    "\n"
    "  --output FILE    where the records go, one JSON object a line\n"
    "  --resume         go on with a file of an earlier run for what is left of the budget; what "
    "it "
    "has is left out\n"
    "  --quick          two minutes, enough for a first calibration\n"
    "  --kernels        operators and the device alone\n"
    "  --steps          training steps alone; with ranks, those that ranks divide\n"
    "  --step FILE      the training step of this run file alone, which states model and strategy; "
    "as many ranks as these have\n"
    "  --collectives    collectives alone, over every shape of group, and what ranks of one CPU "
    "take from each other\n"
    "  --check          compare every rank with the median, and name what is slow; needs no "
    "--output\n"
    "  --ranks N        ranks of this machine, a process each, for --collectives, --steps and "
    "--check; torchrun, srun and mpirun "
    "are\n"
    "                   understood as well; on a CPU each gets cores of its own\n"
    "  --verify         count one step of many kinds instead of timing them, for llmsim calibrate "
    "verify\n"
    "  --nodes N        print the lines that start this, with --ranks on each of N nodes, and end\n"
    "  --timeout S      for an answer from another rank; default 300\n"
    "  --budget S       seconds to measure for; default 3600, with --quick 110\n"
    "  --device NAME    cpu, cuda, cuda:N; default: cuda where there is one, else cpu\n"
    "  --id NAME        what the records call the device: lower-case letters, digits and '_'; "
    "default: local_ and its kind\n"
    "  --threads N      of kernels on the CPU; default: all cores, shared by the ranks\n"
    "  --name           print what the records would call the device, and end\n"
    "  --help\n"
    "\n"
    "Results go to FILE, progress to stderr.  Exit 0 done, 1 error, 2 usage.\n";

// What the command line says, beside what it leaves to the device.
struct CommandLine {
  CampaignOptions campaign;
  bool collectives = false;
  bool check = false;
  bool verify = false;
  int ranks = 1;
  std::optional<int> nodes;
  std::chrono::seconds timeout = std::chrono::minutes(5);
  std::string device;
  bool name = false;
  bool help = false;
};

int positive_count(const char* option, const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 1 || value > 1'000'000) {
    throw Error(std::string(option) + " = " + text +
                ": a whole number from 1 to a million is expected");
  }
  return static_cast<int>(value);
}

double positive_number(const char* option, const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value > 0.0))
    throw Error(std::string(option) + " = " + text + ": a number above 0 is expected");
  return value;
}

void check_id(const std::string& id) {
  const bool plain =
      id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  if (id.empty() || id.size() > kLongestId || !plain)
    throw Error("--id = " + id + ": 1 to 64 lower-case letters, digits and '_' are expected");
}

// An option, and what it does to a command line; `text` is its value, if it has one.
struct Option {
  const char* name;
  int value;  // required_argument, no_argument
  void (*apply)(CommandLine& line, const char* text);
};

const Option kOptions[] = {
    {"output", required_argument,
     [](CommandLine& line, const char* text) { line.campaign.output = text; }},
    {"resume", no_argument, [](CommandLine& line, const char*) { line.campaign.resume = true; }},
    {"quick", no_argument, [](CommandLine& line, const char*) { line.campaign.quick = true; }},
    {"kernels", no_argument, [](CommandLine& line, const char*) { line.campaign.kernels = true; }},
    {"steps", no_argument, [](CommandLine& line, const char*) { line.campaign.steps = true; }},
    {"budget", required_argument,
     [](CommandLine& line, const char* text) {
       line.campaign.budget = sim::Seconds(positive_number("--budget", text));
     }},
    {"device", required_argument, [](CommandLine& line, const char* text) { line.device = text; }},
    {"id", required_argument,
     [](CommandLine& line, const char* text) { line.campaign.accelerator = text; }},
    {"threads", required_argument,
     [](CommandLine& line, const char* text) {
       line.campaign.threads = static_cast<int>(positive_number("--threads", text));
     }},
    {"step", required_argument,
     [](CommandLine& line, const char* text) {
       line.campaign.step_file = text, line.campaign.steps = true;
     }},
    {"collectives", no_argument, [](CommandLine& line, const char*) { line.collectives = true; }},
    {"check", no_argument, [](CommandLine& line, const char*) { line.check = true; }},
    {"verify", no_argument, [](CommandLine& line, const char*) { line.verify = true; }},
    {"ranks", required_argument,
     [](CommandLine& line, const char* text) { line.ranks = positive_count("--ranks", text); }},
    {"nodes", required_argument,
     [](CommandLine& line, const char* text) { line.nodes = positive_count("--nodes", text); }},
    {"timeout", required_argument,
     [](CommandLine& line, const char* text) {
       line.timeout = std::chrono::seconds(positive_count("--timeout", text));
     }},
    {"name", no_argument, [](CommandLine& line, const char*) { line.name = true; }},
    {"help", no_argument, [](CommandLine& line, const char*) { line.help = true; }}};

// None: the command line is wrong, and getopt has said how.
std::optional<CommandLine> parsed(int argc, char** argv) {
  CommandLine line;
  line.campaign.threads = 0;
  line.campaign.kernels = line.campaign.steps = false;
  std::vector<option> options;
  for (const Option& one : kOptions) options.push_back({one.name, one.value, nullptr, 0});
  options.push_back({});
  for (int result = 0, index = 0;
       (result = getopt_long(argc, argv, "", options.data(), &index)) != -1;) {
    if (result == '?') return std::nullopt;
    kOptions[index].apply(line, optarg);
  }
  if (optind < argc) {
    std::fprintf(stderr, "%s: unexpected argument '%s'\n", argv[0], argv[optind]);
    return std::nullopt;
  }
  return line;
}

// This program, by its path, and its arguments without `options` and their values.
std::vector<std::string> own_command(int argc, char** argv, const std::set<std::string>& options) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string()};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], name = word.substr(0, word.find('='));
    if (!options.contains(name)) {
      command.push_back(word);
    } else if (name == word) {
      ++i;
    }
  }
  return command;
}

int print_launch_lines(int argc, char** argv, const CommandLine& line) {
  for (const LaunchLine& one :
       launch_lines(own_command(argc, argv, {"--nodes", "--ranks"}), *line.nodes, line.ranks,
                    !device_named(line.device.empty() ? default_device() : line.device).is_cpu())) {
    std::printf("%s\n", one.line.c_str());
  }
  return 0;
}

// The parent of the ranks of one machine.
int start_ranks(int argc, char** argv, const CommandLine& line) {
  const bool on_cpu = device_named(line.device.empty() ? default_device() : line.device).is_cpu();
  const LocalRun run = run_local_ranks({.command = own_command(argc, argv, {}),
                                        .ranks = line.ranks,
                                        .own_cores = on_cpu,
                                        .patience = line.timeout});
  if (!run.failure) return 0;
  std::fprintf(stderr, "llmsim-runtime: %s\n", run.failure->c_str());
  if (line.collectives)
    std::fprintf(stderr, "llmsim-runtime: %s has what was measured; --resume goes on from there\n",
                 line.campaign.output.c_str());
  return kError;
}

// All that one rank, or several, can measure, where nothing was chosen.
void choose(CommandLine& line, int ranks) {
  CampaignOptions& campaign = line.campaign;
  if (line.verify &&
      (ranks > 1 || campaign.kernels || campaign.steps || line.collectives || line.check))
    throw Error("--verify counts on one rank and measures nothing: it goes with no other choice");
  if (line.verify) return;
  if (!campaign.kernels && !campaign.steps && !line.collectives && !line.check) {
    campaign.steps = true;
    (ranks > 1 ? line.collectives : campaign.kernels) = true;
  }
  if (!campaign.step_file.empty()) {
    const int of_step = read_step_file(campaign.step_file, c10::kMeta).setup.strategy.num_devices();
    if (of_step != ranks)
      throw Error("--step = " + campaign.step_file + ": is of " + std::to_string(of_step) +
                  " ranks, and there are " + std::to_string(ranks));
  }
  if (ranks > 1 && campaign.kernels) {
    throw Error("--kernels are measured by one rank, not by " + std::to_string(ranks) +
                "; ranks measure --collectives, --steps and --check");
  }
  if (line.collectives && ranks < 2)
    throw Error("--collectives are between ranks: wants --ranks of at least 2, or a launcher");
}

// What the command line leaves to the device and to the place among the ranks.
void complete(CommandLine& line, const ProcessPlace& place) {
  CampaignOptions& campaign = line.campaign;
  campaign.device = device_named(line.device.empty() ? default_device() : line.device);
  if (campaign.accelerator.empty())
    campaign.accelerator = campaign.device.is_cpu() ? "local_cpu" : "local_gpu";
  check_id(campaign.accelerator);
  if (campaign.budget == sim::Seconds(0.0))
    campaign.budget = sim::Seconds(campaign.quick ? kQuickBudget : kFullBudget);
  if (campaign.threads == 0 && place.local_ranks != ProcessPlace::kUnknown)
    campaign.threads = usual_threads(place.local_ranks);
}

void measure(const CommandLine& line, const ProcessPlace& place) {
  if (line.verify) return count_steps(line.campaign);
  RankCampaignOptions of_ranks{.campaign = line.campaign,
                               .check = line.check,
                               .collectives = line.collectives,
                               .timeout = line.timeout};
  if (place.ranks > 1) return run_rank_campaign(place, of_ranks);
  of_ranks.campaign.steps = false;
  if (line.check) run_rank_campaign(place, of_ranks);
  if (line.campaign.kernels || line.campaign.steps) run_campaign(line.campaign);
}

int run(int argc, char** argv) {
  std::optional<CommandLine> line = parsed(argc, argv);
  if (!line) return kUsage;
  if (line->help) return std::fputs(kHelp, stdout) < 0 ? kError : 0;
  if (line->nodes) return print_launch_lines(argc, argv, *line);
  const ProcessPlace place = process_place(process_environment());
  if (line->name) {
    complete(*line, place);
    return std::printf("%s\n", line->campaign.accelerator.c_str()) < 0 ? kError : 0;
  }
  const bool alone = place.launcher == "none";
  choose(*line, alone ? line->ranks : place.ranks);
  CampaignOptions& campaign = line->campaign;
  const bool records = campaign.kernels || campaign.steps || line->collectives || line->verify;
  if (records && campaign.output.empty()) {
    std::fprintf(stderr, "llmsim-runtime: --output FILE is missing; --help explains\n");
    return kUsage;
  }
  if (alone && line->ranks > 1) return start_ranks(argc, argv, *line);
  complete(*line, place);
  measure(*line, place);
  return 0;
}

}  // namespace
}  // namespace llmsim::runtime

int main(int argc, char** argv) {
  llmsim::runtime::wait_passively(argv);
  try {
    return llmsim::runtime::run(argc, argv);
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    std::fprintf(stderr, "llmsim-runtime: %s\n",
                 std::string(what.substr(0, what.find('\n'))).c_str());
    return 1;
  }
}
