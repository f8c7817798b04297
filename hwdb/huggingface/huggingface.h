// Reads a model's shape from the config.json that lies next to its weights on Hugging Face.
//
// It reads the model_types of facts/model_types.json: decoders, hybrids like Nemotron-H, Qwen3-Next
// and Jamba, and encoders like BERT.  Keys that a file omits take the default that the family's
// configuration class documents, keys that do not concern the shape are ignored, and of a
// vision-language model the text part is read.  Infinity and NaN, which Python writes, are null.
//
// seq_len is the length the model was pre-trained with where the file tells it
// (rope_scaling.original_max_position_embeddings, initial_context_length), else 4096
// tokens, or the longest that it accepts (max_position_embeddings) where that is less:
// files name what a model takes after its context was extended.
// Multi-token-prediction layers count (num_nextn_predict_layers).
//
// It also reads the configurations of llm-train-bench, recognised by their key d_embd, whose MLP
// has the width ffn_factor * ceil(ffn_mult * 8/3 * d_embd / ffn_factor).
#pragma once

#include <string>
#include <vector>

#include "sim/model/transformer.h"

namespace llmsim::hwdb {

// The shape described by `text`; `file` names it in messages.  Throws Error, one line with file,
// key, value and what would be right, for malformed JSON, a missing or absurd size, an unknown
// model_type (with the nearest known one), and for models that are none of these: encoder-decoders,
// other state-space models and hybrids of those.
sim::Transformer read_model_config(const std::string& text, const std::string& file);

// The same for the file at `path`, with a note for each part that is not counted, such as the
// vision tower of a model that sees, and with what became of each key.  Throws Error also where it
// cannot be read.
sim::NamedModel load_model_config(const std::string& path);

// The values of model_type that are understood, in alphabetical order.
std::vector<std::string> known_model_types();

}  // namespace llmsim::hwdb
