#include "calibrate/measured_kernels.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/error_of.h"

namespace llmsim::calibrate {
namespace {

std::string error_in(const std::string& line) {
  return error_of([&] { parse_kernel_fits(R"({"fits": [)" + line + "]}", "fits.json"); });
}

TEST(KernelFitTable, ALineHasWhatItStates) {
  const std::vector<KernelFitLine> lines = parse_kernel_fits(
      R"({"about": "", "fits": [{"fit": "large_gemms", "devices": ["a", "b"], "kernel_time": 5e-6}]})",
      "fits.json");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].devices, (sim::Words{"a", "b"}));
  EXPECT_DOUBLE_EQ(lines[0].kernel_time.value(), 5e-6);
  EXPECT_EQ(lines[0].format, "bf16");
  EXPECT_FALSE(lines[0].kernel.has_value());
}

TEST(KernelFitTable, MistakesAreNamed) {
  EXPECT_EQ(error_in(R"({"fit": "grids", "device": "a"})"),
            "fits.json: fits[0]: device: no such field");
  EXPECT_EQ(error_in(R"({"fit": "grids", "devices": "a"})"),
            "fits.json: fits[0]: devices = a: a list of texts is expected");
  EXPECT_NE(error_in(R"({"fit": {"grids": 1}})").find("fits.json: fit"), std::string::npos);
  EXPECT_EQ(error_of([] { gemms_of("h100_sxm", "bf15"); }), "format = bf15: no such number format");
}

// One database of all, which takes a while to open, and in it a device of each test's own.
hwdb::Database& all_measurements() {
  static hwdb::Database all(":memory:");
  return all;
}

std::string new_device() {
  static int number = 0;
  return "nobodys_device_" + std::to_string(++number);
}

void put(const std::string& device, const std::string& subject, const std::string& record,
         const std::string& columns = "", const std::string& points = "") {
  all_measurements().put(hwdb::Measurement{.subject = subject,
                                           .accelerator = device,
                                           .source = "by hand",
                                           .record = record,
                                           .columns = columns,
                                           .points = points});
}

std::vector<CollectiveSample> curves(const std::string& record, const std::string& columns,
                                     const std::string& points, bool one_node = true,
                                     const std::optional<std::string>& system = std::nullopt) {
  const std::string device = new_device();
  put(device, "collectives", record, columns, points);
  return collective_curves(all_measurements(), device, one_node, system);
}

// 64 KiB at a bus bandwidth of 2 GB/s: 3 / 4 of them by each of 4 ranks, twice for an all-reduce.
TEST(CollectiveCurves, HaveTheTimeOfTheirBusBandwidth) {
  const auto of = [](const std::string& op) {
    return curves(R"({"op": ")" + op + R"(", "nodes": 1, "ranks": 4})",
                  R"(["bytes", "busbw_GB_per_s"])",
                  "[[65536, 2.0], [131072, 0.0], [8192, 1.0], [16384, 1.0]]");
  };
  for (const auto& [op, rounds] : {std::pair("all_reduce", 2.0),
                                   {"all_gather", 1.0},
                                   {"reduce_scatter", 1.0},
                                   {"alltoall", 1.0}}) {
    const std::vector<CollectiveSample> samples = of(op);
    ASSERT_EQ(samples.size(), 2u) << op;  // not what took forever, and nothing below 16 KiB
    EXPECT_DOUBLE_EQ(samples[0].time.value(), rounds * 0.75 * 65536.0 / 2e9) << op;
    EXPECT_DOUBLE_EQ(samples[1].time.value(), rounds * 0.75 * 16384.0 / 1e9) << op;
    EXPECT_EQ(samples[0].message.value(), 65536.0);
    EXPECT_EQ(samples[0].ranks, 4);
    EXPECT_EQ(samples[0].weight, 0.5);
  }
  EXPECT_EQ(of("all_reduce")[0].kind, sim::CollectiveKind::AllReduce);
  EXPECT_EQ(of("alltoall")[0].kind, sim::CollectiveKind::AllToAll);
  EXPECT_TRUE(of("broadcast").empty());
}

TEST(CollectiveCurves, HaveTheTimeThatIsStated) {
  const auto samples = curves(R"({"op": "all_gather", "nodes": 1, "ranks": 8})",
                              R"(["bytes", "time_us", "busbw_GB_per_s"])", "[[65536, 12.5, 9.0]]");
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_DOUBLE_EQ(samples[0].time.value(), 12.5e-6);
}

