#include "calibrate/kernel_fit_table.h"

namespace llmsim::calibrate {
namespace {

using enum sim::DType;
using Table = std::vector<KernelFitLine>;

// Kernel times of AMD devices are of hipBLASLt in one stream.
constexpr double kHipKernelTime = 5e-6;

KernelFitLine stated(const std::string& id, const std::string& key, double value, double error,
                     sim::Evidence evidence, const std::string& source,
                     const std::string& fitted_from = "") {
  return StateCoefficient{
      {"device", id, key, value, error, evidence, source, fitted_from, hwdb::Origin::Shipped}};
}

KernelFitLine assumed(const std::string& id, const std::string& key, double value, double error,
                      const std::string& source) {
  return stated(id, key, value, error, sim::Evidence::Assumed, source);
}

void append(Table& table, Table lines) { table.insert(table.end(), lines.begin(), lines.end()); }

Table nvidia_gemms() {
  Table table;
  for (const char* id :
       {"a100_sxm_80", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "l40s"})
    table.push_back(FitGrids{id});
  append(table, {
                    FitBestGemm{{"gb300", Bf16}, {"gb200", Bf16}},
                    FitBestGemm{{"gb300", Fp8}, {"gb200", Fp8}},
                    FitBestGemm{{"rtx_pro_6000_server", Bf16}, {"l40s", Bf16}},
                    FitBestGemm{{"rtx_pro_6000_server", Fp8}, {"l40s", Fp8}},
                });
  for (const char* id : {"b200_sxm", "b300_sxm", "gb200", "gb300", "rtx_pro_6000_server"})
    table.push_back(FitBestGemm{{id, Fp4}, {id, Fp8}});
  append(table, {
                    FitTrainingShapes{"a100_pcie_80", "a100_sxm_80"},
                    assumed("a100_pcie_80", "sustained_clock", 1.0, 0.03,
                            "its max_efficiency was measured within a training process"),
                    FitWeightGradient{"b200_sxm"},
                    FitSustainedClock{{"a100_sxm_80"}},
                    FitSustainedClock{{"h100_sxm", "h200_sxm"}},
                    FitSustainedClock{{"b200_sxm", "b300_sxm", "gb200", "gb300"}},
                });
  return table;
}

Table amd_gemms() {
  const GemmsOf mi210{"mi210", Fp16};
  Table table{FitLargeGemms{mi210, std::nullopt, kHipKernelTime}};
  for (const char* id : {"mi250x_gcd", "mi300x", "mi325x", "mi355x"}) {
    table.push_back(FitLargeGemms{{id, Bf16}, mi210});
    for (const sim::DType dtype : {Fp16, Bf16, Fp8})
      table.push_back(AssumeCurve{{id, dtype}, mi210, 2e-6});
  }
  append(table, {
                    FitLargeGemms{{"mi300x", Fp8}, mi210},
                    FitLargeGemms{{"mi355x", Fp8}, mi210},
                    FitSustainedClock{{"mi300x"}},
                    FitSustainedClock{{"mi325x"}},
                });
  return table;
}

Table other_gemms() {
  Table table{AssumeCurve{{"v100_sxm_32", Fp16}, {"a100_sxm_80", Bf16}, 1e-6}};
  table.push_back(
      assumed("v100_sxm_32", "gemm.fp16.max_efficiency", 0.8, 0.08,
              "cuBLAS in fp16: 85 TFLOP/s in 2019 (hma02/cublasHgemm-P100 pull request 1), "
              "95 to 100 at m = 2048 with CUDA 12.9 (lablup/mlxcel issue 1654), of 112 that "
              "a V100 on PCIe can: 0.76 and 0.87; the releases of 2021 lie between"));
  for (const char* id : {"a100_sxm_80", "h100_sxm", "b200_sxm", "l40s", "v100_sxm_32", "mi300x"})
    table.push_back(AssumeFp32Curve{id});
  // L40S multiplies as its power limit allows, short K loops too; a unit of RTX 4090 has half its
  // rate and 1.3 times its power.
  for (const sim::DType dtype : {Bf16, Fp16}) {
    const std::string format = dtype == Bf16 ? "bf16" : "fp16";
    table.push_back(AssumeCurve{{"rtx4090", dtype}, {"a100_sxm_80", Bf16}, 1e-6});
    table.push_back(assumed("rtx4090", "gemm." + format + ".max_efficiency", 0.92, 0.05,
                            "L20, whose units have the same rate and no limit in reach, runs 105 "
                            "to 115 of 119.5 TFLOP/s with cuBLAS (DefTruth/CUDA-Learn-Notes hgemm "
                            "README)"));
  }
  table.push_back(
      assumed("t4", "sustained_clock", 0.6, 0.1,
              "as v100_sxm_32, made in the same process, by power for each FLOP "
              "(sim/hardware/device.h): 70 W for 65 TFLOP/s, 300 W for 125; T4 throttles "
              "under load (arXiv 1903.07486)"));
  return table;
}

// What single shapes say.  Attention without a fused kernel multiplies in batches, whose every
// factor starts at a misaligned address where heads are no multiples of 8.  Steps tell more than
// such shapes: Framework::misaligned_gemm_rate and misaligned_batch_rate are factors of the fit to
// whole runs.
Table misaligned_gemms() {
  Table table;
  for (const char* id : {"a100_sxm_80", "h100_sxm", "mi250x_gcd", "mi300x"}) {
    table.push_back(assumed(
        id, "gemm.misaligned_factor", 0.45, 0.25,
        "0.8 where results alone are misaligned (1024x2145x1024 against aligned squares on "
        "A100 and H100, Azure/AI-benchmarking-guide); 0.19 where factors are, as those of "
        "batches; of the three GEMMs of an odd vocabulary one and two: 0.26 if each counts by "
        "its time, 0.8 at best; the geometric mean"));
    table.push_back(
        assumed(id, "gemm.misaligned_batch_factor", 0.19, 0.23,
                "between no loss and the 27 times that bf16 GEMMs of odd width and large k "
                "take (pytorch issue 106469): the geometric mean"));
  }
  table.push_back(
      assumed("v100_sxm_32", "gemm.misaligned_factor", 0.35, 0.15,
              "cuBLAS before 11 leaves the tensor cores unless all dimensions are multiples of 8"));
  return table;
}

Table nvidia_attention() {
  Table table;
  for (const char* id : {"a100_sxm_80", "h100_sxm"}) {
    table.push_back(FitAttention{id, "", {"FlashAttention-2"}});
    table.push_back(AssumeAttention{
        id, "flash-triton.", id, "", 1.0 / 1.55,
        "FlashAttention-2 is 1.3 to 2.5 times as fast as FlashAttention in Triton (arXiv "
        "2307.08691); 1.55 in MPT throughput tables "
        "of A100-40, A100-80 and H100, 16k tokens and more"});
  }
  append(
      table,
      {
          FitAttention{"a100_sxm_80", "flash-1.", {"FlashAttention-1"}},
          FitAttention{"h100_sxm", "flash-1.", {"FlashAttention-1"}},
          FitAttention{"h100_sxm", "flash-3.", {"FlashAttention-3"}},
          FitAttention{"h100_sxm", "cudnn.", {"cuDNN"}},
          // Of kernels whose own rates nobody measured.
          FitAttention{
              "b200_sxm", "", {"FlashAttention-4 (CuTe DSL)", "FlashAttention-4, 1-CTA backward"}},
          FitAttention{"b200_sxm", "flash-2.", {"FlashAttention-2 (2.7.4)"}},
          FitAttention{"h200_sxm", "cudnn.", {"cuDNN 9.19"}},
          FitAttention{"gb200", "cudnn.", {"cuDNN 9.19"}},
          AssumeAttention{"b200_sxm", "cudnn.", "gb200", "cudnn.", 1.0,
                          "as gb200, which has the same chip"},
          FitAttention{"gb300", "cudnn.", {"cuDNN 9.19"}},
          AssumeAttention{"b300_sxm", "cudnn.", "gb300", "cudnn.", 1.0,
                          "as gb300, which has the same chip"},
      });
  return table;
}

Table amd_attention() {
  return {
      FitAttention{"mi355x", "", {"Composable Kernel"}},
      FitAttention{"mi355x", "aotriton.", {"torch SDPA"}},
      FitAttention{"mi355x", std::nullopt, {"AITER (FlashAttention-class, assembly)"}},
      AssumeAttention{"mi300x", "", "mi355x", "", 1.4,
                      "1.4 of Composable Kernel's fraction of peak on mi355x: 328.6 TFLOP/s of "
                      "FlashAttention-2, 8192 tokens"},
      AssumeAttention{"mi300x", "aotriton.", "mi355x", "aotriton.", 1.4,
                      "1.4 of PyTorch's fraction of peak on mi355x, as Composable Kernel"},
      AssumeAttention{"mi250x_gcd", "", "mi355x", "", 1.0,
                      "Composable Kernel's fraction of peak on mi355x"},
      // The backward pass of AOTriton's first kernels, as nightly builds had them before they were
      // fixed; releases were half as fast.  At one or two per cent of the matrix peak it waits for
      // registers, shared memory and memory, not for the matrix units: from device to device its rate
      // goes with compute units times clock (data sheets: 304 at 2.1 GHz, 110 at 1.7 GHz: 0.293) or
      // with memory bandwidth (5.3 and 1.64 TB/s: 0.309), and is twice the fraction of the peak on
      // CDNA2: 19.9 * 0.30 / 191.5.
      stated(
          "mi300x", "attention.aotriton-first.backward", 0.0152, 0.006, sim::Evidence::Measured,
          "the kernel alone runs 19.9 TFLOP/s in the nightly build of 2024-09-07 (pytorch issue "
          "135431); in release 2.3.0 9.6, and 7.8 to 9.7 at 1024 and 2048 tokens, causal (pytorch "
          "pull request 122857, 2024-04)"),
      assumed(
          "mi250x_gcd", "attention.aotriton-first.backward", 0.031, 0.012,
          "19.9 TFLOP/s of the kernel alone on mi300x (pytorch issue 135431) times 0.30, the ratio "
          "of compute units times clock and of memory bandwidth (data sheets)"),
  };
}

Table collectives() {
  Table table;
  for (const char* id :
       {"a100_sxm_80", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "mi300x"})
    table.push_back(FitFabric{id});
  append(table, {
                    FitAllToAll{"h100_sxm", "aws_p5", {"aws_p5en", "aws_p6_b200", "aws_p6_b300"}},
                    DescribeNetwork{"h100_sxm"},
                    DescribeNetwork{"mi300x"},
                    DescribeNetwork{"a100_sxm_80", "aws_p4d"},
                    DescribeNetwork{"h100_sxm", "aws_p5"},
                });
  return table;
}

}  // namespace

const std::vector<KernelFitLine>& kernel_fit_table() {
  static const Table table = [] {
    Table all;
    for (const auto& lines : {nvidia_gemms(), amd_gemms(), other_gemms(), misaligned_gemms(),
                              nvidia_attention(), amd_attention(), collectives()})
      append(all, lines);
    return all;
  }();
  return table;
}

}  // namespace llmsim::calibrate
