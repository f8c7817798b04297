#include "hwdb/hardware/cluster_links.h"

#include <algorithm>
#include <string>

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sim::BytesPerSecond;
using sim::Evidence;

constexpr BytesPerSecond kUnknownNodeNetwork{25e9};  // one 200 Gb/s adapter per node

sim::FabricKind fabric_kind(const std::string& name) {
  if (name == "mesh") return sim::FabricKind::Mesh;
  if (name == "paired") return sim::FabricKind::Paired;
  if (name == "torus") return sim::FabricKind::Torus;
  if (name == "host") return sim::FabricKind::Host;
  if (name == "loopback") return sim::FabricKind::Loopback;
  return sim::FabricKind::Switch;
}

Evidence evidence_of(const json& fields, Evidence otherwise) {
  return evidence_named(text(fields, "evidence")).value_or(otherwise);
}

// One device's links in one direction: of the fabric's own description, of the scale-up record, or
// of the host link.
BytesPerSecond device_links(const json& fabric, const json& accelerator) {
  if (const auto own = number(fabric, "device_bytes_per_s")) return BytesPerSecond(*own);
  const json& links = object_in(accelerator, "scale_up");
  if (const auto total = number(links, "total_bytes_per_s_per_direction"))
    return BytesPerSecond(*total);
  const auto host = number(object_in(accelerator, "pcie"), "theoretical_bytes_per_s_per_direction");
  return BytesPerSecond(host.value_or(kPcieGen4.value()));
}

// A fabric described for n devices in nodes of m: a switch serves m; on a board of fewer, fewer
// take part; a mesh of more shares each device's links among more peers.
void fit_to_node(sim::Fabric& fabric, int devices_per_node) {
  if (fabric.kind == sim::FabricKind::Mesh && devices_per_node > fabric.devices) {
    fabric.pair_bandwidth =
        std::min(fabric.pair_bandwidth, fabric.device_bandwidth / double(devices_per_node - 1));
  }
  fabric.devices = devices_per_node;
}

// Tori are cut into slices.  Who says that a node has more devices than a host means one of them:
// its links end there.
bool is_slice(const sim::Fabric& fabric, const json& accelerator, int devices_per_node) {
  const double host = number(accelerator, "devices_per_node").value_or(devices_per_node);
  return fabric.kind == sim::FabricKind::Torus && devices_per_node > host &&
         devices_per_node < fabric.devices;
}

sim::Fabric fabric_of(const json& description, const json& accelerator, int devices_per_node) {
  sim::Fabric fabric;
  fabric.kind = fabric_kind(text(description, "kind"));
  fabric.devices = static_cast<int>(number(description, "devices").value_or(devices_per_node));
  fabric.device_bandwidth = device_links(description, accelerator);
  fabric.pair_bandwidth = BytesPerSecond(number(description, "pair_bytes_per_s").value_or(0.0));
  if (fabric.pair_bandwidth.value() <= 0.0) {
    const auto link = number(object_in(accelerator, "scale_up"), "link_bytes_per_s_per_direction");
    const bool narrow = fabric.kind == sim::FabricKind::Torus && link;
    fabric.pair_bandwidth = narrow ? BytesPerSecond(*link) : fabric.device_bandwidth;
  }
  fabric.package_bandwidth = BytesPerSecond(
      number(description, "package_bytes_per_s").value_or(fabric.pair_bandwidth.value()));
  fabric.in_switch_reduction = description.value("in_switch_reduction", false);
  if (!description.value("spans_nodes", false)) fit_to_node(fabric, devices_per_node);
  if (is_slice(fabric, accelerator, devices_per_node)) fabric.devices = devices_per_node;
  return fabric;
}