TEST(CollectiveCurves, AreOfOneNodeOrOfSeveralOfTheSystem) {
  const std::string columns = R"(["bytes", "time_us"])", points = "[[65536, 12.5]]";
  const std::string one = R"({"op": "all_gather", "nodes": 1, "ranks": 8})",
                    two = R"({"op": "all_gather", "nodes": 2, "ranks": 8, "system": "s"})",
                    asked = R"({"op": "all_gather", "nodes": 1, "ranks": 8,
                                "kind": "acceptance threshold"})";
  EXPECT_EQ(curves(one, columns, points).size(), 1u);
  EXPECT_TRUE(curves(one, columns, points, false).empty());
  EXPECT_TRUE(curves(one, columns, points, true, "s").empty());
  EXPECT_EQ(curves(two, columns, points, false, "s").size(), 1u);
  EXPECT_TRUE(curves(two, columns, points, true, "s").empty());
  EXPECT_TRUE(curves(two, columns, points, false, "t").empty());
  EXPECT_TRUE(curves(asked, columns, points).empty());
}

std::vector<AttentionSample> attention(const std::string& fields) {
  const std::string device = new_device();
  put(device, "attention",
      R"({"implementation": "I", "seq_len": 1024, "achieved_flops": 1e14, )" + fields + "}");
  return attention_table(all_measurements(), device, {"H", "I"});
}

// The hidden size of the tables is 2048: 16 heads of 128.
TEST(AttentionTable, HasTheFlopsOfThePublishedRates) {
  const std::string shape = R"("batch": 2, "head_dim": 128, "causal": false)";
  const double forward = 4.0 * 2 * 16 * 1024 * 1024 * 128;
  for (const auto& [direction, times] : {std::pair("fwd", 1.0), {"bwd", 2.5}, {"fwd+bwd", 3.5}}) {
    const auto samples = attention(shape + R"(, "direction": ")" + direction + R"(")");
    ASSERT_EQ(samples.size(), 1u) << direction;
    EXPECT_DOUBLE_EQ(samples[0].time.value(), times * forward / 1e14) << direction;
    EXPECT_EQ(samples[0].forward.batch, 32);
    EXPECT_DOUBLE_EQ(samples[0].forward.flops.value(), forward);
  }
  const std::string fwd = R"(, "direction": "fwd")";
  EXPECT_EQ(attention(shape + fwd + R"(, "hidden": 4096)")[0].forward.batch, 64);
  EXPECT_EQ(attention(shape + fwd + R"(, "hidden": 4096, "heads": 8)")[0].forward.batch, 16);
  EXPECT_TRUE(attention(shape).empty());
  EXPECT_TRUE(attention(shape + R"(, "direction": "both")").empty());
  EXPECT_TRUE(attention(R"("batch": 2, "head_dim": 128)" + fwd).empty());
  EXPECT_TRUE(attention(R"("batch": 2, "causal": false)" + fwd).empty());
  EXPECT_TRUE(attention(R"("head_dim": 128, "causal": false)" + fwd).empty());
  const std::string device = new_device();
  EXPECT_TRUE(attention_table(all_measurements(), device, {"I"}).empty());
}

