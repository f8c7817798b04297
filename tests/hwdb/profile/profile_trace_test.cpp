#include "hwdb/profile/profile_trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "hwdb/profile/kineto_trace.h"
#include "hwdb/profile/nsys_export.h"
#include "hwdb/profile/trace_builder.h"
#include "hwdb/store/sqlite.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace llmsim::hwdb {
namespace {

ProfileTrace parsed(const std::string& text) {
  std::istringstream stream(text);
  return parse_trace(stream, "t.json").front();
}

std::string refusal(const std::string& text) {
  return error_of([&] { parsed(text); });
}

constexpr const char* kKernel =
    R"({"ph":"X","cat":"kernel","name":"nvjet_a","pid":0,"tid":7,"ts":10.5,"dur":2.25,)"
    R"("args":{"External id":41,"stream":7}})";

TEST(NanosecondsOf, KeepEveryDigitOfMicroseconds) {
  EXPECT_EQ(nanoseconds_of("1717000000123456.789"), 1717000000123456789);
  EXPECT_EQ(nanoseconds_of("10.5"), 10500);
  EXPECT_EQ(nanoseconds_of("-0.25"), -250);
  EXPECT_EQ(nanoseconds_of("1e3"), 1000000);
  EXPECT_EQ(nanoseconds_of("7"), 7000);
  for (const char* wrong : {"", "x", "1.5x", "1e300", "99999999999999999", "nan"})
    EXPECT_FALSE(nanoseconds_of(wrong)) << wrong;
}

TEST(ParseTrace, ReadsKernelsWithTheirShapes) {
  const ProfileTrace trace =
      parsed(std::string(R"({"schemaVersion":1,"distributedInfo":{"rank":3,"world_size":8},)") +
             R"("traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1,"args":)" +
             R"({"External id":41,"Input Dims":[[64,128],[128,32],[]]}},)" + kKernel +
             R"(,{"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","ts":0,"dur":100}]})");
  EXPECT_EQ(trace.rank, 3);
  EXPECT_EQ(trace.world_size, 8);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events.front().start, 10500);
  EXPECT_EQ(trace.events.front().duration, 2250);
  EXPECT_EQ(trace.kernels(trace.events.front()), KernelClass::Gemm);
  ASSERT_EQ(trace.shapes.size(), 1u);
  EXPECT_EQ(trace.shapes.front(), (GemmShape{.m = 64, .n = 32, .k = 128}));
  ASSERT_EQ(trace.steps.size(), 1u);
  EXPECT_EQ(trace.steps.front().length(), 100'000);
}

// 1,000 elements of 2 bytes from each of 8 ranks.
TEST(ParseTrace, ReadsWhatACollectiveSends) {
  const ProfileTrace trace = parsed(
      R"([{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllGather_RING_LL","ts":"1.5","dur":"2",)"
      R"("args":{"Collective name":"_allgather_base","In msg nelems":1000,"Out msg nelems":8000,)"
      R"("Group size":8,"dtype":"BFloat16","Process Group Name":"12",)"
      R"("Process Group Description":"mesh_tp"}}])");
  ASSERT_EQ(trace.collectives.size(), 1u);
  const CollectiveCall& call = trace.collectives.front();
  EXPECT_EQ(call.kind, sim::CollectiveKind::AllGather);
  EXPECT_EQ(call.message, sim::Bytes(16000.0));
  EXPECT_EQ(call.ranks, 8);
  EXPECT_EQ(call.group, "12");
  EXPECT_EQ(call.description, "mesh_tp");
}

TEST(ParseTrace, OfOlderProfilersHasOtherCategoriesAndTakesCollectivesByTheirNames) {
  const ProfileTrace trace = parsed(
      R"({"traceEvents":[{"ph":"X","cat":"Kernel","name":"ncclKernel_AllReduce_RING_LL_Sum_float",)"
      R"("ts":1,"dur":2},{"ph":"X","cat":"Memcpy","name":"Memcpy HtoD","ts":0,"dur":1}]})");
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.kernels(trace.events.front()), KernelClass::Copy);
  EXPECT_EQ(trace.collectives.front().kind, sim::CollectiveKind::AllReduce);
}