void note_fabric(const sim::Fabric& fabric, Evidence evidence, const std::string& source,
                 Ledger& ledger) {
  ledger.note("fabric.kind", name_of(fabric.kind), evidence, source);
  ledger.note("fabric.devices", std::to_string(fabric.devices), evidence, source);
  ledger.note("fabric.device_bandwidth", printed(fabric.device_bandwidth), evidence, source);
  ledger.note("fabric.pair_bandwidth", printed(fabric.pair_bandwidth), evidence, source);
  if (fabric.kind == sim::FabricKind::Paired)
    ledger.note("fabric.package_bandwidth", printed(fabric.package_bandwidth), evidence, source);
  ledger.note("fabric.in_switch_reduction", fabric.in_switch_reduction ? "yes" : "no", evidence,
              source);
}

std::optional<double> node_injection(const json& system) {
  return number(object_in(system, "inter"), "node_injection_bytes_per_s_per_direction");
}

// Injection of one node.  An assumed network scales with the devices of the node: one adapter for
// so many devices.
Sourced network_of(const Home& home, const HardwareRecord& accelerator,
                   const ClusterOverrides& overrides, int devices_per_node) {
  if (overrides.inter_node_per_device)
    return {overrides.inter_node_per_device->value() * devices_per_node, Evidence::Given,
            "given per device"};
  if (home.named && home.record) {
    if (const auto node = node_injection(home.record->fields)) {
      return {*node, home.record->evidence(),
              source_for(home.record->fields, {"inter", "nics", "NICs", "port speed"})};
    }
  }
  const json& own = object_in(accelerator.fields, "network");
  if (const auto node = number(own, "node_bytes_per_s")) {
    const double usual = number(accelerator.fields, "devices_per_node").value_or(devices_per_node);
    return {*node / usual * devices_per_node, evidence_of(own, Evidence::Assumed),
            text(own, "source")};
  }
  if (home.record && !home.named) {
    const auto node = node_injection(home.record->fields);
    const double usual =
        number(accelerator.fields, "devices_per_node")
            .value_or(number(home.record->fields, "accelerators_per_node").value_or(8.0));
    if (node)
      return {*node / usual * devices_per_node, Evidence::Assumed,
              "as system " + home.record->row.id};
  }
  return {kUnknownNodeNetwork.value(), Evidence::Assumed,
          "network not published: one 200 Gb/s adapter per node"};
}

std::string network_name(const Home& home, const ClusterOverrides& overrides) {
  if (overrides.inter_node_per_device && !home.named) return "given";
  const std::string kind = home.record ? text(object_in(home.record->fields, "inter"), "kind") : "";
  return kind.empty() ? "unnamed" : kind;
}

// Devices of a system, where its record says how many there are.
std::optional<int> size_of(const HardwareRecord& system) {
  const auto nodes = number(system.fields, "nodes");
  const double per_node = number(system.fields, "accelerators_per_node").value_or(8.0);
  const auto total = number(system.fields, "accelerators_total");
  if (!nodes && !total) return std::nullopt;
  return static_cast<int>(std::max(total.value_or(0.0), nodes.value_or(0.0) * per_node));
}

// The fabric's description: the named system's where it has its own, else the accelerator's.
const json& fabric_description(const Home& home, const HardwareRecord& accelerator) {
  if (home.named && home.record && !object_in(home.record->fields, "fabric").empty())
    return object_in(home.record->fields, "fabric");
  return object_in(accelerator.fields, "fabric");
}

}  // namespace

Home home_of(const Database& database, std::string_view name) {
  const auto row = database.find(HardwareKind::System, name);
  return row ? Home{record_of(*row), true} : Home{};
}

Home network_home(const Database& database, const Home& home, const HardwareRecord& accelerator) {
  const bool known = home.record && (node_injection(home.record->fields) || !home.named);
  if (known) return home;
  const auto row = database.find(HardwareKind::System, text(accelerator.fields, "default_system"));
  return row ? Home{record_of(*row), false} : Home{};
}

