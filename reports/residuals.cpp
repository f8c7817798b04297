#include "reports/residuals.h"

#include <cstdint>

namespace llmsim::reports {

Table residuals_table(const std::vector<calibrate::Residual>& residuals) {
  Table table("Errors by what runs have in common",
              {as_text("by"), as_text("value", "runs of"), as_number("studies"), as_number("runs"),
               in_percent("time_error", "error"), in_percent("time_bias", "bias"),
               in_percent("coverage", "in interval"), in_percent("peak_error", "memory error"),
               in_percent("peak_bias", "bias")});
  for (const calibrate::Residual& r : residuals) {
    table.add_row({r.by, r.value, static_cast<std::int64_t>(r.studies),
                   static_cast<std::int64_t>(r.runs), cell(r.error), cell(r.bias), cell(r.coverage),
                   cell(r.memory_error), cell(r.memory_bias)});
  }
  table.add_note(
      "means over studies of their medians of ln(predicted / measured); what a run waits for is "
      "the "
      "largest part of its step that is no GEMM or attention");
  return table;
}

}  // namespace llmsim::reports
