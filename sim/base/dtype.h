// Number formats of tensors and of matrix arithmetic.
#pragma once

#include "sim/base/quantity.h"

namespace llmsim::sim {

// Tf32 is an arithmetic of the matrix units; its tensors are stored as Fp32.
enum class DType { Fp32, Tf32, Fp16, Bf16, Fp8, Fp4 };

inline constexpr int kNumDTypes = 6;

// Bytes of one stored element.  Fp4 is half a byte, without its block scales.
constexpr Bytes size_of(DType dtype) {
  constexpr double bytes[] = {4.0, 4.0, 2.0, 2.0, 1.0, 0.5};
  return Bytes(bytes[static_cast<int>(dtype)]);
}

// Bytes of an fp32 element as a plain number, to multiply counts of elements with.
inline constexpr double kFp32Bytes = size_of(DType::Fp32).value();

constexpr bool is_low_precision(DType dtype) { return dtype == DType::Fp8 || dtype == DType::Fp4; }

// "fp32", "tf32", "fp16", "bf16", "fp8", "fp4".
constexpr const char* name_of(DType dtype) {
  constexpr const char* names[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "fp4"};
  return names[static_cast<int>(dtype)];
}

}  // namespace llmsim::sim
