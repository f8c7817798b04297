// Number formats of tensors and of matrix arithmetic.
#pragma once

#include "sim/base/quantity.h"

namespace llmsim::sim {

// Tf32 is an arithmetic of the matrix units; its tensors are stored as Fp32.
enum class DType { Fp32, Tf32, Fp16, Bf16, Fp8, Fp4 };

inline constexpr int kNumDTypes = 6;

// Bytes of one stored element.  Fp4 is half a byte, without its block scales.
constexpr Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::Fp32:
    case DType::Tf32: return Bytes(4.0);
    case DType::Fp16:
    case DType::Bf16: return Bytes(2.0);
    case DType::Fp8: return Bytes(1.0);
    case DType::Fp4: return Bytes(0.5);
  }
  return Bytes(0.0);
}

// Bytes of an fp32 element as a plain number, to multiply counts of elements with.
inline constexpr double kFp32Bytes = size_of(DType::Fp32).value();

constexpr bool is_low_precision(DType dtype) { return dtype == DType::Fp8 || dtype == DType::Fp4; }

// "fp32", "tf32", "fp16", "bf16", "fp8", "fp4".
constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::Fp32: return "fp32";
    case DType::Tf32: return "tf32";
    case DType::Fp16: return "fp16";
    case DType::Bf16: return "bf16";
    case DType::Fp8: return "fp8";
    case DType::Fp4: return "fp4";
  }
  return "";
}

}  // namespace llmsim::sim
