#include "calibrate/attention_fit.h"

#include <array>
#include <cmath>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using sim::AttentionCoefficients;
using sim::AttentionMachine;
using sim::Seconds;

constexpr double kBackwardOverForward = 0.82;

AttentionMachine with(AttentionMachine machine, std::span<const double> values) {
  machine.coefficients = {.forward = values[0],
                          .backward = values[1],
                          .seq_half = values[2],
                          .head_dim_64_factor = values[3]};
  return machine;
}

std::array<double, 3> prior_residuals(std::span<const double> values) {
  return {kUsualMisfit * std::log(values[1] / values[0] / kBackwardOverForward) / 0.15,
          kUsualMisfit * std::log(values[2] / 500.0) / 1.0,
          kUsualMisfit * std::log(values[3] / 0.8) / 0.3};
}

}  // namespace

sim::Operator attention_forward(std::int64_t batch, std::int64_t heads, std::int64_t seq_len,
                                std::int64_t head_dim, bool causal) {
  sim::Operator op{.kind = sim::OperatorKind::Attention,
                   .label = "measured",
                   .batch = batch * heads,
                   .m = seq_len,
                   .n = seq_len};
  op.k = head_dim;
  op.causal = causal;
  const double s = static_cast<double>(seq_len), width = static_cast<double>(op.batch * head_dim);
  op.flops = (causal ? 2.0 : 4.0) * width * s * s * sim::FLOP;
  op.moved = 4.0 * width * s * size_of(op.dtype);
  return op;
}

sim::Flops attention_flops(const sim::Operator& forward, AttentionPass pass) {
  switch (pass) {
    case AttentionPass::Forward: return forward.flops;
    case AttentionPass::Backward: return 2.5 * forward.flops;
    case AttentionPass::Both: return 3.5 * forward.flops;
  }
  return forward.flops;
}

Seconds predicted_time(const AttentionSample& sample, const AttentionMachine& machine) {
  sim::Operator backward = sample.forward;
  backward.flops = attention_flops(sample.forward, AttentionPass::Backward);
  backward.moved = 2.0 * sample.forward.moved;
  Seconds time;
  if (sample.pass != AttentionPass::Backward)
    time += attention_time(sample.forward, false, machine);
  if (sample.pass != AttentionPass::Forward) time += attention_time(backward, true, machine);
  return time;
}

AttentionFit fit_attention(const AttentionMachine& machine,
                           std::span<const AttentionSample> samples) {
  if (samples.empty())
    throw Error("fit: no measured attention; add measurements of the subject \"attention\"");
  const std::vector<Parameter> parameters{{"forward", 0.5, 0.0},
                                          {"backward", 0.4, 0.0},
                                          {"seq_half", 500.0, 0.0},
                                          {"head_dim_64_factor", 0.8, 0.0}};
  const auto residuals = [&](std::span<const double> values, std::span<double> out) {
    const AttentionMachine trial = with(machine, values);
    for (std::size_t i = 0; i < samples.size(); ++i)
      out[i] = std::log(predicted_time(samples[i], trial) / samples[i].time);
    const std::array<double, 3> priors = prior_residuals(values);
    for (std::size_t i = 0; i < priors.size(); ++i) out[samples.size() + i] = priors[i];
  };
  const LeastSquaresFit solution = least_squares(parameters, samples.size() + 3, residuals);
  AttentionFit fit;
  fit.values = solution.values;
  fit.samples = samples.size();
  std::vector<double> values;
  for (FittedValue& value : fit.values) {
    value.standard_error *= std::max(1.0, kUsualMisfit / solution.residual_deviation);
    values.push_back(value.value);
  }
  fit.coefficients = with(machine, values).coefficients;
  double squares = 0.0;
  for (std::size_t i = 0; i < samples.size(); ++i)
    squares += solution.residuals[i] * solution.residuals[i];
  fit.rms = std::sqrt(squares / static_cast<double>(samples.size()));
  return fit;
}

}  // namespace llmsim::calibrate
