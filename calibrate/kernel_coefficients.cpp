// llmsim_kernel_coefficients: prints the fitted rows of hwdb/facts/coefficients.json, and on stderr
// the table of fits in README.md.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "calibrate/kernel_fits.h"

namespace {

using llmsim::calibrate::FitSummary;
using llmsim::calibrate::KernelFits;

void print_row(const llmsim::hwdb::Coefficient& row, bool last) {
  std::printf(
      "  {\n   \"scope\": \"%s\",\n   \"id\": \"%s\",\n   \"key\": \"%s\",\n   \"value\": %.6g,\n",
      row.scope.c_str(), row.id.c_str(), row.key.c_str(), row.value);
  if (row.standard_error) std::printf("   \"standard_error\": %.6g,\n", *row.standard_error);
  std::printf("   \"evidence\": \"%s\",\n   \"source\": \"%s\"",
              std::string(llmsim::hwdb::name_of(row.evidence)).c_str(), row.source.c_str());
  if (!row.fitted_from.empty())
    std::printf(",\n   \"fitted_from\": \"%s\"", row.fitted_from.c_str());
  std::printf("\n  }%s\n", last ? "" : ",");
}

void print_rows(const KernelFits& fits) {
  std::printf("{\n \"coefficients\": [\n");
  for (const auto& row : fits.coefficients) print_row(row, &row == &fits.coefficients.back());
  std::printf(" ]\n}\n");
}

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
    print_rows(fits);
    print_summaries(fits);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmsim_kernel_coefficients: %s\n", error.what());
    return 1;
  }
}
