// The fields of a transformer by name: one table, which run files, JSON and checks of ranges iterate
// over.
//
// A key is that of the model section of a run file; a dot stands for an object in it
// ("moe.top_k").  A new field of a Transformer is a member, a row here and a formula.  The name
// stands beside the table: it picks a model of the catalogue.
#pragma once

#include <string>
#include <vector>

#include "sim/base/field.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {

// Numbers of 0 lie in the range of a size only where a model may do without it.
struct TransformerField : Field<Transformer> {
  // Whether a model has the object in which the field stands; null: every model has it.
  bool (*present)(const Transformer&) = nullptr;
  bool needed = false;  // a run file that describes the object states the field
};

const std::vector<TransformerField>& transformer_fields();

// Fields of a transformer by key.
using PartialTransformer = PartialRecord;

// All that a model has a value of.
PartialTransformer fields_of(const Transformer& model);

// Whether a field of an object is stated: of "moe", one whose key begins with "moe.".
bool states_object(const PartialTransformer& partial, const std::string& object);

}  // namespace llmsim::sim
