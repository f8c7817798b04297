// Measurements of the database as samples of the fits: GEMMs, attention and collectives, as the
// facts in hwdb/facts have them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/attention_fit.h"
#include "calibrate/collective_fit.h"
#include "calibrate/gemm_fit.h"
#include "hwdb/store/database.h"

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

}  // namespace llmsim::calibrate
