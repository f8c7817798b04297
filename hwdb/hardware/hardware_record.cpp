#include "hwdb/hardware/hardware_record.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "hwdb/text/text_blocks.h"
#include "sim/base/uncertainty.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// Whether a group of fields ("fp16/bf16, clock") names one of them.
bool names_field(const std::string& group, const std::string& field) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (std::size_t at = group.find(field); at != std::string::npos;
       at = group.find(field, at + 1)) {
    const std::size_t end = at + field.size();
    if ((at == 0 || !in_word(group[at - 1])) && (end == group.size() || !in_word(group[end])))
      return true;
  }
  return false;
}

using nlohmann::json;
using sim::Bytes;
using sim::BytesPerSecond;
using sim::Evidence;
using sim::FlopsPerSecond;

// Of nominal memory: the devices whose usable memory was seen lie at 0.98-0.999.
constexpr double kUsableFraction = 0.985;
constexpr double kHostFraction = 0.85;  // of the nominal host link: measured links reach 0.78-0.91
// Vector rate over 16-bit matrix rate where unknown (A100: 1/16, H100: 1/15).
constexpr double kVectorFraction = 1.0 / 16.0;

void set_peaks(sim::Device& device, const HardwareRecord& record, Ledger& ledger) {
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
    // 4-bit GEMMs came with scales of blocks.
    if (dtype == sim::DType::Fp4) device.block_scales = true;
    ledger.note(std::string("peak.") + sim::name_of(dtype), printed(FlopsPerSecond(*peak)),
                record.evidence(),
                source_for(record.fields, {key, sim::name_of(dtype), "peak", "peaks"}));
  }
}

void set_vector_peak(sim::Device& device, const HardwareRecord& record, Ledger& ledger) {
  if (const auto peak = number(record.fields, "peak_fp32_vector_flops")) {
    device.vector_peak = FlopsPerSecond(*peak);
    ledger.note("vector_peak", printed(device.vector_peak), record.evidence(),
                source_for(record.fields, {"fp32", "peak", "peaks"}));
    return;
  }
  const FlopsPerSecond matrix =
      *std::max_element(device.matrix_peak.begin(), device.matrix_peak.begin() + 4);
  device.vector_peak = matrix * kVectorFraction;
  ledger.note("vector_peak", printed(device.vector_peak), Evidence::Assumed,
              "1/16 of the 16-bit matrix peak");
}

void set_memory(sim::Device& device, const HardwareRecord& record, Ledger& ledger) {
  const json& fields = record.fields;
  device.memory = Bytes(number(fields, "hbm_bytes").value_or(0.0));
  ledger.note("memory", printed(device.memory), record.evidence(),
              source_for(fields, {"hbm_bytes", "hbm", "memory"}));
  device.memory_bandwidth = BytesPerSecond(number(fields, "hbm_bytes_per_s").value_or(0.0));
  ledger.note("memory_bandwidth", printed(device.memory_bandwidth), record.evidence(),
              source_for(fields, {"hbm_bytes_per_s", "hbm"}));
  if (const auto usable = number(fields, "hbm_usable_bytes")) {
    device.usable_memory = Bytes(*usable);
    ledger.note("usable_memory", printed(device.usable_memory), record.evidence(Evidence::Measured),
                source_for(fields, {"hbm_usable_bytes"}));
  } else {
    device.usable_memory = device.memory * kUsableFraction;
    ledger.note("usable_memory", printed(device.usable_memory), Evidence::Assumed,
                "0.985 of nominal");
  }
  std::optional<double> cache = number(fields, "llc_bytes");
  if (!cache) cache = number(fields, "l2_bytes");
  if (!cache) return;
  device.cache = Bytes(*cache);
  ledger.note("cache", printed(device.cache / sim::MiB, "MiB"), record.evidence(),
              source_for(fields, {"l2", "cache"}));
}

void set_body(sim::Device& device, const HardwareRecord& record, Ledger& ledger) {
  if (const auto units = number(record.fields, "compute_units")) {
    device.compute_units = static_cast<int>(*units);
    ledger.note(
        "compute_units",
        std::to_string(device.compute_units) + " " + text(record.fields, "compute_unit_kind"),
        record.evidence(), source_for(record.fields, {"compute_units", "sm", "cu"}));
  } else {
    ledger.note("compute_units", "1", Evidence::Assumed, "number of units not published");
  }
  device.watts = number(record.fields, "tdp_watts");
  if (device.watts)
    ledger.note("watts", printed(*device.watts, "W"), record.evidence(),
                source_for(record.fields, {"tdp", "power"}));
}

// Fields that a record has from the one that it is like, with the words under which their sources
// are looked for.  Peaks and the memory are its own.
constexpr std::pair<const char*, const char*> kInherited[] = {{"compute_units", "sm, cu"},
                                                              {"compute_unit_kind", ""},
                                                              {"l2_bytes", "l2, cache"},
                                                              {"llc_bytes", "cache"},
                                                              {"tdp_watts", "tdp, power"},
                                                              {"scale_up", ""},
                                                              {"pcie", ""},
                                                              {"fabric", ""},
                                                              {"shared_memory_bytes_per_cu", ""},
                                                              {"default_system", ""}};

void inherit(const HardwareRecord& like, json& fields) {
  json sources = json::object();
  for (const auto& [key, words] : kInherited) {
    const auto found = like.fields.find(key);
    if (fields.contains(key) || found == like.fields.end() || found->is_null()) continue;
    fields[key] = *found;
    if (found->is_object() && found->contains("source")) fields[key]["evidence"] = "assumed";
    std::vector<std::string> hints = split(words, ',');
    hints.insert(hints.begin(), key);
    sources[std::string(key) + ", " + words] =
        kAsLike + like.row.id + " (" + source_for(like.fields, hints) + ")";
  }
  if (sources.empty()) return;
  json& own = fields["source"];
  if (own.is_string()) own = json{{"*", own}};
  own.update(sources);
}

