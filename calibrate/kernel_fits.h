// The coefficients of kernels and collectives that the program ships, fitted to the measurements
// that it ships: the table of what is fitted to what (measured_kernels.h), carried out from its
// first line to its last.  Later lines use what earlier ones found.
//
// `llmsim_kernel_coefficients` prints them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/store/database.h"

namespace llmsim::calibrate {

// What was fitted to what, and how well it describes it.
struct FitSummary {
  std::string accelerator;
  std::string what;  // "gemm bf16", "attention FlashAttention-2", "collectives"
  std::string values;
  std::size_t samples = 0;
  double rms = 0.0;  // of ln(predicted / measured)
  std::optional<double> rms_large;
};

struct KernelFits {
  std::vector<hwdb::Coefficient> coefficients;
  std::vector<FitSummary> summaries;
};

// Requires a database with the facts that the table names.
KernelFits kernel_fits(const hwdb::Database& database);

}  // namespace llmsim::calibrate
