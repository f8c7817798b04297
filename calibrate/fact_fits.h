// The coefficients that the program ships, fitted to the measurements that it ships.  `llmsim_fit_facts` prints them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/database.h"

namespace llmsim::calibrate {

// One line of the table of fits: what was fitted to what, and how well it describes it.
struct FitSummary {
  std::string accelerator;
  std::string what;  // "gemm bf16", "attention FlashAttention-2", "collectives"
  std::string values;
  std::size_t samples = 0;
  double rms = 0.0;  // of ln(predicted / measured)
  std::optional<double> rms_large;
};

struct FactFits {
  std::vector<hwdb::Coefficient> coefficients;
  std::vector<FitSummary> summaries;
};

// Matrix GEMMs: grids, sustained tables, single best shapes; sustained clocks; weight-gradient and misalignment factors.
FactFits fit_gemm_facts(const hwdb::Database& database);

// Attention: one implementation per device is shipped, the others appear in the summaries only.
FactFits fit_attention_facts(const hwdb::Database& database);

// Collectives on one node, and over the networks that were measured.
FactFits fit_collective_facts(const hwdb::Database& database);

// All of them.
FactFits fit_facts(const hwdb::Database& database);

}  // namespace llmsim::calibrate
