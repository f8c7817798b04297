#include "calibrate/library_fit.h"

#include <algorithm>
#include <cmath>

#include "calibrate/statistics.h"

namespace llmsim::calibrate {
namespace {

using hwdb::MeasuredKernel;
using sim::OperatorKind;

constexpr double kRowBytes = 16.0;
constexpr sim::Bytes kLargeCopy = 64.0 * sim::MiB;

// The rows of a GEMM's factors and of its result.
std::pair<std::int64_t, std::int64_t> row_lengths(const sim::Operator& gemm) {
  return {gemm.n, gemm.weight_gradient ? gemm.m : gemm.k};
}

bool have_aligned_rows(const sim::Operator& gemm) {
  const auto [first, second] = row_lengths(gemm);
  const int alignment = row_alignment(gemm.dtype);
  return first % alignment == 0 && second % alignment == 0;
}

bool is_gemm(const MeasuredKernel& kernel, sim::DType dtype) {
  return kernel.library == "library_gemm" && kernel.op.dtype == dtype && !kernel.zeros;
}

}  // namespace

int row_alignment(sim::DType dtype) {
  return static_cast<int>(kRowBytes / sim::size_of(dtype).value());
}

std::vector<GemmSample> library_gemms(const hwdb::RuntimeResults& results, sim::DType dtype) {
  std::vector<GemmSample> samples;
  for (const MeasuredKernel& kernel : results.kernels) {
    if (is_gemm(kernel, dtype) && have_aligned_rows(kernel.op))
      samples.push_back({.gemm = kernel.op, .time = kernel.median});
  }
  return samples;
}

MisalignedRates misaligned_rates(const hwdb::RuntimeResults& results, sim::DType dtype,
                                 const sim::GemmMachine& fitted) {
  sim::GemmMachine aligned = fitted;
  aligned.coefficients.alignment = 1;
  MisalignedRates rates;
  for (const MeasuredKernel& kernel : results.kernels) {
    if (!is_gemm(kernel, dtype) || have_aligned_rows(kernel.op)) continue;
    const auto [first, second] = row_lengths(kernel.op);
    const double rate = gemm_time(kernel.op, aligned) / kernel.median;
    (first % 2 == 0 && second % 2 == 0 ? rates.even : rates.odd)
        .push_back({rate, kernel.spread * rate});
  }
  return rates;
}

std::vector<AttentionSample> attention_samples(const hwdb::RuntimeResults& results,
                                               sim::DType dtype,
                                               const std::string& implementation) {
  std::vector<AttentionSample> samples;
  for (const MeasuredKernel& kernel : results.kernels) {
    const bool own = kernel.library.empty();
    if (kernel.op.kind != OperatorKind::Attention || kernel.op.dtype != dtype) continue;
    if (own ? implementation != "blockwise" : kernel.attention != implementation) continue;
    AttentionSample sample{.forward = kernel.op, .time = kernel.median};
    sample.forward.repeats = 1.0;
    if (kernel.backward) {  // twice the FLOPs and bytes of forward
      sample.pass = AttentionPass::Backward;
      sample.forward.flops /= 2.0;
      sample.forward.moved /= 2.0;
    }
    samples.push_back(sample);
  }
  return samples;
}

std::vector<Repeated> sustained_clocks(const hwdb::RuntimeResults& results,
                                       const sim::GemmMachine& fitted) {
  std::vector<double> of_gemms;
  for (const MeasuredKernel& kernel : results.kernels) {
    if (is_gemm(kernel, sim::DType::Bf16) && kernel.clock_hz) of_gemms.push_back(*kernel.clock_hz);
  }
  std::vector<Repeated> clocks;
  for (const hwdb::MeasuredStep& step : results.steps) {
    sim::Strategy strategy;
    put(step.run.training.strategy, strategy);
    if (strategy.precision == sim::Precision::Bf16 && step.clock_hz && !of_gemms.empty())
      clocks.push_back({std::min(1.0, *step.clock_hz / median(of_gemms)), 0.0});
  }
  if (!clocks.empty()) return clocks;
  for (const MeasuredKernel& kernel : results.kernels) {
    if (kernel.library != "sustained_gemm") continue;
    const double rate = gemm_time(kernel.op, fitted) / kernel.median;
    clocks.push_back({std::min(1.0, rate), kernel.spread * rate});
  }
  return clocks;
}

std::vector<Repeated> host_link_rates(const hwdb::RuntimeResults& results) {
  std::vector<Repeated> rates;
  for (const MeasuredKernel& kernel : results.kernels) {
    const bool pinned = kernel.label.find("pageable") == std::string::npos;
    if (kernel.library != "host_copy" || !pinned || kernel.op.moved < kLargeCopy) continue;
    const double rate = (kernel.op.moved / kernel.median).value();
    rates.push_back({rate, kernel.spread * rate});
  }
  return rates;
}

}  // namespace llmsim::calibrate
