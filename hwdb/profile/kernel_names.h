// What a kernel computes, by the name under which a profiler lists it.
//
// kernel_names.rows has a block for each library: the class of its kernels and the patterns that
// their names have.  A pattern is found anywhere in a name, in any case; "*" stands for any
// characters.  The first pattern of the file that a name has decides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/field.h"

namespace llmsim::hwdb {

enum class KernelClass : std::uint8_t {
  Gemm,
  Attention,
  Norm,
  Activation,
  Elementwise,   // adds, copies, transposes, reductions
  Cast,          // to a low-precision format and back, with scales
  CrossEntropy,  // and softmax
  Embedding,     // and other gathers of rows
  Scan,          // of states, and their convolutions
  Optimizer,     // update, gradient norm and scale
  Collective,
  Copy,  // of the copy engines: host and device, device and device, memset
  Other
};
inline constexpr int kNumKernelClasses = static_cast<int>(KernelClass::Other) + 1;

sim::NameTable<KernelClass> name_table(KernelClass);  // "gemm", "attention", ...

// The class of a kernel; Other where no pattern is found in its name.
KernelClass class_of_kernel(std::string_view name);

// Whether a kernel of attention makes gradients: its name says so.
bool is_backward_kernel(std::string_view name);

}  // namespace llmsim::hwdb
