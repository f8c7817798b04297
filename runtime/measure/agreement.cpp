#include "runtime/measure/agreement.h"

#include <ATen/ATen.h>

namespace llmsim::runtime {
namespace {

at::Tensor one_value(double value, c10::Device device) {
  return at::full({1}, value, at::TensorOptions(at::kDouble).device(device));
}

}  // namespace

bool answer_of_first(Communicator& world, bool own, c10::Device device) {
  const at::Tensor answer = one_value(own ? 1.0 : 0.0, device);
  world.broadcast(answer, 0);
  return answer.item<double>() != 0.0;
}

sim::Seconds slowest(Communicator* world, sim::Seconds own, c10::Device device) {
  if (world == nullptr) return own;
  const at::Tensor largest = one_value(own.value(), device);
  world->all_reduce(largest, Reduction::Max);
  return sim::Seconds(largest.item<double>());
}

std::vector<double> of_all_ranks(Communicator* world, double own, c10::Device device) {
  if (world == nullptr) return {own};
  const at::Tensor part = one_value(own, device);
  const at::Tensor whole = at::empty({world->size()}, part.options());
  world->all_gather(whole, part);
  const at::Tensor all = whole.cpu();
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

}  // namespace llmsim::runtime
