#include "sim/strategy/adapters.h"

#include <algorithm>
#include <array>

#include "sim/model/parameters.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {
namespace {

struct NamedLayer {
  const char* name;
  const char* long_name;  // of Hugging Face's modules
  bool AdaptedLayers::*has;
};

constexpr std::array<NamedLayer, 10> kNamedLayers{{{"q", "q_proj", &AdaptedLayers::q},
                                                   {"k", "k_proj", &AdaptedLayers::k},
                                                   {"v", "v_proj", &AdaptedLayers::v},
                                                   {"o", "o_proj", &AdaptedLayers::o},
                                                   {"gate", "gate_proj", &AdaptedLayers::gate},
                                                   {"up", "up_proj", &AdaptedLayers::up},
                                                   {"down", "down_proj", &AdaptedLayers::down},
                                                   {"in", "in_proj", &AdaptedLayers::in},
                                                   {"out", "out_proj", &AdaptedLayers::out},
                                                   {"x", "x_proj", &AdaptedLayers::x}}};

constexpr AdaptedLayers kAttention{.q = true, .k = true, .v = true, .o = true};
constexpr AdaptedLayers kMlp{.gate = true, .up = true, .down = true};
constexpr AdaptedLayers kMixer{.in = true, .out = true, .x = true};

bool in_group(const std::string& name, bool AdaptedLayers::*layer) {
  return (name == "mlp" && kMlp.*layer) || (name == "mixer" && kMixer.*layer);
}

}  // namespace

AdaptedLayers all_adapted_layers(const Transformer& model) {
  AdaptedLayers all = kAttention;
  all.in = all.out = has_scans(model);
  all.x = model.mamba1.has_value();
  if (model.moe) return all;
  all.gate = model.gated_mlp;
  all.up = all.down = true;
  return all;
}

std::optional<AdaptedLayers> adapted_layers_from(const std::string& name,
                                                 const Transformer& model) {
  const AdaptedLayers all = all_adapted_layers(model);
  if (name == "all" || name == "all-linear" || name == "all linear layers") return all;
  if (name == "attention") return kAttention;
  AdaptedLayers some;
  for (const NamedLayer& layer : kNamedLayers) {
    const bool named = name == layer.name || name == layer.long_name || in_group(name, layer.has);
    some.*layer.has = named && all.*layer.has;
  }
  return some.any() ? std::optional(some) : std::nullopt;
}

AdaptedLayers operator|(AdaptedLayers a, const AdaptedLayers& b) {
  for (const NamedLayer& layer : kNamedLayers) a.*layer.has = a.*layer.has || b.*layer.has;
  return a;
}

std::vector<std::string> names_of(const AdaptedLayers& layers) {
  std::vector<std::string> names;
  for (const NamedLayer& layer : kNamedLayers) {
    if (layers.*layer.has) names.emplace_back(layer.name);
  }
  return names;
}

std::vector<std::int64_t> adapted_columns(const AdaptedLayers& layers, const LayerWeight& weight) {
  const std::int64_t first = weight.first_columns;
  const std::int64_t others = (weight.columns - first) / std::max(1, weight.side_by_side - 1);
  std::vector<std::int64_t> columns;
  const auto add = [&](bool adapted, std::int64_t width) {
    if (adapted && width > 0) columns.push_back(width);
  };
  switch (weight.name) {
    case WeightName::Qkv: add(layers.q, first), add(layers.k, others), add(layers.v, others); break;
    case WeightName::QueryDown:
    case WeightName::QueryUp: add(layers.q, weight.columns); break;
    case WeightName::MlaDown:
    case WeightName::MlaUp: add(layers.k || layers.v, weight.columns); break;
    case WeightName::AttentionOutput: add(layers.o, weight.columns); break;
    case WeightName::MlpUp:
      add(layers.gate && weight.side_by_side > 1, first), add(layers.up, weight.columns - first);
      break;
    case WeightName::MlpDown: add(layers.down, weight.columns); break;
    case WeightName::MixerInput:
    case WeightName::MixerGates: add(layers.in, weight.columns); break;
    case WeightName::MixerOutput: add(layers.out, weight.columns); break;
    case WeightName::SelectionProjection: add(layers.x, weight.columns); break;
    default: break;
  }
  return columns;
}

}  // namespace llmsim::sim
