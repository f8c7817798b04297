// Fits the coefficients of flash attention (sim/cost/kernels.h) to measured rates of one
// implementation on one device.
//
// Residuals are  ln(predicted / measured)  with Huber weights.  Tables give forward, backward or
// both together, so three weak priors are added, each as a residual  0.08 (u - u0) / spread  of u =
// ln value:  backward / forward = 0.82 (spread 0.15; FlashAttention-2 and Composable Kernel, where
// both are measured), seq_half = 500 (1.0), head_dim_64_factor = 0.8 (0.3).
//
// Rates follow the tables' convention: 4 b h s^2 d FLOPs forward, half of it under a causal mask,
// 2.5 times it backward.
#pragma once

#include <span>

#include "calibrate/least_squares.h"
#include "sim/cost/kernels.h"

namespace llmsim::calibrate {

enum class AttentionPass { Forward, Backward, Both };

struct AttentionSample {
  sim::Operator forward;  // of the forward pass, also where the backward pass was measured
  AttentionPass pass = AttentionPass::Forward;
  sim::Seconds time;
};

// A measured forward pass of `batch` sequences with as many key heads as heads.
sim::Operator attention_forward(std::int64_t batch, std::int64_t heads, std::int64_t seq_len,
                                std::int64_t head_dim, bool causal);

// FLOPs by the convention above.
sim::Flops attention_flops(const sim::Operator& forward, AttentionPass pass);

// Of the pass, or of both.
sim::Seconds predicted_time(const AttentionSample& sample, const sim::AttentionMachine& machine);

struct AttentionFit {
  sim::AttentionCoefficients coefficients;
  std::vector<FittedValue> values;  // named by the last part of their keys
  double rms = 0.0;
  std::size_t samples = 0;
};

// Throws Error for no samples.
AttentionFit fit_attention(const sim::AttentionMachine& machine,
                           std::span<const AttentionSample> samples);

}  // namespace llmsim::calibrate
