#include "hwdb/measured_device.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

json accelerator_of(const sim::Device& device, const MeasuredFabric& fabric, const std::string& source) {
  const auto peak = [&](sim::DType dtype) { return device.matrix_peak[static_cast<std::size_t>(dtype)].value(); };
  json record{{"id", device.id},
              {"name", device.name},
              {"hbm_bytes", device.memory.value()},
              {"hbm_usable_bytes", device.usable_memory.value()},
              {"hbm_bytes_per_s", device.memory_bandwidth.value()},
              {"compute_units", device.compute_units},
              {"fabric", {{"kind", sim::name_of(fabric.kind)}}},
              {"source", source}};
  if (fabric.bandwidth.value() > 0.0)
    record["fabric"].update({{"devices", fabric.devices}, {"device_bytes_per_s", fabric.bandwidth.value()}});
  record["devices_per_node"] = std::max(1, fabric.devices);
  if (device.vector_peak.value() > 0.0) record["peak_fp32_vector_flops"] = device.vector_peak.value();
  if (peak(sim::DType::Fp32) > 0.0) record["peak_fp32_matrix_flops"] = peak(sim::DType::Fp32);
  if (peak(sim::DType::Bf16) > 0.0) record["peak_bf16_flops"] = peak(sim::DType::Bf16);
  if (device.cache.value() > 0.0) record["llc_bytes"] = device.cache.value();
  return record;
}

json row_of(const Coefficient& coefficient) {
  json row{{"scope", coefficient.scope},
           {"id", coefficient.id},
           {"key", coefficient.key},
           {"value", coefficient.value},
           {"evidence", name_of(coefficient.evidence)},
           {"source", coefficient.source}};
  if (coefficient.standard_error) row["standard_error"] = *coefficient.standard_error;
  return row;
}

}  // namespace

std::string hardware_document(const sim::Device& device, const MeasuredFabric& fabric,
                              const std::vector<Coefficient>& coefficients, const std::string& source) {
  json document{{"accelerators", json::array({accelerator_of(device, fabric, source)})}, {"coefficients", json::array()}};
  for (const Coefficient& coefficient : coefficients) document["coefficients"].push_back(row_of(coefficient));
  return document.dump(1);
}

}  // namespace llmsim::hwdb
