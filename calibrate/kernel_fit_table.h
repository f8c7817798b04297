// The table of the fits of kernels and collectives, facts/kernel_fits.json: what is fitted to which
// measurements of the database, and what is taken from a sibling.  kernel_fits.h carries its lines
// out in their order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/measured_kernels.h"
#include "sim/base/field.h"

namespace llmsim::calibrate {

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
