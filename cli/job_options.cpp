#include "cli/job_options.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "hwdb/hardware/job_defaults.h"
#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/job.h"

namespace llmsim::cli {
namespace {

using sim::Seconds;

constexpr Seconds kMinute{60.0};
constexpr Seconds kHour{3600.0};
constexpr double kMostTokens = 1e18;

[[noreturn]] void refuse_job(const std::string& option, const std::string& text,
                             const std::string& right) {
  throw Error(option + " = " + text + ": " + right);
}

// Beyond 10^9 hours, minutes or GB/s, and 10^6 USD, something else is meant.
double amount_in(const std::string& option, const std::string& text, const std::string& right,
                 double most = 1e9) {
  const std::optional<double> value = sim::number_from(text);
  if (!value || *value <= 0.0 || *value > most)
    refuse_job(option, text,
               right + " above 0, up to " + sim::shortest_text(most) + ", are expected");
  return *value;
}

double price_in(const std::string& text) {
  return amount_in("--price", text, "USD per device-hour", 1e6);
}

// 1 without a suffix; none for a word that is no suffix.
std::optional<double> size_of_suffix(const std::string& suffix) {
  if (suffix.empty()) return 1.0;
  for (const auto& [letter, size] :
       {std::pair('K', 1e3), std::pair('M', 1e6), std::pair('B', 1e9), std::pair('T', 1e12)})
    if (suffix.size() == 1 && std::toupper(static_cast<unsigned char>(suffix[0])) == letter)
      return size;
  return std::nullopt;
}

// What the user says instead of a default, as a fact.
void give_fact(std::vector<sim::Fact>& facts, const std::string& key, const std::string& value,
               const char* option) {
  std::erase_if(facts, [&](const sim::Fact& fact) { return fact.key == key; });
  facts.push_back({key, value, sim::Evidence::Given, option});
}

std::optional<hwdb::Operations> operations_in(const JobOptions& options) {
  if (!options.operations) return std::nullopt;
  const auto kind = sim::named<hwdb::Operations>(*options.operations);
  if (!kind)
    refuse_job("--operations", *options.operations, "lab, cluster or hyperscale is expected");
  return kind;
}

void set_failure_options(const JobOptions& options, sim::Job& job, std::vector<sim::Fact>& facts) {
  if (options.mtbf) {
    const Seconds time = amount_in("--mtbf", *options.mtbf, "hours") * kHour;
    job.failures = {.per_node = sim::Hertz(1.0 / time.value())};
    give_fact(facts, "job.failures", "one per node in " + *options.mtbf + " h", "--mtbf");
  }
  if (options.restart) {
    job.restart = {amount_in("--restart", *options.restart, "minutes") * kMinute};
    give_fact(facts, "job.restart", *options.restart + " min", "--restart");
  }
}

void set_checkpoint_options(const JobOptions& options, sim::Job& job,
                            std::vector<sim::Fact>& facts) {
  job.checkpoint.asynchronous = options.asynchronous;
  if (options.checkpoint_interval)
    job.checkpoint.interval =
        amount_in("--checkpoint-interval", *options.checkpoint_interval, "minutes") * kMinute;
  if (!options.checkpoint_bandwidth) return;
  const double rate = amount_in("--checkpoint-bandwidth", *options.checkpoint_bandwidth, "GB/s");
  job.checkpoint.storage = {.aggregate = rate * sim::GBps};
  job.checkpoint.storage_log_deviation = 0.0;
  give_fact(facts, "job.checkpoint_bandwidth", *options.checkpoint_bandwidth + " GB/s",
            "--checkpoint-bandwidth");
}

// A step at the first batch of a ramp: the same run with fewer micro-batches.
Seconds step_time_at(const sim::Prediction& prediction, int global_batch, const std::string& text) {
  sim::Run run = prediction.run;
  run.strategy.global_batch = global_batch;
  const sim::Prediction first = sim::predict(run);
  if (first.infeasible) refuse_job("--ramp-up", text, first.infeasible->message);
  return first.step_time;
}

sim::BatchRampUp ramp_up_in(const std::string& text, const sim::Job& job,
                            const sim::Prediction& prediction) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    refuse_job("--ramp-up", text, "START_BATCH:TOKENS is expected, as 512:50B");
  const int batch = static_cast<int>(
      number_in("--ramp-up", text.substr(0, colon), {.least = 1, .most = 1 << 24}));
  const int full = prediction.run.strategy.global_batch;
  if (batch >= full)
    refuse_job("--ramp-up", text,
               "fewer sequences than the global batch of " + std::to_string(full) +
                   " are expected at the start");
  const double tokens = token_count("--ramp-up", text.substr(colon + 1));
  if (tokens > job.tokens)
    refuse_job("--ramp-up", text, "at most the tokens of --tokens are expected");
  return {.start_tokens_per_step = job.tokens_per_step * batch / full,
          .tokens = tokens,
          .start_step_time = step_time_at(prediction, batch, text)};
}

sim::Job job_with(const hwdb::JobDefaults& defaults, sim::Job job) {
  job.failures = defaults.failures;
  job.node_start_failure = defaults.node_start_failure;
  job.restart = defaults.restart;
  job.checkpoint.storage = defaults.storage;
  job.checkpoint.storage_log_deviation = defaults.storage_log_deviation;
  job.price = defaults.price;
  job.device_watts = defaults.device_watts;
  return job;
}

}  // namespace

