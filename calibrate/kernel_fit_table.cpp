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
  // No GEMM of V100 is in the facts.  (Its max_efficiency comes from a measured run.)
  Table table{AssumeCurve{{"v100_sxm_32", Fp16}, {"a100_sxm_80", Bf16}, 1e-6}};
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

// A 1.2B model (24 layers of 2048) whose head has 50257 rows takes 1.11 times as long as with
// 50304; the head's GEMMs are 7.9 % of its FLOPs, so they run at 0.079 / (0.079 + 0.11) = 0.42 of
// the aligned rate.  1024 x 2145 x 1024 costs less, 0.8, but is a few microseconds of launch and
// fill.
//
// Attention without a fused kernel multiplies in batches, and heads of 108, 150 and 450 (no
// multiples of 8) put every factor at a misaligned address: BLOOM candidates with them take 1.3 to
// 1.4 times as long although attention is 3 % of their FLOPs.
Table misaligned_gemms() {
  Table table;
  for (const char* id : {"a100_sxm_80", "h100_sxm", "mi250x_gcd", "mi300x"}) {
    table.push_back(assumed(id, "gemm.misaligned_factor", 0.42, 0.15,
                            "vocabulary 50257 against 50304: +11 % of a 1.2B step whose head is "
                            "7.9 % of its FLOPs; 1024x2145x1024 "
                            "against aligned squares gives 0.8"));
  }
  append(
      table,
      {
          stated("a100_sxm_80", "gemm.misaligned_batch_factor", 0.08, 0.03, sim::Evidence::Fitted,
                 "BLOOM tuning log on A100: steps with heads of 108, 150 and 450 against 96 to 216 "
                 "at equal width",
                 "10 steps of 3 head sizes at tensor parallelism 4 and 8; heads of 104 and 112, "
                 "multiples of 8, lose "
                 "nothing"),
          assumed("h100_sxm", "gemm.misaligned_batch_factor", 0.08, 0.05, "as a100_sxm_80"),
          assumed(
              "v100_sxm_32", "gemm.misaligned_factor", 0.35, 0.15,
              "cuBLAS before 11 leaves the tensor cores unless all dimensions are multiples of 8"),
      });
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
      // The backward pass of AOTriton's first kernels: what is known is its rate in one run each.
      stated("mi300x", "attention.aotriton-first.backward", 0.0073, 0.002, sim::Evidence::Measured,
             "9.6 TFLOP/s: pytorch issue 135431 (2024-09)"),
      stated("mi250x_gcd", "attention.aotriton-first.backward", 0.0335, 0.004,
             sim::Evidence::Fitted,
             "Llama 3 8B on 8 Frontier nodes, 645 tokens/s before and 1250 after pytorch issue "
             "135431 was fixed",
             "the difference of two step times, 6.15 s for 44 TFLOP"),
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
