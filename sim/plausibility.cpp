#include "sim/plausibility.h"

#include <algorithm>
#include <cmath>

namespace llmsim::sim {
namespace {

constexpr double kFarOff = 3.0;

std::string percent(double share) { return std::to_string(std::lround(100.0 * share)) + " %"; }

// "3.4", "12".
std::string times(double factor) {
  const long tenths = std::lround(10.0 * factor);
  return tenths >= 100 || tenths % 10 == 0 ? std::to_string((tenths + 5) / 10)
                                           : std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string recipe(const Prediction& p) {
  return p.run.cluster.device.id + " in " + name_of(matmul_dtype(p.run.strategy.precision));
}

// A run on more than a system has, or on other devices: what there is of it is taken as it is.
void add_beyond_the_system(const Cluster& cluster, std::vector<std::string>& lines) {
  if (cluster.system_devices) {
    lines.push_back("num_devices = " + std::to_string(cluster.num_devices) + ": system " + cluster.id + " has " +
                    std::to_string(*cluster.system_devices) + " devices; predicted as if it had more nodes of the same kind");
  }
  if (cluster.system_accelerator) {
    lines.push_back("accelerator = " + cluster.device.id + ": system " + cluster.id + " has " + *cluster.system_accelerator +
                    "; predicted with its nodes and network around the other device");
  }
}

}  // namespace

std::vector<std::string> implausible_figures(const Prediction& p) {
  std::vector<std::string> lines;
  add_beyond_the_system(p.run.cluster, lines);
  const Achieved& achieved = p.run.cluster.device.achieved;
  const double best = achieved.gemm[static_cast<std::size_t>(matmul_dtype(p.run.strategy.precision))].max_efficiency;
  if (p.hfu > 1.0) {
    lines.push_back("hfu = " + percent(p.hfu) + " is more than the peak of " + recipe(p) +
                    ": a coefficient of the device or of the framework is too good");
  } else if (p.hfu > best) {
    lines.push_back("hfu = " + percent(p.hfu) + " is more than the " + percent(best) + " that the best measured GEMMs of " +
                    recipe(p) + " reach");
  }
  if (achieved.memory_fraction > 1.0) {
    lines.push_back("memory-bound operators move " + percent(achieved.memory_fraction) +
                    " of the data sheet's memory bandwidth of " + p.run.cluster.device.id + ": its memory_fraction is too good");
  }
  return lines;
}

std::vector<std::string> implausible_measurement(const Prediction& p, Seconds measured) {
  std::vector<std::string> lines;
  const double mfu = p.mfu * (p.step_time / measured);
  if (mfu > 1.0) {
    lines.push_back("the measured step does " + percent(mfu) + " of the peak of " + recipe(p) +
                    ": check step_time_s, num_devices and the batch");
  }
  const double ratio = measured / p.step_time;
  if (ratio > kFarOff) lines.push_back("the measured step takes " + times(ratio) + " times as long as predicted");
  if (ratio < 1.0 / kFarOff) lines.push_back("the predicted step takes " + times(1.0 / ratio) + " times as long as measured");
  return lines;
}

}  // namespace llmsim::sim