void add_job_options(CLI::App& c, JobOptions& o) {
  CLI::Option* tokens = c.add_option(
      "--tokens", o.tokens,
      "tokens to train on: also what the whole job takes, in days, device-hours, money "
      "and energy, with failures and checkpoints; K, M, B and T are 10^3 to 10^12; "
      "default none; example: --tokens 15T");
  tokens->type_name("TOKENS")->group("Job");
  const auto add = [&](const char* name, std::optional<std::string>& value, const char* type,
                       const char* help) {
    add_option(c, name, value, type, help)->group("Job")->needs(tokens);
  };
  add_option(c, "--price", o.price, "USD",
             "price of a device-hour; default the median of public prices; example: --tokens 15T "
             "--price 2.5")
      ->group("Job");
  add("--mtbf", o.mtbf, "HOURS",
      "mean time between failures of one node; default that of public clusters, some 4500 h; "
      "example: --tokens 15T --mtbf 5000");
  add("--restart", o.restart, "MINUTES",
      "from a failure to the first step after it, on average; default by --operations; example: "
      "--tokens 15T --restart 20");
  add("--operations", o.operations, "KIND",
      "who restarts the job: lab (a person), cluster (a scheduler, a third of the times with "
      "success) or hyperscale (all by itself); default hyperscale from 4096 devices on, else "
      "cluster; example: --tokens 300B --operations lab");
  add("--checkpoint-interval", o.checkpoint_interval, "MINUTES",
      "of training between two checkpoints; default the one that loses least (Daly); example: "
      "--tokens 15T --checkpoint-interval 30");
  add("--checkpoint-bandwidth", o.checkpoint_bandwidth, "GB/s",
      "rate at which all nodes together write a checkpoint; default 0.9 per node, at most 2000; "
      "example: --tokens 15T --checkpoint-bandwidth 50");
  add("--ramp-up", o.ramp_up, "BATCH:TOKENS",
      "the batch grows from so many sequences to the global batch over the first tokens; default "
      "none; example: --tokens 15T --ramp-up 512:20B");
  c.add_flag("--async-checkpoint,!--no-async-checkpoint", o.asynchronous,
             "checkpoints are written while training goes on, which waits for the copy to the host "
             "only; default off; example: --tokens 15T --async-checkpoint")
      ->group("Job")
      ->needs(tokens);
}

double token_count(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::optional<double> unit = size_of_suffix(end);
  const double value = number * unit.value_or(0.0);
  if (end == text.c_str() || !std::isfinite(value) || value < 1.0 || value > kMostTokens)
    refuse_job(option, text,
               "a number of tokens up to 10^18 is expected, with K, M, B or T: 15T, 1.5e13");
  return value;
}

std::optional<double> device_hour_price(const JobOptions& options, const sim::Cluster& cluster,
                                        const hwdb::Database& database) {
  if (options.price) return price_in(*options.price);
  const hwdb::JobDefaults defaults = hwdb::job_defaults(database, cluster);
  return defaults.price ? std::optional(defaults.price->median) : std::nullopt;
}

std::optional<reports::JobAnswer> job_of(const JobOptions& options,
                                         const sim::Prediction& prediction,
                                         const hwdb::Database& database) {
  if (!options.tokens) return std::nullopt;
  const double tokens = token_count("--tokens", *options.tokens);
  if (!prediction.feasible()) return std::nullopt;
  hwdb::JobDefaults defaults =
      hwdb::job_defaults(database, prediction.run.cluster, operations_in(options));
  const sim::Estimate<Seconds> step{prediction.step_time, prediction.interval.first,
                                    prediction.interval.second};
  sim::Job job = job_with(defaults, sim::job_of(prediction.run, step, tokens));
  if (tokens < job.tokens_per_step)
    refuse_job("--tokens", *options.tokens,
               "at least the " + std::to_string(std::llround(job.tokens_per_step)) +
                   " tokens of one step are expected");
  set_failure_options(options, job, defaults.facts);
  set_checkpoint_options(options, job, defaults.facts);
  if (options.price) {
    job.price = {price_in(*options.price)};
    give_fact(defaults.facts, "job.price", *options.price + " USD", "--price");
  }
  if (options.ramp_up) job.ramp_up = ramp_up_in(*options.ramp_up, job, prediction);
  return reports::JobAnswer{
      .job = job, .estimate = sim::job_estimate(job), .facts = std::move(defaults.facts)};
}

}  // namespace llmsim::cli
