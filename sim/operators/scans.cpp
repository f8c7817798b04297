#include "sim/operators/scans.h"

#include <algorithm>
#include <utility>

#include "sim/model/flops.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {
namespace {

// mamba_ssm: sums of dt, states, passing, C B^T, scan.  Backward: the first four again, then
// gradients of z, states, passing, x, B, C, C B^T, of its two factors, of the decay and of dt.
constexpr int kForwardKernels = 5, kBackwardKernels = 15;

// Norms of q and k, sums of the decay, K K^T, its inverse, T K and T V, states, output.  Backward:
// T K and T V, states, gradients of values, of states, of q and k, of T K, of the decay and of the
// norms.
constexpr int kDeltaKernels = 8, kDeltaBackwardKernels = 10;

// Tokens whose states the selective scan saves once: 128 threads of 16 tokens, fewer threads and
// tokens for sequences that are shorter.
constexpr int kSelectiveChunk = 2048;

// Copies of x, dt and z; backward of the gradients of y, x and z.
constexpr double kSelectiveCopies = 3.0;

// A convolution that saves what it reads.
void add_convolution(LayerBuilder& part, double channels, double e) {
  part.add_forward(Module::Scan,
                   memory_bound(OperatorKind::Convolution, "conv1d", channels, 2.0 * e, 1));
  part.add_backward(Module::Scan, memory_bound(OperatorKind::Convolution, "conv1d_backward",
                                               channels, 3.0 * e, 1));
}

double states_of_chunks(const Mamba1& mamba, int tokens) {
  return 2.0 * kFp32Bytes * mamba.state_size / std::min(tokens, kSelectiveChunk);
}

// Of all tokens.
double channels_on_rank(const Transformer& model, const Strategy& strategy) {
  return static_cast<double>(strategy.micro_batch) * model.seq_len * model.mamba1->inner_size /
         strategy.tp;
}

}  // namespace

ScanBytes scan_bytes(const Mamba& mamba, double element) {
  const double e = element, groups = static_cast<double>(mamba.num_groups) / mamba.num_heads,
               values = mamba.head_dim, chunk = mamba.chunk_size * groups,
               shared = mamba.state_size * groups,
               states = values * mamba.state_size / mamba.chunk_size;
  return {.forward = 5.0 * values * e + 4.0 * shared * e + (8.0 + 2.0 * e) * states + 8.0 * chunk,
          .backward = 17.0 * values * e + (11.0 * e + 16.0) * shared + (24.0 + 5.0 * e) * states +
                      24.0 * chunk,
          .forward_workspace = (4.0 + e) * states + 4.0 * chunk,
          .backward_workspace = (8.0 + 2.0 * e) * states + 8.0 * chunk};
}

LayerOperators lower_mamba_scan(const Transformer& model, const Strategy& strategy) {
  const Mamba& mamba = *model.mamba;
  const double e = size_of(activation_dtype(strategy.precision)).value(), ranks = strategy.tp,
               tokens = static_cast<double>(strategy.micro_batch) * model.seq_len,
               channels = tokens * mamba.conv_channels() / ranks,
               heads = tokens * mamba.num_heads / ranks;
  const ScanBytes bytes = scan_bytes(mamba, e);
  const Flops flops = tokens / ranks * scan_flops_per_token(mamba);
  const auto copy = [&](const char* label, double width) {
    return memory_bound(OperatorKind::Copy, label, tokens * width / ranks,
                        permutation_traffic(e).forward_bytes, 1);
  };
  const double inner = mamba.inner_size(), read = inner + mamba.conv_channels() + mamba.num_heads;
  const bool copies = strategy.micro_batch > 1;
  LayerBuilder part;
  const auto add_copy = [&](const char* label, double width) {
    if (!copies) return;
    part.add_forward(Module::Scan, copy(label, width));
    part.add_backward(Module::Scan, copy(label, width));
  };
  add_copy("scan_input_order", read);
  part.add_forward(Module::Scan,
                   memory_bound(OperatorKind::Convolution, "conv1d", channels, 2.0 * e, 1));
  part.add_backward(Module::Scan, memory_bound(OperatorKind::Convolution, "conv1d_backward",
                                               channels, 5.0 * e, 2));
  part.add_forward(Module::Scan, memory_bound(OperatorKind::Scan, "scan", heads, bytes.forward,
                                              kForwardKernels, flops));
  part.add_backward(Module::Scan, memory_bound(OperatorKind::Scan, "scan_backward", heads,
                                               bytes.backward, kBackwardKernels, 2.0 * flops));
  add_copy("scan_output_order", inner);
  return std::move(part).build();
}

