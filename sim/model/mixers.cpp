#include "sim/model/mixers.h"

#include <algorithm>
#include <string>

#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/model/layer_table.h"

namespace llmsim::sim {
namespace {

using Count = std::int64_t;

void validate_delta_net(const Transformer& model) {
  const GatedDeltaNet& net = *model.gated_delta_net;
  require_divides("gated_delta_net.num_key_heads", net.num_key_heads,
                  "gated_delta_net.num_value_heads", net.num_value_heads);
  require_head_widths("gated_delta_net",
                      std::max(std::int64_t{net.num_key_heads} * net.key_head_dim,
                               std::int64_t{net.num_value_heads} * net.value_head_dim));
}

void validate_mamba(const Transformer& model) {
  const Mamba& mamba = *model.mamba;
  require_divides("mamba.num_groups", mamba.num_groups, "mamba.num_heads", mamba.num_heads);
  if (static_cast<std::int64_t>(mamba.num_heads) * mamba.head_dim > kMaxHeadWidths ||
      static_cast<std::int64_t>(mamba.num_groups) * mamba.state_size > kMaxHeadWidths)
    throw Error("mamba.num_heads * head_dim or num_groups * state_size is out of range: 1 to " +
                std::to_string(kMaxHeadWidths));
}

void add_mamba(LayerTable& table) {
  using enum WeightName;
  const Mamba& mamba = *table.model.mamba;
  const Count inner = mamba.inner_size(), channels = mamba.conv_channels(), heads = mamba.num_heads;
  table.column_parallel({.name = MixerInput,
                         .part = LayerPart::Mixer,
                         .rows = table.hidden,
                         .columns = inner + channels + heads,
                         .biases = mamba.projection_bias});
  table.divided_vector(Convolution, channels * mamba.conv_kernel);
  if (mamba.conv_bias) table.divided_vector(ConvolutionBias, channels);
  for (const WeightName name : {DecayLog, Skip, StepBias}) table.divided_vector(name, heads);
  if (mamba.gated_norm) table.divided_vector(GatedNorm, inner);
  table.row_parallel({.name = MixerOutput,
                      .part = LayerPart::Mixer,
                      .rows = inner,
                      .biases = mamba.projection_bias});
}

void add_delta_net(LayerTable& table) {
  using enum WeightName;
  const GatedDeltaNet& net = *table.model.gated_delta_net;
  const Count values = net.value_size(), heads = net.num_value_heads;
  const auto input = [&](WeightName name, Count columns) {
    table.column_parallel(
        {.name = name, .part = LayerPart::Mixer, .rows = table.hidden, .columns = columns});
  };
  // Without bottlenecks the gate of the output is projected with q, k and v, the decay of a head
  // with its step.
  input(MixerInput, net.conv_channels() + (net.gate_rank ? 0 : values));
  input(MixerGates, (net.gate_rank ? 1 : 2) * heads);
  if (net.gate_rank) {
    table.add({.name = GateDown,
               .part = LayerPart::Mixer,
               .rows = table.hidden,
               .columns = 2 * Count{*net.gate_rank},
               .partial = true});
    table.column_parallel({.name = GateUp,
                           .part = LayerPart::Mixer,
                           .rows = *net.gate_rank,
                           .columns = net.key_size() + values});
  }
  table.divided_vector(Convolution, Count{net.conv_channels()} * net.conv_kernel);
  table.divided_vector(DecayLog, heads);
  table.divided_vector(StepBias, net.gate_rank ? net.key_size() : heads);
  table.add({.name = GatedNorm, .part = LayerPart::Mixer, .columns = net.value_head_dim});
  table.row_parallel({.name = MixerOutput, .part = LayerPart::Mixer, .rows = values});
}

void add_mamba1(LayerTable& table) {
  using enum WeightName;
  const Mamba1& mamba = *table.model.mamba1;
  const LayerPart part = LayerPart::Mixer;
  const Count inner = mamba.inner_size, selection = mamba.selection_size();
  table.column_parallel({.name = MixerInput,
                         .part = part,
                         .rows = table.hidden,
                         .columns = 2 * inner,
                         .biases = mamba.projection_bias});
  table.divided_vector(Convolution, inner * mamba.conv_kernel);
  if (mamba.conv_bias) table.divided_vector(ConvolutionBias, inner);
  table.add({.name = SelectionProjection,
             .part = part,
             .rows = inner,
             .columns = selection,
             .divided = TensorAxis::Rows});
  if (mamba.norms) table.add({.name = SelectionNorms, .part = part, .columns = selection});
  table.column_parallel(
      {.name = StepProjection, .part = part, .rows = mamba.dt_rank, .columns = inner, .biases = 1});
  table.divided_vector(DecayLog, inner * mamba.state_size);
  table.divided_vector(Skip, inner);
  table.row_parallel(
      {.name = MixerOutput, .part = part, .rows = inner, .biases = mamba.projection_bias});
}

void validate_lightning_attention(const Transformer& model) {
  const LightningAttention& attention = *model.lightning_attention;
  require_head_widths("lightning_attention",
                      std::int64_t{attention.num_heads} * attention.head_dim);
}

void add_lightning_attention(LayerTable& table) {
  using enum WeightName;
  const Count inner = table.model.lightning_attention->inner_size();
  table.column_parallel({.name = MixerInput,
                         .part = LayerPart::Mixer,
                         .rows = table.hidden,
                         .columns = 4 * inner,
                         .side_by_side = 2,
                         .first_columns = 3 * inner});
  if (table.model.qk_norm == sim::QkNorm::PerHead)
    table.divided_vector(WeightName::QkNorm, 2 * table.model.lightning_attention->head_dim);
  table.divided_vector(GatedNorm, inner);
  table.row_parallel({.name = MixerOutput, .part = LayerPart::Mixer, .rows = inner});
}

void add_short_convolution(LayerTable& table) {
  using enum WeightName;
  const ShortConvolution& convolution = *table.model.short_convolution;
  const Count channels = convolution.channels;
  const int bias = convolution.bias ? 1 : 0;
  table.column_parallel({.name = MixerInput,
                         .part = LayerPart::Mixer,
                         .rows = table.hidden,
                         .columns = 3 * channels,
                         .biases = bias});
  table.divided_vector(Convolution, channels * convolution.conv_kernel);
  if (convolution.bias) table.divided_vector(ConvolutionBias, channels);
  table.row_parallel(
      {.name = MixerOutput, .part = LayerPart::Mixer, .rows = channels, .biases = bias});
}

// A row with what follows from where a Transformer has the sizes, and which of them tensor ranks
// divide.
template <auto sizes, auto divided>
constexpr ScanMixer of_sizes(ScanMixer row) {
  row.is_given = [](const Transformer& model) { return (model.*sizes).has_value(); };
  row.give = [](Transformer& model) { (model.*sizes).emplace(); };
  row.flops_per_token = [](const Transformer& model) {
    return scan_flops_per_token(*(model.*sizes));
  };
  row.divided = [](const Transformer& model) { return (*(model.*sizes)).*divided; };
  return row;
}

constexpr ScanMixer kScanMixers[] = {
    of_sizes<&Transformer::mamba, &Mamba::num_groups>({Mixer::Mamba2, 'M', "Mamba-2", "mamba",
                                                       "tp does not divide mamba.num_groups",
                                                       add_mamba, validate_mamba}),
    of_sizes<&Transformer::mamba, &Mamba::num_groups>(
        {Mixer::AttentionAndMamba2, 'P', "attention beside Mamba-2", "mamba",
         "tp does not divide mamba.num_groups", add_mamba, validate_mamba}),
    of_sizes<&Transformer::gated_delta_net, &GatedDeltaNet::num_key_heads>(
        {Mixer::GatedDeltaNet, 'G', "gated delta net", "gated_delta_net",
         "tp does not divide gated_delta_net.num_key_heads", add_delta_net, validate_delta_net}),
    of_sizes<&Transformer::mamba1, &Mamba1::inner_size>({Mixer::Mamba1, 'S', "Mamba-1", "mamba1",
                                                         "tp does not divide mamba1.inner_size",
                                                         add_mamba1}),
    of_sizes<&Transformer::lightning_attention, &LightningAttention::num_heads>(
        {Mixer::LightningAttention, 'L', "lightning attention", "lightning_attention",
         "tp does not divide lightning_attention.num_heads", add_lightning_attention,
         validate_lightning_attention}),
    of_sizes<&Transformer::short_convolution, &ShortConvolution::channels>(
        {Mixer::ShortConvolution, 'C', "short convolution", "short_convolution",
         "tp does not divide short_convolution.channels", add_short_convolution}),
};

}  // namespace

void require_head_widths(const char* object, std::int64_t width) {
  if (width > kMaxHeadWidths)
    throw Error(std::string("heads of ") + object + " are out of range: widths of 1 to " +
                std::to_string(kMaxHeadWidths));
}

std::span<const ScanMixer> scan_mixers() { return kScanMixers; }

const ScanMixer* scan_mixer(Mixer mixer) {
  const auto found = std::find_if(std::begin(kScanMixers), std::end(kScanMixers),
                                  [&](const ScanMixer& row) { return row.mixer == mixer; });
  return found == std::end(kScanMixers) ? nullptr : found;
}

bool has_scans(const Transformer& model) {
  return std::any_of(std::begin(kScanMixers), std::end(kScanMixers),
                     [&](const ScanMixer& row) { return row.is_given(model); });
}

Flops scan_flops_per_token(const Mamba& mamba) {
  const double heads = mamba.num_heads, values = mamba.head_dim, states = mamba.state_size,
               chunk = mamba.chunk_size;
  return (mamba.num_groups * chunk * states + heads * chunk * values +
          4.0 * heads * values * states) *
         FLOP;
}

Flops scan_flops_per_token(const GatedDeltaNet& net) {
  const double keys = net.key_head_dim, values = net.value_head_dim, chunk = net.chunk_size;
  return net.num_value_heads *
         (6.0 * keys * values + chunk * (3.0 * keys + 2.0 * values) + chunk * chunk / 3.0) * FLOP;
}

Flops scan_flops_per_token(const LightningAttention& attention) {
  const double values = attention.head_dim, chunk = attention.chunk_size;
  return attention.num_heads * (2.0 * chunk * values + 4.0 * values * values) * FLOP;
}

Flops scan_flops_per_token(const ShortConvolution&) { return 0.0 * FLOP; }

Flops scan_flops_per_token(const Mamba1& mamba) {
  return 4.0 * real(mamba.inner_size) * mamba.state_size * FLOP;
}

}  // namespace llmsim::sim
