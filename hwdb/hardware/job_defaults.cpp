#include "hwdb/hardware/job_defaults.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "hwdb/hardware/hardware_record.h"
#include "hwdb/text/json_reader.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sim::Evidence;
using sim::Hertz;
using sim::Seconds;

constexpr Seconds kHour{3600.0};
constexpr Seconds kDay{86400.0};
constexpr auto kOperations = sim::in_order<Operations>({"lab", "cluster", "hyperscale"});
// Of a rate that one cluster showed once: its years and jobs differ less than clusters do.
constexpr double kOwnRateDeviation = 0.3;
// Of the power of nodes whose rating is not known: by the device's power alone, predictions of
// energy are 27 to 37 % off.  Source: arXiv 2506.14551.
constexpr double kDevicePowerDeviation = 0.3;

struct JobFact {
  json record;
  std::string source;
};

std::vector<JobFact> facts_of(const Database& database, const char* subject) {
  std::vector<JobFact> facts;
  for (const Measurement& row : database.measurements(subject))
    facts.push_back({json::parse(row.record), row.source});
  return facts;
}

std::vector<std::string> systems_of(const json& record) {
  const auto found = record.find("systems");
  return found == record.end() ? std::vector<std::string>{}
                               : found->get<std::vector<std::string>>();
}

bool names_system(const std::vector<std::string>& systems, const sim::Cluster& cluster) {
  return std::find(systems.begin(), systems.end(), cluster.id) != systems.end();
}

// Both ends of a list of two, or a number twice.
std::pair<double, double> range_in(const json& value) {
  if (!value.is_array()) return {value.get<double>(), value.get<double>()};
  return {value.front().get<double>(), value.back().get<double>()};
}

// "x, 90 % of them a to b".
std::string printed_range(const sim::Uncertain<double>& value, const char* unit) {
  if (value.log_deviation <= 0.0) return printed(value.median, unit);
  return printed(value.median, unit) + ", " + printed(value.low(), "") + " to " +
         printed(value.high(), unit);
}

sim::Uncertain<double> product(const sim::Uncertain<double>& a, const sim::Uncertain<double>& b) {
  return {a.median * b.median, std::hypot(a.log_deviation, b.log_deviation)};
}

void note_job(JobDefaults& defaults, const char* key, std::string value, Evidence evidence,
              std::string source) {
  defaults.facts.push_back(
      {std::string("job.") + key, std::move(value), evidence, std::move(source)});
}

// --- failures ---

void set_failures(JobDefaults& defaults, const Database& database, const sim::Cluster& cluster) {
  std::vector<double> all;
  std::string sources;
  for (const PublicFailureRate& rate : public_failure_rates(database)) {
    const bool own = names_system(rate.systems, cluster);
    if (own) all.clear();
    if (own) sources.clear();
    all.push_back(rate.per_device.value());
    sources += (sources.empty() ? "" : "; ") + rate.name + ": " + rate.source;
    if (own) break;
  }
  const sim::Uncertain<double> rate =
      all.size() == 1 ? sim::Uncertain<double>{all.front(), kOwnRateDeviation} : sim::pooled(all);
  defaults.failures = {.per_device = Hertz(rate.median), .log_deviation = rate.log_deviation};
  const double of_node = 1000.0 * kDay.value() * cluster.devices_per_node;
  note_job(defaults, "failures",
           printed_range({rate.median * of_node, rate.log_deviation}, "per 1000 node-days"),
           Evidence::Measured, sources);
}

void set_start(JobDefaults& defaults, const Database& database, const sim::Cluster& cluster) {
  for (const JobFact& fact : facts_of(database, "reliability")) {
    if (!fact.record.contains("start_probability") ||
        !names_system(systems_of(fact.record), cluster))
      continue;
    const auto [low, high] = range_in(fact.record.at("start_probability"));
    const int nodes = fact.record.at("nodes").get<int>();
    defaults.node_start_failure = sim::node_start_failure((low + high) / 2.0, nodes);
    note_job(defaults, "start", printed(defaults.node_start_failure, "failures per node"),
             Evidence::Measured, fact.source);
  }
}

