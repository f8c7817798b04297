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
    default: throw Error(std::string("the runtime trains in fp32 and bf16, not in ") + sim::name_of(precision));
  }
}

}  // namespace llmsim::runtime
