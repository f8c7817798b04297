#include "hwdb/hardware/hardware.h"

#include <utility>

#include "hwdb/hardware/applied_coefficients.h"
#include "hwdb/hardware/cluster_links.h"
#include "hwdb/hardware/hardware_record.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

void check_numbers(int num_devices, const ClusterOverrides& overrides) {
  if (num_devices < 1)
    throw Error("num_devices = " + std::to_string(num_devices) + ": at least 1 is expected");
  if (overrides.devices_per_node && *overrides.devices_per_node < 1) {
    throw Error("devices_per_node = " + std::to_string(*overrides.devices_per_node) +
                ": at least 1 is expected");
  }
  constexpr double kLeastRate = 1e6, kMostRate = 1e14;
  const double rate =
      overrides.inter_node_per_device ? overrides.inter_node_per_device->value() : kMostRate;
  if (!(rate >= kLeastRate && rate <= kMostRate)) {
    throw Error("inter_node_bytes_per_s_per_device = " + printed(rate, "") +
                ": 1e6 to 1e14 bytes/s are expected");
  }
}

[[noreturn]] void refuse_name(const Database& database, std::string_view name) {
  std::vector<std::string> known = database.names(HardwareKind::Accelerator);
  for (std::string& system : database.names(HardwareKind::System))
    known.push_back(std::move(system));
  throw Error("unknown accelerator or system '" + std::string(name) + "'" +
              did_you_mean(name, known) + "; 'llmsim hardware list' shows all");
}

// The device, with the latencies of its links in a cluster that is otherwise empty.
struct LoadedDevice {
  HardwareRecord record;
  sim::Cluster cluster;
  CoefficientSources sources;
  Ledger ledger;
};

LoadedDevice load_device(const Database& database, std::string_view id) {
  HardwareRecord record = accelerator_record(database, id);
  Ledger ledger("device." + record.row.id + ".");
  sim::Cluster cluster;
  cluster.device = recorded_device(database, record, ledger);
  CoefficientSources sources;
  apply_coefficients(database, HardwareKind::Accelerator, record, cluster, sources);
  limit_power(database, record, cluster, sources);
  widen_announced(record, cluster, sources);
  if (!sources.contains("host_bytes_per_s")) {
    const Sourced host = host_bandwidth(database, record);
    ledger.note("host_bytes_per_s", printed(cluster.device.host_bandwidth), host.evidence,
                host.source);
  }
  return {std::move(record), std::move(cluster), std::move(sources), std::move(ledger)};
}

}  // namespace

DeviceRecord device(const Database& database, std::string_view id_or_alias) {
  LoadedDevice loaded = load_device(database, id_or_alias);
  note_coefficients(loaded.cluster, loaded.sources, false, loaded.ledger);
  return {std::move(loaded.cluster.device), loaded.ledger.take()};
}

ClusterRecord cluster(const Database& database, std::string_view system_or_accelerator,
                      int num_devices, const ClusterOverrides& overrides) {
  check_numbers(num_devices, overrides);
  const Home home = home_of(database, system_or_accelerator);
  std::string accelerator(system_or_accelerator);
  if (overrides.accelerator) {
    accelerator = *overrides.accelerator;
  } else if (home.record) {
    accelerator = home.record->fields.at("accelerator_ids").at(0).get<std::string>();
  }
  if (!home.record && !database.find(HardwareKind::Accelerator, accelerator))
    refuse_name(database, accelerator);

  LoadedDevice loaded = load_device(database, accelerator);
  sim::Cluster& cluster = loaded.cluster;
  cluster.id = home.record ? home.record->row.id : loaded.record.row.id;
  cluster.num_devices = num_devices;
  const Home network = network_home(database, home, loaded.record);
  const Sourced per_node =
      alike_nodes(nodes_of(home.record ? home : network, loaded.record, overrides), num_devices);
  cluster.devices_per_node = static_cast<int>(per_node.value);
  if (home.record) note_beyond_the_system(*home.record, cluster);
  if (home.record)
    apply_coefficients(database, HardwareKind::System, *home.record, cluster, loaded.sources);

  Ledger links("cluster." + cluster.id + ".");
  links.note("devices_per_node", std::to_string(cluster.devices_per_node), per_node.evidence,
             per_node.source);
  set_fabric(cluster, home, loaded.record, links);
  set_network(cluster, network, loaded.record, overrides, links);
  set_host(cluster, home, links);
  note_coefficients(cluster, loaded.sources, true, links);
  note_coefficients(cluster, loaded.sources, false, loaded.ledger);
  std::vector<sim::Fact> facts = loaded.ledger.take();
  for (sim::Fact& fact : links.take()) facts.push_back(std::move(fact));
  return {std::move(cluster), std::move(facts)};
}

}  // namespace llmsim::hwdb
