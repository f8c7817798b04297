// What a site knows of its memory, in rows of scope "site" next to those of its times (site.h):
//
//   memory.site, memory.layout, memory.gaps, memory.context, memory.run
//                                 spreads (sim/strategy/peak_correction.h)
//   peak/N/KIND/DEVICE/FRAMEWORK/PRECISION/TRAINED/MODEL/NUMBERS/RUN
//                                 ln of the N-th measured peak over the predicted one, its standard
//                                 error the noise; NUMBERS are the traits of its layout, log2 of
//                                 the sequence, and the slopes, with commas between them
#pragma once

#include <string>
#include <vector>

#include "hwdb/store/database.h"
#include "sim/run.h"
#include "sim/strategy/peak_correction.h"

namespace llmsim::hwdb {

struct SiteMemory {
  sim::PeakSpreads spreads;
  std::vector<sim::PeakObservation> peaks;
  bool empty() const { return peaks.empty(); }
  bool operator==(const SiteMemory&) const = default;
};

// Rows without scope, name and source; none without peaks.
std::vector<Coefficient> rows_of(const SiteMemory& memory);

// Whether the row is one of memory, and then takes it.  A key that a later version writes is none.
bool read(const Coefficient& row, SiteMemory& memory);

// Corrects the peaks of a run and of all layouts of its problem, the allocator's gaps and the
// driver's context, and lets errors.memory and errors.needed_memory be those of the layout that is
// the farthest from all that were measured.  Each value becomes a Fact "OWNER.memory.KEY".
void apply(const SiteMemory& memory, const std::string& owner, const std::string& source,
           sim::Run& run);

}  // namespace llmsim::hwdb
