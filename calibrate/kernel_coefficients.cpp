// llmsim_kernel_coefficients: prints the fitted rows of hwdb/facts/coefficients.json, and on stderr
// the table of fits in README.md.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "calibrate/kernel_fits.h"
#include "hwdb/hardware/coefficient_file.h"

namespace {

using llmsim::calibrate::FitSummary;
using llmsim::calibrate::KernelFits;

void print_summaries(const KernelFits& fits) {
  std::fprintf(stderr,
               "| accelerator | fit | samples | RMS error | of it large | values ± standard errors "
               "|\n|---|---|--:|--:|--:|---|\n");
  for (const FitSummary& fit : fits.summaries) {
    fmt::print(stderr, "| {} | {} | {} | {:.1f} % | {} | {} |\n", fit.accelerator, fit.what,
               fit.samples, 100.0 * fit.rms,
               fit.rms_large ? fmt::format("{:.1f} %", 100.0 * *fit.rms_large) : "", fit.values);
  }
}

}  // namespace

int main() {
  try {
    const KernelFits fits = llmsim::calibrate::kernel_fits(llmsim::hwdb::Database(":memory:"));
    fmt::print("{}", llmsim::hwdb::coefficients_json(fits.coefficients));
    print_summaries(fits);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmsim_kernel_coefficients: %s\n", error.what());
    return 1;
  }
}
