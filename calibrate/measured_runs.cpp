#include "calibrate/measured_runs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "hwdb/coefficients.h"
#include "hwdb/frameworks.h"
#include "hwdb/run_resolver.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RunRecord;

constexpr std::size_t kLeastGroups = 2;

// Rows of the user hide those that the program ships, and a run's facts name the source of each
// coefficient it uses.
constexpr std::string_view kTag = "prior of fitted coefficient ";

std::string tag(std::size_t index) { return std::string(kTag) + std::to_string(index); }

hwdb::Coefficient prior_row(const RunCoefficient& c, std::size_t index) {
  return {.scope = c.scope,
          .id = c.id,
          .key = c.key,
          .value = c.prior,
          .standard_error = std::nullopt,
          .evidence = sim::Evidence::Assumed,
          .source = tag(index),
          .fitted_from = {}};
}

hwdb::Database database_with_priors(const std::vector<RunCoefficient>& coefficients) {
  hwdb::Database database(":memory:");
  if (!coefficients.empty()) database.forget_fit(kRunFit);
  database.in_transaction([&] {
    for (std::size_t k = 0; k < coefficients.size(); ++k)
      database.put(prior_row(coefficients[k], k));
  });
  return database;
}

// The index in a tag at the end of a fact's source.
std::optional<std::size_t> tagged(const std::string& source) {
  const std::size_t start = source.rfind(kTag);
  if (start == std::string::npos) return std::nullopt;
  return std::stoul(source.substr(start + kTag.size()));
}

std::vector<std::size_t> coefficients_behind(const sim::Run& run) {
  std::set<std::size_t> found;
  for (const sim::Fact& fact : run.facts) {
    if (const auto index = tagged(fact.source)) found.insert(*index);
  }
  return {found.begin(), found.end()};
}

bool scored(const RunRecord& record) {
  return record.scored.step_time && record.measured && record.measured->step_time &&
         in_scope(record, Scope::Dense);
}

bool predictable(const sim::Run& run) { return sim::predict(run).step_time > sim::Seconds(0.0); }

// None for a run that cannot be predicted.
std::optional<MeasuredRun> measured_run(const RunRecord& record, std::size_t group,
                                        hwdb::RunResolver& resolver) {
  try {
    MeasuredRun measured{.id = record.id,
                         .group = group,
                         .run = resolver.resolve(record),
                         .measured = record.measured->step_time->value(),
                         .coefficients = {}};
    if (!predictable(measured.run)) return std::nullopt;
    measured.coefficients = coefficients_behind(measured.run);
    measured.run.facts.clear();
    return measured;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void mark_evenly(std::vector<MeasuredRun>& runs, std::size_t first, std::size_t most) {
  const std::size_t count = runs.size() - first;
  const std::size_t marked = std::min(count, most);
  for (std::size_t i = 0; i < marked; ++i) runs[first + i * count / marked].fitted_to = true;
}

// --- which coefficients ---

struct Candidate {
  const char* scope;
  const char* key;
  double usual;  // prior where no row or record says
  double spread;
};

constexpr std::array<Candidate, 4> kCandidates = {
    {{"device", "training_rate", 1.0, 0.10},
     {"framework", "efficiency", 1.0, 0.15},
     {"framework", "collective_efficiency", 1.0, 0.15},
     {"framework", "host.per_kernel", 6e-6, 0.40}}};

// One record of each device and framework in a file: enough to see which ones it tells about.
std::vector<hwdb::RunFile> thinned(std::span<const hwdb::RunFile> files) {
  std::vector<hwdb::RunFile> thin;
  for (const hwdb::RunFile& file : files) {
    thin.push_back(
        {.file = file.file, .group = file.group, .description = {}, .runs = {}, .rejected = {}});
    std::set<std::tuple<std::string, std::string, std::string>> seen;
    for (const RunRecord& record : file.runs) {
      if (!scored(record)) continue;
      const auto& h = record.hardware;
      if (seen.emplace(record.training.framework.value_or(""), h.accelerator.value_or(""),
                       h.system.value_or(""))
              .second)
        thin.back().runs.push_back(record);
    }
  }
  return thin;
}

std::set<std::string> devices_of(std::span<const hwdb::RunFile> files) {
  std::set<std::string> ids;
  for (const MeasuredRun& run : measured_runs(files, {}).runs)
    ids.insert(run.run.cluster.device.id);
  return ids;
}

std::vector<RunCoefficient> all_candidates(std::span<const hwdb::RunFile> files) {
  const hwdb::Frameworks frameworks = hwdb::Frameworks::shipped();
  const std::set<std::string> devices = devices_of(files);
  std::vector<RunCoefficient> all;
  for (const Candidate& c : kCandidates) {
    if (c.scope == std::string("device")) {
      for (const std::string& id : devices) all.push_back({c.scope, id, c.key, c.usual, c.spread});
      continue;
    }
    for (const std::string& id : frameworks.ids()) {
      const double prior = frameworks.number(id, c.key).value_or(c.usual);
      if (prior > 0.0) all.push_back({c.scope, id, c.key, prior, c.spread});
    }
  }
  return all;
}

std::vector<std::size_t> groups_behind(const MeasuredRuns& runs) {
  std::vector<std::set<std::size_t>> groups(runs.coefficients.size());
  for (const MeasuredRun& run : runs.runs) {
    for (const std::size_t k : run.coefficients) groups[k].insert(run.group);
  }
  std::vector<std::size_t> counts;
  counts.reserve(groups.size());
  for (const auto& of : groups) counts.push_back(of.size());
  return counts;
}

}  // namespace

MeasuredRuns measured_runs(std::span<const hwdb::RunFile> files,
                           std::vector<RunCoefficient> coefficients, std::size_t most_per_group) {
  MeasuredRuns result{.coefficients = std::move(coefficients), .groups = {}, .runs = {}};
  const hwdb::Database database = database_with_priors(result.coefficients);
  hwdb::RunResolver resolver(database);
  for (const hwdb::RunFile& file : files) {
    const std::size_t first = result.runs.size();
    for (const RunRecord& record : file.runs) {
      if (!scored(record)) continue;
      auto run = measured_run(record, result.groups.size(), resolver);
      if (run) result.runs.push_back(std::move(*run));
    }
    if (result.runs.size() == first) continue;
    mark_evenly(result.runs, first, most_per_group);
    result.groups.push_back(file.group);
  }
  return result;
}

std::vector<RunCoefficient> run_coefficients(std::span<const hwdb::RunFile> files) {
  const std::vector<hwdb::RunFile> thin = thinned(files);
  std::vector<RunCoefficient> candidates = all_candidates(thin);
  // Frameworks stand behind those that they are like: from the last on, what too few groups tell
  // about falls to the one before.
  for (std::size_t k = candidates.size(); k-- > 0;) {
    if (groups_behind(measured_runs(thin, candidates))[k] < kLeastGroups)
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return candidates;
}

void set_value(sim::Run& run, const RunCoefficient& coefficient, double value) {
  if (coefficient.scope == "framework")
    hwdb::set_coefficient(run.framework, coefficient.key, value);
  else
    hwdb::set_coefficient(run.cluster, coefficient.key, value);
}

}  // namespace llmsim::calibrate
