#include "hwdb/runs/site.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "hwdb/hardware/hardware_document.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kScope = "site";
constexpr const char* kCell = "cell/";
constexpr std::size_t kLongestName = 100;

constexpr CellKind kKinds[] = {CellKind::Dense, CellKind::Ranks, CellKind::Moe};

std::vector<std::string> parts_of(const std::string& key) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = key.find('/'); end != std::string::npos; end = key.find('/', begin)) {
    parts.push_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(key.substr(begin));
  return parts;
}

// None of a key that a later version writes.
std::optional<SiteCell> cell_from(const Coefficient& row) {
  const std::vector<std::string> parts = parts_of(row.key);
  if (parts.size() != 5) return std::nullopt;
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](CellKind k) { return parts[4] == name_of(k); });
  if (kind == std::end(kKinds)) return std::nullopt;
  return SiteCell{.device = parts[1],
                  .framework = parts[2],
                  .precision = parts[3],
                  .kind = *kind,
                  .step = row.value,
                  .error = row.standard_error.value_or(0.0)};
}

void read(const Coefficient& row, Site& site) {
  site.source = row.source;
  site.fitted_from = row.fitted_from;
  if (read(row, site.memory)) return;
  if (row.key.starts_with(kCell)) {
    if (const auto cell = cell_from(row)) site.cells.push_back(*cell);
    return;
  }
  put({row.key, row.value}, site.layouts);
  for (const SiteEffectName& effect : kSiteEffects) {
    if (row.key != effect.key) continue;
    site.effects.*effect.value = row.value;
    site.deviations.*effect.value = row.standard_error.value_or(0.0);
  }
  if (row.key == "errors.site") site.error = row.value;
  if (row.key == "errors.moe_site") site.moe_error = row.value;
  if (row.key == "errors.run") site.run_error = row.value;
  if (row.key == "errors.faster") site.faster = row.value;
  if (row.key == "errors.slower") site.slower = row.value;
}

// Or it knows of memory alone.
bool knows_times(const Site& site) { return !site.cells.empty() || site.memory.empty(); }

std::vector<Coefficient> rows_of(const Site& site) {
  std::vector<Coefficient> rows;
  const auto add = [&](const std::string& key, double value, std::optional<double> error) {
    rows.push_back({.scope = kScope,
                    .id = site.name,
                    .key = key,
                    .value = value,
                    .standard_error = error,
                    .evidence = sim::Evidence::Fitted,
                    .source = site.source,
                    .fitted_from = site.fitted_from});
  };
  for (const Coefficient& row : rows_of(site.memory)) add(row.key, row.value, row.standard_error);
  if (!knows_times(site)) return rows;
  for (const SiteEffectName& effect : kSiteEffects)
    add(effect.key, site.effects.*effect.value, site.deviations.*effect.value);
  add("errors.site", site.error, std::nullopt);
  add("errors.moe_site", site.moe_error, std::nullopt);
  add("errors.run", site.run_error, std::nullopt);
  add("errors.faster", site.faster, std::nullopt);
  add("errors.slower", site.slower, std::nullopt);
  for (const SiteCell& cell : site.cells) add(key_of(cell), cell.step, cell.error);
  for (const SiteLayoutNumber& number : numbers_of(site.layouts))
    add(number.key, number.value, std::nullopt);
  return rows;
}

std::string text_of(double value, std::optional<double> error = std::nullopt) {
  return error ? fmt::format("{:.4f} +- {:.4f}", value, *error) : fmt::format("{:.4f}", value);
}

// Whether the site has runs on that device under a framework of that family.
bool knows(const Site& site, const Frameworks& frameworks, const sim::Run& run) {
  const auto family = [&](const std::string& id) {
    const std::vector<std::string> line = frameworks.lineage(id, "");
    return line.empty() ? id : line.front();
  };
  return std::any_of(site.cells.begin(), site.cells.end(), [&](const SiteCell& cell) {
    return cell.device == run.cluster.device.id &&
           family(cell.framework) == family(run.framework.id);
  });
}

// "h100_sxm under fsdp2, h100_sxm under nemo"
std::string measured_on(const Site& site) {
  std::vector<std::string> known;
  for (const SiteCell& cell : site.cells) {
    const std::string text = cell.device + " under " + cell.framework;
    if (std::find(known.begin(), known.end(), text) == known.end()) known.push_back(text);
  }
  return sim::joined(known, ", ");
}

void replace_errors(const Site& site, const SiteCell* cell, sim::Run& run) {
  sim::PredictionErrors& errors = run.framework.errors;
  run.cluster.device.achieved.training_rate_error = 0.0;
  errors.efficiency = 0.0;
  errors.cell = errors.collectives = errors.hosts = errors.between_steps =
      0.0;  // are in the site's
  errors.faster = site.faster, errors.slower = site.slower;
  errors.run = site.run_error;
  errors.site = cell ? cell->error : site.error;
  errors.moe_site = site.moe_error;
  if (!cell) return;
  // A cell without expert and context ranks says nothing of what these bring.
  const double ranks =
      std::sqrt(std::max(0.0, site.moe_error * site.moe_error - site.error * site.error));
  errors.moe_site = cell->kind == CellKind::Dense ? std::hypot(cell->error, ranks) : cell->error;
}

}  // namespace

