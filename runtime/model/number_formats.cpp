#include "runtime/model/number_formats.h"

#include <string>

#include "sim/base/error.h"

namespace llmsim::runtime {

NumberFormats number_formats(sim::Precision precision, bool autocast) {
  switch (precision) {
    case sim::Precision::Fp32: return {};
    case sim::Precision::Bf16:
      if (autocast) return {.compute = c10::kBFloat16};
      return {.compute = c10::kBFloat16, .weights = c10::kBFloat16, .gradients = c10::kBFloat16};
    case sim::Precision::Fp8:
      if (autocast) throw Error("autocast = true is for bf16, not for fp8");
      return {.compute = c10::kBFloat16, .weights = c10::kBFloat16, .gradients = c10::kBFloat16};
    default: throw Error(std::string("the runtime trains in fp32, bf16 and fp8, not in ") + sim::name_of(precision));
  }
}

}  // namespace llmsim::runtime
