#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "runtime/library/memory_meter.h"
#include "runtime/library/meta_kernels.h"

// Counted allocators from the first tensor on, and one thread: a LayerNorm's workspace has a row for each.
int main(int argc, char** argv) {
  llmsim::runtime::install_memory_meter();
  llmsim::runtime::install_meta_kernels();
  at::set_num_threads(1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
