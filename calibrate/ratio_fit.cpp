#include "calibrate/ratio_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "hwdb/frameworks/frameworks.h"
#include "hwdb/text/rounding.h"

namespace llmsim::calibrate {
namespace {

constexpr double kPriorBias = 0.05, kPriorSpread = 0.05, kPriorNoise = 0.03;
constexpr int kRowDigits = 3;
constexpr double kClearly = 2.0;  // standard errors from zero

// What a layout does not choose; overlap follows the sharding where nobody states it.
sim::Strategy without_layout(sim::Strategy s) {
  const sim::Strategy plain;
  s.dp = s.tp = s.pp = s.cp = s.ep = s.virtual_stages = s.micro_batch = 1;
  s.shard_size = 0;
  s.etp = s.cp_inner = {};
  s.mesh_order = plain.mesh_order;
  s.cp_balanced = plain.cp_balanced;
  s.sequence_parallel = s.embeddings_as_layers = false;
  s.pipeline_schedule = plain.pipeline_schedule;
  s.stage_layers.clear();
  s.sharding = plain.sharding;
  s.recompute = plain.recompute;
  s.gradient_overlap = s.gather_overlap = true;
  return s;
}

// Vocabularies are padded to a multiple of the tensor ranks.
sim::Transformer without_vocabulary(sim::Transformer model) {
  model.vocab_size = 1;
  return model;
}

bool same_problem(const MeasuredRun& one, const MeasuredRun& other) {
  return one.group == other.group && one.run.cluster.num_devices == other.run.cluster.num_devices &&
         one.run.cluster.device.id == other.run.cluster.device.id &&
         one.run.framework.id == other.run.framework.id &&
         without_vocabulary(one.run.model) == without_vocabulary(other.run.model) &&
         without_layout(one.run.strategy) == without_layout(other.run.strategy);
}

struct Layout {
  std::size_t problem, study;
  sim::LayoutTraits traits;
  double residual;  // ln measured - ln predicted
};

class RatioFitting {
 public:
  RatioFitting(const MeasuredRuns& runs, const RunFit& fit) {
    std::vector<std::vector<std::size_t>> problems;
    for (std::size_t i = 0; i < runs.runs.size(); ++i) {
      const auto known = std::ranges::find_if(problems, [&](const auto& problem) {
        return same_problem(runs.runs[problem.front()], runs.runs[i]);
      });
      if (known == problems.end())
        problems.push_back({i});
      else
        known->push_back(i);
    }
    for (const std::vector<std::size_t>& problem : problems) add(problem, runs, fit);
  }

  RatioFit result() const {
    RatioFit result{.problems = static_cast<int>(num_problems_),
                    .studies = static_cast<int>(studies_.size()),
                    .runs = static_cast<int>(layouts_.size())};
    const MixedModel model = model_of_layouts();
    const MixedFit fitted = fit(model);
    for (std::size_t k = 0; k < sim::kLayoutTraits; ++k)
      result.traits[k] = {.bias = fitted.means[k],
                          .standard_error = fitted.deviation(k),
                          .spread = fitted.spreads[kOfStudies + k],
                          .studies = static_cast<int>(varying_[k].size())};
    result.run = fitted.noise;
    return result;
  }

 private:
  // Classes: what problems have in common, biases, and what studies differ in by trait.
  static constexpr std::size_t kProblem = 0, kBias = 1, kOfStudies = 2;

  void add(const std::vector<std::size_t>& problem, const MeasuredRuns& runs, const RunFit& fit) {
    const auto traits = [&](std::size_t i) { return sim::traits_of(runs.runs[i].run.strategy); };
    const sim::LayoutTraits first = traits(problem.front());
    if (std::ranges::all_of(problem, [&](std::size_t i) { return traits(i) == first; })) return;
    const std::size_t study = runs.runs[problem.front()].group;
    studies_.insert(study);
    for (const std::size_t i : problem) {
      layouts_.push_back({num_problems_, study, traits(i), -fit.left_out[i]});
      for (std::size_t k = 0; k < sim::kLayoutTraits; ++k)
        if (layouts_.back().traits[k] != first[k]) varying_[k].insert(study);
    }
    ++num_problems_;
  }

