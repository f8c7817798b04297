// A site: how one cluster differs from the model of all clusters, in rows of scope "site" which
// calibrate/site_fit.h fits to its runs.
//
//   step              ln of measured over predicted step time that all its runs share
//   memory_rate       ln of the rate of memory-bound kernels over the predicted one
//   network_rate      ln of the rate of collectives over the predicted one, beyond the step's
//   host_time         ln of the host's times over the predicted ones, beyond the step's
//   cell/D/F/P/K      the step of runs on device D under framework F in number format P, its
//                     standard error that of their logarithm; K in dense, ranks (dense models, some
//                     with expert or context ranks), moe
//   layout/...        what layouts add to the step (site_layouts.h)
//   errors.site       standard deviation of ln(measured / predicted) of runs in no cell, on a
//                     device and under a family of frameworks that the site has cells of
//   errors.moe_site   the same with experts, expert or context ranks
//   errors.run        of one run around its layout
//   errors.faster     how many of these deviations a 90 % interval reaches down and
//   errors.slower     up
//   memory.*, peak/*  what it knows of memory (site_memory.h)
//
// A site whose runs have peaks and no step times has the latter alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/frameworks/frameworks.h"
#include "hwdb/runs/site_layouts.h"
#include "hwdb/runs/site_memory.h"
#include "hwdb/store/database.h"
#include "sim/run.h"

namespace llmsim::hwdb {

// Logarithms of factors.
struct SiteEffects {
  double step = 0.0;
  double memory = 0.0;
  double network = 0.0;
  double host = 0.0;
};

struct SiteEffectName {
  const char* key;    // of its row
  const char* words;  // for people
  double SiteEffects::*value;
};
inline constexpr SiteEffectName kSiteEffects[] = {
    {"step", "step", &SiteEffects::step},
    {"memory_rate", "memory rate", &SiteEffects::memory},
    {"network_rate", "network rate", &SiteEffects::network},
    {"host_time", "host times", &SiteEffects::host},
};

// Lets a run be slower by e^step, its memory-bound kernels and collectives faster, its host slower:
//
//   efficiency *= e^-step, collective_efficiency *= e^(network - step),
//   host times *= e^(step + host), memory_fraction *= e^memory
//
// Everything else stays as it is: start-up of kernels and messages, the host link.
void apply_effects(sim::Run& run, const SiteEffects& effects);

// Whether the interval of a run has to hold what experts, expert or context ranks bring.
bool has_experts_or_ranks(const sim::Run& run);

enum class CellKind { Dense, Ranks, Moe };
const char* name_of(CellKind kind);

struct SiteCell {
  std::string device, framework, precision;
  CellKind kind = CellKind::Dense;
  double step = 0.0;   // instead of the site's
  double error = 0.0;  // standard deviation of ln(measured / predicted), without that of one run
};

// "cell/h100_sxm/fsdp2/bf16/dense".
std::string key_of(const SiteCell& cell);

struct Site {
  std::string name;
  SiteEffects effects, deviations;
  double error = 0.0, moe_error = 0.0, run_error = 0.0;  // errors.*
  double faster = 1.645, slower = 1.645;                 // errors.*
  std::vector<SiteCell> cells;                           // none: no step time is known
  SiteMemory memory;
  SiteLayouts layouts;
  std::string source, fitted_from;  // how, and to which runs
};

// The cell of a run; null where it has none.
const SiteCell* cell_of(const Site& site, const sim::Run& run);

// The names of all sites, in alphabetical order.
std::vector<std::string> site_names(const Database& database);

// Throws Error for an unknown site, naming the nearest.
Site site(const Database& database, const std::string& name);

// Throws Error for a name that is empty or longer than 100 characters, and for one that is taken
// unless `replace` is set.
void check_site_name(const Database& database, const std::string& name, bool replace);
void put_site(Database& database, const Site& site, bool replace);

// {"coefficients": [...]}, which `hardware add` reads on another machine.  Throws Error for an
// unknown site, as remove_site() does.
std::string site_document(const Database& database, const std::string& name);
void remove_site(Database& database, const std::string& name);

// Applies what is known of its cell to a run, and replaces its errors:
//
//   in a cell                                 step of the cell; errors.site = that of the cell
//   else, on a device and under a family of   step of the site; errors.site, errors.moe_site
//   frameworks that the site has cells of
//   else                                      step of the site; errors stay, and a warning says so
//
// Where errors are replaced, errors.efficiency, errors.collectives, errors.hosts,
// errors.between_steps and the device's training_rate_error are 0, because the site's runs have
// shown what they stand for, and errors.faster and errors.slower are the site's.  A family are the
// frameworks that are like the same one.  What is known of the run's layout comes on top: the mean
// is added to the step, the variance to the squares of errors.site and errors.moe_site where these
// are the site's.  Without cells all of this stays as it is.  Of memory see site_memory.h.  Each
// value becomes a Fact, whose key is "site.NAME.KEY".
void apply(const Site& site, const Frameworks& frameworks, sim::Run& run);

// The two parts of it: a search applies the second to a run whose layout it has chosen.
void apply_without_layout(const Site& site, const Frameworks& frameworks, sim::Run& run);
void apply_layout(const Site& site, const Frameworks& frameworks, sim::Run& run);

}  // namespace llmsim::hwdb
