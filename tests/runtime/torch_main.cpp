#include <gtest/gtest.h>

#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "runtime/library/operator_call.h"

#ifdef __SANITIZE_ADDRESS__
// What is too large for the allocator is an error of the caller, as it is without the sanitizer.
// Two frames of where memory was allocated: a tenth and more of the time goes into the usual
// thirty.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:malloc_context_size=2";
}
#endif

// Counted allocators from the first tensor on, and one thread: a LayerNorm's workspace has a row
// for each, and GEMMs this small wait longer for a second thread than they take.  Freed tensors stay
// with the process: a third of the time of counted steps went into mapping their pages again.
int main(int argc, char** argv) {
  llmsim::runtime::keep_freed_memory();
  llmsim::runtime::install_memory_meter();
  llmsim::runtime::install_meta_kernels();
  llmsim::runtime::use_threads(1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
