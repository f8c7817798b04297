#include "runtime/measure/counted_step.h"

#include <cstdint>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace llmsim::runtime {
namespace {

void multiply(std::int64_t m, std::int64_t n, std::int64_t k) {
  at::mm(at::ones({m, k}), at::ones({k, n}));
}

// 2 m n k of each GEMM, and 50 of attention; what follows the last pass belongs to none.
TEST(PassFlops, TellsPassesApart) {
  PassFlops flops;
  multiply(2, 3, 4);
  flops.pass_done(false);
  multiply(3, 4, 5);
  { const CountedAs attention("llmsim::attention", 50); }
  flops.pass_done(true);
  multiply(1, 1, 7);
  flops.pass_done(false);
  multiply(8, 8, 8);
  EXPECT_EQ(flops.forward(), (sim::PassFlopCounts{.gemms = 48 + 14, .attention = 0}));
  EXPECT_EQ(flops.backward(), (sim::PassFlopCounts{.gemms = 120, .attention = 50}));
}

}  // namespace
}  // namespace llmsim::runtime
