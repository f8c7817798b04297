#include "sim/operators/lightning_attention.h"

#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// States and output; backward states, their gradients, gradients of q and k, and of v.
constexpr int kLightningKernels = 2, kLightningBackwardKernels = 4;

LayerOperators lightning_operators(const LayerBuilder& b, const LightningAttention& attention) {
  const double heads = b.tokens * attention.num_heads / b.ranks;
  const ScanBytes bytes = scan_bytes(attention, b.element);
  const Flops flops = b.tokens / b.ranks * scan_flops_per_token(attention);
  return {.forward = {memory_bound(OperatorKind::Scan, "lightning_attention", heads, bytes.forward,
                                   kLightningKernels, flops)},
          .backward = {memory_bound(OperatorKind::Scan, "lightning_attention_backward", heads,
                                    bytes.backward, kLightningBackwardKernels, 2.0 * flops)}};
}

// q, k and v after silu, which saves what it reads.
TensorId add_silu(LayerBuilder& b, const LightningAttention& attention, TensorId projected) {
  const double width = 3.0 * attention.inner_size() / b.ranks;
  const TensorId activated = b.values("q, k and v", width);
  b.layer
      .add(Module::Scan, elementwise(OperatorKind::Activation, "silu", b.tokens * width,
                                     activation_traffic(false, b.framework, b.element)))
      .reads(projected)
      .writes(activated)
      .saves(projected);
  return activated;
}

TensorId add_linear_attention(LayerBuilder& b, const LightningAttention& attention,
                              TensorId activated) {
  const double heads = b.tokens * attention.num_heads / b.ranks;
  const ScanBytes bytes = scan_bytes(attention, b.element);
  const TensorId output = b.values("attention output", b.rows(WeightName::MixerOutput));
  b.layer.add(Module::Scan, lightning_operators(b, attention))
      .reads(activated)
      .writes(output)
      .saves(activated)
      .forward_workspace(Bytes(heads * bytes.forward_workspace))
      .backward_workspace(Bytes(heads * bytes.backward_workspace));
  return output;
}

}  // namespace

ScanBytes scan_bytes(const LightningAttention& attention, double element) {
  const double e = element, values = attention.head_dim,
               states = values * values / attention.chunk_size;
  return {.forward = 6.0 * values * e + 2.0 * e * states,
          .backward = 14.0 * values * e + 5.0 * kFp32Bytes * states,
          .forward_workspace = e * states,
          .backward_workspace = 2.0 * kFp32Bytes * states};
}

TensorId add_lightning_attention_mixer(LayerBuilder& b, TensorId normed, bool alone) {
  const LightningAttention& attention = *b.model.lightning_attention;
  const TensorId projected = b.mixer_input(b.linear_of(WeightName::MixerInput), normed);
  const TensorId output = add_linear_attention(b, attention, add_silu(b, attention, projected));
  return b.mixer_output(add_gated_norm(b, "attention_norm", output, true), alone);
}

}  // namespace llmsim::sim
