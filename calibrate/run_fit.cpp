#include "calibrate/run_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "calibrate/in_parallel.h"
#include "calibrate/learning_curve.h"
#include "calibrate/mixed_model.h"
#include "calibrate/statistics.h"
#include "hwdb/frameworks/frameworks.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/runs/layout_errors.h"
#include "hwdb/text/rounding.h"
#include "sim/base/dtype.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::calibrate {
namespace {

constexpr double kStep = 0.02;      // of a numerical derivative
constexpr int kLinearisations = 6;  // the last moves nothing by more than a thousandth

// Priors.  Kernels are known to a few per cent and clocks under load to 10 %; what a framework
// wastes is not known to better than 15 %; hosts differ by 30 %, networks by 20 %, memory-bound
// kernels by 10 % (estimated, they would take up whatever a program fuses or not: 62 %, and
// left-out studies are 1.3 points further off), which studies' own effects take up; the mean of
// hosts and that of a framework are known to 30 %.  What a program does between its steps is known
// within a factor of two, the mean of programs to 35 %: where that is little of a step, its
// logarithm is no linear effect, so that its spread is given.  What misaligned GEMMs lose is known
// from single shapes.
struct LevelRow {
  const char* name;
  EffectClass prior;
};
constexpr std::array<LevelRow, kLevels> kLevelRows = {{
    {"all frameworks", {0.15, kGiven, false}},
    {"framework", {0.08, 4.0, false}},
    {"architecture", {0.06, 4.0, false}},
    {"device", {0.06, 4.0, false}},
    {"all collectives", {0.10, kGiven, false}},
    {"collectives", {0.10, 4.0, false}},
    {"all hosts", {0.30, kGiven, false}},
    {"hosts", {0.30, 4.0, false}},
    {"MoE hosts", {0.70, kGiven, false}},
    {"study", {0.10, 4.0, true}},
    {"MoE study", {0.20, 4.0, true}},
    {"cell", {0.05, 4.0, true}},
    {"hosts of a study", {0.30, 4.0, false}},
    {"network of a study", {0.20, 4.0, false}},
    {"low-precision hosts", {0.50, kGiven, false}},
    {"between steps", {0.35, kGiven, false}},
    {"between steps of a study", {0.70, kGiven, false}},
    {"misaligned GEMMs", {0.50, kGiven, false}},
    {"misaligned batches", {1.20, kGiven, false}},
    {"memory-bound kernels of a study", {sim::PredictionErrors{}.memory_bound, kGiven, false}},
}};

void apply_factors(sim::Run& run, const RunFactors& factors) {
  const auto value = [&](RunFactor factor) {
    return std::exp(factors[static_cast<std::size_t>(factor)]);
  };
  run.framework.efficiency *= value(RunFactor::Efficiency);
  run.framework.collective_efficiency *= value(RunFactor::CollectiveEfficiency);
  run.framework.misaligned_gemm_rate *= value(RunFactor::MisalignedGemms);
  run.framework.misaligned_batch_rate *= value(RunFactor::MisalignedBatches);
  run.framework.host.factor *= value(RunFactor::HostCalls);
  run.framework.host.per_step = value(RunFactor::StepHost) * run.framework.host.per_step;
  run.framework.host.per_moe_block =
      value(RunFactor::MoeHostCalls) * run.framework.host.per_moe_block;
  run.framework.host.per_low_precision_gemm =
      value(RunFactor::LowPrecisionHostCalls) * run.framework.host.per_low_precision_gemm;
  run.cluster.device.achieved.training_rate *= value(RunFactor::TrainingRate);
  run.cluster.device.achieved.memory_fraction *= value(RunFactor::MemoryRate);
}

double log_time(const MeasuredRun& measured, const RunFactors& factors) {
  return std::log(sim::predict(fitted_run(measured, factors)).step_time.value());
}

std::string architecture_of(const sim::Device& device) {
  return device.architecture.substr(0, device.architecture.find(' '));
}

// None of a device that has no rate in any format.
std::string architecture_of(const hwdb::Database& database, const std::string& id) {
  try {
    return architecture_of(hwdb::device(database, id).device);
  } catch (const Error&) {
    return "";
  }
}

// The effects of all runs, each by its level and name; those that no run has are there too, with
// the spread of their level.
class Hierarchy {
 public:
  Hierarchy() {
    for (const Level level : {Level::AllEfficiency, Level::AllCollectives, Level::AllHosts})
      effect(level, "");
    for (const std::string& id : frameworks_.ids()) add_framework(id);
    const hwdb::Database database(":memory:");
    for (const hwdb::HardwareRow& row : database.list(hwdb::HardwareKind::Accelerator)) {
      effect(Level::Architecture, architecture_of(database, row.id));
      effect(Level::Device, row.id);
    }
  }

