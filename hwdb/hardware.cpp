#include "hwdb/hardware.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "hwdb/coefficients.h"
#include "hwdb/json_reader.h"
#include "hwdb/shipping.h"
#include "hwdb/spelling.h"
#include "sim/base/error.h"
#include "sim/hardware/power_limit.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sim::Bytes;
using sim::BytesPerSecond;
using sim::Evidence;
using sim::FlopsPerSecond;

constexpr double kUsableFraction = 0.985;  // of nominal memory: the devices whose usable memory was seen lie at 0.98-0.999
constexpr double kHostFraction = 0.85;     // of the nominal host link: measured links reach 0.78-0.91
constexpr BytesPerSecond kPcieGen4{31.5e9};
constexpr BytesPerSecond kUnknownNodeNetwork{25e9};  // one 200 Gb/s adapter per node
constexpr double kVectorFraction = 1.0 / 16.0;       // vector rate over 16-bit matrix rate where unknown (A100: 1/16, H100: 1/15)

std::string printed(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, *unit ? "%.4g %s" : "%.4g", value, unit);
  return text;
}

std::string printed(Bytes size) { return printed(size / sim::GiB, "GiB"); }
std::string printed(FlopsPerSecond rate) { return printed(rate / sim::TFLOPS, "TFLOP/s"); }
std::string printed(BytesPerSecond rate) {
  return rate >= sim::TBps ? printed(rate / sim::TBps, "TB/s") : printed(rate / sim::GBps, "GB/s");
}
std::string printed_seconds(double seconds) { return printed(seconds * 1e6, "us"); }

std::string printed(const CoefficientValue& coefficient) {
  if (coefficient.unit == "B") return printed(Bytes(coefficient.value));
  if (coefficient.unit == "B/s") return printed(BytesPerSecond(coefficient.value));
  if (coefficient.unit == "s") return printed_seconds(coefficient.value);
  return printed(coefficient.value, "");
}

// An object inside a record; empty where there is none.
const json& part(const json& record, const char* key) {
  static const json empty = json::object();
  const auto found = record.find(key);
  return found == record.end() || !found->is_object() ? empty : *found;
}

// Whether a group of fields ("fp16/bf16, clock") names one of them.
bool names_field(const std::string& group, const std::string& field) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = group.find(field); at != std::string::npos; at = group.find(field, at + 1)) {
    const std::size_t end = at + field.size();
    if ((at == 0 || !in_word(group[at - 1])) && (end == group.size() || !in_word(group[end]))) return true;
  }
  return false;
}

// The source of a field.  A record has one source, or a map from groups of fields ("peaks,clock") to sources; "*" and "others"
// cover what is not named.  `hints` are the words under which a group may name the field, best first.
std::string source_for(const json& record, const std::vector<std::string>& hints) {
  const auto source = record.find("source");
  if (source == record.end()) return "not stated";
  if (source->is_string()) return source->get<std::string>();
  for (const std::string& hint : hints) {
    for (const auto& [fields, where] : source->items()) {
      if (names_field(fields, hint)) return where.get<std::string>();
    }
  }
  for (const char* rest : {"*", "others"}) {
    if (source->contains(rest)) return source->at(rest).get<std::string>();
  }
  return source_of(record);
}

// A value and where it comes from.
struct Sourced {
  double value = 0.0;
  Evidence evidence = Evidence::Assumed;
  std::string source;
};

// Collects the facts of one device or cluster.
class Ledger {
 public:
  explicit Ledger(std::string prefix) : prefix_(std::move(prefix)) {}

  void note(const std::string& key, std::string value, Evidence evidence, std::string source) {
    facts_.push_back({prefix_ + key, std::move(value), evidence, std::move(source)});
  }
  std::vector<sim::Fact> take() { return std::move(facts_); }

 private:
  std::string prefix_;
  std::vector<sim::Fact> facts_;
};

// A row of the database while it is read.
struct Record {
  HardwareRow row;
  json fields;

  Evidence evidence(Evidence shipped = Evidence::DataSheet) const {
    return row.origin == Origin::User ? Evidence::Given : shipped;
  }
};

Record record_of(HardwareRow row) {
  json fields = json::parse(row.record);
  return {std::move(row), std::move(fields)};
}

Record accelerator_record(const Database& database, std::string_view id) {
  return record_of(database.get(HardwareKind::Accelerator, id));
}