void apply_effects(sim::Run& run, const SiteEffects& effects) {
  const double slower = std::exp(effects.step), host = std::exp(effects.step + effects.host);
  sim::Framework& framework = run.framework;
  framework.efficiency /= slower;
  framework.collective_efficiency *= std::exp(effects.network) / slower;
  framework.host.factor *= host;
  framework.host.per_step = host * framework.host.per_step;
  run.cluster.device.achieved.memory_fraction *= std::exp(effects.memory);
}

bool has_experts_or_ranks(const sim::Run& run) {
  return run.model.moe || run.strategy.ep > 1 || run.strategy.cp > 1;
}

std::string key_of(const SiteCell& cell) {
  return kCell + cell.device + "/" + cell.framework + "/" + cell.precision + "/" +
         name_of(cell.kind);
}

const char* name_of(CellKind kind) {
  switch (kind) {
    case CellKind::Dense: return "dense";
    case CellKind::Ranks: return "ranks";
    case CellKind::Moe: break;
  }
  return "moe";
}

const SiteCell* cell_of(const Site& site, const sim::Run& run) {
  const auto found = std::find_if(site.cells.begin(), site.cells.end(), [&](const SiteCell& cell) {
    return cell.device == run.cluster.device.id && cell.framework == run.framework.id &&
           cell.precision == name_of(run.strategy.precision) &&
           (cell.kind == CellKind::Moe) == run.model.moe.has_value();
  });
  return found == site.cells.end() ? nullptr : &*found;
}

std::vector<std::string> site_names(const Database& database) {
  return database.coefficient_ids(kScope);
}

Site site(const Database& database, const std::string& name) {
  Site site;
  site.name = name;
  const std::vector<Coefficient> rows = database.coefficients(kScope, name);
  if (rows.empty()) {
    const std::vector<std::string> names = site_names(database);
    throw Error("unknown site '" + name + "'" + did_you_mean(name, names) +
                (names.empty() ? "; none is stored: llmsim calibrate site NAME RUNS stores one"
                               : "; 'llmsim calibrate show' lists all"));
  }
  for (const Coefficient& row : rows) read(row, site);
  complete(site.layouts);
  return site;
}

void check_site_name(const Database& database, const std::string& name, bool replace) {
  if (name.empty() || name.size() > kLongestName)
    throw Error("NAME = " + name + ": a name of 1 to " + std::to_string(kLongestName) +
                " characters is expected");
  if (!replace && !database.coefficients(kScope, name).empty())
    throw Error("NAME = " + name + ": is taken by a stored site; choose another, or use --replace");
}

void put_site(Database& database, const Site& site, bool replace) {
  check_site_name(database, site.name, replace);
  database.in_transaction([&] {
    database.forget(kScope, site.name);
    for (const Coefficient& row : rows_of(site)) database.put(row);
  });
}

std::string site_document(const Database& database, const std::string& name) {
  site(database, name);  // is there
  return coefficients_document(database, kScope, name);
}

void remove_site(Database& database, const std::string& name) {
  site(database, name);
  database.in_transaction([&] { database.forget(kScope, name); });
}

void apply(const Site& site, const Frameworks& frameworks, sim::Run& run) {
  apply_without_layout(site, frameworks, run);
  apply_layout(site, frameworks, run);
}

void apply_layout(const Site& site, const Frameworks& frameworks, sim::Run& run) {
  if (site.layouts.points.empty()) return;
  const sim::LayoutPoint layout = layout_of(run);
  const SiteCell* cell = cell_of(site, run);
  const double mean = site.layouts.mean(layout),
               variance = site.layouts.variance(layout, cell ? key_of(*cell) : "");
  apply_effects(run, {.step = mean});
  run.facts.push_back(
      {"site." + site.name + ".layout", text_of(mean), sim::Evidence::Fitted, site.source});
  if (!cell && !knows(site, frameworks, run)) return;
  for (double* error : {&run.framework.errors.site, &run.framework.errors.moe_site})
    *error = std::sqrt(std::max(0.0, *error * *error + variance));
}

void apply_without_layout(const Site& site, const Frameworks& frameworks, sim::Run& run) {
  apply(site.memory, "site." + site.name, site.source, run);
  if (!knows_times(site)) return;
  const SiteCell* cell = cell_of(site, run);
  SiteEffects effects = site.effects;
  if (cell) effects.step = cell->step;
  apply_effects(run, effects);
  const auto note = [&](const std::string& key, const std::string& value) {
    run.facts.push_back(
        {"site." + site.name + "." + key, value, sim::Evidence::Fitted, site.source});
  };
  for (const SiteEffectName& effect : kSiteEffects) {
    const bool of_cell = cell && effect.value == &SiteEffects::step;
    note(of_cell ? key_of(*cell) : effect.key,
         text_of(effects.*effect.value, of_cell ? cell->error : site.deviations.*effect.value));
  }
  if (cell || knows(site, frameworks, run)) {
    replace_errors(site, cell, run);
    const sim::PredictionErrors& errors = run.framework.errors;
    note("errors.site", text_of(errors.site));
    note("errors.moe_site", text_of(errors.moe_site));
    note("errors.run", text_of(errors.run));
    note("errors.faster", text_of(errors.faster));
    note("errors.slower", text_of(errors.slower));
    return;
  }
  run.warnings.push_back(
      site.cells.empty()
          ? "site " + site.name +
                " is known by benchmarks alone: its rates are taken, the interval is as wide as "
                "without it"
          : "site " + site.name + " has no run on " + run.cluster.device.id + " under " +
                run.framework.id + " (it was measured on " + measured_on(site) +
                "): its step time is taken, the interval is as wide as without it");
}

}  // namespace llmsim::hwdb
