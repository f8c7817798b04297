// The table of the fits of kernels and collectives: what is fitted to which measurements of the
// database, what is taken from a sibling, and what is stated with its source.  Each kind of line is
// a struct; kernel_fits.h carries them out in their order.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "calibrate/measured_kernels.h"
#include "hwdb/store/database.h"

namespace llmsim::calibrate {

// All grids of a device; that of bf16, which comes first, is the prior
// of the low-precision formats.
struct FitGrids {
  std::string id;
};

// GEMMs without a grid have the curve of others, `like`, and the height that the best GEMM of the
// same collector gives:
//
//   max_efficiency P = like.max_efficiency like.P best / like.best        P the data sheet's peaks
//
// Collectors differ by their kernels, of either: the error is the smaller of what the ratios and
// the rates themselves scatter by, and at least 5 %.
struct FitBestGemm {
  GemmsOf gemms, like;
};

// The shapes of a training process, bf16: height and weight-gradient factor under
// the curve of `like`.
struct FitTrainingShapes {
  std::string id, like;
};

// The weight-gradient factor alone of a device whose other coefficients its grid gives; the clock
// of the training process is free.
struct FitWeightGradient {
  std::string id;
};

// Large GEMMs that were measured one by one, if there are any: the height, under the curve of
// another device's GEMMs if there is one.  Tables of launches that were timed with events say
// nothing of the kernel time, which is stated here.
struct FitLargeGemms {
  GemmsOf gemms;
  std::optional<GemmsOf> like{};
  double kernel_time_s = 0.0;
};

// Nobody measured the curve: that of `like`, its kernel time with this error.
struct AssumeCurve {
  GemmsOf gemms, like;
  double kernel_time_error_s = 0.0;
};

// Nobody measured GEMMs in fp32.  k_half is the fill and drain of the K loop, a time, in elements
// of K at the format's rate: it shrinks with the peak.
struct AssumeFp32Curve {
  std::string id;
};

// Of devices with one chip, see sustained_clock.h.
struct FitSustainedClock {
  std::vector<std::string> ids;
};

// What others measured, or what follows from it by hand.
struct StateCoefficient {
  hwdb::Coefficient row;
};

// Rows of one kernel: `kernel` is "flash-2.", or "" for all kernels that have no rows of their own;
// none: the fit is only reported.
struct FitAttention {
  std::string id;
  std::optional<std::string> kernel;
  std::vector<std::string> implementations;  // the first names the fit
};

// Nobody measured the kernel: a fraction of what `like_kernel` reaches on the
// nearest device that was.
struct AssumeAttention {
  std::string id, kernel;
  std::string like, like_kernel;
  double factor = 1.0;
  std::string why;
};

// Curves of collectives on one node.
struct FitFabric {
  std::string id;
};

// Networks are described, not fitted: two nodes do not tell a latency that holds for hundreds.
struct DescribeNetwork {
  std::string id;
  std::optional<std::string> system{};
};

// All-to-alls of a system over many nodes; systems whose network is like it take the values over.
struct FitAllToAll {
  std::string id;
  std::string system;
  std::vector<std::string> alike{};
};

using KernelFitLine =
    std::variant<FitGrids, FitBestGemm, FitTrainingShapes, FitWeightGradient, FitLargeGemms,
                 AssumeCurve, AssumeFp32Curve, FitSustainedClock, StateCoefficient, FitAttention,
                 AssumeAttention, FitFabric, FitAllToAll, DescribeNetwork>;

const std::vector<KernelFitLine>& kernel_fit_table();

}  // namespace llmsim::calibrate
