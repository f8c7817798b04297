#include "hwdb/runs/layout_errors.h"

namespace llmsim::hwdb {

sim::LayoutErrors layout_errors(const Database& database) {
  sim::LayoutErrors errors;
  for (const Coefficient& row : database.coefficients(kLayoutScope, kAllLayouts)) {
    for (std::size_t k = 0; k < sim::kLayoutNumbers; ++k)
      if (row.key == sim::layout_key(k)) sim::layout_number(errors, k) = row.value;
  }
  return errors;
}

}  // namespace llmsim::hwdb
