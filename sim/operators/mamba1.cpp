#include "sim/operators/mamba1.h"

#include <algorithm>

#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// Tokens whose states the selective scan saves once: 128 threads of 16 tokens, fewer threads and
// tokens for sequences that are shorter.
constexpr int kSelectiveChunk = 2048;

// Copies of x, dt and z; backward of the gradients of y, x and z.
constexpr double kSelectiveCopies = 3.0;

double states_of_chunks(const Mamba1& mamba, int tokens) {
  return 2.0 * kFp32Bytes * mamba.state_size / std::min(tokens, kSelectiveChunk);
}

// The steps of all channels, from a bottleneck that is projected with B and C and normalised like
// them; B and C in `normed`.  Statistics of these norms, whose rows are narrow, are left out.
struct Selection {
  TensorId normed, steps;
};

// All tensor ranks need the whole of the steps' bottleneck, of B and of C, to whose gradients the
// channels of each add a part.
LayerOperators sum_of(const LayerBuilder& b, const char* label, double values) {
  if (b.strategy.tp == 1) return {};
  return {.forward = {collective(label, CollectiveKind::AllReduce, GroupKind::Tensor,
                                 Bytes(values * b.element))},
          .backward = {}};
}

LayerOperators selection_norms(const LayerBuilder& b, double values) {
  Traffic norms = norm_traffic(b.model.norm, b.framework, b.element);
  norms.forward.kernels *= 3, norms.backward.kernels *= 3;
  LayerOperators operators = sum_of(b, "selection", values);
  if (b.model.mamba1->norms)
    operators.append(elementwise(OperatorKind::Norm, "selection_norms", values, norms));
  const LayerOperators of_gradient = sum_of(b, "selection_gradient", values);
  operators.backward.insert(operators.backward.begin(), of_gradient.forward.begin(),
                            of_gradient.forward.end());
  return operators;
}

Selection add_selection(LayerBuilder& b, TensorId channels) {
  const double width = b.columns(WeightName::SelectionProjection);
  const TensorId projected = b.values("steps, B and C", width),
                 normed = b.model.mamba1->norms ? b.values("normalised steps, B and C", width)
                                                : projected,
                 steps = b.values("steps", b.columns(WeightName::StepProjection));
  const bool adapted = b.adapts(WeightName::SelectionProjection);
  if (adapted) b.save_adapter_dropout(b.tokens, b.rows(WeightName::SelectionProjection));
  b.gemm(b.linear_layer(Module::Scan, WeightName::SelectionProjection), channels, {projected},
         b.saves_input(adapted) ? channels : kNoTensor);
  Node& norms = b.layer.add(Module::Scan, selection_norms(b, b.tokens * width)).reads(projected);
  if (normed != projected) norms.writes(normed).saves(projected);
  b.gemm(b.linear_layer(Module::Scan, WeightName::StepProjection), normed, {steps},
         b.saves_input(false) ? normed : kNoTensor);
  return {.normed = normed, .steps = steps};
}

LayerOperators selective_scan(const LayerBuilder& b, const Mamba1& mamba) {
  const double e = b.element, channels = b.tokens * mamba.inner_size / b.ranks;
  const ScanBytes bytes = scan_bytes(mamba, b.model.seq_len, e);
  const Flops flops = channels / mamba.inner_size * scan_flops_per_token(mamba);
  LayerOperators operators;
  operators.backward = {
      memory_bound(OperatorKind::Residual, "scan_input_sum", channels, 3.0 * e, 1)};
  operators.append(elementwise(OperatorKind::Copy, "scan_order", kSelectiveCopies * channels,
                               permutation_traffic(e)));
  return operators.append(
      {.forward = {memory_bound(OperatorKind::SelectiveScan, "selective_scan", channels,
                                bytes.forward, 1, flops)},
       .backward = {memory_bound(OperatorKind::SelectiveScan, "selective_scan_backward", channels,
                                 bytes.backward, 1, 2.0 * flops)}});
}

TensorId add_scan(LayerBuilder& b, const Mamba1& mamba, TensorId projected, TensorId channels,
                  const Selection& selected) {
  const double width = b.rows(WeightName::MixerOutput), values = b.tokens * width;
  const int tokens = b.model.seq_len;
  const ScanBytes bytes = scan_bytes(mamba, tokens, b.element);
  const TensorId y = b.values("scan output", width),
                 saved =
                     b.tensor("x, z, y and states of the selective scan",
                              {b.tokens, width, saved_by_selective_scan(mamba, tokens, b.element)},
                              TensorRole::Statistic);
  b.layer.add(Module::Scan, selective_scan(b, mamba))
      .reads(projected, channels, selected.normed, selected.steps)
      .writes(y, saved)
      .saves(selected.normed, selected.steps, saved)
      .forward_workspace(Bytes(values * bytes.forward_workspace))
      .backward_workspace(Bytes(values * bytes.backward_workspace));
  return y;
}

}  // namespace

ScanBytes scan_bytes(const Mamba1& mamba, int tokens, double element) {
  const double e = element, shared = 2.0 * mamba.state_size,
               states = states_of_chunks(mamba, tokens);
  return {.forward = 5.0 * e + shared * e + states,
          .backward = 9.0 * e + shared * (e + 2.0 * kFp32Bytes) + states,
          .forward_workspace = e,
          .backward_workspace = 3.0 * e};
}

double saved_by_selective_scan(const Mamba1& mamba, int tokens, double element) {
  return 3.0 * element + states_of_chunks(mamba, tokens);
}

// The convolution saves all that the first GEMM gives, of which it reads a part.
TensorId add_mamba1_mixer(LayerBuilder& b, TensorId normed, bool alone) {
  const Mamba1& mamba = *b.model.mamba1;
  const TensorId projected = b.mixer_input(b.linear_of(WeightName::MixerInput), normed);
  const TensorId channels = b.values("channels", b.rows(WeightName::MixerOutput));
  b.layer.add(Module::Scan, convolution(b.tokens * mamba.inner_size / b.ranks, b.element))
      .reads(projected)
      .writes(channels)
      .saves(projected);
  const Selection selected = add_selection(b, channels);
  return b.mixer_output(add_scan(b, mamba, projected, channels, selected), alone);
}

}  // namespace llmsim::sim
