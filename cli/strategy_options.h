// The strategy in the options of a command line: one value of each field, or the lists of values
// that restrict a search.
#pragma once

#include <string>
#include <vector>

#include "cli/number_list.h"
#include "cli/run_options.h"
#include "sim/search/plan_query.h"
#include "sim/strategy/recompute.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli {

// "a,b" as a list of "a" and "b"; empty for an empty text.
std::vector<std::string> split(const std::string& text, char separator = ',');

// Throws Error: "OPTION = VALUE: RIGHT is expected".
[[noreturn]] void refuse(const std::string& option, const std::string& value,
                         const std::string& right);

// The whole numbers that a field may have.
NumberRange range_of(const sim::StrategyField& field);

// Whether a search chooses a field that options state as `text`: then several values may be given.
bool is_searched(const std::string& key, const std::string& text);

// The fields that options of their own state, but those that `skips` names.  Throws Error naming
// the option and the values that are right, as all of these do.
using SkippedFields = bool (*)(const std::string& key, const std::string& text);
sim::PartialStrategy strategy_in(const RunOptions& options, SkippedFields skips);

// --recompute, which states all fields of "recompute."
sim::Recompute recompute_in(const std::string& text);
void set_recompute(const sim::Recompute& recompute, sim::PartialStrategy& partial);

// One item, `part`, of the list `text` that --offload has.
void add_offload(const std::string& part, const std::string& text, sim::PartialStrategy& strategy);

// --shard-size and --sharding belong together.
void check_shards(const sim::PartialStrategy& strategy);

// The values that a search may choose from.
sim::Restriction restriction_of(const RunOptions& options);

// "sharding=zero3,hsdp" into the values that are excluded.
void exclude(const std::string& text, sim::Restriction& excluded);

}  // namespace llmsim::cli
