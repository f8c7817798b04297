#include "calibrate/attention_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

sim::AttentionMachine machine() {
  return {.peak = 300.0 * sim::TFLOPS,
          .compute_units = 108,
          .bandwidth = 1.6 * sim::TBps,
          .coefficients = {.forward = 0.7,
                           .backward = 0.55,
                           .seq_half = 400.0,
                           .head_dim_64_factor = 0.85},
          .kernel_time = sim::Seconds(3e-6)};
}

sim::Seconds planted_time(const sim::Operator& op, AttentionPass pass) {
  sim::Operator backward = op;
  backward.flops = 2.5 * op.flops;
  backward.moved = 2.0 * op.moved;
  sim::Seconds time;
  if (pass != AttentionPass::Backward) time += attention_time(op, false, machine());
  if (pass != AttentionPass::Forward) time += attention_time(backward, true, machine());
  return time;
}

TEST(AttentionFit, RecoversPlantedCoefficientsWithinTheirErrors) {
  std::mt19937 generator(3);
  std::normal_distribution<double> noise(0.0, 0.03);
  std::vector<AttentionSample> samples;
  for (const AttentionPass pass : {AttentionPass::Forward, AttentionPass::Both}) {
    for (const int head_dim : {64, 128}) {
      for (const bool causal : {false, true}) {
        for (int seq = 512; seq <= 16384; seq *= 2) {
          const sim::Operator op =
              attention_forward(16384 / seq, 2048 / head_dim, seq, head_dim, causal);
          samples.push_back({op, pass, planted_time(op, pass) * std::exp(noise(generator))});
        }
      }
    }
  }
  const AttentionFit fit = fit_attention(machine(), samples);
  const double planted[] = {0.7, 0.55, 400.0, 0.85};
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(fit.values[i].value, planted[i], 3.0 * fit.values[i].standard_error);
  EXPECT_LT(fit.rms, 0.05);
}

TEST(AttentionFit, CountsFlopsAsThePublishedTablesDo) {
  // 4 b h s^2 d = 4 * 2 * 16 * 1024^2 * 128 forward; causal half; backward 2.5 times, both 3.5
  // times.
  const double full = 4.0 * 2 * 16 * 1024 * 1024 * 128;
  const sim::Operator op = attention_forward(2, 16, 1024, 128, false);
  EXPECT_DOUBLE_EQ(attention_flops(op, AttentionPass::Forward).value(), full);
  EXPECT_DOUBLE_EQ(attention_flops(op, AttentionPass::Both).value(), 3.5 * full);
  EXPECT_DOUBLE_EQ(
      attention_flops(attention_forward(2, 16, 1024, 128, true), AttentionPass::Backward).value(),
      1.25 * full);
}

// Forward passes of one shape: what they do not tell stays at its prior, with the prior's error; a
// backward pass reaches 0.82 of what they say, and is as uncertain as both.
TEST(AttentionFit, WhatNoSampleTellsStaysAtItsPrior) {
  std::vector<AttentionSample> samples;
  for (int i = 0; i < 16; ++i) {
    const sim::Operator op = attention_forward(8, 16, 4096, 128, true);
    samples.push_back({op, AttentionPass::Forward,
                       planted_time(op, AttentionPass::Forward) * (i % 2 ? 1.01 : 0.99)});
  }
  const AttentionFit fit = fit_attention(machine(), samples);
  const auto relative = [&](std::size_t i) {
    return fit.values[i].standard_error / fit.values[i].value;
  };
  EXPECT_NEAR(fit.values[1].value / fit.values[0].value, 0.82, 1e-3);
  EXPECT_NEAR(fit.values[2].value, 500.0, 1.0);
  EXPECT_NEAR(fit.values[3].value, 0.8, 1e-3);
  EXPECT_NEAR(relative(1), std::hypot(0.15, relative(0)), 2e-3);
  EXPECT_NEAR(relative(2), 1.0, 0.01);
  EXPECT_NEAR(relative(3), 0.3, 3e-3);
  EXPECT_NEAR(fit.rms, 0.01, 1e-4);
  EXPECT_EQ(fit.samples, 16u);
}

TEST(AttentionFit, ABackwardPassMovesTwiceTheBytes) {
  const sim::Operator op = attention_forward(2, 16, 1024, 128, true);
  const auto time = [&](AttentionPass pass) {
    return predicted_time({op, pass, {}}, machine()).value();
  };
  EXPECT_DOUBLE_EQ(time(AttentionPass::Both),
                   time(AttentionPass::Forward) + time(AttentionPass::Backward));
  EXPECT_DOUBLE_EQ(time(AttentionPass::Backward),
                   planted_time(op, AttentionPass::Backward).value());
  // Where bytes take longer than FLOPs.
  sim::AttentionMachine slow = machine();
  slow.bandwidth = 1.0 * sim::GBps;
  const double forward = predicted_time({op, AttentionPass::Forward, {}}, slow).value(),
               backward = predicted_time({op, AttentionPass::Backward, {}}, slow).value();
  EXPECT_NEAR(backward / forward, 2.0, 0.01);
  // Four tensors of 2 x 16 x 1024 x 128 in two bytes.
  EXPECT_DOUBLE_EQ(op.moved.value(), 4.0 * 2 * 16 * 1024 * 128 * 2.0);
  EXPECT_EQ(op.batch, 32);
}

TEST(AttentionFit, NeedsSamples) { EXPECT_THROW(fit_attention(machine(), {}), Error); }

}  // namespace
}  // namespace llmsim::calibrate