  std::size_t effect(Level level, const std::string& id) { return index_.place(level, id); }

  std::vector<std::size_t> behind(RunFactor factor, const sim::Run& run) {
    const std::string& framework = run.framework.id;
    switch (factor) {
      case RunFactor::Efficiency: return efficiency_of(framework);
      case RunFactor::TrainingRate:
        return {effect(Level::Architecture, architecture_of(run.cluster.device)),
                effect(Level::Device, run.cluster.device.id)};
      case RunFactor::CollectiveEfficiency:
        return {effect(Level::AllCollectives, ""),
                effect(Level::Collectives, frameworks_.lineage(framework, "").front())};
      case RunFactor::LowPrecisionHostCalls: return {effect(Level::LowPrecisionHosts, "")};
      case RunFactor::MoeHostCalls: return {effect(Level::MoeHosts, "")};
      case RunFactor::StepHost: return {effect(Level::StepHosts, "")};
      case RunFactor::MisalignedGemms:
        // What a rule says of a release of the library stands.
        if (run.framework.misaligned_gemm_gain != 1.0) return {};
        return {effect(Level::MisalignedGemms, "")};
      case RunFactor::MisalignedBatches: return {effect(Level::MisalignedBatches, "")};
      case RunFactor::MemoryRate: return {};
      case RunFactor::HostCalls: break;
    }
    return {effect(Level::AllHosts, ""),
            effect(Level::Hosts, frameworks_.lineage(framework, "").front())};
  }

  std::vector<std::size_t> efficiency_of(const std::string& framework) {
    std::vector<std::size_t> behind{effect(Level::AllEfficiency, "")};
    for (const std::string& id : frameworks_.lineage(framework, "efficiency"))
      behind.push_back(effect(Level::Framework, id));
    return behind;
  }

  const std::vector<Effect>& effects() const { return index_.list(); }

 private:
  void add_framework(const std::string& id) {
    effect(Level::Framework, id);
    for (const Level level : {Level::Collectives, Level::Hosts})
      effect(level, frameworks_.lineage(id, "").front());
  }

  hwdb::Frameworks frameworks_ = hwdb::Frameworks::shipped();
  EffectIndex<Level> index_;
};

// A run's effects: of its factors, and of its study.
struct RunEffects {
  std::array<std::vector<std::size_t>, kRunFactors> factors;
  std::array<std::optional<std::size_t>, kRunFactors> of_study;  // on a factor
  std::size_t study = 0, cell = 0;
};

RunEffects effects_of(const MeasuredRuns& runs, const MeasuredRun& run, Hierarchy& hierarchy) {
  RunEffects effects;
  for (std::size_t k = 0; k < kRunFactors; ++k)
    effects.factors[k] = hierarchy.behind(static_cast<RunFactor>(k), run.run);
  const std::string& group = runs.groups[run.group];
  const Level study = run.moe ? Level::MoeStudy : Level::Study;
  effects.study = hierarchy.effect(study, group);
  effects.cell = hierarchy.effect(
      Level::Cell, group + (run.moe ? " moe " : " ") + run.run.cluster.device.id + " " +
                       run.run.framework.id + " " + name_of(run.run.strategy.precision));
  for (const auto& [factor, level] :
       {std::pair(RunFactor::HostCalls, Level::StudyHosts),
        std::pair(RunFactor::StepHost, Level::StudySteps),
        std::pair(RunFactor::CollectiveEfficiency, Level::StudyNetwork),
        std::pair(RunFactor::MemoryRate, Level::StudyMemory)})
    effects.of_study[static_cast<std::size_t>(factor)] = hierarchy.effect(level, group);
  return effects;
}

class Fitting {
 public:
  Fitting(const MeasuredRuns& runs, unsigned threads) : runs_(runs), threads_(threads) {
    for (const MeasuredRun& run : runs.runs) behind_.push_back(effects_of(runs, run, hierarchy_));
    for (const LevelRow& level : kLevelRows) model_.classes.push_back(level.prior);
    for (const Effect& effect : hierarchy_.effects())
      model_.effects.push_back(static_cast<std::size_t>(effect.level));
    fit_.means.assign(model_.effects.size(), 0.0);
  }

