#include "calibrate/computed_times.h"

#include <cmath>
#include <iterator>
#include <map>

#include "calibrate/ablation.h"
#include "calibrate/setting.h"

namespace llmsim::calibrate {
namespace {

constexpr double kOnTheLine = 1e-6;
constexpr int kFewestTriples = 3;

using ByBatch = std::map<int, double>;  // global batch -> seconds

struct Triples {
  int all = 0;
  int on_the_line = 0;
};

bool is_exact(const hwdb::RunRecord& record) {
  return record.scored.step_time && record.measured && record.measured->step_time &&
         record.training.strategy.contains("global_batch") && rounding(*record.measured) < kOnTheLine;
}

// Text that runs share which differ in the global batch alone.
std::string all_but_batch(hwdb::RunRecord record) {
  record.training.strategy.erase("global_batch");
  record.training.num_microbatches.reset();
  return all_but("global_batch", record, settings_of(record));
}

double off_the_line(ByBatch::const_iterator first) {
  const auto middle = std::next(first), last = std::next(middle);
  const double part = static_cast<double>(middle->first - first->first) / (last->first - first->first);
  return std::abs(first->second + part * (last->second - first->second) - middle->second) / middle->second;
}

void count(const ByBatch& times, Triples& triples) {
  auto first = times.begin();
  for (std::size_t i = 2; i < times.size(); ++i, ++first) {
    ++triples.all;
    triples.on_the_line += off_the_line(first) < kOnTheLine ? 1 : 0;
  }
}

}  // namespace

std::set<std::string> computed_groups(std::span<const hwdb::RunFile> files) {
  std::map<std::string, std::map<std::string, ByBatch>> studies;
  for (const hwdb::RunFile& file : files) {
    for (const hwdb::RunRecord& record : file.runs) {
      if (is_exact(record))
        studies[record.group][all_but_batch(record)].emplace(*sim::stated<int>(record.training.strategy, "global_batch"),
                                                             record.measured->step_time->value());
    }
  }
  std::set<std::string> groups;
  for (const auto& [group, study] : studies) {
    Triples triples;
    for (const auto& [key, times] : study) count(times, triples);
    if (triples.on_the_line >= kFewestTriples && 2 * triples.on_the_line > triples.all) groups.insert(group);
  }
  return groups;
}

}  // namespace llmsim::calibrate
