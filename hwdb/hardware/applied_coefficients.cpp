#include "hwdb/hardware/applied_coefficients.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "sim/hardware/device.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sim::Evidence;
using sim::FlopsPerSecond;

// Applies the rows of one scope and id: those of all formats first, so that a row of one format
// wins.
void apply(sim::Cluster& cluster, CoefficientSources& sources, std::vector<Coefficient> rows,
           const std::string& like) {
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
std::vector<std::string> ancestry(const Database& database, HardwareKind kind,
                                  const HardwareRecord& record) {
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

std::optional<sim::PowerLimit> power_limit(const json& fields) {
  const auto watts = number(fields, "tdp_watts");
  const auto wide = number(fields, "peak_bf16_flops");
  const auto peak = wide ? wide : number(fields, "peak_fp16_flops");
  if (watts.value_or(0.0) <= 0.0 || peak.value_or(0.0) <= 0.0) return std::nullopt;
  return sim::PowerLimit{*watts, FlopsPerSecond(*peak)};
}

// The device whose measured GEMMs are taken for this one's; empty where they are its own or
// nobody's.
std::string gemms_like(const CoefficientSources& sources, const std::string& id) {
  for (const char* key : {"gemm.bf16.max_efficiency", "gemm.fp16.max_efficiency"}) {
    const auto found = sources.find(key);
    if (found != sources.end()) return found->second.id == id ? "" : found->second.id;
  }
  return "";
}

bool of_links(const std::string& key) {
  return key.starts_with("fabric.") || key.starts_with("network.");
}

std::string with_error(const CoefficientValue& value, const Coefficient& row) {
  if (!row.standard_error) return printed(value);
  return printed(value) + " +- " +
         printed(CoefficientValue{value.key, *row.standard_error, value.unit});
}

}  // namespace

void apply_coefficients(const Database& database, HardwareKind kind, const HardwareRecord& record,
                        sim::Cluster& cluster, CoefficientSources& sources) {
  const char* scope = kind == HardwareKind::System ? "system" : "device";
  for (const std::string& id : ancestry(database, kind, record)) {
    apply(cluster, sources, database.coefficients(scope, id), id == record.row.id ? "" : id);
  }
}

void limit_power(const Database& database, const HardwareRecord& record, sim::Cluster& cluster,
                 CoefficientSources& sources) {
  const auto clock = sources.find("sustained_clock");
  if (clock != sources.end() && clock->second.id == record.row.id) return;
  const std::string like = gemms_like(sources, record.row.id);
  const auto row = like.empty() ? std::nullopt : database.find(HardwareKind::Accelerator, like);
  if (!row) return;
  const json fields = json::parse(row->record);
  const auto limit = power_limit(record.fields), limit_like = power_limit(fields);
  if (!limit || !limit_like || text(fields, "architecture") != text(record.fields, "architecture"))
    return;
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
            "as " + like + ", whose limit is " + printed(limit_like->watts, "W") +
                " (sim/hardware/device.h)",
            "",
            Origin::Shipped};
}

void widen_announced(const HardwareRecord& record, sim::Cluster& cluster,
                     CoefficientSources& sources) {
  const auto announced = record.fields.find("announced");
  if (announced == record.fields.end() || !announced->is_boolean() || !announced->get<bool>())
    return;
  double& error = cluster.device.achieved.training_rate_error;
  error = std::hypot(error, kGenerationError);
  sources["training_rate_error"] = {"device",
                                    record.row.id,
                                    "training_rate_error",
                                    error,
                                    std::nullopt,
                                    Evidence::Assumed,
                                    "not measured yet: shares of peaks as of " +
                                        text(record.fields, "like") + ", which changed by " +
                                        printed(kGenerationError, "") +
                                        " in logarithms a generation so far",
                                    "",
                                    Origin::Shipped};
}

void note_coefficients(const sim::Cluster& cluster, const CoefficientSources& sources, bool links,
                       Ledger& ledger) {
  std::set<std::string> shared;
  for (const CoefficientValue& value : coefficient_values(cluster)) {
    if (of_links(value.key) != links) continue;
    const auto found = sources.find(value.key);
    const bool attention = value.key.starts_with("attention.");
    if (attention && found == sources.end()) continue;
    if (attention && found->second.key != value.key) {
      const Coefficient& row = found->second;
      if (shared.insert(row.key).second)
        ledger.note(row.key, with_error(value, row), row.evidence, row.source);
    } else if (found != sources.end()) {
      ledger.note(value.key, with_error(value, found->second), found->second.evidence,
                  found->second.source);
    } else if (value.key != "host_bytes_per_s") {  // noted with the record's own value
      ledger.note(value.key, printed(value), Evidence::Assumed, "default of sim/hardware");
    }
  }
}

}  // namespace llmsim::hwdb