  RunFit result() {
    RunFit result;
    for (int i = 0; i < kLinearisations; ++i) {
      linearise();
      if (i == 0) result.before = residuals_;
      fit_ = fit(model_);
    }
    linearise();
    result.fitted = residuals_;
    for (std::size_t i = 0; i < runs_.runs.size(); ++i) result.factors.push_back(factors_of(i));
    result.effects = hierarchy_.effects();
    result.fit = fit_;
    result.noise_runs = noise_runs();
    leave_out(result);
    const std::vector<SiteStudy> studies = site_studies(runs_, result, threads_);
    result.layouts = layout_fit(studies, threads_);
    result.site_quantiles = site_quantiles(studies, result.layouts, threads_);
    return result;
  }

 private:
  RunFactors factors_of(std::size_t run) const {
    RunFactors factors{};
    for (std::size_t k = 0; k < kRunFactors; ++k) {
      for (const std::size_t effect : behind_[run].factors[k]) factors[k] += fit_.means[effect];
    }
    return factors;
  }

  void linearise() {
    model_.observations.resize(runs_.runs.size());
    residuals_.resize(runs_.runs.size());
    in_parallel(runs_.runs.size(), threads_, [&](std::size_t i) {
      const MeasuredRun& run = runs_.runs[i];
      const RunFactors factors = factors_of(i);
      const double time = log_time(run, factors);
      residuals_[i] = time - std::log(run.measured);
      Observation& o = model_.observations[i];
      o = {.value = -residuals_[i], .slopes = {}};
      for (std::size_t k = 0; k < kRunFactors; ++k) {
        RunFactors moved = factors;
        moved[k] += kStep;
        const double slope = (log_time(run, moved) - time) / kStep;
        for (const std::size_t effect : behind_[i].factors[k]) o.slopes.emplace_back(effect, slope);
        o.value += slope * factors[k];
        if (const auto effect = behind_[i].of_study[k]) o.slopes.emplace_back(*effect, slope);
      }
      o.slopes.emplace_back(behind_[i].study, 1.0);
      o.slopes.emplace_back(behind_[i].cell, 1.0);
    });
  }

  // Of studies with some runs beside one in each cell, around the means of their cells.
  double noise_runs() const {
    constexpr double kFewDegrees = 3.0;
    std::map<std::size_t, std::map<std::size_t, std::vector<double>>> residuals;  // group, cell
    for (std::size_t i = 0; i < runs_.runs.size(); ++i) {
      const Observation& o = model_.observations[i];
      residuals[runs_.runs[i].group][behind_[i].cell].push_back(o.value - fit_.mean_of(o.slopes));
    }
    std::vector<GroupVariance> studies;
    for (const auto& [group, cells] : residuals) {
      double squares = 0.0, degrees = 0.0;
      for (const auto& [cell, of] : cells) {
        degrees += static_cast<double>(of.size()) - 1.0;
        squares += scatter(of) * scatter(of) * (static_cast<double>(of.size()) - 1.0);
      }
      if (degrees >= kFewDegrees && squares > 0.0) studies.push_back({squares / degrees, degrees});
    }
    return studies.size() > 1 ? shared_degrees(studies) : sim::PredictionErrors{}.noise_runs;
  }

  // Each group in turn is predicted by the model fitted to the others, its spreads kept.
  void leave_out(RunFit& result) {
    result.left_out.resize(runs_.runs.size());
    result.deviations.resize(runs_.runs.size());
    result.influence.resize(model_.effects.size());
    in_parallel(runs_.groups.size(), threads_, [&](std::size_t g) {
      MixedModel rest = model_;
      std::vector<Observation> others;
      for (std::size_t i = 0; i < runs_.runs.size(); ++i)
        if (runs_.runs[i].group != g) others.push_back(model_.observations[i]);
      rest.observations = std::move(others);
      const MixedFit without = fit(rest, &fit_);
      for (std::size_t i = 0; i < runs_.runs.size(); ++i) {
        if (runs_.runs[i].group != g) continue;
        const Observation& o = model_.observations[i];
        result.left_out[i] = without.mean_of(o.slopes) - o.value;
        result.deviations[i] =
            std::sqrt(without.variance_of(o.slopes) + without.noise * without.noise);
      }
      const std::lock_guard lock(mutex_);
      for (std::size_t k = 0; k < model_.effects.size(); ++k)
        result.influence[k].push_back({runs_.groups[g], fit_.means[k] - without.means[k]});
    });
    for (std::vector<Influence>& of : result.influence) {
      std::ranges::sort(of, [](const Influence& a, const Influence& b) {
        return std::abs(a.shift) > std::abs(b.shift);
      });
    }
    const TwoPieceStudent student = fit_two_piece(left_out_deviations(result));
    result.quantiles = {student.quantile(0.05), student.quantile(0.95)};
  }

