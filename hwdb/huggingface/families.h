// How each family of models writes its config.json.  Private to hwdb.
#pragma once

#include <map>
#include <string>

#include "hwdb/huggingface/model_config.h"
#include "sim/model/transformer.h"

namespace llmsim::hwdb {

// Readers by the model_type they understand.
using Families = std::map<std::string, sim::Transformer (*)(ModelConfig&)>;

Families rotary_families();
Families moe_families();
Families gpt_families();
Families encoder_families();

// RMSNorm, rotary positions, gated MLP, no biases; the figures that most families give under the same keys.
sim::Transformer rotary(ModelConfig& config, bool tied_by_default);

// The file of llm-train-bench: a GPT where it has neither an MLP width nor kv heads, else a Llama.
sim::Transformer train_bench(ModelConfig& config);

}  // namespace llmsim::hwdb
