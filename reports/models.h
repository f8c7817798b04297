// The catalogue and single models for people and machines.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/model/transformer.h"

namespace llmsim::reports {

// One row per model: shape, parameters, other names.
Table catalogue_table(const std::vector<const sim::NamedModel*>& entries);

// One row for each field of the shape that says something about this model.
Table shape_table(const sim::NamedModel& entry);

// One row per part, and the total, the published count and what a token visits.
Table parameters_table(const sim::NamedModel& entry);

// FLOPs of training on one token (forward and backward) under every convention of
// sim/model/flops.h, nothing recomputed.
Table training_flops_table(const sim::Transformer& model);

// {"name", "family", "aliases", "source", "not_counted": [text], "model": {the model block of a
// run}, "parameters": {part: n}, "published_parameters", "flops_per_token": {convention: FLOP}};
// null where there is none.
std::string model_json(const sim::NamedModel& entry);

}  // namespace llmsim::reports
