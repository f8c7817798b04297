// The parameters of a layer: what a rank has of each weight of sim/model/parameters.h and of its
// bias, in the same order and under the same names.
//
// A matrix (rows, columns) is stored with the outputs first, (columns, rows); that of several
// experts has one such matrix for each of this rank's, (experts, columns, rows).
#pragma once

#include <string>
#include <vector>

#include "runtime/model/parameter_unit.h"
#include "sim/model/layer_kinds.h"
#include "sim/model/parameters.h"

namespace llmsim::runtime {

struct BlockContext;

// Of a layer without its routed experts.
std::vector<ParameterShape> block_parameters(const BlockContext& context, sim::LayerKind kind,
                                             const std::string& prefix);
// Of this rank's routed experts.
std::vector<ParameterShape> expert_parameters(const BlockContext& context,
                                              const std::string& prefix);

// A weight as this rank has it, "NAME.weight", and "NAME.bias" where it has one.
void add_parameters(std::vector<ParameterShape>& list, const sim::LayerWeight& weight,
                    const std::string& name);

}  // namespace llmsim::runtime