TEST(GemmTable, HasTheGemmsOfAKindAndAFormat) {
  const std::string device = new_device();
  const auto add = [&](const std::string& kind, const std::string& dtype,
                       const std::string& shape = R"("m": 64, "n": 128, "k": 256)") {
    put(device, "matmul",
        R"({"kind": ")" + kind + R"(", "dtype": ")" + dtype + R"(", "achieved_flops": 1e12, )" +
            shape + "}");
  };
  add("long runs", "bf16");
  add("long runs", "fp8_e4m3");
  add("long runs", "fp8");
  add("long runs", "fp16");
  add("long runs", "int4");
  add("short ones", "bf16");
  for (const char* other : {"threshold", "MAMF v1", "HipKittens", "AITER", "sample output"})
    add(std::string("long runs, ") + other, "bf16");
  add("long runs", "bf16", R"("n": 128)");
  const auto count = [&](const std::string& kind, sim::DType dtype) {
    return gemm_table(all_measurements(), device, kind, dtype).size();
  };
  EXPECT_EQ(count("", sim::DType::Bf16), 2u);
  EXPECT_EQ(count("long", sim::DType::Bf16), 1u);
  EXPECT_EQ(count("long", sim::DType::Fp8), 2u);
  EXPECT_EQ(count("long", sim::DType::Fp16), 1u);
  EXPECT_EQ(count("long", sim::DType::Fp32), 0u);
  const GemmSample sample = gemm_table(all_measurements(), device, "short", sim::DType::Bf16).at(0);
  EXPECT_DOUBLE_EQ(sample.time.value(), 2.0 * 64 * 128 * 256 / 1e12);
  EXPECT_EQ(std::tuple(sample.gemm.m, sample.gemm.n, sample.gemm.k), std::tuple(64, 128, 256));
  // Two bytes for a 16-bit value; results of 8-bit GEMMs have 16 bits.
  EXPECT_DOUBLE_EQ(sample.gemm.moved.value(), 2.0 * (64 * 256 + 256 * 128 + 64 * 128));
  EXPECT_DOUBLE_EQ(
      gemm_table(all_measurements(), device, "long", sim::DType::Fp8).at(0).gemm.moved.value(),
      64 * 256 + 256 * 128 + 2.0 * 64 * 128);
  EXPECT_TRUE(chart_rates(all_measurements(), device).empty());
  put(device, "matmul",
      R"({"kind": "AMD's 'max-achievable FLOPs' estimate", "achieved_flops": 7e14})");
  EXPECT_EQ(chart_rates(all_measurements(), device), std::vector<double>{7e14});
}

// From 0.13 TFLOP on, with columns that are a multiple of 8.
TEST(LargeGemms, AreLargeAndAligned) {
  const auto kept = [](int m, int n, int k) {
    return large_gemms({{sim::gemm("", 1, m, n, k, sim::DType::Bf16, sim::DType::Bf16), {}}})
        .size();
  };
  EXPECT_EQ(kept(4096, 4096, 4096), 1u);
  EXPECT_EQ(kept(4096, 4100, 4096), 0u);
  EXPECT_EQ(kept(4096, 4096, 3872), 0u);  // 0.12992 TFLOP
  EXPECT_EQ(kept(4096, 4096, 3880), 1u);  // 0.13019
}

// Half of 2e12 FLOP/s.  An accumulated gradient is read in fp32, and written.
TEST(TrainingShapes, AreOfEveryPass) {
  const std::string device = new_device();
  put(device, "matmul_training_shape_efficiency",
      R"({"peak_flops": 2e12, "rows": [
          {"op": "matmul", "shape": "b=1, m=64, k=256, n=128, layout=TN", "efficiency": 0.5},
          {"op": "matmul", "shape": "b=1, m=64, k=256, n=128, layout=NT", "efficiency": 0.25},
          {"op": "group_matmul", "shape": "ng=2", "efficiency": 0.5}]})");
  const std::vector<GemmSample> samples = training_shapes(all_measurements(), device);
  ASSERT_EQ(samples.size(), 2u);
  const double flops = 2.0 * 64 * 128 * 256, factors = 2.0 * (64 * 256 + 256 * 128);
  EXPECT_DOUBLE_EQ(samples[0].time.value(), flops / 1e12);
  EXPECT_DOUBLE_EQ(samples[1].time.value(), flops / 0.5e12);
  EXPECT_FALSE(samples[0].gemm.weight_gradient);
  EXPECT_TRUE(samples[1].gemm.weight_gradient);
  EXPECT_DOUBLE_EQ(samples[0].gemm.moved.value(), factors + 2.0 * 64 * 128);
  EXPECT_DOUBLE_EQ(samples[1].gemm.moved.value(), factors + 8.0 * 64 * 128);
  EXPECT_EQ(training_shapes_source(all_measurements(), device), "by hand");
}

TEST(BestGemms, AreByCollectorInAFormat) {
  const std::string device = new_device();
  for (const auto& [framework, dtype, flops] : {std::tuple("a", "bfloat16", "1e14"),
                                                {"b", "bfloat16", "2e14"},
                                                {"a", "fp8", "3e14"},
                                                {"a", "nvfp4", "4e14"}})
    put(device, "matmul_best_by_collector",
        std::string(R"({"framework": ")") + framework + R"(", "dtype": ")" + dtype +
            R"(", "best_flops": )" + flops + "}");
  using Best = std::map<std::string, double>;
  EXPECT_EQ(best_gemms(all_measurements(), {device, sim::DType::Bf16}),
            (Best{{"a", 1e14}, {"b", 2e14}}));
  EXPECT_EQ(best_gemms(all_measurements(), {device, sim::DType::Fp8}), (Best{{"a", 3e14}}));
  EXPECT_EQ(best_gemms(all_measurements(), {device, sim::DType::Fp4}), (Best{{"a", 4e14}}));
}

// Microseconds; the input of an 8-bit GEMM, m x k, is quantised within its time.
TEST(GemmGrids, AreByFormat) {
  const std::string device = new_device();
  for (const char* dtype : {"bf16", "fp8"})
    put(device, "matmul_grids", std::string(R"({"dtype": ")") + dtype + R"("})",
        R"(["m", "n", "k", "time_us"])", "[[64, 128, 256, 7.0]]");
  const std::vector<GemmGrid> grids = gemm_grids(all_measurements(), device);
  ASSERT_EQ(grids.size(), 2u);
  EXPECT_EQ(grids[0].dtype, sim::DType::Bf16);
  EXPECT_EQ(grids[1].dtype, sim::DType::Fp8);
  EXPECT_EQ(grids[0].samples.at(0).time.value(), 7.0 * 1e-6);
  EXPECT_EQ(grids[0].samples.at(0).quantised, 0.0);
  EXPECT_EQ(grids[1].samples.at(0).quantised, 64.0 * 256.0);
}

}  // namespace
}  // namespace llmsim::calibrate
