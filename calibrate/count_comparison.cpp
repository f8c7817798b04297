#include "calibrate/count_comparison.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hwdb/runs/run_resolver.h"

namespace llmsim::calibrate {
namespace {

constexpr const char* kAnyAccelerator = "h100_sxm";

class Comparing {
 public:
  explicit Comparing(std::string step) : step_(std::move(step)) {}

  void add(const std::string& what, std::int64_t predicted, std::int64_t measured) {
    list_.push_back({.name = step_ + ": " + what, .predicted = predicted, .measured = measured});
  }
  void add(const std::string& pass, const sim::PassFlopCounts& predicted,
           const sim::PassFlopCounts& measured) {
    add(pass + " GEMM FLOPs", predicted.gemms, measured.gemms);
    if (predicted.attention != 0 || measured.attention != 0)
      add(pass + " attention FLOPs", predicted.attention, measured.attention);
  }
  void add(const sim::SentTotals& predicted, const sim::SentTotals& measured) {
    sim::SentTotals all = predicted;
    all.insert(measured.begin(), measured.end());
    for (const auto& [name, ignored] : all) {
      const std::string what = name.first + " " + name.second;
      const sim::CollectiveTotal expected = total_of(predicted, name),
                                 actual = total_of(measured, name);
      add(what + " calls", expected.calls, actual.calls);
      add(what + " bytes", expected.bytes, actual.bytes);
    }
  }
  void add(const sim::HeldBytes& predicted, const sim::HeldBytes& measured) {
    add("bytes between steps", predicted.persistent, measured.persistent);
    add("bytes after forward", predicted.after_forward, measured.after_forward);
    add("peak bytes", predicted.peak, measured.peak);
    if (predicted.host_peak == 0 && measured.host_peak == 0) return;
    add("host bytes between steps", predicted.host, measured.host);
    add("host peak bytes", predicted.host_peak, measured.host_peak);
  }

  std::vector<CountComparison> list() && { return std::move(list_); }

 private:
  static sim::CollectiveTotal total_of(const sim::SentTotals& totals,
                                       const sim::SentTotals::key_type& name) {
    const auto found = totals.find(name);
    return found == totals.end() ? sim::CollectiveTotal{} : found->second;
  }

  std::string step_;
  std::vector<CountComparison> list_;
};

}  // namespace

std::vector<CountComparison> compare_counts(const hwdb::CountedStep& step, const sim::Run& run) {
  const sim::RankCounts predicted = sim::rank_counts(run, step.stage, step.shard);
  Comparing comparing(step.name);
  comparing.add("parameters", predicted.parameters, step.counts.parameters);
  comparing.add("forward", predicted.forward, step.counts.forward);
  comparing.add("backward", predicted.backward, step.counts.backward);
  comparing.add(predicted.sent, step.counts.sent);
  comparing.add(predicted.held, step.counts.held);
  return std::move(comparing).list();
}

std::vector<CountComparison> compare_counts(const hwdb::RuntimeResults& results,
                                            const hwdb::Database& database) {
  hwdb::RunResolver resolver(database);
  std::vector<CountComparison> all;
  for (const hwdb::CountedStep& step : results.counted) {
    hwdb::RunRecord record = step.run;
    record.hardware.accelerator = kAnyAccelerator;  // the one of the record need not be stored
    std::ranges::move(compare_counts(step, resolver.resolve(record)), std::back_inserter(all));
  }
  return all;
}

}  // namespace llmsim::calibrate
