// Planted values, printed as the programs print them, read and fitted.
#include "calibrate/benchmark_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/collective_fit.h"
#include "hwdb/hardware/hardware.h"
#include "sim/cost/kernels.h"
#include "tests/error_of.h"

namespace llmsim::calibrate {
namespace {

using hwdb::BenchmarkFile;
using sim::CollectiveKind;

constexpr double kNoise = 0.03;

const hwdb::Database& shipped() {
  static const hwdb::Database database(":memory:");
  return database;
}

sim::Cluster h100s(int ranks) { return hwdb::cluster(shipped(), "h100_sxm", ranks).cluster; }

// --- the programs ---

class Noise {
 public:
  double next() { return std::exp(distribution_(generator_)); }

 private:
  std::mt19937 generator_{7};
  std::normal_distribution<double> distribution_{0.0, kNoise};
};

struct TestedCollective {
  const char* program;
  const char* redop;
  CollectiveKind kind;
};
constexpr TestedCollective kTested[] = {
    {"all_reduce_perf", "sum", CollectiveKind::AllReduce},
    {"all_gather_perf", "none", CollectiveKind::AllGather},
    {"reduce_scatter_perf", "sum", CollectiveKind::ReduceScatter},
};

// 16 KiB to 4 GiB, as NVIDIA/nccl-tests src/util.cu prints them.
std::string nccl_text(const TestedCollective& tested, const sim::Cluster& truth, Noise& noise) {
  std::string text =
      fmt::format("# Collective test starting: {}\n# nThread 1 nGpus 1\n", tested.program);
  for (int i = 0; i < truth.num_devices; ++i)
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [0000:1b:00] {}\n", i,
                        1000 + i, fmt::format("node-{}", i / truth.devices_per_node), i % 8,
                        "NVIDIA H100 80GB HBM3");
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong\n";
  for (double bytes = 16384.0; bytes < 5e9; bytes *= 2.0) {
    const CollectiveSample sample{tested.kind, sim::Bytes(bytes), {}, truth.num_devices, 1.0};
    const double us = predicted(sample, truth).value() * noise.next() * 1e6,
                 rate = bytes / us / 1e3;
    const double bus = rate * sim::bus_factor(tested.kind, truth.num_devices);
    const std::string way = fmt::format("  {:7.2f}  {:6.2f}  {:6.2f}       0", us, rate, bus);
    text += fmt::format("{:12.0f}  {:12.0f}     float  {:>6}      -1{}{}\n", bytes, bytes / 4.0,
                        tested.redop, way, way);
  }
  return text;
}

std::vector<BenchmarkFile> nccl_files(const sim::Cluster& truth) {
  Noise noise;
  std::vector<BenchmarkFile> files;
  for (const TestedCollective& tested : kTested)
    files.push_back(hwdb::parse_benchmark_file(nccl_text(tested, truth, noise), "nccl.txt"));
  return files;
}

// Five sizes in each dimension, as ROCm/hipBLASLt clients/include/argument_model.hpp prints them.
std::string hipblaslt_text(const sim::GemmMachine& truth) {
  Noise noise;
  std::string text;
  for (const int m : {512, 1024, 2048, 4096, 8192}) {
    for (const int n : {1024, 4096, 8192}) {
      for (const int k : {512, 2048, 8192}) {
        const sim::Operator op = sim::gemm("", 1, n, m, k, sim::DType::Bf16, sim::DType::Bf16);
        const double seconds = gemm_time(op, truth).value() * noise.next();
        text +=
            "[0]:transA,transB,grouped_gemm,batch_count,m,n,k,a_type,d_type,hipblaslt-Gflops,us\n";
        text += fmt::format("    T,N,0,1,{},{},{},bf16_r,bf16_r,{:g},{:g}\n", m, n, k,
                            op.flops.value() / seconds * 1e-9, seconds * 1e6);
      }
    }
  }
  return text;
}

// --- what is found ---

std::map<std::string, BenchmarkChange> changes_of(const BenchmarkFit& fit) {
  std::map<std::string, BenchmarkChange> changes;
  for (const BenchmarkPart& part : fit.parts)
    for (const BenchmarkChange& one : part.changes) changes[one.key] = one;
  return changes;
}

void expect_recovered(const BenchmarkFit& fit, const std::string& key, double planted) {
  const auto changes = changes_of(fit);
  ASSERT_TRUE(changes.contains(key)) << key;
  const BenchmarkChange& one = changes.at(key);
  EXPECT_NEAR(one.after, planted, 3.0 * one.standard_error.value()) << key;
  EXPECT_LT(*one.standard_error, 0.35 * planted) << key;
}

TEST(BenchmarkFit, RecoversGemmsFromHipblasltBench) {
  sim::GemmMachine truth = sim::gemm_machine(h100s(1).device, sim::DType::Bf16);
  truth.coefficients.max_efficiency = 0.70;
  truth.coefficients.k_half = 90.0;
  truth.coefficients.kernel_time = 4.5 * sim::us;
  const std::vector<BenchmarkFile> files{
      hwdb::parse_benchmark_file(hipblaslt_text(truth), "gemms.csv")};
  const BenchmarkFit fit = fit_benchmarks(shipped(), "h100_sxm", files);
  expect_recovered(fit, "gemm.bf16.max_efficiency", 0.70);
  expect_recovered(fit, "gemm.bf16.k_half", 90.0);
  expect_recovered(fit, "gemm.bf16.kernel_time_s", 4.5e-6);
  ASSERT_EQ(fit.parts.size(), 1U);
  EXPECT_EQ(fit.parts[0].samples, 45U);
  EXPECT_GT(fit.parts[0].error_before, 0.1);
  EXPECT_LT(fit.parts[0].error_after, kNoise);
}

// One GEMM of 8192^3 in 0.8 of the predicted rate: with its prior, 0.15 wide, it moves 1 / (1 +
// (0.08 / 0.15)^2) = 0.78 of ln 0.8, and a little of k_half and of the waves.
TEST(BenchmarkFit, MovesByOneGemmWhatOneCan) {
  const sim::GemmMachine known = sim::gemm_machine(h100s(1).device, sim::DType::Bf16);
  const sim::Operator op = sim::gemm("", 1, 8192, 8192, 8192, sim::DType::Bf16, sim::DType::Bf16);
  const double tflops = 0.8 * (op.flops / gemm_time(op, known)).value() * 1e-12;
  const std::vector<BenchmarkFile> files{hwdb::parse_benchmark_file(
      fmt::format("** Dtype: torch.bfloat16\nmedian: {:.3f} TFLOPS @ 8192x8192x8192 (MxNxK)\n",
                  tflops),
      "mamf.txt")};
  const BenchmarkChange one =
      changes_of(fit_benchmarks(shipped(), "h100_sxm", files)).at("gemm.bf16.max_efficiency");
  EXPECT_NEAR(std::log(one.after / one.before) / std::log(0.8), 0.78, 0.04);
  // What is left of both, 0.22 x 0.223 of the sample and 0.08 x 0.78 x 0.223 / 0.15 of the prior, is
  // 0.105 in all, for one degree of freedom: 0.105 / sqrt(1 + (0.08 / 0.15)^2).
  EXPECT_NEAR(*one.standard_error / one.after, 0.0928, 0.005);
}

TEST(BenchmarkFit, RecoversLinksOfOneNodeFromNcclTests) {
  sim::Cluster truth = h100s(8);
  truth.device.achieved.collective_fraction = 0.65;
  truth.fabric.latency = 5.0 * sim::us;
  const BenchmarkFit fit = fit_benchmarks(shipped(), "h100_sxm", nccl_files(truth));
  expect_recovered(fit, "collective_fraction", 0.65);
  expect_recovered(fit, "fabric.latency_s", 5e-6);
  EXPECT_LT(fit.parts.at(0).error_after, kNoise);
  EXPECT_GT(fit.parts.at(0).error_before, 2.0 * kNoise);
}

// At 400 GB/s of a node, 0.6 of it are less than what the links of a node reach.
TEST(BenchmarkFit, RecoversTheNetworkFromNcclTestsOverNodes) {
  sim::Cluster truth = h100s(32);
  truth.device.achieved.scale_out_fraction = 0.6;
  truth.network.latency = 25.0 * sim::us;
  const BenchmarkFit fit = fit_benchmarks(shipped(), "h100_sxm", nccl_files(truth));
  expect_recovered(fit, "scale_out_fraction", 0.6);
  expect_recovered(fit, "network.latency_s", 25e-6);
  EXPECT_FALSE(changes_of(fit).contains("collective_fraction"));
}

// One number of ranks tells what an all-to-all takes more in all, 200 us and 24 peers of 5 us, not
// how it is divided over them.
TEST(BenchmarkFit, DescribesAllToAllsOverNodes) {
  sim::Cluster truth = h100s(32);
  truth.network.all_to_all_latency = 200.0 * sim::us;
  truth.network.peer_latency = 5.0 * sim::us;
  Noise noise;
  const std::vector<BenchmarkFile> files{hwdb::parse_benchmark_file(
      nccl_text({"alltoall_perf", "none", CollectiveKind::AllToAll}, truth, noise), "a2a.txt")};
  const BenchmarkFit fit = fit_benchmarks(shipped(), "h100_sxm", files);
  ASSERT_EQ(fit.parts.size(), 1U);
  EXPECT_GT(fit.parts[0].error_before, 0.3);
  EXPECT_LT(fit.parts[0].error_after, kNoise);
  const auto changes = changes_of(fit);
  EXPECT_NEAR(changes.at("network.all_to_all_latency_s").after +
                  24.0 * changes.at("network.peer_latency_s").after,
              320e-6, 16e-6);
}

// Links inside of nodes that reach 0.3 of 450 GB/s are slower than any share of the network's 400
// from 0.34 on.
TEST(BenchmarkFit, SaysWhatMessagesDoNotTell) {
  const auto slow = [](int ranks) {
    sim::Cluster cluster = h100s(ranks);
    cluster.device.achieved.collective_fraction = 0.3;
    return cluster;
  };
  std::vector<BenchmarkFile> files = nccl_files(slow(8));
  for (BenchmarkFile& file : nccl_files(slow(32))) files.push_back(std::move(file));
  bool noted = false;
  for (const std::string& note : fit_benchmarks(shipped(), "h100_sxm", files).notes)
    noted = noted || note.starts_with("scale_out_fraction: these messages hardly tell it");
  EXPECT_TRUE(noted);
}

TEST(BenchmarkFit, MovesNothingWhereTheDeviceIsAsItShips) {
  const BenchmarkFit fit = fit_benchmarks(shipped(), "h100_sxm", nccl_files(h100s(8)));
  for (const auto& [key, one] : changes_of(fit))
    EXPECT_NEAR(one.after, one.before, 3.0 * *one.standard_error) << key;
}

// Half of each clock log is idle at its highest clock; 1584 of 1980 MHz are 0.8.
std::string clock_text(double loaded_mhz) {
  std::string text =
      "index, name, clocks.current.sm [MHz], clocks.max.sm [MHz], power.draw [W], "
      "enforced.power.limit [W], utilization.gpu [%]\n";
  for (int i = 0; i < 100; ++i) {
    const bool idle = i % 2 == 0;
    text += fmt::format("{}, NVIDIA H100 80GB HBM3, {} MHz, 1980 MHz, {} W, 500.00 W, {} %\n",
                        i % 8 / 2, idle ? 1980.0 : loaded_mhz, idle ? 110 : 490, idle ? 0 : 100);
  }
  return text;
}

TEST(BenchmarkFit, TakesTheClockUnderLoadAndThePowerLimit) {
  const std::vector<BenchmarkFile> files{
      hwdb::parse_benchmark_file(clock_text(1584.0), "clocks.csv")};
  const BenchmarkFit fit = fit_benchmarks(shipped(), "h100_sxm", files);
  const BenchmarkChange clock = changes_of(fit).at("sustained_clock");
  // ln 0.8 +- 0.03 and ln 0.856 +- 0.05: weights 1111 and 400.
  const double expected = std::exp((std::log(0.8) / 0.0009 + std::log(clock.before) / 0.0025) /
                                   (1.0 / 0.0009 + 1.0 / 0.0025));
  EXPECT_NEAR(clock.after, expected, 1e-12);
  EXPECT_NEAR(*clock.standard_error, expected / std::sqrt(1.0 / 0.0009 + 1.0 / 0.0025), 1e-12);
  EXPECT_EQ(fit.parts.at(0).samples, 50U);
  EXPECT_EQ(fit.power_limit, 500.0);
  EXPECT_EQ(fit.notes.at(0), "power under load: 490 W of a limit of 500 W");
}

std::string stream_text(double mb_per_s) {
  return fmt::format(
      "BabelStream\nVersion: 5.0\nImplementation: CUDA\nArray size: 2147.5 MB\n"
      "CUDA Device 0: \"NVIDIA H100 80GB HBM3\"\n"
      "Function    MB/s        Min (sec)   Max         Average\n"
      "Copy        {0:.3f} 0.00148     0.00150     0.00149\n"
      "Triad       {0:.3f} 0.00221     0.00225     0.00223\n",
      mb_per_s);
}

// 0.8 of 3350 GB/s, known to 2 %, and 0.8761 to 5 %.
TEST(BenchmarkFit, TakesTheRateOfLargeCopies) {
  const std::vector<BenchmarkFile> files{
      hwdb::parse_benchmark_file(stream_text(2'680'000.0), "stream.txt")};
  const BenchmarkChange memory =
      changes_of(fit_benchmarks(shipped(), "h100_sxm", files)).at("memory_fraction");
  const double expected = std::exp((std::log(0.8) / 0.0004 + std::log(memory.before) / 0.0025) /
                                   (1.0 / 0.0004 + 1.0 / 0.0025));
  EXPECT_NEAR(memory.after, expected, 1e-9);
  EXPECT_NEAR(memory.after, 0.8, *memory.standard_error);
}

TEST(BenchmarkFit, RefusesWhatTheDeviceCannotReach) {
  const std::vector<BenchmarkFile> copies{
      hwdb::parse_benchmark_file(stream_text(4'680'000.0), "stream.txt")};
  EXPECT_EQ(error_of([&] { fit_benchmarks(shipped(), "h100_sxm", copies); }),
            "stream.txt: Copy: 4680 GB/s are above the memory bandwidth of h100_sxm, 3350; another "
            "device, or arrays that its cache holds?");
  sim::GemmMachine truth = sim::gemm_machine(h100s(1).device, sim::DType::Bf16);
  truth.peak *= 2.0;
  const std::vector<BenchmarkFile> gemms{
      hwdb::parse_benchmark_file(hipblaslt_text(truth), "gemms.csv")};
  const std::string why = error_of([&] { fit_benchmarks(shipped(), "h100_sxm", gemms); });
  EXPECT_NE(why.find("TFLOPS are above the peak of h100_sxm, 989"), std::string::npos) << why;
}

// Two ranks on each of two nodes use an adapter each of eight.
TEST(BenchmarkFit, LeavesOutGroupsThatShareNodesWithOthers) {
  sim::Cluster truth = h100s(16);
  truth.num_devices = 4, truth.devices_per_node = 2;
  const std::string why =
      error_of([&] { fit_benchmarks(shipped(), "h100_sxm", nccl_files(truth)); });
  EXPECT_EQ(why,
            "nothing in these files can be fitted: nccl.txt: 2 ranks on each of 2 nodes do not use "
            "all adapters of a node");
}

// --- devices and sites ---

TEST(BenchmarkedDevice, IsTheOneThatTheFilesName) {
  BenchmarkFile file{.file = "a.txt"};
  const auto device_of = [&](const std::string& name) {
    file.device_name = name;
    return benchmarked_device(shipped(), std::vector<BenchmarkFile>{file});
  };
  EXPECT_EQ(device_of("NVIDIA H100 80GB HBM3"), "h100_sxm");
  const auto why = [&](const std::string& name) { return error_of([&] { device_of(name); }); };
  EXPECT_EQ(why("NVIDIA A100-SXM"),
            "the files name a device 'NVIDIA A100-SXM', which may be a100_custom_64 or a100_sxm_40 "
            "or a100_sxm_80; "
            "pass --like");
  EXPECT_NE(why("NVIDIA H20").find("which the catalogue does not have"), std::string::npos);
  EXPECT_NE(why("").find("the files do not name their device; pass --like"), std::string::npos);
  const std::vector<BenchmarkFile> two{{.file = "a.txt", .device_name = "NVIDIA H200"},
                                       {.file = "b.txt", .device_name = "NVIDIA B200"}};
  EXPECT_EQ(error_of([&] { benchmarked_device(shipped(), two); }),
            "the files are of several devices, b200_sxm, h200_sxm; give those of one device, or "
            "pass --like");
}

// Collectives that all take 1.25 times as long as predicted run at 0.8 of the rate; of its
// logarithm, known to 8 %, the prior of 20 % leaves 0.2^2 / (0.2^2 + 0.08^2) = 0.862.
TEST(BenchmarkedSite, HoldsTheRateOfCollectives) {
  std::vector<BenchmarkFile> files = nccl_files(h100s(8));
  for (BenchmarkFile& file : files) {
    for (hwdb::MeasuredCollective& one : file.collectives)
      one.median = 1.25 * predicted({one.kind, one.message, {}, one.ranks, 1.0}, h100s(8));
  }
  const hwdb::Site site = benchmarked_site(shipped(), "h100_sxm", files, "ours");
  const double share = 0.04 / (0.04 + 0.0064);
  EXPECT_NEAR(site.effects.network, share * std::log(0.8), 1e-12);
  EXPECT_NEAR(site.deviations.network, 0.2 * std::sqrt(1.0 - share), 1e-12);
  EXPECT_EQ(site.effects.memory, 0.0);
  EXPECT_EQ(site.effects.step, 0.0);
  EXPECT_DOUBLE_EQ(site.deviations.memory, 0.10);
  EXPECT_TRUE(site.cells.empty());
  EXPECT_NE(site.fitted_from.find("nccl-tests"), std::string::npos);
}

TEST(BenchmarkedSite, HoldsNoClock) {
  const std::vector<BenchmarkFile> files{
      hwdb::parse_benchmark_file(clock_text(1584.0), "clocks.csv")};
  const std::string why = error_of([&] { benchmarked_site(shipped(), "h100_sxm", files, "ours"); });
  EXPECT_NE(why.find("store what GEMMs and clocks say as a device"), std::string::npos) << why;
}

}  // namespace
}  // namespace llmsim::calibrate
