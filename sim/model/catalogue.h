// The models people name: shapes with their published parameter counts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/transformer.h"

namespace llmsim::sim {

struct CatalogueEntry {
  Transformer model;                 // model.name is the canonical name, such as "llama-3-70b"
  std::vector<std::string> aliases;  // what people type: "llama-70b", "llama3-70b"
  std::optional<std::int64_t> published_parameters;  // exact integer where one is published
  std::string source;                                // where the shape and the count were read
};

// The letters before the first digit or hyphen of a name: "llama" of
// "llama-3-70b", "gpt" of "gpt2-xl".
std::string family_of(std::string_view name);

// All known models, grouped by family.
std::span<const CatalogueEntry> catalogue();

// The entry with this name or alias, null where there is none.  Letter case does not matter, nor
// does '_', '.' or ' ' for '-', nor a hyphen between a letter and a digit ("llama3-8b" is
// "Llama-3-8B"), nor anything up to a '/' ("openai-community/gpt2").
//
// Names without a generation mean the generation that has that size: "llama-70b" is Llama 3 70B,
// "llama-7b" is Llama 1 7B (whose shape Llama 2 7B repeats with twice the context).
const CatalogueEntry* find_model(std::string_view name);

// Names and aliases nearest to `name`, best first, for "did you mean" messages.
std::vector<std::string> nearest_models(std::string_view name, int count);

}  // namespace llmsim::sim
