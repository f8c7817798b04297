#include "sim/model/flops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "sim/model/layer_kinds.h"
#include "sim/model/parameters.h"
#include "sim/model/tower.h"

namespace llmsim::sim {

namespace {

using Count = std::int64_t;

// That multiply a token in all layers; or those of them whose input gets no gradient.
Count block_weights(const Transformer& m, bool detached_only = false) {
  const LayerKinds kinds = layer_kinds(m);
  Count total = 0;
  for_each_kind(count_layers(m, 0, m.num_layers + m.mtp_layers), [&](std::size_t slot, int layers) {
    for (const LayerWeight& weight : layer_weights(m, kinds[slot]))
      if (weight.detached || !detached_only) total += layers * weight.multiplied();
  });
  return total;
}

}  // namespace

namespace {

// Of `all`, each query sees at most the last `visible`.
double mean_of(double visible, double all, bool causal) {
  visible = std::min(visible, all);
  return causal ? visible - visible * visible / (2.0 * all) : visible;
}

}  // namespace

double scored_keys(const Transformer& model, int layer, bool causal) {
  causal &= !model.encoder;
  if (const double entries = compressed_entries(model); entries > 0.0)
    return mean_of(entries, entries, causal);
  const double tokens = document_len(model);
  return mean_of(window_of_layer(model, layer).value_or(document_len(model)), tokens, causal);
}

double attended_keys(const Transformer& model, int layer, bool causal) {
  causal &= !model.encoder;
  const double tokens = document_len(model), entries = compressed_entries(model);
  double seen = window_of_layer(model, layer).value_or(document_len(model));
  const auto& sparse = model.sparse_attention;
  if (sparse && entries == 0.0) seen = std::min<double>(seen, sparse->top_k);
  const double whole = mean_of(seen, tokens, causal);
  if (entries == 0.0) return whole;
  return whole + mean_of(sparse ? sparse->top_k : entries, entries, causal);
}

Flops attention_flops_per_token(const Transformer& model, int layer, bool causal) {
  const std::optional<Transformer> own = own_shape(model, kind_of_layer(model, layer));
  const Transformer& seen = own ? *own : model;
  const double width = real(seen.num_heads) * (core_query_dim(seen) + core_value_dim(seen));
  const Flops core = 2.0 * width * attended_keys(seen, layer, causal) * FLOP;
  if (!seen.sparse_attention) return core;
  return core + 2.0 * real(seen.sparse_attention->num_heads) * seen.sparse_attention->head_dim *
                    scored_keys(seen, layer, causal) * FLOP;
}

Flops head_flops_per_token(const Transformer& model) {
  const Count h = model.hidden_size, logits = h * num_logits(model);
  // Of matrices that multiply predicted tokens, and the first token of a sequence.
  Count predicted = (1 + model.mtp_layers) * logits + h * h * 2 * model.mtp_layers, first = 0;
  if (model.encoder && !model.num_labels) predicted = logits + h * h;
  if (has_pooler(model)) first = h * h + (model.num_labels ? logits : 2 * h);
  if (has_pooler(model) && model.num_labels) predicted = 0;
  predicted += stream_projection_weights(model);
  return 2.0 * (predicted_share(model) * real(predicted) + real(first) / model.seq_len) * FLOP;
}

Flops forward_flops_per_token(const Transformer& model, bool causal) {
  Flops total = 2.0 * real(block_weights(model)) * FLOP + head_flops_per_token(model);
  if (const auto& own = model.layer_embedding)
    total += 2.0 * real(model.hidden_size) * model.num_layers * own->width * FLOP;
  total += 2.0 * real(stream_projection_weights(model) + ngram_projections(model)) * FLOP;
  total += running_tower_flops(model) / real(model.seq_len);
  for (int layer = 0; layer < model.num_layers + model.mtp_layers; ++layer) {
    const LayerKind kind = kind_of_layer(model, layer);
    if (kind.has_attention()) total += attention_flops_per_token(model, layer, causal);
    if (const ScanMixer* mixer = scan_mixer(kind.mixer)) total += mixer->flops_per_token(model);
  }
  return total;
}

Flops training_flops_per_token(const Transformer& model, double adapter_parameters) {
  Flops towers, tower_training;
  for_each_running_tower(model, [&](const char*, const Tower& tower) {
    const Flops forward = tower_flops(tower, model.hidden_size) / real(model.seq_len);
    const bool learns = !tower.frozen && adapter_parameters == 0.0;
    towers += forward, tower_training += (learns ? 3.0 : 1.0) * forward;
  });
  const Flops text = forward_flops_per_token(model, true) - towers;
  // Only an indexer has such weights; others need not look for them.
  const bool detaches = model.sparse_attention || model.compressed_attention;
  if (adapter_parameters == 0.0)
    return 3.0 * text - (detaches ? 2.0 * real(block_weights(model, true)) : 0.0) * FLOP +
           tower_training;
  const Flops weights = 2.0 * real(block_weights(model)) * FLOP + head_flops_per_token(model);
  return 3.0 * text - weights + 6.0 * adapter_parameters * FLOP + tower_training;
}

namespace {

// --- as Megatron-LM counts ---

bool is_logged(const LayerWeight& weight) {
  using enum WeightName;
  constexpr WeightName kLeftOut[] = {Router,   SharedGate,   StreamWeights,  IndexQuery,
                                     IndexKey, IndexWeights, CompressorInput};
  return std::ranges::find(kLeftOut, weight.name) == std::end(kLeftOut);
}

// Of its columns, where it is a vector that counts as a matrix of one row.
Count logged_vector(const LayerWeight& weight, LayerKind kind) {
  using enum WeightName;
  const bool counts = weight.name == MlaNorm || weight.name == QueryNorm ||
                      (weight.name == Convolution && kind.mixer == Mixer::GatedDeltaNet);
  return counts ? weight.columns : 0;
}

// Multiply-adds of the scan of a layer; of a Mamba-2 layer also those of its matrices.
double logged_scan(const Transformer& m, LayerKind kind) {
  const double h = m.hidden_size;
  if (kind.mixer == Mixer::Mamba2) {
    const Mamba& mamba = *m.mamba;
    const double state = mamba.state_size;
    return h * (4.0 * h + 2.0 * mamba.num_groups * state + mamba.num_heads) + 7.0 * h * state +
           2.0 * h * h;
  }
  if (kind.mixer == Mixer::GatedDeltaNet)
    return 4.0 * m.gated_delta_net->num_value_heads * m.gated_delta_net->value_head_dim *
           m.gated_delta_net->value_head_dim;
  const ScanMixer* const other = scan_mixer(kind.mixer);
  return other ? other->flops_per_token(m) / (2.0 * FLOP) : 0.0;
}

double logged_layer(const Transformer& model, LayerKind kind) {
  double sum = logged_scan(model, kind);
  for (const LayerWeight& weight : layer_weights(model, kind)) {
    const bool in_scan = kind.mixer == Mixer::Mamba2 && weight.part == LayerPart::Mixer;
    if (!in_scan && is_logged(weight))
      sum += real(weight.multiplied() + logged_vector(weight, kind));
  }
  if (!kind.has_attention()) return sum;
  const std::optional<Transformer> own = own_shape(model, kind);
  const Transformer& seen = own ? *own : model;
  const double width = real(seen.num_heads) * query_head_dim(seen) + attention_output_width(seen);
  return sum + width * document_len(model) / 2.0;
}

// Multiply-adds of a token's forward pass.
double logged_today(const Transformer& m) {
  const LayerKinds kinds = layer_kinds(m);
  const double h = m.hidden_size, ahead = m.mtp_layers;
  double sum = (1.0 + ahead) * h * num_logits(m);
  bool parted = false;  // a layer is a mixer or an MLP
  for_each_kind(count_layers(m, 0, m.num_layers + m.mtp_layers), [&](std::size_t slot, int layers) {
    const LayerKind kind = kinds[slot];
    sum += layers * logged_layer(m, kind);
    parted |= kind.mixer == Mixer::None || kind.mlp == LayerMlp::None;
  });
  return parted ? sum : sum + ahead * (3.0 * h + 2.0 * h * h);
}

double logged_in_2024(const Transformer& m) {
  const double layers = m.num_layers, h = m.hidden_size, matrices = m.gated_mlp ? 3.0 : 2.0,
               q = real(m.num_heads) * m.head_dim, groups = real(m.num_kv_heads) / m.num_heads;
  double width = m.ffn_size;
  if (m.moe) {
    const double dense = m.ffn_size > 0 ? m.ffn_size : m.moe->expert_ffn_size;
    width = m.moe->top_k * dense + real(m.moe->num_shared_experts) * m.moe->shared_expert_ffn_size;
  }
  return layers * (2.0 * q * h * (1.0 + groups) + 2.0 * q * m.seq_len + matrices * h * width) +
         h * num_logits(m);
}

// Of Korthikanti et al., forward and backward.
double logged_at_first(const Transformer& m) {
  const double layers = m.num_layers, h = m.hidden_size, s = m.seq_len;
  return 72.0 * layers * h * h * (1.0 + s / (6.0 * h) + m.vocab_size / (12.0 * h * layers));
}

}  // namespace

std::vector<Convention> conventions(const Transformer& model, const StepWork& work) {
  const Parameters counts = parameters(model);
  const double all = real(counts.active() - counts.towers);
  const double no_embedding =
      all - real(model.tied_embeddings ? counts.positions : counts.embedding + counts.positions);
  const LayerKinds kinds = layer_kinds(model);
  double attention_layers = 0.0;
  for_each_kind(count_layers(model, 0, model.num_layers), [&](std::size_t slot, int count) {
    if (kinds[slot].has_attention()) attention_layers += count;
  });
  const double square = 12.0 * attention_layers * model.num_heads * model.head_dim * model.seq_len;
  const Flops per_token{work.tokens};
  std::vector<Convention> list;
  const auto add = [&](const char* name, Flops flops) {
    const FlopsPerSecond rate = flops / work.step_time / work.num_devices;
    list.push_back(
        {.name = name, .flops_per_step = flops, .flops_per_device = rate, .mfu = rate / work.peak});
  };
  add("6N", 6.0 * all * per_token);
  add("6N_no_embedding", 6.0 * no_embedding * per_token);
  add("palm", (6.0 * all + square) * per_token);
  add("palm_causal", (6.0 * all + square / 2.0) * per_token);
  add("palm_no_embedding", (6.0 * no_embedding + square) * per_token);
  add("megatron", 6.0 * logged_today(model) * per_token);
  add("megatron_2024", 6.0 * logged_in_2024(model) * per_token);
  add("megatron_2022", logged_at_first(model) * per_token);
  add("gemm_causal", work.model);
  add("hardware", work.hardware);
  return list;
}

namespace {

// Published rates are rounded to two digits or so.
constexpr double kRounding = 0.03;

}  // namespace

Reading reading_of(const Convention& convention, FlopsPerSecond reported, const StepWork& work) {
  Reading reading{.convention = convention.name};
  reading.step_time = convention.flops_per_step / reported / work.num_devices;
  reading.exact = work.model / reading.step_time / work.num_devices;
  reading.exact_mfu = reading.exact / work.peak;
  return reading;
}

std::optional<Convention> convention_behind(std::span<const Convention> conventions,
                                            FlopsPerSecond reported, Seconds measured,
                                            int num_devices) {
  std::optional<Convention> nearest;
  double least = kRounding;
  for (const Convention& convention : conventions) {
    const double miss =
        std::abs(std::log(convention.flops_per_step / measured / num_devices / reported));
    if (miss > least) continue;
    least = miss;
    nearest = convention;
  }
  return nearest;
}

}  // namespace llmsim::sim
