#include "cli/own_process.h"

#include <gtest/gtest.h>

namespace llmsim::cli {
namespace {

constexpr const char* kMessages =
    "warning: a\n\rsearching group 1 of 4\x1b[K\rsearching group 2 of 4, about 1 s left\x1b[K"
    "\r\x1b[Kwarning: b\n";

TEST(WithoutProgress, LeavesMessages) {
  EXPECT_EQ(without_progress(kMessages), "warning: a\nwarning: b\n");
  EXPECT_EQ(without_progress("plain\n"), "plain\n");
  EXPECT_EQ(without_progress("begun\n\rsearching gr"), "begun\n");
}

TEST(LatestProgress, IsTheLineThatIsWhole) {
  EXPECT_EQ(latest_progress("\rone\x1b[K\rtwo\x1b[K\rthr"), "two");
  EXPECT_EQ(latest_progress("plain\n"), "");
  EXPECT_EQ(latest_progress(kMessages), "");  // cleared
}

TEST(MessagesOf, AreWithoutTheName) {
  EXPECT_EQ(messages_of({.messages = "llmsim: no such model\n"}), "no such model");
  EXPECT_EQ(messages_of({.messages = "warning: a\nllmsim: b\n"}), "warning: a\nllmsim: b");
}

}  // namespace
}  // namespace llmsim::cli
