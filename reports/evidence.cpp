#include "reports/evidence.h"

#include <algorithm>
#include <cstddef>

#include "reports/provenance.h"

namespace llmsim::reports {
namespace {

// Number of a source in the list that grows with it, from 1.
std::size_t numbered(const std::string& source, std::vector<std::string>& sources) {
  const auto found = std::find(sources.begin(), sources.end(), source);
  if (found != sources.end()) return static_cast<std::size_t>(found - sources.begin()) + 1;
  sources.push_back(source);
  return sources.size();
}

}  // namespace

Table evidence_table(const std::string& title, const std::vector<sim::Fact>& facts) {
  Table table(title, {{"key", "figure", Kind::Text},
                      {"value", "value", Kind::Text},
                      {"evidence", "evidence", Kind::Text},
                      {"source_number", "source", Kind::Text},
                      {"source", "source", Kind::Text}});
  std::vector<std::string> sources;
  for (const sim::Fact& fact : facts) {
    const std::string number = fact.source.empty() ? "" : "[" + std::to_string(numbered(fact.source, sources)) + "]";
    table.add_row({fact.key, fact.value, name_of(fact.evidence), number, fact.source});
  }
  table.hide("source");
  for (std::size_t i = 0; i < sources.size(); ++i) table.add_note("[" + std::to_string(i + 1) + "] " + sources[i]);
  return table;
}

}  // namespace llmsim::reports