  // What left-out runs took beyond their prediction, in deviations, each group once.
  std::vector<std::pair<double, double>> left_out_deviations(const RunFit& result) const {
    std::vector<double> counts(runs_.groups.size(), 0.0);
    for (const MeasuredRun& run : runs_.runs) counts[run.group] += 1.0;
    std::vector<std::pair<double, double>> weighted;
    for (std::size_t i = 0; i < runs_.runs.size(); ++i)
      weighted.emplace_back(-result.left_out[i] / result.deviations[i],
                            1.0 / counts[runs_.runs[i].group]);
    return weighted;
  }

  const MeasuredRuns& runs_;
  unsigned threads_;
  Hierarchy hierarchy_;
  std::vector<RunEffects> behind_;  // by run
  MixedModel model_;
  std::vector<double> residuals_;
  MixedFit fit_;
  std::mutex mutex_;
};

// --- rows ---

std::string told_by(const RunFit& fit, const Slopes& effects) {
  std::map<std::string, double> shifts;
  for (const auto& [k, slope] : effects) {
    for (const Influence& i : fit.influence[k]) shifts[i.group] += slope * i.shift;
  }
  return group_shifts_text(kRunFit, shifts);
}

constexpr int kRowDigits = 3;  // errors are of some per cent

// The prior times e^(sum of effects).
class Rows {
 public:
  explicit Rows(const RunFit& fit) : fit_(fit), index_(fit.effects) {}

  std::vector<hwdb::Coefficient> take() {
    for (const std::string& id : frameworks_.ids()) add_framework(id);
    add_devices();
    add_layouts();
    return std::move(rows_);
  }

 private:
  // The logarithm's mean and standard deviation.
  std::pair<double, double> sum_of(const Slopes& effects) const {
    return {fit_.fit.mean_of(effects), std::sqrt(fit_.fit.variance_of(effects))};
  }

  void add(const char* scope, const std::string& id, const std::string& key, double value,
           std::optional<double> error, const std::string& source, const std::string& from) {
    rows_.push_back(
        {.scope = scope,
         .id = id,
         .key = key,
         .value = hwdb::rounded(value, kRowDigits),
         .standard_error = error ? std::optional(hwdb::rounded(*error, kRowDigits)) : std::nullopt,
         .evidence = sim::Evidence::Fitted,
         .source = source,
         .fitted_from = from});
  }

  // A value and the standard deviation of its logarithm.
  void add_factor(const char* scope, const std::string& id, const std::string& key, double prior,
                  const Slopes& effects) {
    const auto [mean, deviation] = sum_of(effects);
    const double value = prior * std::exp(mean);
    add(scope, id, key, value, value * deviation,
        "hierarchical fit (calibrate/run_fit.h), prior " + three_digits(prior),
        told_by(fit_, effects));
  }

  // Of a study beside what is not known of the mean of studies.
  double error_with(Level study, const std::vector<Effect>& mean) const {
    return std::hypot(fit_.spread(study), sum_of(index_.sum(mean)).second);
  }

  void add_error(const char* scope, const std::string& id, const std::string& key, double value) {
    add(scope, id, key, value, std::nullopt, "hierarchical fit (calibrate/run_fit.h)",
        std::string(kRunFit) + "all groups");
  }

