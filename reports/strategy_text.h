// A strategy in the words of the command line.
#pragma once

#include <string>

#include "sim/strategy/strategy.h"

namespace llmsim::reports {

// "none", "selective", "full", "full every 4", "every-n=2", "op".
std::string recompute_text(const sim::Recompute& recompute);

// "zero1", "hsdp/8".
std::string sharding_text(const sim::Strategy& strategy);

// "bf16, adamw", with ", LoRA of rank 16 on q, v" where adapters are trained.
std::string recipe_text(const sim::Strategy& strategy);

// The mesh without factors of one: "tp 8, pp 4, dp 8"; "one device" where there is nothing left.
std::string mesh_text(const sim::Strategy& strategy);

// Everything that a plan varies, in one line: "tp 8, pp 4, dp 8, zero1, micro-batch 2, recompute
// selective, 2 virtual stages".
std::string strategy_text(const sim::Strategy& strategy);

}  // namespace llmsim::reports
