#include "runtime/measure/results.h"

#include <unistd.h>

#include <fstream>
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
  std::string content() const { return content_of(path_); }
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