TEST(ParseTrace, OfAPredictionHasAKernelForEachComponentOfAPass) {
  const ProfileTrace trace = parsed(
      R"({"otherData":{"step_time_s":3e-6},"traceEvents":[{"ph":"X","name":"F0","cat":"forward",)"
      R"("pid":0,"tid":0,"ts":0,"dur":3,"args":{"terms_s":{"forward_gemm":2e-6,)"
      R"("launch_wait":5e-7,"tensor_parallel_exposed":5e-7}}}]})");
  EXPECT_TRUE(trace.predicted);
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].duration, 2000);
  EXPECT_EQ(trace.kernels(trace.events[1]), KernelClass::Collective);
  EXPECT_EQ(trace.steps.front().length(), 3000);
}

TEST(ParseTrace, SaysWhatIsWrongInOneLine) {
  EXPECT_EQ(refusal("{\"traceEvents\":[" + std::string(kKernel)),
            "t.json: no JSON from byte 133 on; a trace is whole when the profiler's export has "
            "returned");
  EXPECT_EQ(refusal("{\"traceEvents\":[]}"),
            "t.json: has no kernel of a device; record with ProfilerActivity.CUDA");
  EXPECT_NE(refusal("{}").find("has no traceEvents"), std::string::npos);
  EXPECT_NE(refusal("7").find("has no traceEvents"), std::string::npos);
  EXPECT_NE(refusal(std::string(5000, '[')).find("more than 100 deep"), std::string::npos);
}

// Times that no clock has, and negative durations, are no events.
TEST(ParseTrace, LeavesOutEventsWithoutTimes) {
  const ProfileTrace trace = parsed(std::string("[") + kKernel +
                                    R"(,{"ph":"X","cat":"kernel","name":"a","ts":1e300,"dur":1})" +
                                    R"(,{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":-1})" +
                                    R"(,{"ph":"X","cat":"kernel","name":"a","ts":1})" + "]");
  EXPECT_EQ(trace.events.size(), 1u);
}

TEST(ReadProfile, ReadsGzippedTraces) {
  const TemporaryFolder folder;
  const std::string path = folder / "t.json";
  std::ofstream(path) << "[" << kKernel << "]";
  ASSERT_EQ(std::system(("gzip -k " + path).c_str()), 0);
  EXPECT_EQ(read_profile(path).front().events.size(), 1u);
  EXPECT_EQ(read_profile(path + ".gz").front().events.size(), 1u);

  std::string bytes = content_of(path + ".gz");
  std::ofstream(folder / "cut.json.gz") << bytes.substr(0, bytes.size() / 2);
  EXPECT_EQ(error_of([&] { read_profile(folder / "cut.json.gz"); }),
            folder / "cut.json.gz" + ": its compressed data is damaged or cut off");
  EXPECT_EQ(error_of([&] { read_profile(folder / "none"); }), folder / "none" + ": cannot be read");
}

TEST(ReadProfile, ReadsExportsOfNsightSystems) {
  const TemporaryFolder folder;
  const std::string path = folder / "n.sqlite";
  {
    const sqlite::Connection database(path, sqlite::Open::Create);
    database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)");
    database.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
        "demangledName INTEGER, shortName INTEGER)");
    database.execute(
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER)");
    database.execute("INSERT INTO StringIds VALUES (1, 'nvjet_a'), (2, 'ncclDevKernel_AllReduce')");
    database.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 1, 1), (9, 12, 0, 2, 2), "
        "(5, 8, 1, 1, 1)");
    database.execute("INSERT INTO NVTX_EVENTS VALUES (0, 20, 'step 3', NULL), (0, 3, 'x', NULL)");
  }
  const std::vector<ProfileTrace> traces = read_profile(path);
  ASSERT_EQ(traces.size(), 2u);
  EXPECT_EQ(traces[0].events.size(), 2u);
  EXPECT_EQ(traces[0].collectives.front().kind, sim::CollectiveKind::AllReduce);
  EXPECT_EQ(traces[0].steps.size(), 1u);
  EXPECT_EQ(traces[1].rank, 1);
}

TEST(ReadProfile, RefusesOtherDatabases) {
  const TemporaryFolder folder;
  const std::string path = folder / "other.sqlite";
  sqlite::Connection(path, sqlite::Open::Create).execute("CREATE TABLE a (b INTEGER)");
  EXPECT_NE(error_of([&] { read_profile(path); }).find("an export of Nsight Systems"),
            std::string::npos);
}

}  // namespace
}  // namespace llmsim::hwdb
