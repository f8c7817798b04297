#include "runtime/measure/rank_steps.h"

#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace llmsim::runtime {

using nlohmann::json;

namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

RankSteps::RankSteps(std::shared_ptr<RollCall> roll_call, RankGroups::Connect connect, std::string accelerator,
                     std::chrono::milliseconds timeout)
    : roll_call_(std::move(roll_call)),
      connect_(std::move(connect)),
      accelerator_(std::move(accelerator)),
      timeout_(timeout),
      everyone_(connect_all()) {}

std::unique_ptr<Communicator> RankSteps::connect_all() const {
  return connect_({.ranks = all_ranks(roll_call_->size()), .place = roll_call_->rank()});
}

json RankSteps::measure(const StepCase& one, const RepeatOptions& options) {
  if (auto record = measured(one, options)) return *std::move(record);
  everyone_.reset();
  // When all have left, all that gave up have said so.
  roll_call_->meet("left/" + one.key, all_ranks(roll_call_->size()), timeout_);
  json record = oom_record(one, accelerator_);
  for (const int rank : roll_call_->gave_up()) {
    record["oom_ranks"].push_back({{"rank", rank}, {"host", roll_call_->host_of(rank)}});
  }
  roll_call_->begin_again();
  everyone_ = connect_all();
  return record;
}

std::optional<json> RankSteps::measured(const StepCase& one, const RepeatOptions& options) {
  std::optional<RankGroups> groups;
  try {
    groups.emplace(one.setup.strategy, roll_call_->rank(), connect_);
    json record = measure_step(one, *groups, accelerator_, options, everyone_.get());
    if (record["outcome"] != "oom") return record;
    roll_call_->give_up();
  } catch (const std::exception&) {
    if (roll_call_->gave_up().empty()) throw;
  }
  if (groups) groups->abandon();
  everyone_->abandon();
  return std::nullopt;
}

}  // namespace llmsim::runtime