ScanBytes scan_bytes(const GatedDeltaNet& net, double element) {
  const double e = element, keys = net.key_head_dim, values = net.value_head_dim,
               chunk = net.chunk_size, states = keys * values / chunk;
  return {.forward = (11.0 * keys + 6.0 * values) * e + 2.0 * e * states + (8.0 + 2.0 * e) * chunk,
          .backward = (27.0 * keys + 15.0 * values) * e + 4.0 * e * states + 2.0 * e * chunk,
          .forward_workspace = (keys + 2.0 * values) * e + e * states + kFp32Bytes * chunk,
          .backward_workspace = (3.0 * keys + 3.0 * values) * e + 2.0 * e * states};
}

double saved_by_delta_rule(const GatedDeltaNet& net, double element) {
  return (2.0 * net.key_head_dim + net.value_head_dim + net.chunk_size) * element + kFp32Bytes;
}

LayerOperators lower_delta_rule(const Transformer& model, const Strategy& strategy) {
  const GatedDeltaNet& net = *model.gated_delta_net;
  const double e = size_of(activation_dtype(strategy.precision)).value(), ranks = strategy.tp,
               tokens = static_cast<double>(strategy.micro_batch) * model.seq_len,
               channels = tokens * net.conv_channels() / ranks,
               heads = tokens * net.num_value_heads / ranks;
  const ScanBytes bytes = scan_bytes(net, e);
  const Flops flops = tokens / ranks * scan_flops_per_token(net);
  LayerBuilder part;
  add_convolution(part, channels, e);
  if (net.num_value_heads > net.num_key_heads)
    part.add(OperatorKind::Copy, Module::Scan, "repeat_heads", 2.0 * heads * net.key_head_dim,
             permutation_traffic(e));
  part.add_forward(Module::Scan, memory_bound(OperatorKind::Scan, "delta_rule", heads,
                                              bytes.forward, kDeltaKernels, flops));
  part.add_backward(Module::Scan, memory_bound(OperatorKind::Scan, "delta_rule_backward", heads,
                                               bytes.backward, kDeltaBackwardKernels, 2.0 * flops));
  return std::move(part).build();
}

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

LayerOperators lower_mamba1_convolution(const Transformer& model, const Strategy& strategy) {
  const double e = size_of(activation_dtype(strategy.precision)).value();
  LayerBuilder part;
  add_convolution(part, channels_on_rank(model, strategy), e);
  return std::move(part).build();
}

LayerOperators lower_selective_scan(const Transformer& model, const Strategy& strategy) {
  const Mamba1& mamba = *model.mamba1;
  const double e = size_of(activation_dtype(strategy.precision)).value(),
               channels = channels_on_rank(model, strategy);
  const ScanBytes bytes = scan_bytes(mamba, model.seq_len, e);
  const Flops flops = channels / mamba.inner_size * scan_flops_per_token(mamba);
  LayerBuilder part;
  part.add_backward(Module::Scan,
                    memory_bound(OperatorKind::Residual, "scan_input_sum", channels, 3.0 * e, 1));
  part.add(OperatorKind::Copy, Module::Scan, "scan_order", kSelectiveCopies * channels,
           permutation_traffic(e));
  part.add_forward(Module::Scan, memory_bound(OperatorKind::SelectiveScan, "selective_scan",
                                              channels, bytes.forward, 1, flops));
  part.add_backward(Module::Scan,
                    memory_bound(OperatorKind::SelectiveScan, "selective_scan_backward", channels,
                                 bytes.backward, 1, 2.0 * flops));
  return std::move(part).build();
}

}  // namespace llmsim::sim
