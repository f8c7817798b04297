#include "reports/provenance.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

#include "reports/result_text.h"

namespace llmsim::reports {
namespace {

constexpr std::array kEvidences{sim::Evidence::DataSheet, sim::Evidence::Measured,
                                sim::Evidence::Fitted, sim::Evidence::Given,
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
    const auto count = std::ranges::count_if(
        run.facts, [&](const sim::Fact& fact) { return fact.evidence == evidence; });
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name_of(evidence);
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
  std::ranges::copy_if(run.facts, std::back_inserter(assumptions),
                       [](const sim::Fact& fact) { return fact.key.starts_with("assumed."); });
  return assumptions;
}

std::vector<std::string> assumed_strategy_fields(const sim::Run& run) {
  const std::string prefix = "assumed.training.";
  std::vector<std::string> fields;
  for (const sim::Fact& fact : assumptions_of(run))
    if (fact.key.starts_with(prefix)) fields.push_back(fact.key.substr(prefix.size()));
  return fields;
}

Table evidence_table(const std::string& title, const std::vector<sim::Fact>& facts) {
  Table table(title, {as_text("key", "figure"), as_text("value"), as_text("evidence"),
                      as_text("source_number", "source"), as_text("source")});
  Footnotes sources;
  for (const sim::Fact& fact : facts)
    table.add_row({fact.key, fact.value, name_of(fact.evidence),
                   fact.source.empty() ? "" : sources.mark(fact.source), fact.source});
  table.hide("source");
  for (const std::string& line : sources.lines()) table.add_note(line);
  return table;
}

}  // namespace llmsim::reports
