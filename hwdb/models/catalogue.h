// The models people name: shapes with their published parameter counts, facts/models.json.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/transformer.h"

namespace llmsim::hwdb {

// The models of the JSON in `content`, which says itself how it is read; `file` names it in
// messages.  Throws Error that names the row and the field: for an unknown key, a missing size, a
// wrong value or model, a name that stands twice and a "like" that no row above has for its name.
std::vector<sim::NamedModel> parse_models(const std::string& content, const std::string& file);

// All known models, grouped by family; read when they are first asked for.
std::span<const sim::NamedModel> catalogue();

// The entry with this name or alias, null where there is none.  Letter case does not matter, nor
// does '_', '.' or ' ' for '-', nor a hyphen between a letter and a digit ("llama3-8b" is
// "Llama-3-8B"), nor anything up to a '/' ("openai-community/gpt2").
//
// Names without a generation mean the generation that has that size: "llama-70b" is Llama 3 70B,
// "llama-7b" is Llama 1 7B (whose shape Llama 2 7B repeats with twice the context).
const sim::NamedModel* find_model(std::string_view name);

// Names and aliases nearest to `name`, best first, for "did you mean" messages.
std::vector<std::string> nearest_models(std::string_view name, int count);

}  // namespace llmsim::hwdb
