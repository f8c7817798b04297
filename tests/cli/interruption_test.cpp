#include "cli/interruption.h"

#include <gtest/gtest.h>

#include <csignal>

namespace llmsim::cli {
namespace {

TEST(Interruption, IsNotedOnce) {
  const Interruption first;
  EXPECT_FALSE(first.came());
  std::raise(SIGINT);
  EXPECT_TRUE(first.came());
}

TEST(Interruption, AnEarlierOneIsForgotten) {
  {
    const Interruption earlier;
    std::raise(SIGINT);
  }
  EXPECT_FALSE(Interruption().came());
}

TEST(Interruption, ASecondOneEndsTheProgram) {
  EXPECT_EXIT(
      {
        const Interruption interruption;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace llmsim::cli
