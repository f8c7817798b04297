#include "runtime/model/parameter_unit.h"

#include <functional>
#include <numeric>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

std::int64_t numel_of(const ParameterShape& shape) {
  return std::accumulate(shape.sizes.begin(), shape.sizes.end(), std::int64_t{1},
                         std::multiplies<>());
}

}  // namespace

NumberFormats number_formats(sim::Precision precision, bool autocast) {
  switch (precision) {
    case sim::Precision::Fp32: return {};
    case sim::Precision::Bf16:
      if (autocast) return {.compute = c10::kBFloat16};
      return {.compute = c10::kBFloat16, .weights = c10::kBFloat16, .gradients = c10::kBFloat16};
    case sim::Precision::Fp8:
      if (autocast) throw Error("autocast = true is for bf16, not for fp8");
      return {.compute = c10::kBFloat16, .weights = c10::kBFloat16, .gradients = c10::kBFloat16};
    default:
      throw Error(std::string("the runtime trains in fp32, bf16 and fp8, not in ") +
                  sim::name_of(precision));
  }
}

ParameterUnit::ParameterUnit(std::string name, std::vector<ParameterShape> shapes, int shards)
    : name_(std::move(name)), shapes_(std::move(shapes)) {
  for (const ParameterShape& shape : shapes_) {
    offsets_.push_back(parameters_);
    parameters_ += numel_of(shape);
  }
  numel_ = (parameters_ + shards - 1) / shards * shards;
}

at::Tensor ParameterUnit::view(const at::Tensor& flat, std::size_t index) const {
  const ParameterShape& shape = shapes_[index];
  return flat.narrow(0, offsets_[index], numel_of(shape)).view(shape.sizes);
}

}  // namespace llmsim::runtime
