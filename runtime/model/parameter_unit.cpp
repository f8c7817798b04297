#include "runtime/model/parameter_unit.h"

#include <functional>
#include <numeric>
#include <utility>

namespace llmsim::runtime {
namespace {

std::int64_t numel_of(const ParameterShape& shape) {
  return std::accumulate(shape.sizes.begin(), shape.sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

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