  MixedModel model_of_layouts() const {
    MixedModel model;
    model.classes = {{.spread = 1.0, .prior_weight = kGiven, .student = false},
                     {.spread = kPriorBias, .prior_weight = kGiven, .student = false}};
    model.classes.resize(kOfStudies + sim::kLayoutTraits, {.spread = kPriorSpread});
    model.noise = {.spread = kPriorNoise};
    model.effects.assign(sim::kLayoutTraits, kBias);
    model.effects.resize(model.effects.size() + num_problems_, kProblem);
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> of_studies;  // trait, study
    for (std::size_t k = 0; k < sim::kLayoutTraits; ++k) {
      for (const std::size_t study : varying_[k]) {
        of_studies[{k, study}] = model.effects.size();
        model.effects.push_back(kOfStudies + k);
      }
    }
    for (const Layout& layout : layouts_) {
      Observation o{.value = layout.residual,
                    .slopes = {{sim::kLayoutTraits + layout.problem, 1.0}}};
      for (std::size_t k = 0; k < sim::kLayoutTraits; ++k) {
        o.slopes.emplace_back(k, layout.traits[k]);
        const auto own = of_studies.find({k, layout.study});
        if (own != of_studies.end()) o.slopes.emplace_back(own->second, layout.traits[k]);
      }
      model.observations.push_back(std::move(o));
    }
    return model;
  }

  std::vector<Layout> layouts_;
  std::size_t num_problems_ = 0;
  std::set<std::size_t> studies_;
  std::array<std::set<std::size_t>, sim::kLayoutTraits> varying_;  // studies, by trait
};

const char* const kSource = "hierarchical fit (calibrate/ratio_fit.h), prior 0 +- 0.05";

std::string told_by(const RatioFit& fit) {
  return std::string(kRunFit) + std::to_string(fit.runs) + " runs of " +
         std::to_string(fit.problems) + " problems in " + std::to_string(fit.studies) +
         " studies with several layouts";
}

}  // namespace

double TraitFit::error() const { return std::hypot(spread, standard_error); }

bool TraitFit::is_clear() const { return std::abs(bias) >= kClearly * standard_error; }

RatioFit ratio_fit(const MeasuredRuns& runs, const RunFit& fit) {
  return RatioFitting(runs, fit).result();
}

// What all frameworks have in common is a row of each that derives from no other.
std::vector<hwdb::Coefficient> fitted_rows(const RatioFit& fit) {
  std::vector<hwdb::Coefficient> rows;
  const hwdb::Frameworks frameworks = hwdb::Frameworks::shipped();
  const auto add = [&](const std::string& id, const std::string& key, double value,
                       std::optional<double> error, const std::string& from) {
    rows.push_back({.scope = "framework",
                    .id = id,
                    .key = "ratios." + key,
                    .value = hwdb::rounded(value, kRowDigits),
                    .standard_error = error,
                    .evidence = sim::Evidence::Fitted,
                    .source = kSource,
                    .fitted_from = from});
  };
  for (const std::string& id : frameworks.ids()) {
    if (frameworks.lineage(id, "").size() > 1) continue;
    for (std::size_t k = 0; k < sim::kLayoutTraits; ++k) {
      const TraitFit& trait = fit.traits[k];
      const std::string name = sim::name_of(static_cast<sim::LayoutTrait>(k));
      const std::string from =
          told_by(fit) + ", " + std::to_string(trait.studies) + " of which differ in this";
      add(id, name + ".bias", trait.is_clear() ? trait.bias : 0.0,
          hwdb::rounded(trait.standard_error, kRowDigits),
          from + (trait.is_clear() ? "" : "; not clearly different from 0, which stays"));
      add(id, name + ".error", trait.error(), std::nullopt, from);
    }
    add(id, "run", fit.run, std::nullopt, told_by(fit));
  }
  return rows;
}

}  // namespace llmsim::calibrate
