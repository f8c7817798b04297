#include "calibrate/sustained_clock.h"

#include <algorithm>
#include <cmath>

#include "calibrate/statistics.h"
#include "hwdb/hardware/hardware.h"
#include "sim/hardware/device.h"

namespace llmsim::calibrate {
namespace {

using hwdb::Database;
using sim::DType;
using sim::GemmMachine;

// Of sources around their mean; it stands for one more of them, so that a single source is not
// taken for certain.
constexpr double kUsualScatter = 0.06;

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

std::vector<SustainedRatio> sustained_ratios(const Database& database, const GemmsOf& gemms,
                                             const GemmMachine& machine) {
  std::vector<SustainedRatio> ratios;
  const std::string& id = gemms.id;
  const auto add_tables = [&](DType measured) {
    add_table_ratio(large_gemms(gemm_table(database, id, "10,000 warm-up", measured)), machine,
                    "after 10,000 warm-ups", ratios);
    add_table_ratio(large_gemms(gemm_table(database, id, "mostly independent of boost", measured)),
                    machine, "mean of long runs", ratios);
    add_table_ratio(large_gemms(gemm_table(database, id, "AMD max-achievable", measured)), machine,
                    "AMD max-achievable", ratios);
  };
  add_tables(gemms.dtype);
  if (gemms.dtype != DType::Bf16) return ratios;
  add_tables(DType::Fp16);
  for (const double rate : chart_rates(database, id)) {
    const sim::FlopsPerSecond fitted_rate = machine.coefficients.max_efficiency * machine.peak;
    ratios.push_back({"AMD's chart", std::log(sim::FlopsPerSecond(rate) / fitted_rate)});
  }
  add_table_ratio(training_shapes(database, id), machine, "training process", ratios);
  return ratios;
}

// Of ln W^a over the rate of short GEMMs.
double power_share(const Database& database, const std::string& id, const GemmMachine& machine) {
  const double watts = hwdb::device(database, id).device.watts.value();
  return sim::kPowerExponent * std::log(watts) -
         std::log(machine.coefficients.max_efficiency * machine.peak.value());
}

}  // namespace

std::optional<SustainedClocks> sustained_clocks(const Database& database,
                                                const std::vector<std::string>& ids,
                                                const FittedMachines& fitted, DType format) {
  const auto share = [&](const std::string& id) {
    return power_share(database, id, fitted.at({id, format}));
  };
  SustainedClocks result;
  std::vector<double> logs;
  for (const std::string& id : ids) {
    if (!fitted.contains({id, format})) continue;
    for (const SustainedRatio& ratio :
         sustained_ratios(database, {id, format}, fitted.at({id, format}))) {
      logs.push_back(ratio.log_ratio - share(id));
      result.fitted_from += (result.fitted_from.empty() ? "" : ", ") + id + " " + ratio.label +
                            " " + three_digits(std::exp(ratio.log_ratio));
    }
  }
  if (logs.empty()) return std::nullopt;
  const double n = static_cast<double>(logs.size());
  const double squares = std::pow(scatter(logs), 2) * (n - 1.0) + kUsualScatter * kUsualScatter;
  result.error = std::max(0.03, std::sqrt(squares) / n);
  for (const std::string& id : ids)
    result.clocks.push_back(
        fitted.contains({id, format}) ? std::min(1.0, std::exp(mean(logs) + share(id))) : 1.0);
  return result;
}

}  // namespace llmsim::calibrate