// Mean times between the shortest and the longest of public ones, in seconds.
struct RestartTimes {
  std::vector<double> automatic, manual;
  double automatic_share = 1.0;
  std::string sources;
};

RestartTimes restart_times(const Database& database, Operations operations) {
  RestartTimes times;
  const auto note = [&](const JobFact& fact) {
    times.sources += (times.sources.empty() ? "" : "; ") + fact.source;
  };
  for (const JobFact& fact : facts_of(database, "reliability")) {
    for (const char* key : {"recovery_to_previous_progress_s_max", "median_recovery_s_below"}) {
      if (const auto time = number(fact.record, key)) times.automatic.push_back(*time), note(fact);
    }
    if (fact.record.contains("manual_restart_s")) {
      const auto [least, most] = range_in(fact.record.at("manual_restart_s"));
      times.manual.insert(times.manual.end(), {least, most});
      note(fact);
    }
    if (fact.record.value("operations", "") == sim::name_of(operations))
      times.automatic_share = *number(fact.record, "automatic_share"), note(fact);
  }
  return times;
}

sim::Uncertain<double> between_ends(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return sim::between(*least, *most);
}

void set_restart(JobDefaults& defaults, const Database& database, Operations operations) {
  const RestartTimes times = restart_times(database, operations);
  const sim::Uncertain<double> automatic = between_ends(times.automatic);
  sim::Uncertain<double> manual = between_ends(times.manual);
  if (operations == Operations::Hyperscale) manual.median = manual.low();
  const double alone = times.automatic_share * automatic.median,
               waiting = (1.0 - times.automatic_share) * manual.median, mean = alone + waiting;
  const double deviation =
      std::hypot(alone * automatic.log_deviation, waiting * manual.log_deviation) / mean;
  defaults.restart = {Seconds(mean), deviation};
  note_job(defaults, "restart",
           printed_range({mean / 60.0, deviation}, "min") + ", operations as of a " +
               sim::name_of(operations) + ": " + printed(100.0 * times.automatic_share, "%") +
               " of restarts without a person",
           Evidence::Measured, times.sources);
}

// --- storage ---

void set_storage(JobDefaults& defaults, const Database& database, const sim::Cluster& cluster) {
  std::vector<double> per_node, aggregate;
  std::string sources;
  for (const JobFact& fact : facts_of(database, "checkpoint_storage")) {
    const auto rate = number(fact.record, "write_bytes_per_s");
    const auto nodes = number(fact.record, "nodes");
    if (!rate || !nodes) continue;  // disks of one node
    const bool own = names_system(systems_of(fact.record), cluster);
    if (own) {
      per_node.clear(), aggregate.clear(), sources.clear();
    }
    per_node.push_back(*rate / *nodes);
    aggregate.push_back(*rate);
    sources += (sources.empty() ? "" : "; ") + fact.source;
    if (own) break;
  }
  const auto [least, most] = std::minmax_element(per_node.begin(), per_node.end());
  const sim::Uncertain<double> rate = sim::between(*least, *most);
  defaults.storage = {
      .aggregate = sim::BytesPerSecond(*std::max_element(aggregate.begin(), aggregate.end())),
      .per_node = sim::BytesPerSecond(rate.median)};
  defaults.storage_log_deviation = per_node.size() == 1 ? kOwnRateDeviation : rate.log_deviation;
  note_job(defaults, "checkpoint_bandwidth",
           printed(defaults.storage.per_node) + " per node, at most " +
               printed(defaults.storage.aggregate),
           Evidence::Measured, sources);
}

// --- money and power ---

void set_price(JobDefaults& defaults, const Database& database, const sim::Cluster& cluster) {
  if (!database.find(HardwareKind::Accelerator, cluster.device.id)) return;
  const auto price = hour_price(database, accelerator_record(database, cluster.device.id));
  if (!price) return;
  defaults.price = {price->usd.value, price->log_deviation};
  note_job(defaults, "price", printed_range(*defaults.price, "USD"), price->usd.evidence,
           price->usd.source);
}

