#include "calibrate/sustained_clock.h"

#include <algorithm>
#include <cmath>

#include "calibrate/statistics.h"
#include "hwdb/hardware.h"
#include "sim/hardware/device.h"

namespace llmsim::calibrate {
namespace {

using hwdb::Database;
using sim::DType;
using sim::GemmMachine;

// One source's rate of long-running GEMMs over that of the fitted kernels.
struct SustainedRatio {
  std::string label;
  double log_ratio = 0.0;
};

// A table of GEMMs, if the device has one.
void add_table_ratio(const std::vector<GemmSample>& samples, const GemmMachine& fitted,
                     const std::string& label, std::vector<SustainedRatio>& ratios) {
  if (!samples.empty()) ratios.push_back({label, mean(gemm_log_errors(fitted, samples))});
}

std::vector<SustainedRatio> sustained_ratios(const Database& database, const std::string& id,
                                             const FittedMachines& fitted) {
  std::vector<SustainedRatio> ratios;
  const auto add_tables = [&](DType measured, const GemmMachine& machine) {
    add_table_ratio(large_gemms(gemm_table(database, id, "10,000 warm-up", measured)), machine,
                    "after 10,000 warm-ups", ratios);
    add_table_ratio(large_gemms(gemm_table(database, id, "mostly independent of boost", measured)),
                    machine, "mean of long runs", ratios);
    add_table_ratio(large_gemms(gemm_table(database, id, "AMD max-achievable", measured)), machine,
                    "AMD max-achievable", ratios);
  };
  const GemmMachine& wide = fitted.at({id, DType::Bf16});
  add_tables(DType::Bf16, wide);
  add_tables(DType::Fp16, wide);
  for (const double rate : chart_rates(database, id)) {
    const sim::FlopsPerSecond fitted_rate = wide.coefficients.max_efficiency * wide.peak;
    ratios.push_back({"AMD's chart", std::log(sim::FlopsPerSecond(rate) / fitted_rate)});
  }
  add_table_ratio(training_shapes(database, id), wide, "training process", ratios);
  if (const auto low_precision = fitted.find({id, DType::Fp8}); low_precision != fitted.end())
    add_tables(DType::Fp8, low_precision->second);
  return ratios;
}

// Of ln W^a over the rate of short GEMMs.
double power_share(const Database& database, const std::string& id, const GemmMachine& machine) {
  const double watts = hwdb::device(database, id).device.watts.value();
  return sim::kPowerExponent * std::log(watts) -
         std::log(machine.coefficients.max_efficiency * machine.peak.value());
}

}  // namespace

SustainedClocks sustained_clocks(const Database& database, const std::vector<std::string>& ids,
                                 const FittedMachines& fitted) {
  const auto share = [&](const std::string& id) {
    return power_share(database, id, fitted.at({id, DType::Bf16}));
  };
  SustainedClocks result;
  std::vector<double> logs;
  for (const std::string& id : ids) {
    for (const SustainedRatio& ratio : sustained_ratios(database, id, fitted)) {
      logs.push_back(ratio.log_ratio - share(id));
      result.fitted_from += (result.fitted_from.empty() ? "" : ", ") + id + " " + ratio.label +
                            " " + three_digits(std::exp(ratio.log_ratio));
    }
  }
  result.error = std::max(0.03, scatter(logs) / std::sqrt(static_cast<double>(logs.size())));
  for (const std::string& id : ids)
    result.clocks.push_back(std::min(1.0, std::exp(mean(logs) + share(id))));
  return result;
}

}  // namespace llmsim::calibrate