// Of the logarithm of a price where one only is public.
constexpr double kOnePriceDeviation = 0.5;

// "3 public prices of 2026-01-15 to 2026-05-20".
std::string prices_text(std::size_t count, std::vector<std::string> dates) {
  std::string text = count == 1 ? "1 public price" : std::to_string(count) + " public prices";
  if (dates.empty()) return text;
  const auto [first, last] = std::minmax_element(dates.begin(), dates.end());
  return text + " of " + *first + (*first == *last ? "" : " to " + *last);
}

}  // namespace

std::optional<HourPrice> hour_price(const Database& database, const HardwareRecord& record) {
  if (const auto given = number(record.fields, "price_per_hour"))
    return HourPrice{{*given, record.evidence(), source_for(record.fields, {"price"})}};
  std::vector<double> prices;
  std::vector<std::string> dates;
  for (const Measurement& measurement : database.measurements("prices", record.row.id)) {
    const json entry = json::parse(measurement.record);
    const auto found = entry.find("usd_per_accelerator_hour");
    if (found == entry.end()) continue;
    prices.push_back(found->is_array()
                         ? (found->front().get<double>() + found->back().get<double>()) / 2.0
                         : found->get<double>());
    if (const std::string date = text(entry, "date"); !date.empty()) dates.push_back(date);
  }
  if (prices.empty()) return std::nullopt;
  std::sort(prices.begin(), prices.end());
  const double median = (prices[(prices.size() - 1) / 2] + prices[prices.size() / 2]) / 2.0;
  return HourPrice{{median, Evidence::Measured,
                    "median of " + prices_text(prices.size(), dates) + ": facts/prices.json"},
                   prices.size() == 1 ? kOnePriceDeviation : sim::pooled(prices).log_deviation};
}

HardwareRecord record_of(HardwareRow row) {
  json fields = json::parse(row.record);
  return {std::move(row), std::move(fields)};
}

HardwareRecord accelerator_record(const Database& database, std::string_view id) {
  HardwareRecord record = record_of(database.get(HardwareKind::Accelerator, id));
  constexpr int kMost = 4;  // records that are like one another
  std::string like = text(record.fields, "like");
  for (int i = 0; record.row.origin == Origin::User && !like.empty() && i < kMost; ++i) {
    const HardwareRecord other = record_of(database.get(HardwareKind::Accelerator, like));
    inherit(other, record.fields);
    like = text(other.fields, "like");
  }
  return record;
}

const json& object_in(const json& record, const char* key) {
  static const json empty = json::object();
  const auto found = record.find(key);
  return found == record.end() || !found->is_object() ? empty : *found;
}

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

std::string printed(double value, const char* unit) {
  return fmt::format("{:.4g}{}{}", value, *unit ? " " : "", unit);
}

std::string printed(sim::Bytes size) { return printed(size / sim::GiB, "GiB"); }
std::string printed(sim::FlopsPerSecond rate) { return printed(rate / sim::TFLOPS, "TFLOP/s"); }
std::string printed(sim::BytesPerSecond rate) {
  return rate >= sim::TBps ? printed(rate / sim::TBps, "TB/s") : printed(rate / sim::GBps, "GB/s");
}

std::string printed(const CoefficientValue& coefficient) {
  if (coefficient.unit == "B") return printed(sim::Bytes(coefficient.value));
  if (coefficient.unit == "B/s") return printed(sim::BytesPerSecond(coefficient.value));
  if (coefficient.unit == "s") return printed(coefficient.value * 1e6, "us");
  return printed(coefficient.value, "");
}

Sourced host_bandwidth(const Database& database, const HardwareRecord& record) {
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
  const json& pcie = object_in(record.fields, "pcie");
  if (const auto rate = number(pcie, "practical_h2d_bytes_per_s")) {
    return {*rate, record.evidence(Evidence::Measured), text(pcie, "practical_source")};
  }
  if (const auto rate = number(pcie, "theoretical_bytes_per_s_per_direction")) {
    return {*rate * kHostFraction, Evidence::Assumed, "0.85 of the nominal host link"};
  }
  const std::string fabric = text(object_in(record.fields, "fabric"), "kind");
  const bool alone = fabric == "host" &&
                     number(object_in(record.fields, "fabric"), "devices").value_or(8.0) == 1.0;
  if (number(record.fields, "hbm_bytes_per_s") && (alone || fabric == "loopback")) {
    return {*number(record.fields, "hbm_bytes_per_s"), Evidence::Assumed, "the device is the host"};
  }
  return {kPcieGen4.value() * kHostFraction, Evidence::Assumed,
          "0.85 of PCIe Gen4 x16: host link not published"};
}

sim::Device recorded_device(const Database& database, const HardwareRecord& record,
                            Ledger& ledger) {
  sim::Device device;
  device.id = record.row.id;
  device.name = record.row.name;
  device.vendor = text(record.fields, "vendor");
  device.architecture = text(record.fields, "architecture");
  set_peaks(device, record, ledger);
  set_vector_peak(device, record, ledger);
  set_memory(device, record, ledger);
  set_body(device, record, ledger);
  device.host_bandwidth = BytesPerSecond(host_bandwidth(database, record).value);
  if (const auto hour = hour_price(database, record)) {
    const Sourced& usd = hour->usd;
    ledger.note("price_per_hour", printed(usd.value, "USD"), usd.evidence, usd.source);
  }
  return device;
}

}  // namespace llmsim::hwdb