// Rated power of one device's share of its node; none where the system does not tell.
std::optional<double> node_share_watts(const Database& database, const sim::Cluster& cluster) {
  const auto row = database.find(HardwareKind::System, cluster.id);
  if (!row || row->id != cluster.id) return std::nullopt;
  const HardwareRecord record = record_of(*row);
  const auto watts = number(record.fields, "node_watts");
  const auto devices = number(record.fields, "accelerators_per_node");
  if (!watts || !devices) return std::nullopt;
  return *watts / *devices;
}

// What training draws of the rated power of nodes, and nodes of the power of their devices.
struct PowerFacts {
  sim::Uncertain<double> fraction{};
  double node_per_device = 1.0;
  sim::Uncertain<double> pue{1.0};
  std::string sources;
};

PowerFacts power_facts(const Database& database) {
  PowerFacts power;
  for (const JobFact& fact : facts_of(database, "power")) {
    const auto fraction = number(fact.record, "node_power_fraction");
    if (fraction) {
      power.fraction = {*fraction, *number(fact.record, "log_deviation")};
      power.node_per_device =
          *number(fact.record, "node_watts") / *number(fact.record, "node_devices_watts");
    }
    if (fact.record.contains("pue")) {
      const auto [low, high] = range_in(fact.record.at("pue"));
      power.pue = sim::between(low, high);
    }
    if (fraction || fact.record.contains("pue"))
      power.sources += (power.sources.empty() ? "" : "; ") + fact.source;
  }
  return power;
}

void set_watts(JobDefaults& defaults, const Database& database, const sim::Cluster& cluster) {
  const std::optional<double> rated = node_share_watts(database, cluster);
  if (!rated && !cluster.device.watts) return;
  const PowerFacts power = power_facts(database);
  const sim::Uncertain<double> node =
      rated ? sim::Uncertain<double>{*rated, 0.0}
            : sim::Uncertain<double>{*cluster.device.watts * power.node_per_device,
                                     kDevicePowerDeviation};
  defaults.device_watts = product(product(node, power.fraction), power.pue);
  note_job(defaults, "watts",
           printed_range(*defaults.device_watts, "W") + ": " + printed(node.median, "W") +
               " rated, " + printed(power.fraction.median, "") + " drawn, PUE " +
               printed(power.pue.median, ""),
           Evidence::Assumed,
           (rated ? "rated power of the node; " : "the device's power as DGX H100 rates a node; ") +
               power.sources);
}

}  // namespace

std::vector<PublicFailureRate> public_failure_rates(const Database& database) {
  std::vector<PublicFailureRate> rates;
  for (const JobFact& fact : facts_of(database, "reliability")) {
    const json& record = fact.record;
    const std::string run = text(record, "run");
    const auto add = [&](const std::string& name, double per_second) {
      rates.push_back({name, Hertz(per_second), systems_of(record), fact.source});
    };
    if (const auto hourly = number(record, "unexpected_failures_per_accelerator_hour"))
      add(run, *hourly / kHour.value());
    if (const auto time = number(record, "job_mean_time_to_interrupt_s"))
      add(run, 1.0 / (*time * record.at("accelerators").get<double>()));
    const double devices = number(record, "accelerators_per_node").value_or(1.0);
    for (const auto& [name, value] : object_in(record, "node_failures_per_1000_node_days").items())
      add(name, value.get<double>() / 1000.0 / kDay.value() / devices);
  }
  return rates;
}

sim::NameTable<Operations> name_table(Operations) { return kOperations; }

Operations usual_operations(int devices) {
  constexpr int kOfATeam = 4096;
  return devices >= kOfATeam ? Operations::Hyperscale : Operations::Cluster;
}

JobDefaults job_defaults(const Database& database, const sim::Cluster& cluster,
                         std::optional<Operations> operations) {
  JobDefaults defaults;
  set_failures(defaults, database, cluster);
  set_start(defaults, database, cluster);
  set_restart(defaults, database, operations.value_or(usual_operations(cluster.num_devices)));
  set_storage(defaults, database, cluster);
  set_price(defaults, database, cluster);
  set_watts(defaults, database, cluster);
  return defaults;
}

}  // namespace llmsim::hwdb
