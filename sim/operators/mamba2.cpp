#include "sim/operators/mamba2.h"

#include <algorithm>

#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// mamba_ssm: sums of dt, states, passing, C B^T, scan.  Backward: the first four again, then
// gradients of z, states, passing, x, B, C, C B^T, of its two factors, of the decay and of dt.
constexpr int kForwardKernels = 5, kBackwardKernels = 15;

// Into the order of sequences and back, where there are several.
LayerOperators copy_of(const LayerBuilder& b, const char* label, double width) {
  if (b.strategy.micro_batch == 1) return {};
  const Operator copy = memory_bound(OperatorKind::Copy, label, b.tokens * width / b.ranks,
                                     permutation_traffic(b.element).forward.bytes, 1);
  return {.forward = {copy}, .backward = {copy}};
}

// Context ranks that have the B and C of one group.
double group_copies(const LayerBuilder& b, const Mamba& mamba) {
  return std::max(1.0, b.strategy.cp * b.ranks / mamba.num_groups);
}

double channels_of(const LayerBuilder& b, const Mamba& mamba) {
  const double shared = 2.0 * mamba.num_groups * mamba.state_size;
  return b.tokens * (mamba.inner_size() + group_copies(b, mamba) * shared) / b.ranks;
}

LayerOperators scan_operators(const LayerBuilder& b, const Mamba& mamba) {
  const double e = b.element, channels = channels_of(b, mamba),
               heads = b.tokens * mamba.num_heads / b.ranks, inner = mamba.inner_size();
  const ScanBytes bytes = scan_bytes(mamba, e);
  const Flops flops = b.tokens / b.ranks * scan_flops_per_token(mamba);
  LayerOperators operators =
      copy_of(b, "scan_input_order", inner + mamba.conv_channels() + mamba.num_heads);
  LayerOperators scan{
      .forward = {memory_bound(OperatorKind::Convolution, "conv1d", channels, 2.0 * e, 1),
                  memory_bound(OperatorKind::Scan, "scan", heads, bytes.forward, kForwardKernels,
                               flops)},
      .backward = {
          memory_bound(OperatorKind::Scan, "scan_backward", heads, bytes.backward, kBackwardKernels,
                       2.0 * flops),
          memory_bound(OperatorKind::Convolution, "conv1d_backward", channels, 5.0 * e, 2)}};
  return operators.append(scan).append(copy_of(b, "scan_output_order", inner));
}

TensorId add_scan(LayerBuilder& b, const Mamba& mamba, TensorId projected) {
  const double e = b.element, heads = b.tokens * mamba.num_heads / b.ranks,
               channels = channels_of(b, mamba), width = b.rows(WeightName::MixerOutput);
  const double group = mamba.num_groups * mamba.state_size * group_copies(b, mamba) / b.ranks,
               steps = mamba.num_heads / b.ranks;
  projected =
      exchange_heads(b, "scan input of all tokens", projected, 2.0 * width + 2.0 * group + steps,
                     {width, width, group, group, steps});
  const ScanBytes bytes = scan_bytes(mamba, e);
  const TensorId y = b.values("scan output", width),
                 before_gate = b.tensor("scan output before its gate", {b.tokens, width, e},
                                        TensorRole::Statistic);
  b.layer.add(Module::Scan, scan_operators(b, mamba))
      .reads(projected)
      .writes(y, before_gate)
      .saves(projected, before_gate)
      .forward_workspace(Bytes(channels * e + heads * bytes.forward_workspace))
      .backward_workspace(Bytes(2.0 * channels * e + heads * bytes.backward_workspace));
  return exchange_heads(b, "scan output of own tokens", y, width, {width});
}

}  // namespace

ScanBytes scan_bytes(const Mamba& mamba, double element) {
  const double e = element, groups = real(mamba.num_groups) / mamba.num_heads,
               values = mamba.head_dim, chunk = mamba.chunk_size * groups,
               shared = mamba.state_size * groups,
               states = values * mamba.state_size / mamba.chunk_size;
  return {.forward = 5.0 * values * e + 4.0 * shared * e + (8.0 + 2.0 * e) * states + 8.0 * chunk,
          .backward = 17.0 * values * e + (11.0 * e + 16.0) * shared + (24.0 + 5.0 * e) * states +
                      24.0 * chunk,
          .forward_workspace = (4.0 + e) * states + 4.0 * chunk,
          .backward_workspace = (8.0 + 2.0 * e) * states + 8.0 * chunk};
}

TensorId add_mamba2_mixer(LayerBuilder& b, TensorId normed, bool alone) {
  const TensorId projected = b.mixer_input(b.linear_of(WeightName::MixerInput), normed);
  const TensorId y = add_scan(b, *b.model.mamba, projected);
  if (!b.model.mamba->gated_norm) return b.mixer_output(y, alone);
  const TensorId gated = b.tensor("gated norm", b.layer[y].shape),
                 deviations = b.tensor("norm statistics", {b.tokens, 1.0, kFp32Bytes},
                                       TensorRole::Statistic);
  b.layer
      .add(Module::MixerNorm, elementwise(OperatorKind::Norm, "gated_norm",
                                          b.tokens * b.columns(WeightName::GatedNorm),
                                          norm_traffic(Norm::RmsNorm, b.framework, b.element)))
      .reads(y)
      .writes(gated, deviations)
      .saves(y, deviations);
  return b.mixer_output(gated, alone);
}

}  // namespace llmsim::sim
