#include "calibrate/reliability.h"

#include <iterator>
#include <map>
#include <set>

#include "calibrate/statistics.h"

namespace llmsim::calibrate {
namespace {

constexpr double kEdges[] = {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0};

std::set<std::string> groups_with_both(const std::vector<Verdict>& verdicts) {
  std::map<std::string, std::set<bool>> outcomes;
  for (const Verdict& verdict : verdicts) outcomes[verdict.group].insert(verdict.ran);
  std::set<std::string> both;
  for (const auto& [group, seen] : outcomes)
    if (seen.size() == 2) both.insert(group);
  return both;
}

ReliabilityCount counted(const std::vector<Verdict>& verdicts, const ReliabilityBin& bin) {
  std::vector<double> said, ran;
  for (const Verdict& verdict : verdicts) {
    if (verdict.said < bin.from || (verdict.said >= bin.to && bin.to < 1.0)) continue;
    said.push_back(verdict.said), ran.push_back(verdict.ran ? 1.0 : 0.0);
  }
  ReliabilityCount count{
      .runs = static_cast<int>(said.size()), .said = mean_if_any(said), .share = mean_if_any(ran)};
  for (const double one : ran) count.ran += one > 0.5 ? 1 : 0;
  return count;
}

std::optional<double> brier_score(const std::vector<Verdict>& verdicts) {
  std::vector<double> squares;
  for (const Verdict& verdict : verdicts) {
    const double miss = verdict.said - (verdict.ran ? 1.0 : 0.0);
    squares.push_back(miss * miss);
  }
  return mean_if_any(squares);
}

}  // namespace

std::vector<Verdict> verdicts(const Backtest& backtest) {
  std::vector<Verdict> all;
  for (const BacktestRow& row : backtest.rows) {
    if (!row.scored.outcome || !row.measured_outcome || !row.fit_probability) continue;
    const std::string& outcome = *row.measured_outcome;
    if (outcome == "ok" || outcome == "oom")
      all.push_back({.group = row.group, .said = *row.fit_probability, .ran = outcome == "ok"});
  }
  return all;
}

Reliability reliability(const std::vector<Verdict>& verdicts) {
  const std::set<std::string> both = groups_with_both(verdicts);
  std::vector<Verdict> of_both = verdicts;
  std::erase_if(of_both, [&](const Verdict& verdict) { return !both.contains(verdict.group); });
  Reliability result{
      .bins = {}, .brier = brier_score(verdicts), .brier_both = brier_score(of_both)};
  for (std::size_t k = 0; k < std::size(kEdges); ++k) {
    const bool is_last = k + 1 == std::size(kEdges);
    ReliabilityBin bin;
    if (!is_last) bin.from = kEdges[k], bin.to = kEdges[k + 1];
    bin.all = counted(verdicts, bin), bin.both = counted(of_both, bin);
    result.bins.push_back(bin);
  }
  return result;
}

}  // namespace llmsim::calibrate
