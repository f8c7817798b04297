#include "runtime/model/initial_weights.h"

#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace llmsim::runtime {
namespace {

constexpr double kStandardDeviation = 0.02;

at::Tensor own_rows(const at::Tensor& whole, const std::vector<std::int64_t>& groups,
                    const RankShape& shape) {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t rows : groups) {
    parts.push_back(whole.narrow(0, begin + shape.tensor_rank * rows, rows));
    begin += rows * shape.tensor_ranks;
  }
  return at::cat(parts);
}

std::vector<std::int64_t> whole_sizes(const ParameterShape& parameter, const RankShape& shape) {
  std::vector<std::int64_t> sizes = parameter.sizes;
  if (!parameter.replicated) sizes[parameter.inputs_divided ? 1 : 0] *= shape.tensor_ranks;
  return sizes;
}

// On the device itself: a CPU takes a minute for what an accelerator trains in a second.
at::Tensor drawn(const ParameterShape& parameter, const RankShape& shape, std::uint64_t seed,
                 c10::Device device) {
  seed ^= std::hash<std::string>{}(parameter.name);
  at::Generator generator = device.is_cpu() ? at::detail::createCPUGenerator(seed)
                                            : at::globalContext().defaultGenerator(device);
  if (!device.is_cpu()) generator.set_current_seed(seed);
  return at::randn(whole_sizes(parameter, shape), generator,
                   at::TensorOptions(at::kFloat).device(device))
      .mul_(kStandardDeviation);
}

// One of the experts in a parameter of several, under a name that is the same on whatever rank it
// is.
ParameterShape one_expert(const ParameterShape& parameter, const RankShape& shape,
                          std::int64_t expert) {
  ParameterShape one = parameter;
  one.of_experts = false;
  one.replicated = shape.whole_experts;
  one.sizes.erase(one.sizes.begin());
  one.name = std::to_string(expert) + "." + parameter.name;
  return one;
}

void draw(const at::Tensor& into, const ParameterShape& parameter, const BlockContext& context,
          std::uint64_t seed) {
  if (!parameter.of_experts) {
    into.copy_(own_part(drawn(parameter, context.shape, seed, into.device()), parameter, context));
    return;
  }
  const std::int64_t first = context.shape.experts * context.shape.expert_rank;
  for (std::int64_t i = 0; i < context.shape.experts; ++i) {
    draw(into.select(0, i), one_expert(parameter, context.shape, first + i), context, seed);
  }
}

}  // namespace

at::Tensor own_part(const at::Tensor& whole, const ParameterShape& parameter,
                    const BlockContext& context) {
  const RankShape& shape = context.shape;
  if (parameter.replicated || shape.tensor_ranks == 1) return whole;
  if (parameter.inputs_divided)
    return whole.narrow(1, shape.tensor_rank * parameter.sizes[1], parameter.sizes[1]);
  return own_rows(whole,
                  parameter.side_by_side.empty() ? std::vector<std::int64_t>{parameter.sizes[0]}
                                                 : parameter.side_by_side,
                  shape);
}

void set_initial_weights(ParameterUnit& unit, const BlockContext& context, std::uint64_t seed,
                         c10::Device device) {
  unit.weights = at::zeros({unit.numel()}, at::TensorOptions(at::kFloat).device(device));
  if (device.is_meta()) return;
  for (std::size_t i = 0; i < unit.shapes().size(); ++i) {
    const ParameterShape& parameter = unit.shapes()[i];
    if (parameter.initial == Initial::Ones) unit.weight(i).fill_(1.0);
    if (parameter.initial == Initial::Normal) draw(unit.weight(i), parameter, context, seed);
  }
}

}  // namespace llmsim::runtime
