// Files as the programs write them, each read to the numbers that stand in it.
#include "hwdb/benchmarks/benchmark_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

using sim::CollectiveKind;
using sim::DType;

BenchmarkFile parsed_as(const std::string& text, const std::string& file = "log.txt",
                        const BenchmarkDefaults& defaults = {}) {
  return parse_benchmark_file(text, file, defaults);
}

std::string refusal_of(const std::string& text, const std::string& file = "log.txt") {
  return error_of([&] { parse_benchmark_file(text, file); });
}

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// --- nccl-tests ---

std::string rank_lines(int nodes, int per_node) {
  std::string lines = "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8388608 step: 2(factor)\n#\n";
  for (int i = 0; i < nodes * per_node; ++i)
    lines += "#  Rank  " + std::to_string(i) + " Group  0 Pid  " + std::to_string(100 + i) +
             " on     node-" + std::to_string(i / per_node) + " device  " +
             std::to_string(i % per_node) + " [0000:1b:00] NVIDIA H100 80GB HBM3\n";
  return lines;
}

constexpr const char* kTableHead =
    "#\n#                                                              out-of-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
    "time   algbw   busbw  #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
    "(us)  (GB/s)  (GB/s)            \n";

// 8 MiB in 60 us are 139.81 GB/s, of an all-reduce of eight ranks a bus bandwidth of 244.67.
constexpr const char* kAllReduceRow =
    "     8388608       2097152     float     sum      -1    60.00  139.81  244.67       0    "
    "59.00  142.18  248.81       0\n";

