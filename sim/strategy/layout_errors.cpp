#include "sim/strategy/layout_errors.h"

#include <cmath>

#include "sim/model/parameters.h"

namespace llmsim::sim {
namespace {

constexpr std::size_t kFirstAxis = 2, kRecompute = kFirstAxis + kLayoutAxes;

}  // namespace

const char* name_of(LayoutAxis axis) {
  switch (axis) {
    case LayoutAxis::MicroBatch: return "micro_batch";
    case LayoutAxis::TensorRanks: return "tensor_ranks";
    case LayoutAxis::Stages: return "stages";
    case LayoutAxis::ContextRanks: return "context_ranks";
    case LayoutAxis::ExpertRanks: return "expert_ranks";
    case LayoutAxis::SeqLen: return "seq_len";
    case LayoutAxis::Devices: return "devices";
    case LayoutAxis::Parameters: break;
  }
  return "parameters";
}

LayoutPoint layout_point(const Transformer& model, const Strategy& s, int num_devices) {
  const auto total = static_cast<double>(parameters(model).total());
  return {
      .log2 = {std::log2(s.micro_batch), std::log2(s.tp), std::log2(s.pp), std::log2(s.cp),
               std::log2(s.ep), std::log2(model.seq_len), std::log2(num_devices), std::log2(total)},
      .recompute = s.recompute.kind,
      .sharding = s.sharding};
}

double LayoutErrors::covariance(const LayoutPoint& one, const LayoutPoint& other) const {
  double square = 0.0;
  for (std::size_t k = 0; k < kLayoutAxes; ++k) {
    const double lengths = (one.log2[k] - other.log2[k]) / doublings[k];
    square += lengths * lengths;
  }
  if (one.recompute != other.recompute) square += recompute * recompute;
  if (one.sharding != other.sharding) square += sharding * sharding;
  return error * error * std::exp(-0.5 * square);
}

double& layout_number(LayoutErrors& errors, std::size_t index) {
  if (index == 0) return errors.error;
  if (index == 1) return errors.run;
  if (index < kRecompute) return errors.doublings[index - kFirstAxis];
  return index == kRecompute ? errors.recompute : errors.sharding;
}

std::string layout_key(std::size_t index) {
  if (index == 0) return "error";
  if (index == 1) return "run";
  if (index < kRecompute)
    return std::string("doublings.") + name_of(static_cast<LayoutAxis>(index - kFirstAxis));
  return index == kRecompute ? "recompute" : "sharding";
}

}  // namespace llmsim::sim
