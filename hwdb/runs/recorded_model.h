// The model of a record: the catalogue's of that name with what the record changes, or one
// described by its shape alone.
//
// Private to hwdb.
#pragma once

#include "hwdb/frameworks/frameworks.h"
#include "hwdb/runs/assumptions.h"
#include "sim/model/transformer.h"

namespace llmsim::hwdb {

// What the record does not say follows from the catalogue's model of its name, if that has the
// recorded shape, else from the two families, GPT and Llama.  Throws Error for models that are no
// decoders, and for essential sizes that are missing.
sim::Transformer model_of(const RunRecord& record, const FrameworkDefaults& defaults,
                          Assumptions& assume);

}  // namespace llmsim::hwdb
