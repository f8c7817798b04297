// Patterns of layers as Megatron-LM's arguments write them.
//
//   layers with experts (--moe-layer-freq)   "2": every second one; "([0]*3+[1]*58)": 0 is a dense
//                layer, 1 one with experts
//   layers with linear attention (--linear-attention-freq)   "4": all but every fourth; "[1,1,0]":
//                1 is one with it, 0 one with softmax attention
//   layers of a hybrid (--hybrid-layer-pattern)   "M-M*|ME-E/*E/*E": a letter for each, a model
//                chunk between bars, and behind each slash a layer of multi-token prediction
//   pipeline layout (--pipeline-model-parallel-layout)   "Et*2|(tt|)*30L": a model chunk
//                between bars, t a layer, E the embedding, m a layer of multi-token prediction, L
//                the LM head; x*N and (...)*N repeat
//
// Sources: NVIDIA/Megatron-LM megatron/training/arguments.py (moe_freq_type, la_freq_type),
// megatron/core/transformer/pipeline_parallel_layer_layout.py (parse_str_to_list), and
// megatron/core/ssm/mamba_hybrid_layer_allocation.py (patterns of hybrids).
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {

// Moe::num_dense_layers and Moe::layer_interval.
struct ExpertLayers {
  int dense = 0;
  int interval = 1;
};

// The pattern of `num_layers` layers, and its inverse, which throws Error for a text that is none
// and for layers that a Moe does not describe.
std::string layer_pattern(int num_layers, int dense, int interval);
ExpertLayers expert_layers(const std::string& pattern, int num_layers);

// The same of the letters G and * of Transformer::layer_pattern, one for each layer, and its
// inverse, which gives one period of them.
std::string linear_layers(const std::string& letters);
std::string mixers_of(const std::string& linear_layers);

struct HybridLayers {
  std::string letters{};
  int predicted = 0;          // layers of multi-token prediction
  std::vector<int> chunks{};  // their numbers of layers
};
// Throws Error where layers of multi-token prediction are not attention and experts.
HybridLayers hybrid_layers(const std::string& pattern);

// The pipeline layout of a model under a strategy.
std::string stage_layout_text(const sim::Transformer& model, const sim::Strategy& strategy);
// Transformer layers of each model chunk.  Throws Error for a text that is no layout.
std::vector<int> chunk_layers(const std::string& layout);

// Layers of each of `stages` stages where the first and the last have their own number and the
// others share the rest.  Throws Error where they cannot.
std::vector<int> stages_between(int num_layers, int stages, std::optional<int> first,
                                std::optional<int> last);

// "19,21,21" as numbers; empty where one is none.
std::vector<int> counts_in(const std::string& text);

}  // namespace llmsim::hwdb
