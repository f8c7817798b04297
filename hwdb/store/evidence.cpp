#include "hwdb/store/evidence.h"

#include <array>
#include <cstddef>

namespace llmsim::hwdb {
namespace {

constexpr std::array<std::string_view, 5> kEvidence = {"data_sheet", "measured", "fitted",
                                                       "assumed", "given"};

}  // namespace

std::string_view name_of(sim::Evidence evidence) {
  return kEvidence.at(static_cast<std::size_t>(evidence));
}

std::optional<sim::Evidence> evidence_named(std::string_view name) {
  for (std::size_t i = 0; i < kEvidence.size(); ++i) {
    if (kEvidence[i] == name) return static_cast<sim::Evidence>(i);
  }
  return std::nullopt;
}

}  // namespace llmsim::hwdb
