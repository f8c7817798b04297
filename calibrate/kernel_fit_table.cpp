#include "calibrate/kernel_fit_table.h"

#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/field_rows.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

const std::vector<sim::Field<KernelFitLine>>& line_fields() {
  using L = KernelFitLine;
  static const std::vector<sim::Field<L>> all = {
      LLMSIM_FIELD(L, fit),    LLMSIM_FIELD(L, devices),     LLMSIM_FIELD(L, chip),
      LLMSIM_FIELD(L, format), LLMSIM_FIELD(L, like),        LLMSIM_FIELD(L, like_format),
      LLMSIM_FIELD(L, kernel), LLMSIM_FIELD(L, like_kernel), LLMSIM_FIELD(L, implementations),
      LLMSIM_FIELD(L, factor), LLMSIM_FIELD(L, why),         LLMSIM_FIELD(L, system),
      LLMSIM_FIELD(L, alike),  LLMSIM_FIELD(L, kernel_time), LLMSIM_FIELD(L, kernel_time_error),
  };
  return all;
}

}  // namespace

std::vector<KernelFitLine> parse_kernel_fits(const std::string& text, const std::string& file) {
  std::vector<KernelFitLine> lines;
  for (const sim::PartialRecord& row : hwdb::field_rows(text, "fits", file)) {
    const std::string place = file + ": fits[" + std::to_string(lines.size()) + "]: ";
    try {
      put(line_fields(), row, lines.emplace_back());
    } catch (const Error& error) {
      throw Error(place + error.what());
    }
  }
  return lines;
}

std::vector<KernelFitLine> kernel_fit_table() {
  return parse_kernel_fits(std::string(hwdb::shipped_kernel_fits_json()), "facts/kernel_fits.json");
}

GemmsOf gemms_of(const std::string& device, const std::string& format) {
  for (int i = 0; i < sim::kNumDTypes; ++i) {
    const auto dtype = static_cast<sim::DType>(i);
    if (format == name_of(dtype)) return {device, dtype};
  }
  throw Error("format = " + format + ": no such number format");
}

}  // namespace llmsim::calibrate