  void add_framework(const std::string& id) {
    const std::vector<std::string> line = frameworks_.lineage(id, "efficiency");
    std::vector<Effect> effects{{Level::AllEfficiency, ""}};
    for (const std::string& name : line) effects.push_back({Level::Framework, name});
    const Slopes found = index_.sum(effects);
    add_factor("framework", id, "efficiency", frameworks_.number(id, "efficiency").value_or(1.0),
               found);
    add_error("framework", id, "errors.efficiency", sum_of(found).second);
    add_host_calls(id);
    if (frameworks_.lineage(id, "").size() > 1) return;
    add_factor("framework", id, "collective_efficiency",
               frameworks_.number(id, "collective_efficiency").value_or(1.0),
               index_.sum({{Level::AllCollectives, ""}, {Level::Collectives, id}}));
    add_factor("framework", id, "host.factor", 1.0,
               index_.sum({{Level::AllHosts, ""}, {Level::Hosts, id}}));
    add_factor("framework", id, "misaligned_gemm_rate", 1.0,
               index_.sum({{Level::MisalignedGemms, ""}}));
    add_factor("framework", id, "misaligned_batch_rate", 1.0,
               index_.sum({{Level::MisalignedBatches, ""}}));
    add_error("framework", id, "errors.site", fit_.spread(Level::Study));
    add_error("framework", id, "errors.moe_site", fit_.spread(Level::MoeStudy));
    add_error("framework", id, "errors.cell", fit_.spread(Level::Cell));
    add_error("framework", id, "errors.run", fit_.fit.noise);
    add_error(
        "framework", id, "errors.collectives",
        error_with(Level::StudyNetwork, {{Level::AllCollectives, ""}, {Level::Collectives, id}}));
    add_error("framework", id, "errors.hosts",
              error_with(Level::StudyHosts, {{Level::AllHosts, ""}, {Level::Hosts, id}}));
    add_error("framework", id, "errors.between_steps",
              error_with(Level::StudySteps, {{Level::StepHosts, ""}}));
    add_error("framework", id, "errors.noise_runs", fit_.noise_runs);
    add_error("framework", id, "errors.faster", std::max(0.0, -fit_.quantiles.first));
    add_error("framework", id, "errors.slower", std::max(0.0, fit_.quantiles.second));
    const auto& [few, some] = fit_.site_quantiles;
    add_error("framework", id, "errors.few_faster", std::max(0.0, -few.first));
    add_error("framework", id, "errors.few_slower", std::max(0.0, few.second));
    add_error("framework", id, "errors.site_faster", std::max(0.0, -some.first));
    add_error("framework", id, "errors.site_slower", std::max(0.0, some.second));
  }

  // Where a framework has a time of its own.
  void add_host_calls(const std::string& id) {
    add_host_time(id, "host.per_step", index_.sum({{Level::StepHosts, ""}}));
    add_host_time(id, "host.per_moe_block", index_.sum({{Level::MoeHosts, ""}}));
    add_host_time(id, "host.per_low_precision_gemm", index_.sum({{Level::LowPrecisionHosts, ""}}));
  }

  void add_host_time(const std::string& id, const std::string& key, const Slopes& effects) {
    const std::optional<double> prior = frameworks_.number(id, key);
    if (frameworks_.lineage(id, key).size() > 1 || prior.value_or(0.0) == 0.0) return;
    add_factor("framework", id, key, *prior, effects);
  }

  void add_devices() {
    const hwdb::Database database(":memory:");
    for (const hwdb::HardwareRow& row : database.list(hwdb::HardwareKind::Accelerator)) {
      const Slopes found = index_.sum(
          {{Level::Architecture, architecture_of(database, row.id)}, {Level::Device, row.id}});
      add_factor("device", row.id, "training_rate", 1.0, found);
      add_error("device", row.id, "training_rate_error", sum_of(found).second);
    }
  }

  void add_layouts() {
    sim::LayoutErrors errors = fit_.layouts.errors, deviations = fit_.layouts.standard_errors;
    for (std::size_t k = 0; k < sim::kLayoutNumbers; ++k)
      add(hwdb::kLayoutScope, hwdb::kAllLayouts, sim::layout_key(k), sim::layout_number(errors, k),
          sim::layout_number(deviations, k), "fit to left-out studies (calibrate/layout_fit.h)",
          std::string(kRunFit) + std::to_string(fit_.layouts.runs) + " runs of " +
              std::to_string(fit_.layouts.studies) + " studies");
  }

  const RunFit& fit_;
  hwdb::Frameworks frameworks_ = hwdb::Frameworks::shipped();
  EffectIndex<Level> index_;
  std::vector<hwdb::Coefficient> rows_;
};

}  // namespace

const char* name_of(Level level) { return kLevelRows[static_cast<std::size_t>(level)].name; }

sim::Run fitted_run(const MeasuredRun& measured, const RunFactors& factors) {
  sim::Run run = measured.run;
  apply_factors(run, factors);
  return run;
}

RunFit run_fit(const MeasuredRuns& runs, unsigned threads) {
  return Fitting(runs, threads).result();
}

std::vector<hwdb::Coefficient> fitted_rows(const RunFit& fit) { return Rows(fit).take(); }

}  // namespace llmsim::calibrate
