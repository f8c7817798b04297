// What the fits of kernels and collectives are made from: measurements of the database as samples,
// GEMMs, attention and collectives, as the facts in hwdb/facts have them, and the table of what is
// fitted to which of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/attention_fit.h"
#include "calibrate/collective_fit.h"
#include "calibrate/gemm_fit.h"
#include "hwdb/store/database.h"
#include "sim/base/field.h"

namespace llmsim::calibrate {

// The GEMMs of a device in a format.
struct GemmsOf {
  std::string id;
  sim::DType dtype = sim::DType::Bf16;
  auto operator<=>(const GemmsOf&) const = default;
};

// m x n x k that one collector measured in one format.
struct GemmGrid {
  sim::DType dtype = sim::DType::Bf16;
  std::string source;
  std::vector<GemmSample> samples;
};

std::vector<GemmGrid> gemm_grids(const hwdb::Database& database, const std::string& id);

// GEMMs that were measured one by one; `kind` is a substring of the name of their kind.
std::vector<GemmSample> gemm_table(const hwdb::Database& database, const std::string& id,
                                   const std::string& kind, sim::DType dtype);

// The samples that are so large that neither launches nor odd shapes matter.
std::vector<GemmSample> large_gemms(std::vector<GemmSample> samples);

// Forward (TN), data-gradient (NN) and weight-gradient (NT, accumulated) GEMMs
// in a training process.
std::vector<GemmSample> training_shapes(const hwdb::Database& database, const std::string& id);
std::string training_shapes_source(const hwdb::Database& database, const std::string& id);

// FLOPs per second of the best GEMM that each collector found, by collector.
std::map<std::string, double> best_gemms(const hwdb::Database& database, const GemmsOf& gemms);

// Estimates of the best sustained rate without a shape, in FLOPs per second.
std::vector<double> chart_rates(const hwdb::Database& database, const std::string& id);

// Rates of attention kernels.  Rows that leave something open are left out.
std::vector<AttentionSample> attention_table(const hwdb::Database& database, const std::string& id,
                                             const std::vector<std::string>& implementations);

// Curves of a device on one node, or on several, of a system or of none named.
std::vector<CollectiveSample> collective_curves(const hwdb::Database& database,
                                                const std::string& id, bool one_node,
                                                const std::optional<std::string>& system);

// A line of the table of fits, facts/kernel_fits.json: what is fitted to which measurements of the
// database, and what is taken from a sibling.  kernel_fits.h carries the lines out in their order.
// A line says what its kind of fit needs; the rest stays as it is here.
struct KernelFitLine {
  std::string fit;     // the kind: "grids", "attention", ...
  sim::Words devices;  // one fit for each
  sim::Words chip;     // devices with one chip, fitted together
  std::string format = "bf16";
  std::string like, like_format = "bf16";  // another device; empty: the same one
  // Rows of one kernel: "flash-2.", or "" for all kernels that have no rows of their own; none: the
  // fit is only reported.
  std::optional<std::string> kernel;
  std::string like_kernel;
  sim::Words implementations;  // the first names the fit
  double factor = 1.0;         // of the other kernel's rates
  std::string why;
  std::optional<std::string> system;
  sim::Words alike;  // systems whose network is like it
  sim::Seconds kernel_time, kernel_time_error;
};

// Throws Error for a line with an unknown key, or a value that its field cannot have.
std::vector<KernelFitLine> parse_kernel_fits(const std::string& text, const std::string& file);

// The table that ships.
std::vector<KernelFitLine> kernel_fit_table();

// GEMMs of a device in the format of that name.  Throws Error for an unknown one.
GemmsOf gemms_of(const std::string& device, const std::string& format);

}  // namespace llmsim::calibrate
