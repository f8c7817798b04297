#include "cli/progress.h"

#include <csignal>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

namespace llmsim::cli {

namespace {

using std::chrono::milliseconds;

// A line whose clock stands where the test puts it.
// Work that does not say how far it is: a tenth of a millisecond is quiet, then lines follow.
TEST(Waiting, TellsHowLongItHasTaken) {
  std::ostringstream out;
  {
    const WaitingLine line("predicting 4096 stages", out, true, std::chrono::microseconds(100));
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_TRUE(out.str().starts_with("\rpredicting 4096 stages, 1 s so far\x1b[K")) << out.str();
  EXPECT_TRUE(out.str().ends_with("\r\x1b[K"));
}

TEST(Waiting, OfSomethingShortOrOffATerminalWritesNothing) {
  std::ostringstream out;
  { const WaitingLine line("predicting 1 stages", out, true, std::chrono::hours(1)); }
  {
    const WaitingLine line("predicting 1 stages", out, false, std::chrono::microseconds(100));
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_EQ(out.str(), "");
}

class Progress : public testing::Test {
 protected:
  ProgressLine line(bool shown = true) {
    return ProgressLine("planning", out_, shown, [this] { return now_; });
  }
  void tell_at(ProgressLine& line, int ms, std::size_t done) {
    now_ = ProgressLine::Time(milliseconds(ms));
    line.tell(done, 100);
  }

  std::ostringstream out_;
  ProgressLine::Time now_{};
};

TEST_F(Progress, OfSomethingShortWritesNothing) {
  {
    ProgressLine short_line = line();
    tell_at(short_line, 999, 99);
  }
  EXPECT_EQ(out_.str(), "");
}

// 20 of 100 in 2 s: 0.1 s each, 80 to go.
TEST_F(Progress, TellsWhatIsLeft) {
  ProgressLine long_line = line();
  tell_at(long_line, 2000, 20);
  EXPECT_EQ(out_.str(), "\rplanning 20 of 100, about 8 s left\x1b[K");
}

// 1 of 100 in 2 s: 198 s.
TEST_F(Progress, TellsMinutesWhereThereAreMany) {
  ProgressLine long_line = line();
  tell_at(long_line, 2000, 1);
  EXPECT_EQ(out_.str(), "\rplanning 1 of 100, about 4 min left\x1b[K");
}

TEST_F(Progress, IsWrittenAtMostTwiceASecond) {
  ProgressLine long_line = line();
  tell_at(long_line, 1000, 10);
  const std::string first = out_.str();
  tell_at(long_line, 1499, 20);
  EXPECT_EQ(out_.str(), first);
  tell_at(long_line, 1500, 30);
  EXPECT_NE(out_.str(), first);
}

TEST_F(Progress, IsClearedAtTheEnd) {
  {
    ProgressLine long_line = line();
    tell_at(long_line, 1000, 0);
  }
  EXPECT_EQ(out_.str(), "\rplanning 0 of 100\x1b[K\r\x1b[K");
}

TEST_F(Progress, IsForTerminalsOnly) {
  {
    ProgressLine hidden = line(false);
    tell_at(hidden, 5000, 50);
  }
  EXPECT_EQ(out_.str(), "");
}

}  // namespace

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
