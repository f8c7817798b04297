#include "hwdb/hardware_record.h"

#include <cctype>
#include <cstdio>

#include "hwdb/shipping.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// Whether a group of fields ("fp16/bf16, clock") names one of them.
bool names_field(const std::string& group, const std::string& field) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = group.find(field); at != std::string::npos; at = group.find(field, at + 1)) {
    const std::size_t end = at + field.size();
    if ((at == 0 || !in_word(group[at - 1])) && (end == group.size() || !in_word(group[end]))) return true;
  }
  return false;
}

}  // namespace

HardwareRecord record_of(HardwareRow row) {
  json fields = json::parse(row.record);
  return {std::move(row), std::move(fields)};
}

HardwareRecord accelerator_record(const Database& database, std::string_view id) {
  return record_of(database.get(HardwareKind::Accelerator, id));
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
  char text[64];
  std::snprintf(text, sizeof text, *unit ? "%.4g %s" : "%.4g", value, unit);
  return text;
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

}  // namespace llmsim::hwdb