Sourced nodes_of(const Home& home, const HardwareRecord& accelerator,
                 const ClusterOverrides& overrides) {
  if (overrides.devices_per_node)
    return {double(*overrides.devices_per_node), Evidence::Given, "given"};
  if (home.named && home.record) {
    return {number(home.record->fields, "accelerators_per_node").value_or(8.0),
            home.record->evidence(),
            source_for(home.record->fields, {"accelerators_per_node", "intra"})};
  }
  if (const auto own = number(accelerator.fields, "devices_per_node"))
    return {*own, Evidence::Assumed, "usual node of " + accelerator.row.id};
  if (home.record) {
    return {number(home.record->fields, "accelerators_per_node").value_or(8.0), Evidence::Assumed,
            "as system " + home.record->row.id};
  }
  return {number(object_in(accelerator.fields, "fabric"), "devices").value_or(8.0),
          Evidence::Assumed, "devices of one fabric"};
}

Sourced alike_nodes(Sourced per_node, int num_devices) {
  const int most = static_cast<int>(per_node.value);
  if (per_node.evidence == Evidence::Given || num_devices <= most) return per_node;
  const int fewest = (num_devices + most - 1) / most;
  for (int nodes = fewest; nodes <= 2 * fewest; ++nodes) {
    if (num_devices % nodes != 0) continue;
    if (num_devices == nodes * most) return per_node;
    return {double(num_devices / nodes), Evidence::Assumed,
            "as many on each of " + std::to_string(nodes) + " nodes of at most " +
                std::to_string(most)};
  }
  return per_node;
}

void note_beyond_the_system(const HardwareRecord& system, sim::Cluster& cluster) {
  const std::optional<int> size = size_of(system);
  if (size && cluster.num_devices > *size) cluster.system_devices = size;
  const json& ids = system.fields.at("accelerator_ids");
  if (std::find(ids.begin(), ids.end(), cluster.device.id) == ids.end())
    cluster.system_accelerator = ids.at(0).get<std::string>();
}

void set_fabric(sim::Cluster& cluster, const Home& home, const HardwareRecord& accelerator,
                Ledger& ledger) {
  const json& description = fabric_description(home, accelerator);
  const sim::Seconds latency = cluster.fabric.latency;
  const BytesPerSecond sums = cluster.fabric.sum_bandwidth;
  cluster.fabric = fabric_of(description, accelerator.fields, cluster.devices_per_node);
  cluster.fabric.latency = latency;
  cluster.fabric.sum_bandwidth = sums;
  if (home.named && home.record) {
    const auto domain = number(home.record->fields, "accelerators_per_scale_up_domain");
    if (domain) cluster.fabric.devices = static_cast<int>(*domain);
  }
  const Evidence evidence =
      evidence_of(description, description.empty() ? Evidence::Assumed : accelerator.evidence());
  const std::string own = text(description, "source");
  note_fabric(cluster.fabric, evidence,
              own.empty() ? source_for(accelerator.fields, {"scale_up"}) : own, ledger);
}

void set_network(sim::Cluster& cluster, const Home& home, const HardwareRecord& accelerator,
                 const ClusterOverrides& overrides, Ledger& ledger) {
  const Sourced injection = network_of(home, accelerator, overrides, cluster.devices_per_node);
  cluster.network.name = network_name(home, overrides);
  cluster.network.node_bandwidth = BytesPerSecond(injection.value);
  ledger.note("network.node_bandwidth", printed(cluster.network.node_bandwidth), injection.evidence,
              injection.source);
}

void set_host(sim::Cluster& cluster, const Home& home, Ledger& ledger) {
  if (!home.record) return;
  const auto memory = number(home.record->fields, "host_memory_bytes");
  if (!memory) return;
  cluster.host_memory = sim::Bytes(*memory);
  ledger.note("host_memory", printed(*memory, "B"), home.record->evidence(),
              source_for(home.record->fields, {"host_memory_bytes", "host"}));
}

}  // namespace llmsim::hwdb