// ---- the device's record

void set_peaks(sim::Device& device, const Record& record, Ledger& ledger) {
  const struct {
    sim::DType dtype;
    const char* key;
  } peaks[] = {{sim::DType::Fp32, "peak_fp32_matrix_flops"}, {sim::DType::Tf32, "peak_tf32_flops"},
               {sim::DType::Fp16, "peak_fp16_flops"},        {sim::DType::Bf16, "peak_bf16_flops"},
               {sim::DType::Fp8, "peak_fp8_flops"},          {sim::DType::Fp4, "peak_fp4_flops"}};
  for (const auto& [dtype, key] : peaks) {
    std::optional<double> peak = number(record.fields, key);
    if (!peak && dtype == sim::DType::Fp32) peak = number(record.fields, "peak_fp32_vector_flops");
    if (!peak) continue;
    device.matrix_peak[static_cast<std::size_t>(dtype)] = FlopsPerSecond(*peak);
    if (dtype == sim::DType::Fp4) device.block_scales = true;  // 4-bit GEMMs came with scales of blocks
    ledger.note(std::string("peak.") + sim::name_of(dtype), printed(FlopsPerSecond(*peak)), record.evidence(),
                source_for(record.fields, {key, sim::name_of(dtype), "peak", "peaks"}));
  }
}

void set_vector_peak(sim::Device& device, const Record& record, Ledger& ledger) {
  if (const auto peak = number(record.fields, "peak_fp32_vector_flops")) {
    device.vector_peak = FlopsPerSecond(*peak);
    ledger.note("vector_peak", printed(device.vector_peak), record.evidence(),
                source_for(record.fields, {"fp32", "peak", "peaks"}));
    return;
  }
  const FlopsPerSecond matrix = *std::max_element(device.matrix_peak.begin(), device.matrix_peak.begin() + 4);
  device.vector_peak = matrix * kVectorFraction;
  ledger.note("vector_peak", printed(device.vector_peak), Evidence::Assumed, "1/16 of the 16-bit matrix peak");
}

void set_memory(sim::Device& device, const Record& record, Ledger& ledger) {
  const json& fields = record.fields;
  device.memory = Bytes(number(fields, "hbm_bytes").value_or(0.0));
  ledger.note("memory", printed(device.memory), record.evidence(), source_for(fields, {"hbm_bytes", "hbm", "memory"}));
  device.memory_bandwidth = BytesPerSecond(number(fields, "hbm_bytes_per_s").value_or(0.0));
  ledger.note("memory_bandwidth", printed(device.memory_bandwidth), record.evidence(),
              source_for(fields, {"hbm_bytes_per_s", "hbm"}));
  if (const auto usable = number(fields, "hbm_usable_bytes")) {
    device.usable_memory = Bytes(*usable);
    ledger.note("usable_memory", printed(device.usable_memory), record.evidence(Evidence::Measured),
                source_for(fields, {"hbm_usable_bytes"}));
  } else {
    device.usable_memory = device.memory * kUsableFraction;
    ledger.note("usable_memory", printed(device.usable_memory), Evidence::Assumed, "0.985 of nominal");
  }
  std::optional<double> cache = number(fields, "llc_bytes");
  if (!cache) cache = number(fields, "l2_bytes");
  if (!cache) return;
  device.cache = Bytes(*cache);
  ledger.note("cache", printed(device.cache / sim::MiB, "MiB"), record.evidence(), source_for(fields, {"l2", "cache"}));
}

void set_body(sim::Device& device, const Record& record, Ledger& ledger) {
  if (const auto units = number(record.fields, "compute_units")) {
    device.compute_units = static_cast<int>(*units);
    ledger.note("compute_units", std::to_string(device.compute_units) + " " + text(record.fields, "compute_unit_kind"),
                record.evidence(), source_for(record.fields, {"compute_units", "sm", "cu"}));
  } else {
    ledger.note("compute_units", "1", Evidence::Assumed, "number of units not published");
  }
  device.watts = number(record.fields, "tdp_watts");
  if (device.watts)
    ledger.note("watts", printed(*device.watts, "W"), record.evidence(), source_for(record.fields, {"tdp", "power"}));
}

// ---- what was measured on the device

