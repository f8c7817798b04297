#include "reports/provenance.h"

#include <algorithm>
#include <array>
#include <set>

namespace llmsim::reports {
namespace {

constexpr std::array kEvidences{sim::Evidence::DataSheet, sim::Evidence::Measured, sim::Evidence::Fitted, sim::Evidence::Given,
                                sim::Evidence::Assumed};

}  // namespace

const char* name_of(sim::Evidence evidence) {
  switch (evidence) {
    case sim::Evidence::DataSheet: return "data_sheet";
    case sim::Evidence::Measured: return "measured";
    case sim::Evidence::Fitted: return "fitted";
    case sim::Evidence::Assumed: return "assumed";
    case sim::Evidence::Given: return "given";
  }
  return "";
}

std::string coefficients_of(const sim::Run& run) {
  std::string text;
  for (const sim::Evidence evidence : kEvidences) {
    const auto count =
        std::count_if(run.facts.begin(), run.facts.end(), [&](const sim::Fact& fact) { return fact.evidence == evidence; });
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name_of(evidence);
  }
  return text.empty() ? "defaults of the program" : text;
}

std::vector<std::string> sources_of(const sim::Run& run) {
  std::vector<std::string> sources;
  std::set<std::string> seen;
  for (const sim::Fact& fact : run.facts) {
    const bool outside = fact.evidence != sim::Evidence::Assumed && !fact.source.empty();
    if (outside && seen.insert(fact.source).second) sources.push_back(fact.source);
  }
  return sources;
}

std::vector<sim::Fact> assumptions_of(const sim::Run& run) {
  std::vector<sim::Fact> assumptions;
  std::copy_if(run.facts.begin(), run.facts.end(), std::back_inserter(assumptions),
               [](const sim::Fact& fact) { return fact.key.starts_with("assumed."); });
  return assumptions;
}

}  // namespace llmsim::reports
