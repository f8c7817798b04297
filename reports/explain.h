// Why the GEMMs, the attention kernels or the collectives of a run take as long as they do: one
// row for each with the factors that multiply up to its rate (sim/explain.h), and the
// coefficients behind the factors.  Why a run needs the memory it needs: one row for each tensor
// at the peak (sim/memory/peak_tensors.h).
#pragma once

#include <string>

#include "reports/provenance.h"
#include "reports/table.h"
#include "sim/run.h"

namespace llmsim::reports {

enum class Explained { Gemm, Attention, Collective, Memory };

sim::NameTable<Explained> name_table(Explained);  // "gemm", "attention", "collective", "memory"

// Requires a run that was simulated: its prediction breaks no rule, except that it
// may be out of memory.
Table explained_table(Explained what, const sim::Run& run);

// The facts of the run from which the factors follow.
std::vector<sim::Fact> facts_behind(Explained what, const sim::Run& run);

// Both tables.  CSV is the first alone; JSON has the keys of README.md.
std::string render(Explained what, const sim::Run& run, const Provenance& provenance, Format format,
                   const Style& style = {});

}  // namespace llmsim::reports
