// Plans that a launch file can say: the space of a search without what its target cannot express.
//
// A target's table (launch_table.h) is asked twice.  Once of single values: a term on a field that
// the search has yet to choose may hold, so a value whose rows have no case, or of which a rule of
// start-up holds whatever else is chosen, is left out of the search at once:
//
//   never pipelines are another program's     pp != 1      ->  plans have one stage
//
// And of every strategy that may be among the best, as a whole.  What rows cannot know, that the
// written file resolves to the same run, is found when it is written (launch_files).
#pragma once

#include <string>

#include "sim/plan.h"

namespace llmsim::hwdb {

// The query whose plans the rows of `target` can express, or of the program that it launches; as it
// is where no program's file is known.  Throws Error "TARGET cannot express FIELD = VALUE" where no
// plan can be written, because of what is not searched or of all values that are asked for.
sim::PlanQuery written_by(sim::PlanQuery query, const std::string& target);

}  // namespace llmsim::hwdb