TEST(CollectiveTable, GivesTimesRanksAndNodes) {
  const BenchmarkFile file = parsed_as(
      "# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22803\n"
      "# Collective test starting: all_reduce_perf\n" +
      rank_lines(2, 4) + kTableHead + kAllReduceRow + "# Out of bounds values : 0 OK\n");
  EXPECT_EQ(file.format, "nccl-tests");
  EXPECT_EQ(file.program, "nccl-tests 2.17.6, NCCL 2.28.3");
  EXPECT_EQ(file.device_name, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(file.collectives.size(), 1U);
  const MeasuredCollective& one = file.collectives.front();
  EXPECT_EQ(one.kind, CollectiveKind::AllReduce);
  EXPECT_EQ(one.ranks, 8);
  EXPECT_EQ(one.nodes, 2);
  EXPECT_EQ(one.ranks_per_node, 4);
  EXPECT_EQ(one.message, sim::Bytes(8388608.0));
  EXPECT_DOUBLE_EQ(one.median.value(), 60e-6);
}

TEST(CollectiveTable, IsOfTheProgramThatTheCommandOrTheFileNames) {
  const std::string table =
      rank_lines(1, 8) + kTableHead +
      "     8388608       2097152     float    none      -1    60.00  139.81  "
      "122.34     N/A    59.00  142.18  124.41     N/A\n";
  EXPECT_EQ(parsed_as("+ srun ./build/alltoall_perf -b 8M\n" + table).collectives.at(0).kind,
            CollectiveKind::AllToAll);
  EXPECT_EQ(parsed_as(table, "logs/all_gather_8.txt").collectives.at(0).kind,
            CollectiveKind::AllGather);
  const BenchmarkDefaults defaults{.collective = CollectiveKind::AllGather, .dtype = {}};
  EXPECT_EQ(parsed_as(table, "log.txt", defaults).collectives.at(0).kind,
            CollectiveKind::AllGather);
  EXPECT_TRUE(has_text(refusal_of(table), "log.txt:15: the table does not say which collective"))
      << refusal_of(table);
  EXPECT_TRUE(has_text(refusal_of(table), "--collective all-reduce"));
}

// busbw / algbw of eight ranks: 1.75 of an all-reduce, 0.875 of a reduce-scatter.
TEST(CollectiveTable, ShowsTheCollectiveByItsForm) {
  const std::string head = rank_lines(1, 8) + kTableHead;
  EXPECT_EQ(parsed_as(head + kAllReduceRow).collectives.at(0).kind, CollectiveKind::AllReduce);
  const std::string scatter =
      "     8388608       2097152     float     sum      -1    60.00  139.81  122.33       0    "
      "59.00  142.18  124.41       0\n";
  EXPECT_EQ(parsed_as(head + scatter).collectives.at(0).kind, CollectiveKind::ReduceScatter);
  const std::string gather =
      "     8388608       2097152     float    none      -1    60.00  139.81  122.33       0    "
      "59.00  142.18  124.41       0\n";
  EXPECT_EQ(parsed_as(head + gather).collectives.at(0).kind, CollectiveKind::AllGather);
  const std::string exchange =
      "     8388608       2097152     float    none      -1    60.00  139.81  122.33       0    "
      "59.00  142.18  124.41     N/A\n";
  EXPECT_EQ(parsed_as(head + exchange).collectives.at(0).kind, CollectiveKind::AllToAll);
}

// Releases before 2.9 leave redop and root out; the lines of ranks have no group.
TEST(CollectiveTable, OfOlderReleasesIsRead) {
  const BenchmarkFile file = parsed_as(
      "# nThread 1 nGpus 2 minBytes 8388608 maxBytes 8388608 step: 1048576(bytes) warmup iters: 5 "
      "iters: 20 validation: 1\n#\n# Using devices\n"
      "#   Rank  0 Pid  4242 on     node-0 device  0 [0x07] A100-SXM4-40GB\n"
      "#   Rank  1 Pid  4242 on     node-0 device  1 [0x0a] A100-SXM4-40GB\n#\n"
      "#                                                     out-of-place      in-place\n"
      "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw "
      " "
      "error\n"
      "     8388608       2097152   float    60.00  139.81  69.91  0e+00    59.00  142.18  71.09  "
      "0e+00\n",
      "all_gather_perf.log");
  EXPECT_EQ(file.device_name, "A100-SXM4-40GB");
  ASSERT_EQ(file.collectives.size(), 1U);
  EXPECT_EQ(file.collectives.front().kind, CollectiveKind::AllGather);
  EXPECT_EQ(file.collectives.front().ranks, 2);
  EXPECT_DOUBLE_EQ(file.collectives.front().median.value(), 60e-6);
}

TEST(CollectiveTable, FollowsAnotherInOneFileWithItsOwnRanks) {
  const BenchmarkFile file = parsed_as(
      "./all_reduce_perf -g 8\n" + rank_lines(1, 8) + kTableHead + kAllReduceRow +
      "# Avg bus bandwidth    : 244\n#\n./reduce_scatter_perf -g 8\n" + rank_lines(2, 8) +
      kTableHead +
      "     8388608       2097152     float     sum      -1    60.00  139.81  131.07       "
      "0    59.00  142.18  133.29       0\n");
  ASSERT_EQ(file.collectives.size(), 2U);
  EXPECT_EQ(file.collectives[0].kind, CollectiveKind::AllReduce);
  EXPECT_EQ(file.collectives[1].kind, CollectiveKind::ReduceScatter);
  EXPECT_EQ(file.collectives[1].ranks, 16);
}

TEST(CollectiveTable, IsReadBehindLabelsOfLaunchers) {
  std::string labelled;
  for (const char c : "./all_reduce_perf\n" + rank_lines(1, 2) + kTableHead +
                          "     8388608       2097152     float     sum      -1    60.00  139.81  "
                          "139.81       0    59.00  142.18  142.18       0")
    labelled += c == '\n' ? std::string("\r\n[1,0]<stdout>:") : std::string(1, c);
  EXPECT_EQ(parsed_as(labelled).collectives.size(), 1U);
}

TEST(CollectiveTable, LeavesOutWhatTellsNothing) {
  const auto why = [](const std::string& text) {
    const BenchmarkFile file = parsed_as(text);
    EXPECT_TRUE(file.collectives.empty());
    return file.left_out.empty() ? "" : file.left_out.front();
  };
  EXPECT_TRUE(has_text(why(rank_lines(1, 1) + kTableHead + kAllReduceRow), "one rank alone"));
  std::string groups = rank_lines(1, 8);
  groups.replace(groups.find("Rank  7 Group  0"), 16, "Rank  7 Group  1");
  EXPECT_TRUE(has_text(why(groups + kTableHead + kAllReduceRow), "2 groups of ranks"));
  EXPECT_TRUE(has_text(why("./gather_perf\n" + rank_lines(1, 8) + kTableHead + kAllReduceRow),
                       "gather is no collective"));
  std::string wrong = kAllReduceRow;
  wrong.replace(wrong.find("      0    59"), 7, "      3");
  EXPECT_TRUE(has_text(why(rank_lines(1, 8) + kTableHead + wrong), "wrong results"));
}

TEST(CollectiveTable, RefusesWhatCannotBeMeant) {
  const auto with_row = [](const std::string& row) {
    return refusal_of("./all_reduce_perf\n" + rank_lines(1, 8) + kTableHead + row);
  };
  EXPECT_EQ(
      with_row("     8388608       2097152     float     sum      -1    -60.0  139.81  244.67  "
               "     0    59.00  142.18  248.81       0\n"),
      "log.txt:16: time = -60: 0.01 to 1e+09 us is expected");
  EXPECT_EQ(with_row("     8388608       2097152     float     sum      -1    nan  139.81  244.67  "
                     "     0    59.00  142.18  248.81       0\n"),
            "log.txt:16: time = nan: a number of 0.01 to 1e+09 us is expected");
  EXPECT_EQ(
      with_row("     8388608       2097152     float     sum      -1    60.00  13.98  244.67  "
               "     0    59.00  142.18  248.81       0\n"),
      "log.txt:16: 8.38861e+06 bytes in 60 us are 139.8 GB/s, but algbw = 13.98");
  EXPECT_TRUE(has_text(with_row("     8388608       2097152     float     sum      -1    60.00\n"),
                       "6 values under 13 columns"));
  EXPECT_TRUE(has_text(refusal_of(std::string(kTableHead) + kAllReduceRow),
                       "the lines '# Rank ...' that say who took part are missing"));
}

TEST(CollectiveJson, GivesTheSameAsTheTable) {
  const std::string json =
      R"({"version":3,"start_time":"2026-01-01 10:00:00","args":["./all_reduce_perf"],)"
      R"("env":[],"nccl_version":22803,"config":{"nthreads":1,"ngpus":4,"devices":[)"
      R"({"rank":0,"group":0,"pid":1,"hostname":"node-0","device":0,)"
      R"("device_hex":"0000:1b:00","device_info":"NVIDIA H100 80GB HBM3"},)"
      R"({"rank":4,"group":0,"pid":2,"hostname":"node-1","device":0,)"
      R"("device_hex":"0000:1b:00","device_info":"NVIDIA H100 80GB HBM3"}]},)"
      R"("results":[{"size":8388608,"count":2097152,"type":"float","redop":"sum","root":"    -1",)"
      R"("out_of_place":{"time":60.0,"alg_bw":139.81,"bus_bw":244.67,"nwrong":0.0},)"
      R"("in_place":{"time":59.0,"alg_bw":142.18,"bus_bw":248.81,"nwrong":0.0}}],"errors":[]})";
  const BenchmarkFile file = parsed_as(json, "out.json");
  EXPECT_EQ(file.program, "nccl-tests, NCCL 2.28.3");
  EXPECT_EQ(file.device_name, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(file.collectives.size(), 1U);
  EXPECT_EQ(file.collectives.front().ranks, 8);
  EXPECT_EQ(file.collectives.front().nodes, 2);
  EXPECT_EQ(file.collectives.front().kind, CollectiveKind::AllReduce);
  EXPECT_DOUBLE_EQ(file.collectives.front().median.value(), 60e-6);
}

// --- GEMMs ---

// 2 x 8192^3 FLOP in 2000 us are 549,755.8 GFLOPS.
constexpr const char* kHipblaslt =
    "[0]:transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,stride_b,ldc,"
    "stride_c,ldd,stride_d,a_type,b_type,c_type,d_type,compute_type,scaleA,scaleB,scaleC,scaleD,"
    "amaxD,activation_type,bias_vector,bias_type,lowest-avg-freq,lowest-median-freq,avg-MCLK,"
    "median-MCLK,hipblaslt-Gflops,hipblaslt-GB/s,us\n"
    "    "
    "T,N,0,1,8192,4096,16384,1,8192,67108864,0,8192,67108864,8192,67108864,8192,67108864,bf16_r,"
    "bf16_r,bf16_r,bf16_r,f32_r,0,0,0,0,0,none,0,non-supported type,1800,1810,900,900,549756,201,"
    "2000\n"
    "    --Solution index: 1234\n";

// Matrices by columns: m is the number of our columns.
TEST(GemmTable, OfHipblasltBenchGivesShapeFormatTimeAndClock) {
  const BenchmarkFile file = parsed_as(kHipblaslt);
  EXPECT_EQ(file.format, "hipblaslt-bench");
  ASSERT_EQ(file.kernels.size(), 1U);
  const MeasuredKernel& kernel = file.kernels.front();
  EXPECT_EQ(kernel.library, "library_gemm");
  EXPECT_EQ(kernel.op.m, 4096);
  EXPECT_EQ(kernel.op.n, 8192);
  EXPECT_EQ(kernel.op.k, 16384);
  EXPECT_EQ(kernel.op.dtype, DType::Bf16);
  EXPECT_DOUBLE_EQ(kernel.median.value(), 2e-3);
  EXPECT_DOUBLE_EQ(*kernel.clock_hz, 1.81e9);
}

TEST(GemmTable, OfRocblasBenchNeedsItsNumberFormat) {
  // As its Programmers_Guide.rst shows it, and with spaces as later releases print.
  const std::string text =
      "transA,transB,M,N,K,alpha,lda,ldb,beta,ldc,rocblas-Gflops,us\n"
      "N,N,4096,4096,4096,1,4096,4096,0,4096,11941.5, 11509.4\n";
  EXPECT_TRUE(has_text(refusal_of(text), "log.txt:2: the table does not say the number format"));
  const BenchmarkFile file = parsed_as(text, "log.txt", {.collective = {}, .dtype = DType::Fp32});
  EXPECT_EQ(file.format, "rocblas-bench");
  ASSERT_EQ(file.kernels.size(), 1U);
  EXPECT_EQ(file.kernels.front().op.dtype, DType::Fp32);
  EXPECT_DOUBLE_EQ(file.kernels.front().median.value(), 11509.4e-6);
}

TEST(GemmTable, RefusesRatesThatDoNotFollowAndLinesThatAreCut) {
  std::string rate = kHipblaslt;
  rate.replace(rate.find("549756"), 6, "949756");
  EXPECT_EQ(refusal_of(rate),
            "log.txt:2: 4096 x 8192 x 16384 in 2000 us are 5.498e+05 GFLOPS, but hipblaslt-Gflops "
            "= 949756");
  std::string cut = kHipblaslt;
  cut.erase(cut.find(",201,2000"));
  EXPECT_EQ(refusal_of(cut), "log.txt:2: 35 values under 37 columns");
  std::string size = kHipblaslt;
  size.replace(size.find(",8192,4096,16384"), 16, ",8192,-4096,16384");
  EXPECT_TRUE(has_text(refusal_of(size), "a size = -4096: 1 to 1.67772e+07 is expected"));
}

TEST(GemmTable, LeavesOutOtherFormatsAndGroups) {
  std::string integers = kHipblaslt;
  integers.replace(integers.find("bf16_r"), 6, "i8_r  ");
  EXPECT_TRUE(has_text(parsed_as(integers).left_out.at(0), "GEMMs in i8_r"));
  std::string grouped = kHipblaslt;
  grouped.replace(grouped.find("T,N,0,1"), 7, "T,N,1,1");
  EXPECT_TRUE(has_text(parsed_as(grouped).left_out.at(0), "a grouped GEMM"));
}

constexpr const char* kMamfHead =
    "\nBenchmark started on 2026-01-01 10:00:00\n\n** Command line:\n/usr/bin/python "
    "mamf-finder.py --m 4096\n\n** Dtype: torch.bfloat16\n\n** Platform/Device info:\n- Linux "
    "node-1 5.15\n- _CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, minor=0)\n\n** "
    "Critical software versions:\n- torch=2.7.0+cu128\n- cuda=12.8\n\n";
constexpr const char* kMamfBest =
    "\nTried 2 shapes => the best outcomes were:\nmean:   690.3 TFLOPS @ 8192x8192x8192 (MxNxK)\n"
    "median: 695.0 TFLOPS @ 8192x4096x2048 (MxNxK)\nmax:    705.9 TFLOPS @ 8192x8192x8192 "
    "(MxNxK)\n";

// A shape in 2 m n k / TFLOPS: 2 x 4096^3 / 613e12 = 224.2 us.
TEST(MamfLog, GivesEachShapeByItsMedian) {
  const BenchmarkFile file = parsed_as(std::string(kMamfHead) +
                                       "     1 |  612.3(mean)  613.0(median)  625.9(max) @ "
                                       "4096x4096x4096       | best:  612.3(mean)  "
                                       "613.0(median)  625.9(max) TFLOPS\r"
                                       "     2 |  690.3(mean)  695.0(median)  705.9(max) @ "
                                       "8192x4096x2048       | best:  690.3(mean)  "
                                       "695.0(median)  705.9(max) TFLOPS\r" +
                                       kMamfBest);
  EXPECT_EQ(file.format, "mamf-finder");
  EXPECT_EQ(file.program, "mamf-finder, torch 2.7.0+cu128");
  EXPECT_EQ(file.device_name, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(file.kernels.size(), 2U);
  EXPECT_EQ(file.kernels[0].op.dtype, DType::Bf16);
  EXPECT_NEAR(file.kernels[0].median.value(), 2.0 * 4096.0 * 4096.0 * 4096.0 / 613e12, 1e-12);
  EXPECT_EQ(file.kernels[1].op.k, 2048);
}

TEST(MamfLog, OfTheBestShapeAloneGivesOne) {
  const BenchmarkFile file = parsed_as(std::string(kMamfHead) + kMamfBest);
  ASSERT_EQ(file.kernels.size(), 1U);
  EXPECT_EQ(file.kernels[0].op.k, 2048);
  EXPECT_NEAR((file.kernels[0].op.flops / file.kernels[0].median).value(), 695e12, 1e6);
}

// --- copies ---

TEST(BabelStream, GivesBytesAndRatesOfItsTable) {
  const BenchmarkFile file = parsed_as(
      "BabelStream\nVersion: 5.0\nImplementation: CUDA\nRunning  All kernels 100 times in  Classic "
      "order \nNumber of elements: 268435456\nPrecision: double\nArray size: 2147.5 MB\nTotal "
      "size: "
      "6442.5 MB\nCUDA Device 0: \"NVIDIA H100 80GB HBM3\"\n"
      "Function    MB/s        Min (sec)   Max         Average     \n"
      "Copy        2901234.500 0.00148     0.00150     0.00149     \n"
      "Triad       2911234.500 0.00221     0.00225     0.00223     \n"
      "Dot         2991234.500 0.00143     0.00145     0.00144     \n");
  EXPECT_EQ(file.program, "BabelStream 5.0");
  EXPECT_EQ(file.device_name, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(file.kernels.size(), 2U);
  EXPECT_EQ(file.kernels[0].library, "stream_copy");
  EXPECT_DOUBLE_EQ(file.kernels[0].op.moved.value(), 2.0 * 2147.5e6);
  EXPECT_DOUBLE_EQ(file.kernels[1].op.moved.value(), 3.0 * 2147.5e6);
  EXPECT_NEAR((file.kernels[1].op.moved / file.kernels[1].median).value(), 2911234.5e6, 1.0);
}

TEST(BabelStream, GivesTheSameOfCsvInItsUnits) {
  const BenchmarkFile file = parsed_as(
      "function,num_times,n_elements,sizeof,max_gibytes_per_sec,min_runtime,max_runtime,avg_"
      "runtime\n"
      "Copy,100,268435456,8,2700,0.00148,0.0015,0.00149\n");
  ASSERT_EQ(file.kernels.size(), 1U);
  EXPECT_DOUBLE_EQ(file.kernels[0].op.moved.value(), 2.0 * 268435456.0 * 8.0);
  EXPECT_NEAR((file.kernels[0].op.moved / file.kernels[0].median).value(), 2700.0 * 0x1p30, 1e3);
}

constexpr const char* kNvbandwidth =
    "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nCUDA Runtime Version: 12080\n"
    "Driver Version: 570.1\n\nnode-1\nDevice 0: NVIDIA H100 80GB HBM3 (00000000:19:00)\nDevice 1: "
    "NVIDIA H100 80GB HBM3 (00000000:3b:00)\n\nRunning host_to_device_memcpy_ce.\nmemcpy CE "
    "CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0     55.61     "
    "55.60\n\nSUM host_to_device_memcpy_ce 111.21\n\nRunning device_local_copy.\nmemcpy local "
    "GPU(column) bandwidth (GB/s)\n           0         1\n 0   1410.00       N/A\n\nSUM "
    "device_local_copy 1410.00\n";

// A byte that is copied inside of a device is read and written.
TEST(Nvbandwidth, GivesTheHostLinkAndTwiceWhatIsCopiedInADevice) {
  const BenchmarkFile file = parsed_as(kNvbandwidth);
  EXPECT_EQ(file.program, "nvbandwidth v0.8");
  EXPECT_EQ(file.device_name, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(file.kernels.size(), 3U);
  EXPECT_EQ(file.kernels[0].library, "host_copy");
  EXPECT_NEAR((file.kernels[0].op.moved / file.kernels[0].median).value(), 55.61e9, 1.0);
  EXPECT_EQ(file.kernels[2].library, "stream_copy");
  EXPECT_NEAR((file.kernels[2].op.moved / file.kernels[2].median).value(), 2820e9, 1.0);
}

TEST(Nvbandwidth, GivesTheSameOfItsJson) {
  const BenchmarkFile file = parsed_as(
      R"json({"nvbandwidth":{"version":"v0.8",)json"
      R"json("GPU Device list":["0: NVIDIA H100 80GB HBM3 (00000000:19:00): (node-1)"],)json"
      R"json("testcases":[{"name":"host_to_device_memcpy_ce","status":"Passed",)json"
      R"json("bandwidth_matrix":[["55.61","N/A"]]},)json"
      R"json({"name":"device_to_device_memcpy_read_ce","status":"Passed",)json"
      R"json("bandwidth_matrix":[["390.1"]]}]}})json");
  EXPECT_EQ(file.device_name, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(file.kernels.size(), 1U);
  EXPECT_NEAR((file.kernels[0].op.moved / file.kernels[0].median).value(), 55.61e9, 1.0);
}

// --- clocks ---

TEST(ClockLog, OfNvidiaSmiGivesClockPowerAndUse) {
  const BenchmarkFile file = parsed_as(
      "timestamp, index, name, clocks.current.sm [MHz], clocks.max.sm [MHz], power.draw [W], "
      "enforced.power.limit [W], utilization.gpu [%]\n"
      "2026/01/01 10:00:00.123, 0, NVIDIA H100 80GB HBM3, 1605 MHz, 1980 MHz, 690.25 W, 700.00 W, "
      "98 %\n"
      "2026/01/01 10:00:00.125, 1, NVIDIA H100 80GB HBM3, [N/A], 1980 MHz, [Not Supported], 700.00 "
      "W, 98 %\n"
      "2026/01/01 10:00:01.1");  // cut off where the log was stopped
  EXPECT_EQ(file.format, "nvidia-smi");
  EXPECT_EQ(file.device_name, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(file.clocks.size(), 1U);
  EXPECT_EQ(file.clocks[0].device, "0");
  EXPECT_DOUBLE_EQ(file.clocks[0].clock_hz, 1.605e9);
  EXPECT_DOUBLE_EQ(*file.clocks[0].most_hz, 1.98e9);
  EXPECT_DOUBLE_EQ(*file.clocks[0].watts, 690.25);
  EXPECT_DOUBLE_EQ(*file.clocks[0].limit_watts, 700.0);
  EXPECT_DOUBLE_EQ(*file.clocks[0].busy, 0.98);
}

TEST(ClockLog, OfNvidiaSmiMayLackUnitsButNotTheClock) {
  const BenchmarkFile file =
      parsed_as("index, clocks.current.sm [MHz], power.draw.instant [W]\n3, 1605, 690.25\n");
  EXPECT_DOUBLE_EQ(file.clocks.at(0).clock_hz, 1.605e9);
  EXPECT_DOUBLE_EQ(*file.clocks.at(0).watts, 690.25);
  EXPECT_TRUE(has_text(refusal_of("index, power.draw [W]\n0, 690 W\n"),
                       "log.txt:1: no column has the clock of the compute units"));
  EXPECT_EQ(refusal_of("index, clocks.current.sm [MHz]\n0, 99999 MHz\n"),
            "log.txt:2: the clock = 99999: 1 to 10000 MHz is expected");
  EXPECT_EQ(refusal_of("index, clocks.current.sm [MHz]\n0\n1, 1605 MHz\n"),
            "log.txt:2: 1 values under 2 columns");
}

TEST(ClockLog, OfDcgmiGivesItsEntities) {
  const BenchmarkFile file = parsed_as(
      "#Entity         SMCLK       POWER             GRACT       \n"
      "ID                          W                             \n"
      "GPU 0           1620        688.125           0.985       \n"
      "GPU 1           N/A         688.125           0.985       \n");
  EXPECT_EQ(file.format, "dcgmi dmon");
  ASSERT_EQ(file.clocks.size(), 1U);
  EXPECT_DOUBLE_EQ(file.clocks[0].clock_hz, 1.62e9);
  EXPECT_DOUBLE_EQ(*file.clocks[0].watts, 688.125);
  EXPECT_DOUBLE_EQ(*file.clocks[0].busy, 0.985);
}

// The mean of the parts of a device.
TEST(ClockLog, OfAmdSmiIsTheMeanOfADevicesParts) {
  const BenchmarkFile file = parsed_as(
      "timestamp,gpu,gfx_activity,socket_power,gfx_0_clk,gfx_0_min_clk,gfx_0_max_clk,gfx_1_clk,"
      "mem_0_clk\n1700000000,2,100,740,1300,132,2100,1340,1300\n");
  EXPECT_EQ(file.format, "amd-smi");
  ASSERT_EQ(file.clocks.size(), 1U);
  EXPECT_EQ(file.clocks[0].device, "2");
  EXPECT_DOUBLE_EQ(file.clocks[0].clock_hz, 1.32e9);
  EXPECT_DOUBLE_EQ(*file.clocks[0].most_hz, 2.1e9);
  EXPECT_DOUBLE_EQ(*file.clocks[0].watts, 740.0);
}

TEST(ClockLog, OfRocmSmiHasItsBrackets) {
  const BenchmarkFile file = parsed_as(
      "device,sclk clock speed:,sclk clock level:,Average Graphics Package Power (W),GPU use (%)\n"
      "card0,(1320Mhz),1,540.0,100\n");
  EXPECT_EQ(file.format, "rocm-smi");
  EXPECT_DOUBLE_EQ(file.clocks.at(0).clock_hz, 1.32e9);
  EXPECT_DOUBLE_EQ(*file.clocks.at(0).watts, 540.0);
}

// --- all ---

TEST(BenchmarkFile, MayBeOneOfTheRuntime) {
  const BenchmarkFile file = parsed_as(
      R"({"type": "header", "schema": 2, "started": "2026-11-21T20:00:00Z", )"
      R"("accelerator": "local_gpu", "device": {"name": "NVIDIA H200", "kind": "cuda", )"
      R"("threads": 1, "memory_bytes": 1.5e11}, "library": {"libtorch": "2.7.0"}})"
      "\n"
      R"({"type": "kernel", "key": "a", "kind": "library_gemm", "label": "x", "dtype": "bf16", )"
      R"("m": 4096, "n": 4096, "k": 4096, "flops": 137438953472, "outcome": "ok", )"
      R"("median_s": 2e-4})"
      "\n");
  EXPECT_EQ(file.format, "llmsim-runtime");
  EXPECT_EQ(file.device_name, "NVIDIA H200");
  ASSERT_EQ(file.kernels.size(), 1U);
  EXPECT_EQ(file.kernels.front().library, "library_gemm");
}

// A line of commas and one of words cost no more than their first columns.
TEST(BenchmarkFile, OfOneLongLineIsRefusedSoon) {
  EXPECT_TRUE(has_text(refusal_of("transA,transB," + std::string(4'000'000, ',')), "log.txt"));
  EXPECT_TRUE(has_text(refusal_of("#Entity " + std::string(4'000'000, ' ') + "x"), "log.txt"));
}

TEST(BenchmarkFile, OfNoProgramNamesThoseThatAreKnown) {
  const std::string why = refusal_of("hello\n");
  EXPECT_TRUE(has_text(why, "log.txt: output of none of these: nccl-tests")) << why;
  EXPECT_TRUE(has_text(refusal_of(""), "output of none of these"));
  EXPECT_TRUE(has_text(refusal_of(std::string(kTableHead)), "without a result"));
}

TEST(BenchmarkFile, WithMillionsOfLinesIsRefused) {
  EXPECT_TRUE(has_text(refusal_of(std::string(2'000'001, '\n')), "more than two million lines"));
}

}  // namespace
}  // namespace llmsim::hwdb
