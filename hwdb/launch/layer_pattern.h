// Patterns of layers as Megatron-LM's arguments write them.
//
//   layers with experts (--moe-layer-freq)   "2": every second one; "([0]*3+[1]*58)": 0 is a dense
//                layer, 1 one with experts
//   pipeline layout (--pipeline-model-parallel-layout)   "Et*2|(tt|)*30L": a model chunk
//                between bars, t a layer, E the embedding, m a layer of multi-token prediction, L
//                the LM head; x*N and (...)*N repeat
//
// Sources: NVIDIA/Megatron-LM megatron/training/arguments.py (moe_freq_type),
// megatron/core/transformer/pipeline_parallel_layer_layout.py (parse_str_to_list).
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