// Mean of the measured host-to-device rates, the practical rate of the record, or a part of the theoretical one.
Sourced host_bandwidth(const Database& database, const Record& record) {
  double sum = 0.0;
  int count = 0;
  std::string source;
  for (const Measurement& measurement : database.measurements("host_link", record.row.id)) {
    const auto rate = number(json::parse(measurement.record), "h2d_bytes_per_s");
    if (!rate) continue;
    sum += *rate;
    ++count;
    source += (source.empty() ? "host to device: " : "; ") + measurement.source;
  }
  if (count > 0) return {sum / count, Evidence::Measured, source};
  const json& pcie = part(record.fields, "pcie");
  if (const auto rate = number(pcie, "practical_h2d_bytes_per_s")) {
    return {*rate, record.evidence(Evidence::Measured), text(pcie, "practical_source")};
  }
  if (const auto rate = number(pcie, "theoretical_bytes_per_s_per_direction")) {
    return {*rate * kHostFraction, Evidence::Assumed, "0.85 of the nominal host link"};
  }
  const std::string fabric = text(part(record.fields, "fabric"), "kind");
  const bool alone = fabric == "host" && number(part(record.fields, "fabric"), "devices").value_or(8.0) == 1.0;
  if (number(record.fields, "hbm_bytes_per_s") && (alone || fabric == "loopback")) {
    return {*number(record.fields, "hbm_bytes_per_s"), Evidence::Assumed, "the device is the host"};
  }
  return {kPcieGen4.value() * kHostFraction, Evidence::Assumed, "0.85 of PCIe Gen4 x16: host link not published"};
}

// Middle of the prices of an hour: a list price may be a range.
std::optional<Sourced> price(const Database& database, const Record& record) {
  if (const auto given = number(record.fields, "price_per_hour"))
    return Sourced{*given, record.evidence(), source_for(record.fields, {"price"})};
  std::vector<double> prices;
  for (const Measurement& measurement : database.measurements("prices", record.row.id)) {
    const json entry = json::parse(measurement.record);
    const auto found = entry.find("usd_per_accelerator_hour");
    if (found == entry.end()) continue;
    prices.push_back(found->is_array() ? (found->front().get<double>() + found->back().get<double>()) / 2.0
                                       : found->get<double>());
  }
  if (prices.empty()) return std::nullopt;
  std::sort(prices.begin(), prices.end());
  const double median = (prices[(prices.size() - 1) / 2] + prices[prices.size() / 2]) / 2.0;
  return Sourced{median, Evidence::Measured, "median of " + std::to_string(prices.size()) + " public prices: facts/prices.json"};
}

// ---- coefficients

using Sources = std::map<std::string, Coefficient>;  // by key: the row that set it

// Applies the rows of one scope and id: those of all formats first, so that a row of one format wins.
void apply(sim::Cluster& cluster, Sources& sources, std::vector<Coefficient> rows, const std::string& like) {
  std::stable_sort(rows.begin(), rows.end(), [](const Coefficient& a, const Coefficient& b) {
    return keys_set_by(a.key).size() > keys_set_by(b.key).size();
  });
  for (Coefficient& row : rows) {
    const std::vector<std::string> keys = keys_set_by(row.key);
    if (keys.empty()) continue;  // a coefficient of a later version, or of a framework
    set_coefficient(cluster, row.key, row.value);
    if (!like.empty()) {
      row.evidence = Evidence::Assumed;
      row.source = "as " + like + ": " + row.source;
    }
    for (const std::string& key : keys) sources[key] = row;
  }
}

