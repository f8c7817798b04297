// The fields of a framework's behaviour by name, for facts/frameworks.json, coefficients, settings and rules.
//
// A key is the path of its member: "gradients.reduced_in_fp32".  Times are in seconds, sizes in bytes, rates in bytes per second;
// none is negative.
#pragma once

#include <string>
#include <vector>

#include "sim/base/field.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

const std::vector<Field<Framework>>& framework_fields();

}  // namespace llmsim::sim
