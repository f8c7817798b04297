// A rank that runs out of memory, with others that wait for it: the case is recorded with its name,
// and the next one measured.
#include "runtime/measure/rank_campaign.h"

#include <chrono>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/library/memory_meter.h"
#include "sim/base/error.h"
#include "tests/runtime/thread_ranks.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kTimeout = 600s;  // half of it is a failure: nothing here waits for it to pass
const RepeatOptions kTwice{.warm_up = 0, .least = 2, .most = 2};

// The collectives of a group; the one with number `failing` finds no memory.
class Failing : public Communicator {
 public:
  Failing(std::unique_ptr<Communicator> group, int failing)
      : group_(std::move(group)), left_(failing) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  void barrier() override { group_->barrier(); }
  void abandon() override { group_->abandon(); }

 protected:
  Pending do_all_reduce(at::Tensor buffer, Reduction) override {
    return count(), group_->start_all_reduce(buffer);
  }
  Pending do_all_gather(at::Tensor whole, at::Tensor part) override {
    return count(), group_->start_all_gather(whole, part);
  }
  Pending do_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    return count(), group_->start_reduce_scatter(part, whole);
  }
  Pending do_all_to_all(Pieces) override { throw Error("dense models send no rows to experts"); }
  Pending do_broadcast(at::Tensor buffer, int root) override {
    return group_->broadcast(buffer, root), done();
  }
  Pending do_send(at::Tensor buffer, int to) override {
    return count(), group_->start_send(buffer, to);
  }
  Pending do_receive(at::Tensor buffer, int from) override {
    return group_->receive(buffer, from), done();
  }

 private:
  struct Done : PendingCollective {
    void wait() override {}
  };
  static Pending done() { return std::make_unique<Done>(); }
  void count() {
    if (left_-- == 0) throw std::bad_alloc();
  }

  std::unique_ptr<Communicator> group_;
  int left_;
};

struct Planted {
  std::string name;
  int data = 1, tensor = 1, stages = 1;
  sim::Sharding sharding = sim::Sharding::None;
  int rank = 0;     // that fails
  int failing = 0;  // at this collective of each group that the strategy has
};

TrainingSetup setup_of(const Planted& planted) {
  TrainingSetup setup = small_training(Family::Llama);
  setup.strategy.dp = planted.data;
  setup.strategy.tp = planted.tensor;
  setup.strategy.pp = planted.stages;
  setup.strategy.sharding = planted.sharding;
  return setup;
}

class RankStepsWithoutMemory : public testing::TestWithParam<Planted> {};

TEST_P(RankStepsWithoutMemory, AreRecordedAndTheNextCaseIsMeasured) {
  install_memory_meter();
  const Planted& planted = GetParam();
  const StepCase first{.key = "first", .setup = setup_of(planted)},
      second{.key = "second", .setup = setup_of(planted)};
  const int ranks = planted.data * planted.tensor * planted.stages;
  const ThreadWorld world(ranks, kTimeout);
  std::vector<json> firsts(static_cast<std::size_t>(ranks)), seconds = firsts;
  const auto start = std::chrono::steady_clock::now();
  on_threads(ranks, [&](int rank) {
    bool in_first = false;
    const auto connect = [&](const GroupMembers& members) -> std::unique_ptr<Communicator> {
      auto group = world.connect(rank, members);
      if (in_first && rank == planted.rank && !members.name.empty())
        return std::make_unique<Failing>(std::move(group), planted.failing);
      return group;
    };
    RankSteps steps(world.roll_call(rank), connect, "test", kTimeout);
    in_first = true;
    firsts[static_cast<std::size_t>(rank)] = steps.measure(first, kTwice);
    in_first = false;
    seconds[static_cast<std::size_t>(rank)] = steps.measure(second, kTwice);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, kTimeout / 2);
  for (const json& record : firsts) {
    EXPECT_EQ(record.at("key"), "first");
    EXPECT_EQ(record.at("outcome"), "oom");
    EXPECT_EQ(record.at("run").at("measured"), (json{{"outcome", "oom"}}));
    const std::string host = "host" + std::to_string(planted.rank);
    EXPECT_EQ(record.at("oom_ranks"), json::array({{{"rank", planted.rank}, {"host", host}}}));
  }
  for (const json& record : seconds) {
    EXPECT_EQ(record.at("outcome"), "ok");
    EXPECT_EQ(record.at("ranks").size(), static_cast<std::size_t>(ranks));
    EXPECT_FALSE(record.contains("oom_ranks"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RankStepsWithoutMemory,
    testing::Values(
        Planted{.name = "ddp_4_last", .data = 4, .rank = 3, .failing = 2},
        Planted{.name = "zero3_4_first", .data = 4, .sharding = sim::Sharding::Zero3, .failing = 5},
        Planted{.name = "tp_2_pp_2", .tensor = 2, .stages = 2, .rank = 2, .failing = 3}),
    [](const auto& tested) { return tested.param.name; });

// Before it has met anybody in the step: its part of the model does not fit.
TEST(RankSteps, NameARankWhoseModelDoesNotFit) {
  install_memory_meter();
  const ThreadWorld world(2, kTimeout);
  on_threads(2, [&](int rank) {
    StepCase one{.key = "large", .setup = setup_of({.name = "dp_2", .data = 2})};
    if (rank == 1) one.setup.model.vocab_size = 1 << 30, one.setup.model.hidden_size = 1 << 20;
    RankSteps steps(
        world.roll_call(rank),
        [&](const GroupMembers& members) { return world.connect(rank, members); }, "test",
        kTimeout);
    const json record = steps.measure(one, kTwice);
    EXPECT_EQ(record.at("outcome"), "oom");
    EXPECT_EQ(record.at("oom_ranks").at(0).at("rank"), 1);
  });
}

// A rank that is gone is no rank without memory.
TEST(RankSteps, DoNotTakeALostRankForOneWithoutMemory) {
  install_memory_meter();
  const ThreadWorld world(2, 2s);
  std::string told;
  on_threads(2, [&](int rank) {
    const StepCase one{.key = "lost", .setup = setup_of({.name = "dp_2", .data = 2})};
    RankSteps steps(
        world.roll_call(rank),
        [&](const GroupMembers& members) { return world.connect(rank, members); }, "test", 2s);
    if (rank == 1) return;
    try {
      steps.measure(one, kTwice);
    } catch (const std::exception& error) {
      told = error.what();
    }
  });
  EXPECT_NE(told.find("no answer from rank 1"), std::string::npos) << told;
}

}  // namespace
}  // namespace llmsim::runtime
