#include "runtime/measure/results.h"

#include <unistd.h>

#include <fstream>
#include <regex>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "tests/temporary_folder.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

const json kHeader{
    {"type", "header"}, {"schema", 1}, {"started", "2026-01-01"}, {"accelerator", "local_cpu"}};

class Results : public testing::Test {
 protected:
  // Without the times at which records were written.
  std::string content() const {
    static const std::regex elapsed("\"elapsed_s\":[^,}]*,");
    return std::regex_replace(content_of(path_), elapsed, "");
  }
  std::string error_of(Opening opening, const json& header = kHeader) const {
    try {
      const ResultFile file(path_, opening, header);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "results.jsonl";
};

TEST_F(Results, EachRecordIsOnTheDiskAtOnce) {
  ResultFile file(path_, Opening::Fresh, kHeader);
  file.append({{"key", "a"}});
  EXPECT_EQ(content(), kHeader.dump() + "\n{\"key\":\"a\"}\n");
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("b"));
}

TEST_F(Results, AResumedRunKnowsWhatIsThere) {
  { ResultFile(path_, Opening::Fresh, kHeader).append({{"key", "a"}}); }
  json later = kHeader;
  later["started"] = "2026-01-02";
  ResultFile file(path_, Opening::Resume, later);
  EXPECT_TRUE(file.contains("a"));
  file.append({{"key", "b"}});
  EXPECT_EQ(content(), kHeader.dump() + "\n{\"key\":\"a\"}\n{\"key\":\"b\"}\n");
}

// A killed run of 50 s leaves 60 of a budget of 110.
TEST_F(Results, AResumedRunKnowsHowLongTheFileTook) {
  std::ofstream(path_) << kHeader.dump() << "\n"
                       << R"({"elapsed_s": 20.0, "key": "a"})"
                       << "\n"
                       << R"({"elapsed_s": 50.0, "key": "b"})"
                       << "\n";
  ResultFile file(path_, Opening::Resume, kHeader);
  EXPECT_NEAR(file.elapsed(), 50.0, 1.0);
  file.append({{"key", "c"}});
  EXPECT_NE(content_of(path_).find("\"elapsed_s\":50."), std::string::npos) << content_of(path_);
}

TEST_F(Results, ALineThatWasCutOffIsDropped) {
  { ResultFile(path_, Opening::Fresh, kHeader).append({{"key", "a"}}); }
  std::ofstream(path_, std::ios::app) << "{\"key\":\"half";
  ResultFile file(path_, Opening::Resume, kHeader);
  EXPECT_TRUE(file.contains("a"));
  EXPECT_EQ(file.size(), 1U);
  EXPECT_EQ(content(), kHeader.dump() + "\n{\"key\":\"a\"}\n");
}

TEST_F(Results, ASecondWriterIsToldOfTheFirst) {
  const ResultFile file(path_, Opening::Fresh, kHeader);
  const std::string message = error_of(Opening::Resume);
  EXPECT_NE(message.find("process " + std::to_string(getpid())), std::string::npos) << message;
  EXPECT_NE(message.find("is writing it"), std::string::npos) << message;
}

TEST_F(Results, AnEarlierFileIsNotOverwritten) {
  { const ResultFile file(path_, Opening::Fresh, kHeader); }
  EXPECT_NE(error_of(Opening::Fresh).find("--resume"), std::string::npos);
}

TEST_F(Results, AnotherMachineDoesNotGoOnWithTheFile) {
  { const ResultFile file(path_, Opening::Fresh, kHeader); }
  json other = kHeader;
  other["accelerator"] = "other_cpu";
  EXPECT_NE(error_of(Opening::Resume, other).find("another machine"), std::string::npos);
}

TEST_F(Results, AForeignFileIsRefused) {
  std::ofstream(path_) << "a,b,c\n1,2,3\n";
  EXPECT_NE(error_of(Opening::Resume).find(":1: no JSON record"), std::string::npos);
}

TEST(FullDisk, SaysSoAndThatResultsAreWhole) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  try {
    ResultFile("/dev/full", Opening::Fresh, kHeader);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device; results so far are whole"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace llmsim::runtime