// The record and those that it is like, the most distant first.
std::vector<std::string> ancestry(const Database& database, HardwareKind kind, const Record& record) {
  std::vector<std::string> ids = {record.row.id};
  std::string like = text(record.fields, "like");
  while (!like.empty() && std::find(ids.begin(), ids.end(), like) == ids.end()) {
    ids.push_back(like);
    const auto row = database.find(kind, like);
    like = row ? text(json::parse(row->record), "like") : "";
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

void apply_all(const Database& database, HardwareKind kind, const Record& record, sim::Cluster& cluster, Sources& sources) {
  const char* scope = kind == HardwareKind::System ? "system" : "device";
  for (const std::string& id : ancestry(database, kind, record)) {
    apply(cluster, sources, database.coefficients(scope, id), id == record.row.id ? "" : id);
  }
}

// ---- power limits

std::optional<sim::PowerLimit> power_limit(const json& fields) {
  const auto watts = number(fields, "tdp_watts");
  const auto wide = number(fields, "peak_bf16_flops");
  const auto peak = wide ? wide : number(fields, "peak_fp16_flops");
  if (watts.value_or(0.0) <= 0.0 || peak.value_or(0.0) <= 0.0) return std::nullopt;
  return sim::PowerLimit{*watts, FlopsPerSecond(*peak)};
}

// The device whose measured GEMMs are taken for this one's; empty where they are its own or nobody's.
std::string gemms_like(const Sources& sources, const std::string& id) {
  for (const char* key : {"gemm.bf16.max_efficiency", "gemm.fp16.max_efficiency"}) {
    const auto found = sources.find(key);
    if (found != sources.end()) return found->second.id == id ? "" : found->second.id;
  }
  return "";
}

// GEMMs of the same chip under another power limit.
void limit_power(const Database& database, const Record& record, sim::Cluster& cluster, Sources& sources) {
  const auto clock = sources.find("sustained_clock");
  if (clock != sources.end() && clock->second.id == record.row.id) return;
  const std::string like = gemms_like(sources, record.row.id);
  const auto row = like.empty() ? std::nullopt : database.find(HardwareKind::Accelerator, like);
  if (!row) return;
  const json fields = json::parse(row->record);
  const auto limit = power_limit(record.fields), limit_like = power_limit(fields);
  if (!limit || !limit_like || text(fields, "architecture") != text(record.fields, "architecture")) return;
  sim::Achieved& achieved = cluster.device.achieved;
  const double before = achieved.sustained_clock;
  achieved.sustained_clock = sim::power_limited_clock(before, *limit, *limit_like);
  if (achieved.sustained_clock == before) return;
  Coefficient& source = sources["sustained_clock"];
  const double error = source.standard_error.value_or(0.05) * achieved.sustained_clock / before;
  source = {"device",
            record.row.id,
            "sustained_clock",
            achieved.sustained_clock,
            std::hypot(error, 0.05),
            Evidence::Assumed,
            "as " + like + ", whose limit is " + printed(limit_like->watts, "W") + " (sim/hardware/power_limit.h)",
            "",
            Origin::Shipped};
}

bool of_links(const std::string& key) { return key.starts_with("fabric.") || key.starts_with("network."); }

std::string with_error(const CoefficientValue& value, const Coefficient& row) {
  if (!row.standard_error) return printed(value);
  return printed(value) + " +- " + printed(CoefficientValue{value.key, *row.standard_error, value.unit});
}

// Attention kernels without a row of their own are noted once, under the key of all kernels.
void note_coefficients(const sim::Cluster& cluster, const Sources& sources, bool links, Ledger& ledger) {
  std::set<std::string> shared;
  for (const CoefficientValue& value : coefficient_values(cluster)) {
    if (of_links(value.key) != links) continue;
    const auto found = sources.find(value.key);
    const bool attention = value.key.starts_with("attention.");
    if (attention && found == sources.end()) continue;
    if (attention && found->second.key != value.key) {
      const Coefficient& row = found->second;
      if (shared.insert(row.key).second) ledger.note(row.key, with_error(value, row), row.evidence, row.source);
    } else if (found != sources.end()) {
      ledger.note(value.key, with_error(value, found->second), found->second.evidence, found->second.source);
    } else if (value.key != "host_bytes_per_s") {  // noted with the record's own value
      ledger.note(value.key, printed(value), Evidence::Assumed, "default of sim/hardware");
    }
  }
}

// The device, with the latencies of its links in a cluster that is otherwise empty.
struct Loaded {
  Record record;
  sim::Cluster cluster;
  Sources sources;
  Ledger ledger;
};

Loaded load_device(const Database& database, std::string_view id) {
  Record record = accelerator_record(database, id);
  Ledger ledger("device." + record.row.id + ".");
  sim::Cluster cluster;
  sim::Device& device = cluster.device;
  device.id = record.row.id;
  device.name = record.row.name;
  device.vendor = text(record.fields, "vendor");
  device.architecture = text(record.fields, "architecture");
  set_peaks(device, record, ledger);
  set_vector_peak(device, record, ledger);
  set_memory(device, record, ledger);
  set_body(device, record, ledger);
  const Sourced host = host_bandwidth(database, record);
  device.host_bandwidth = BytesPerSecond(host.value);
  if (const auto hour = price(database, record)) {
    device.price_per_hour = hour->value;
    ledger.note("price_per_hour", printed(hour->value, "USD"), hour->evidence, hour->source);
  }
  Sources sources;
  apply_all(database, HardwareKind::Accelerator, record, cluster, sources);
  limit_power(database, record, cluster, sources);
  if (!sources.contains("host_bytes_per_s"))
    ledger.note("host_bytes_per_s", printed(device.host_bandwidth), host.evidence, host.source);
  return {std::move(record), std::move(cluster), std::move(sources), std::move(ledger)};
}

// ---- the fabric

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

// One device's links in one direction: of the fabric's own description, of the scale-up record, or of the host link.
BytesPerSecond device_links(const json& fabric, const json& accelerator) {
  if (const auto own = number(fabric, "device_bytes_per_s")) return BytesPerSecond(*own);
  const json& links = part(accelerator, "scale_up");
  if (const auto total = number(links, "total_bytes_per_s_per_direction")) return BytesPerSecond(*total);
  const auto host = number(part(accelerator, "pcie"), "theoretical_bytes_per_s_per_direction");
  return BytesPerSecond(host.value_or(kPcieGen4.value()));
}

// A fabric described for n devices in nodes of m: a switch serves m; on a board of fewer, fewer take part; a mesh of more shares
// each device's links among more peers.
void fit_to_node(sim::Fabric& fabric, int devices_per_node) {
  if (fabric.kind == sim::FabricKind::Mesh && devices_per_node > fabric.devices) {
    fabric.pair_bandwidth = std::min(fabric.pair_bandwidth, fabric.device_bandwidth / double(devices_per_node - 1));
  }
  fabric.devices = devices_per_node;
}

// Tori are cut into slices.  Who says that a node has more devices than a host means one of them: its links end there.
bool is_slice(const sim::Fabric& fabric, const json& accelerator, int devices_per_node) {
  const double host = number(accelerator, "devices_per_node").value_or(devices_per_node);
  return fabric.kind == sim::FabricKind::Torus && devices_per_node > host && devices_per_node < fabric.devices;
}

sim::Fabric fabric_of(const json& description, const json& accelerator, int devices_per_node) {
  sim::Fabric fabric;
  fabric.kind = fabric_kind(text(description, "kind"));
  fabric.devices = static_cast<int>(number(description, "devices").value_or(devices_per_node));
  fabric.device_bandwidth = device_links(description, accelerator);
  fabric.pair_bandwidth = BytesPerSecond(number(description, "pair_bytes_per_s").value_or(0.0));
  if (fabric.pair_bandwidth.value() <= 0.0) {
    const auto link = number(part(accelerator, "scale_up"), "link_bytes_per_s_per_direction");
    const bool narrow = fabric.kind == sim::FabricKind::Torus && link;
    fabric.pair_bandwidth = narrow ? BytesPerSecond(*link) : fabric.device_bandwidth;
  }
  fabric.package_bandwidth = BytesPerSecond(number(description, "package_bytes_per_s").value_or(fabric.pair_bandwidth.value()));
  fabric.in_switch_reduction = description.value("in_switch_reduction", false);
  if (!description.value("spans_nodes", false)) fit_to_node(fabric, devices_per_node);
  if (is_slice(fabric, accelerator, devices_per_node)) fabric.devices = devices_per_node;
  return fabric;
}

void note_fabric(const sim::Fabric& fabric, Evidence evidence, const std::string& source, Ledger& ledger) {
  ledger.note("fabric.kind", name_of(fabric.kind), evidence, source);
  ledger.note("fabric.devices", std::to_string(fabric.devices), evidence, source);
  ledger.note("fabric.device_bandwidth", printed(fabric.device_bandwidth), evidence, source);
  ledger.note("fabric.pair_bandwidth", printed(fabric.pair_bandwidth), evidence, source);
  if (fabric.kind == sim::FabricKind::Paired)
    ledger.note("fabric.package_bandwidth", printed(fabric.package_bandwidth), evidence, source);
  ledger.note("fabric.in_switch_reduction", fabric.in_switch_reduction ? "yes" : "no", evidence, source);
}

// ---- the nodes and the network between them

// A named system, or the usual one of the accelerator; none where neither is known.
struct Home {
  std::optional<Record> record;
  bool named = false;
};

std::optional<double> node_injection(const json& system) {
  return number(part(system, "inter"), "node_injection_bytes_per_s_per_direction");
}

Sourced nodes_of(const Home& home, const Record& accelerator, const ClusterOverrides& overrides) {
  if (overrides.devices_per_node) return {double(*overrides.devices_per_node), Evidence::Given, "given"};
  if (home.named && home.record) {
    return {number(home.record->fields, "accelerators_per_node").value_or(8.0), home.record->evidence(),
            source_for(home.record->fields, {"accelerators_per_node", "intra"})};
  }
  if (const auto own = number(accelerator.fields, "devices_per_node"))
    return {*own, Evidence::Assumed, "usual node of " + accelerator.row.id};
  if (home.record) {
    return {number(home.record->fields, "accelerators_per_node").value_or(8.0), Evidence::Assumed,
            "as system " + home.record->row.id};
  }
  return {number(part(accelerator.fields, "fabric"), "devices").value_or(8.0), Evidence::Assumed, "devices of one fabric"};
}

// Injection of one node.  An assumed network scales with the devices of the node: one adapter for so many devices.
Sourced network_of(const Home& home, const Record& accelerator, const ClusterOverrides& overrides, int devices_per_node) {
  if (overrides.inter_node_per_device)
    return {overrides.inter_node_per_device->value() * devices_per_node, Evidence::Given, "given per device"};
  if (home.named && home.record) {
    if (const auto node = node_injection(home.record->fields)) {
      return {*node, home.record->evidence(), source_for(home.record->fields, {"inter", "nics", "NICs", "port speed"})};
    }
  }
  const json& own = part(accelerator.fields, "network");
  if (const auto node = number(own, "node_bytes_per_s")) {
    const double usual = number(accelerator.fields, "devices_per_node").value_or(devices_per_node);
    return {*node / usual * devices_per_node, evidence_of(own, Evidence::Assumed), text(own, "source")};
  }
  if (home.record && !home.named) {
    const auto node = node_injection(home.record->fields);
    const double usual = number(accelerator.fields, "devices_per_node")
                             .value_or(number(home.record->fields, "accelerators_per_node").value_or(8.0));
    if (node) return {*node / usual * devices_per_node, Evidence::Assumed, "as system " + home.record->row.id};
  }
  return {kUnknownNodeNetwork.value(), Evidence::Assumed, "network not published: one 200 Gb/s adapter per node"};
}

// The usual network of an accelerator stands in where a named system does not say.
Home network_home(const Database& database, const Home& home, const Record& accelerator) {
  const bool known = home.record && (node_injection(home.record->fields) || !home.named);
  if (known) return home;
  const auto row = database.find(HardwareKind::System, text(accelerator.fields, "default_system"));
  return row ? Home{record_of(*row), false} : Home{};
}

std::string network_name(const Home& home, const ClusterOverrides& overrides) {
  if (overrides.inter_node_per_device && !home.named) return "given";
  const std::string kind = home.record ? text(part(home.record->fields, "inter"), "kind") : "";
  return kind.empty() ? "unnamed" : kind;
}

void check_numbers(int num_devices, const ClusterOverrides& overrides) {
  if (num_devices < 1) throw Error("num_devices = " + std::to_string(num_devices) + ": at least 1 is expected");
  if (overrides.devices_per_node && *overrides.devices_per_node < 1) {
    throw Error("devices_per_node = " + std::to_string(*overrides.devices_per_node) + ": at least 1 is expected");
  }
  if (overrides.inter_node_per_device && !(overrides.inter_node_per_device->value() > 0.0)) {
    throw Error("inter_node_bytes_per_s_per_device = " + printed(overrides.inter_node_per_device->value(), "") +
                ": a positive rate is expected");
  }
}

// Devices of a system, where its record says how many there are.
std::optional<int> size_of(const Record& system) {
  const auto nodes = number(system.fields, "nodes");
  const double per_node = number(system.fields, "accelerators_per_node").value_or(8.0);
  const auto total = number(system.fields, "accelerators_total");
  if (!nodes && !total) return std::nullopt;
  return static_cast<int>(std::max(total.value_or(0.0), nodes.value_or(0.0) * per_node));
}

// What the run asks of the system beyond what it is: a larger copy of it, or one with other
// devices, is simulated all the same.
void note_beyond_the_system(const Record& system, sim::Cluster& cluster) {
  const std::optional<int> size = size_of(system);
  if (size && cluster.num_devices > *size) cluster.system_devices = size;
  const json& ids = system.fields.at("accelerator_ids");
  if (std::find(ids.begin(), ids.end(), cluster.device.id) == ids.end())
    cluster.system_accelerator = ids.at(0).get<std::string>();
}

Home home_of(const Database& database, std::string_view name) {
  const auto row = database.find(HardwareKind::System, name);
  return row ? Home{record_of(*row), true} : Home{};
}

[[noreturn]] void refuse_name(const Database& database, std::string_view name) {
  std::vector<std::string> known = database.names(HardwareKind::Accelerator);
  for (std::string& system : database.names(HardwareKind::System)) known.push_back(std::move(system));
  throw Error("unknown accelerator or system '" + std::string(name) + "'" + did_you_mean(name, known) +
              "; 'llmsim hardware list' shows all");
}

// The fabric's description: the named system's where it has its own, else the accelerator's.
const json& fabric_description(const Home& home, const Record& accelerator) {
  if (home.named && home.record && !part(home.record->fields, "fabric").empty()) return part(home.record->fields, "fabric");
  return part(accelerator.fields, "fabric");
}

void set_fabric(sim::Cluster& cluster, const Home& home, const Record& accelerator, Ledger& ledger) {
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
  const Evidence evidence = evidence_of(description, description.empty() ? Evidence::Assumed : accelerator.evidence());
  const std::string own = text(description, "source");
  note_fabric(cluster.fabric, evidence, own.empty() ? source_for(accelerator.fields, {"scale_up"}) : own, ledger);
}

// Only of a named system: who names a device alone may have it in any host.
void set_host(sim::Cluster& cluster, const Home& home, Ledger& ledger) {
  if (!home.record) return;
  const auto memory = number(home.record->fields, "host_memory_bytes");
  if (!memory) return;
  cluster.host_memory = Bytes(*memory);
  ledger.note("host_memory", printed(*memory, "B"), home.record->evidence(),
              source_for(home.record->fields, {"host_memory_bytes", "host"}));
}

void set_network(sim::Cluster& cluster, const Home& home, const Record& accelerator, const ClusterOverrides& overrides,
                 Ledger& ledger) {
  const Sourced injection = network_of(home, accelerator, overrides, cluster.devices_per_node);
  cluster.network.name = network_name(home, overrides);
  cluster.network.node_bandwidth = BytesPerSecond(injection.value);
  ledger.note("network.node_bandwidth", printed(cluster.network.node_bandwidth), injection.evidence, injection.source);
}

}  // namespace

DeviceRecord device(const Database& database, std::string_view id_or_alias) {
  Loaded loaded = load_device(database, id_or_alias);
  note_coefficients(loaded.cluster, loaded.sources, false, loaded.ledger);
  return {std::move(loaded.cluster.device), loaded.ledger.take()};
}

ClusterRecord cluster(const Database& database, std::string_view system_or_accelerator, int num_devices,
                      const ClusterOverrides& overrides) {
  check_numbers(num_devices, overrides);
  const Home home = home_of(database, system_or_accelerator);
  std::string accelerator(system_or_accelerator);
  if (overrides.accelerator) {
    accelerator = *overrides.accelerator;
  } else if (home.record) {
    accelerator = home.record->fields.at("accelerator_ids").at(0).get<std::string>();
  }
  if (!home.record && !database.find(HardwareKind::Accelerator, accelerator)) refuse_name(database, accelerator);

  Loaded loaded = load_device(database, accelerator);
  sim::Cluster& cluster = loaded.cluster;
  cluster.id = home.record ? home.record->row.id : loaded.record.row.id;
  cluster.num_devices = num_devices;
  const Home network = network_home(database, home, loaded.record);
  const Sourced per_node = nodes_of(home.record ? home : network, loaded.record, overrides);
  cluster.devices_per_node = static_cast<int>(per_node.value);
  if (home.record) note_beyond_the_system(*home.record, cluster);
  if (home.record) apply_all(database, HardwareKind::System, *home.record, cluster, loaded.sources);

  Ledger links("cluster." + cluster.id + ".");
  links.note("devices_per_node", std::to_string(cluster.devices_per_node), per_node.evidence, per_node.source);
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
