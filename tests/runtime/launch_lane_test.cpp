#include "runtime/parallel/launch_lane.h"

#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

class Written {
 public:
  std::function<void()> letter(char letter) {
    return [this, letter] {
      const std::lock_guard lock(mutex_);
      text_ += letter;
    };
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

TEST(LaunchLane, ConnectedLanesLaunchInTheOrderOfTheCalls) {
  Written written;
  LaunchLane one([] {}), other([] {});
  one.launch([] {}).get();
  other.launch([] {}).get();
  std::string expected;
  std::future<void> last;
  for (int i = 0; i < 1000; ++i) {
    const char letter = static_cast<char>('a' + i % 26);
    expected += letter;
    last = (i % 3 == 0 ? one : other).launch(written.letter(letter));
  }
  last.get();
  EXPECT_EQ(written.text(), expected);
}

// What waits for its connection holds up no other lane, and keeps its own order.
TEST(LaunchLane, ALaneThatIsNotConnectedHoldsUpNoOther) {
  Written written;
  std::promise<void> peer;
  LaunchLane late([&] { peer.get_future().get(); }), other([] {});
  std::future<void> first = late.launch(written.letter('1'));
  other.launch(written.letter('x')).get();
  EXPECT_EQ(written.text(), "x");
  std::future<void> second = late.launch(written.letter('2'));
  peer.set_value();
  const std::future<void> third = late.launch(written.letter('3'));
  second.get();
  third.wait();
  EXPECT_EQ(written.text(), "x123");
}

TEST(LaunchLane, WhatFailsFailsAlone) {
  Written written;
  LaunchLane broken([] { throw Error("no route"); }), whole([] {});
  EXPECT_THROW(broken.launch(written.letter('1')).get(), Error);
  EXPECT_THROW(whole.launch([] { throw Error("out of memory"); }).get(), Error);
  EXPECT_THROW(broken.launch(written.letter('2')).get(), Error);
  whole.launch(written.letter('3')).get();
  EXPECT_EQ(written.text(), "3");
}

}  // namespace
}  // namespace llmsim::runtime
