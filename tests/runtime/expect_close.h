// That two tensors hold the same numbers, to rounding.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace llmsim::runtime {

// The same shape, and no element further away than `tolerance` (1 + the largest of the expected).
inline void expect_close(const at::Tensor& actual, const at::Tensor& expected,
                         double tolerance = 2e-5) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LT((actual - expected).abs().max().item<double>(),
            tolerance * (1.0 + expected.abs().max().item<double>()));
}

}  // namespace llmsim::runtime
