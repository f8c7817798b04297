#include "reports/count_comparison.h"

#include <algorithm>

#include "reports/json.h"

namespace llmsim::reports {

Table count_comparison_table(std::span<const calibrate::CountComparison> comparisons) {
  Table table("Training steps of the runtime, counted and predicted", {{"name", "figure"},
                                                                       {"predicted", "predicted", Kind::Integer},
                                                                       {"measured", "measured", Kind::Integer},
                                                                       {"equal", "equal"}});
  for (const calibrate::CountComparison& one : comparisons)
    table.add_row({one.name, one.predicted, one.measured, std::string(one.equal() ? "yes" : "NO")});
  const auto different = std::count_if(comparisons.begin(), comparisons.end(), [](const auto& one) { return !one.equal(); });
  table.add_note(std::to_string(comparisons.size()) + " figures, " +
                 (different == 0 ? std::string("all equal") : std::to_string(different) + " differ"));
  return table;
}

std::string count_comparison_json(std::span<const calibrate::CountComparison> comparisons) {
  Json list = Json::array();
  for (const calibrate::CountComparison& one : comparisons) {
    list.push_back({{"name", one.name}, {"predicted", one.predicted}, {"measured", one.measured}, {"equal", one.equal()}});
  }
  return text_of({{"comparisons", std::move(list)}});
}

}  // namespace llmsim::reports
