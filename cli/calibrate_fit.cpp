#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/backtest.h"
#include "calibrate/learning_curve.h"
#include "calibrate/memory_fit.h"
#include "calibrate/peak_learning.h"
#include "calibrate/ratio_fit.h"
#include "calibrate/reliability.h"
#include "calibrate/run_fit.h"
#include "calibrate/statistics.h"
#include "cli/commands.h"
#include "cli/help_format.h"
#include "hwdb/hardware/coefficient_file.h"
#include "hwdb/text/input_file.h"
#include "reports/table.h"
#include "reports/validation.h"
#include "sim/base/error.h"
#include "sim/base/uncertainty.h"

namespace llmsim::cli {
namespace {

using namespace reports::columns;

struct FitOptions {
  std::vector<std::string> files;
  std::string coefficients;  // file of rows that the fit replaces; empty: none
  bool effects = false;
  bool learning_curve = false;  // instead of the fit
  OutputOptions output;
};

// Without those that say nothing of devices and frameworks.
std::vector<hwdb::RunFile> measured_files(const std::vector<std::string>& paths) {
  std::vector<hwdb::RunFile> files = read_run_files(paths, true);
  const auto unfitted = calibrate::unfitted_groups(files);
  for (const auto& [group, reason] : unfitted)
    std::cerr << "group " << group << " is left out: " << reason << "\n";
  std::erase_if(files, [&](const hwdb::RunFile& file) { return unfitted.contains(file.group); });
  return files;
}

double median_size(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return calibrate::median(std::move(errors));
}

// Of one study: ln(predicted / measured), and 1 where the interval of what was left out holds it.
struct StudyErrors {
  std::vector<double> before, fitted, left_out, inside;
};

// `all`: the runs or peaks that were fitted to; `inside(i)`: whether the interval of the i-th
// holds.
template <class All, class Fit, class Inside>
std::vector<StudyErrors> by_study(const All& all, const Fit& fit, std::size_t studies,
                                  const Inside& inside) {
  std::vector<StudyErrors> errors(studies);
  for (std::size_t i = 0; i < all.size(); ++i) {
    StudyErrors& study = errors[all[i].group];
    study.before.push_back(fit.before[i]);
    study.fitted.push_back(fit.fitted[i]);
    study.left_out.push_back(fit.left_out[i]);
    study.inside.push_back(inside(i) ? 1.0 : 0.0);
  }
  return errors;
}

// By study that has some, and the mean of all; `counted`: "runs".
reports::Table error_table(const std::string& title, const char* counted,
                           const std::vector<std::string>& names,
                           const std::vector<StudyErrors>& studies) {
  reports::Table table(
      title, {as_text("group"), as_integer(counted), in_percent("prior_error", "at the priors"),
              in_percent("fitted_error", "fitted"), in_percent("left_out_error", "left out"),
              in_percent("left_out_bias", "bias"), in_percent("coverage", "in 90 %")});
  StudyErrors all;
  std::int64_t count = 0;
  for (std::size_t g = 0; g < studies.size(); ++g) {
    const StudyErrors& study = studies[g];
    if (study.before.empty()) continue;
    all.before.push_back(median_size(study.before));
    all.fitted.push_back(median_size(study.fitted));
    all.left_out.push_back(median_size(study.left_out));
    all.inside.push_back(calibrate::mean(study.inside));
    count += std::ssize(study.before);
    table.add_row({names[g], std::ssize(study.before), all.before.back(), all.fitted.back(),
                   all.left_out.back(), calibrate::median(study.left_out), all.inside.back()});
  }
  if (!all.before.empty())
    table.add_row({std::string("mean"), count, calibrate::mean(all.before),
                   calibrate::mean(all.fitted), calibrate::mean(all.left_out), reports::Cell(),
                   calibrate::mean(all.inside)});
  return table;
}

reports::Table group_table(const calibrate::MeasuredRuns& runs, const calibrate::RunFit& fit) {
  const auto inside = [&](std::size_t i) {
    const double z = -fit.left_out[i] / fit.deviations[i];
    return z >= fit.quantiles.first && z <= fit.quantiles.second;
  };
  return error_table("Median errors of step times, by study", "runs", runs.groups,
                     by_study(runs.runs, fit, runs.groups.size(), inside));
}

reports::Table peak_table(const calibrate::MeasuredMemory& memory,
                          const calibrate::MemoryFit& fit) {
  const double reach = sim::student_quantile(0.95);
  const auto inside = [&](std::size_t i) {
    return std::abs(fit.left_out[i]) <= reach * fit.deviations[i];
  };
  return error_table("Median errors of peak memory, by study", "peaks", fit.groups,
                     by_study(memory.peaks, fit, fit.groups.size(), inside));
}

reports::Table spread_table(const calibrate::RunFit& fit) {
  reports::Table table("Spreads of the levels",
                       {as_text("level"), as_integer("effects"), in_percent("spread")});
  for (std::size_t level = 0; level < calibrate::kLevels; ++level) {
    const auto of = static_cast<calibrate::Level>(level);
    const auto count = std::ranges::count_if(
        fit.effects, [&](const calibrate::Effect& effect) { return effect.level == of; });
    table.add_row({std::string(name_of(of)), static_cast<std::int64_t>(count), fit.spread(of)});
  }
  table.add_row({std::string("run"), reports::Cell(), fit.fit.noise});
  table.add_note("a 90 % interval reaches from " + calibrate::three_digits(fit.quantiles.first) +
                 " to " + calibrate::three_digits(fit.quantiles.second) + " deviations");
  return table;
}

reports::Table ratio_table(const calibrate::RatioFit& fit) {
  reports::Table table(
      "Errors of ratios of step times, by what layouts of one problem differ in",
      {as_text("trait"), as_integer("studies"), in_percent("bias"),
       in_percent("standard_error", "standard error"), in_percent("spread", "spread of studies")});
  for (std::size_t k = 0; k < sim::kLayoutTraits; ++k) {
    const calibrate::TraitFit& trait = fit.traits[k];
    table.add_row({std::string(sim::name_of(static_cast<sim::LayoutTrait>(k))),
                   std::int64_t{trait.studies}, trait.bias, trait.standard_error, trait.spread});
  }
  table.add_row(
      {std::string("run"), std::int64_t{fit.studies}, reports::Cell(), reports::Cell(), fit.run});
  table.add_note(std::to_string(fit.runs) + " runs of " + std::to_string(fit.problems) +
                 " problems; ranks, micro-batch and virtual stages a doubling; a bias above zero: "
                 "predictions are too fast");
  return table;
}

reports::Table effect_table(const calibrate::RunFit& fit) {
  reports::Table table("Effects on the logarithms",
                       {as_text("level"), as_text("id"), in_percent("mean"),
                        in_percent("deviation"), as_text("moved_by", "moved by")});
  for (std::size_t k = 0; k < fit.effects.size(); ++k) {
    const calibrate::Effect& effect = fit.effects[k];
    if (std::abs(fit.fit.means[k]) < 0.005) continue;
    std::string moved;
    for (const calibrate::Influence& i : fit.influence[k])
      if (moved.size() < 60 && std::abs(i.shift) >= 0.01)
        moved += i.group + " " + calibrate::three_digits(100.0 * i.shift) + " ";
    table.add_row({std::string(name_of(effect.level)), effect.id, fit.fit.means[k],
                   fit.fit.deviation(k), moved});
  }
  return table;
}

reports::Table memory_table(const calibrate::MemoryFit& fit) {
  reports::Table table(
      "Spreads of the levels of peak memory, and what outcomes say",
      {as_text("level"), in_percent("mean"), in_percent("spread", "spread or error")});
  for (std::size_t level = 0; level < calibrate::kMemoryLevels; ++level) {
    const auto of = static_cast<calibrate::MemoryLevel>(level);
    table.add_row({std::string(name_of(of)), reports::Cell(), fit.spread(of)});
  }
  table.add_row({std::string("peak"), reports::Cell(), fit.fit.noise});
  const calibrate::OutcomeFit& outcomes = fit.outcomes;
  table.add_row({std::string("outcomes: location"), outcomes.location, outcomes.location_error});
  table.add_row(
      {std::string("outcomes: ln of the scale"), outcomes.log_scale, outcomes.log_scale_error});
  table.add_note("outcomes: " + std::to_string(outcomes.ran) + " ran, " +
                 std::to_string(outcomes.out_of_memory) + " out of memory, " +
                 std::to_string(outcomes.studies) + " studies that report both");
  return table;
}

reports::Table verdict_table(const calibrate::MeasuredMemory& memory,
                             const calibrate::MemoryFit& fit) {
  std::vector<calibrate::Verdict> verdicts;
  for (std::size_t i = 0; i < memory.outcomes.size(); ++i)
    verdicts.push_back({.group = memory.groups[memory.outcomes[i].group],
                        .said = fit.said[i],
                        .ran = memory.outcomes[i].ran});
  reports::Table table = reports::reliability_table(calibrate::reliability(verdicts));
  table.add_note("each study is left out of the fit");
  return table;
}

reports::Table curve_table(const std::vector<calibrate::StudyCurve>& studies) {
  reports::Table table(
      "Median errors of the other runs of a study after some of its runs",
      {as_integer("runs"), in_percent("error", "unmoved"),
       in_percent("scalar_error", "median ratio"), in_percent("step_error", "site, step alone"),
       in_percent("rates_error", "and rates"), in_percent("site_error", "and layouts: site"),
       in_percent("coverage", "in 90 %"), as_factor("interval", "highest / lowest")});
  const std::vector<calibrate::Learned> means = calibrate::mean_curve(studies);
  for (std::size_t k = 0; k < means.size(); ++k) {
    const calibrate::Learned& m = means[k];
    table.add_row({std::int64_t{calibrate::kLearnedFrom[k]}, m.none, m.scalar, m.step, m.rates,
                   m.site, m.coverage, std::exp(m.width)});
  }
  table.add_note(std::to_string(studies.size()) +
                 " studies of at least six runs, each left out of the fit; 40 draws of each");
  return table;
}

reports::Table study_table(const std::vector<calibrate::StudyCurve>& studies) {
  reports::Table table(
      "The same by study: unmoved, then after runs",
      {as_text("group"), as_integer("runs"), in_percent("error", "unmoved"),
       in_percent("site_error_1", "1"), in_percent("scalar_error_3", "3, median ratio"),
       in_percent("site_error_3", "3"), in_percent("site_error_5", "5"),
       in_percent("coverage_3", "3, in 90 %")});
  for (const calibrate::StudyCurve& study : studies) {
    const auto& after = study.after;
    table.add_row({study.study, std::int64_t{study.runs}, after[0].none, after[1].site,
                   after[2].scalar, after[2].site, after[3].site, after[2].coverage});
  }
  return table;
}

// By kind of peak, and the mean over all studies.
reports::Table peak_curve_table(const std::vector<calibrate::PeakCurve>& studies) {
  reports::Table table(
      "Median errors of the other peaks of a study after some of its peaks",
      {as_text("kind"), as_integer("peaks"), as_integer("studies"), in_percent("error", "unmoved"),
       in_percent("scalar_error", "median ratio"), in_percent("site_error", "site"),
       in_percent("coverage", "in 90 %"), as_factor("interval", "highest / lowest"),
       in_percent("median_error", "median study, unmoved"),
       in_percent("median_site_error", "median study, site")});
  for (const calibrate::PeakCurveRow& row : calibrate::mean_curves(studies)) {
    const calibrate::PeaksLearned& m = row.mean;
    table.add_row({row.kind, std::int64_t{m.known}, std::int64_t{row.studies}, m.none, m.scalar,
                   m.site, m.coverage, std::exp(m.width), row.median_none, row.median_site});
  }
  std::vector<double> like;
  for (const calibrate::PeakCurve& study : studies) like.push_back(study.like);
  table.add_note("studies of at least four peaks, each left out of the fit; 40 draws of each");
  table.add_note("after the one peak whose run is most like it: mean of studies " +
                 calibrate::three_digits(100.0 * calibrate::mean(like)) + " %, median study " +
                 calibrate::three_digits(100.0 * calibrate::median(like)) + " %");
  return table;
}

reports::Table peak_study_table(const std::vector<calibrate::PeakCurve>& studies) {
  reports::Table table(
      "The same by study: unmoved, then after peaks",
      {as_text("group"), as_text("kind"), as_integer("peaks"), in_percent("error", "unmoved"),
       in_percent("site_error_1", "1"), in_percent("site_error_like", "1, most like it"),
       in_percent("site_error_3", "3"), in_percent("site_error_5", "5")});
  for (const calibrate::PeakCurve& study : studies) {
    const auto after = [&](std::size_t k) {
      return k < study.after.size() ? reports::Cell(study.after[k].site) : reports::Cell();
    };
    table.add_row({study.study, study.kind, std::int64_t{study.peaks}, study.after[0].none,
                   after(1), study.like, after(2), after(3)});
  }
  return table;
}

reports::Table layout_table(const calibrate::LayoutFit& fit) {
  reports::Table table(
      "What predictions miss of layouts of one cluster",
      {as_text("number"), as_number("value"), as_number("standard_error", "standard error")});
  sim::LayoutErrors errors = fit.errors, deviations = fit.standard_errors;
  for (std::size_t k = 0; k < sim::kLayoutNumbers; ++k)
    table.add_row(
        {sim::layout_key(k), sim::layout_number(errors, k), sim::layout_number(deviations, k)});
  table.add_note(std::to_string(fit.runs) + " runs of " + std::to_string(fit.studies) +
                 " studies, each left out of the fit; error and run of a logarithm");
  return table;
}

int run_calibrate_fit(const FitOptions& options) {
  const reports::Format format = format_of(options.output);
  std::string coefficients;
  if (!options.coefficients.empty()) {
    coefficients = hwdb::content_of_file(options.coefficients);
    check_can_be_written(options.coefficients);
  }
  const std::vector<hwdb::RunFile> files = measured_files(options.files);
  const calibrate::MeasuredRuns runs = calibrate::measured_runs(files);
  if (runs.runs.empty())
    throw Error("no run with a scored step time that can be predicted; a fit needs some");
  const calibrate::RunFit fit = calibrate::run_fit(runs);
  const calibrate::RatioFit ratios = calibrate::ratio_fit(runs, fit);
  std::vector<hwdb::Coefficient> rows = calibrate::fitted_rows(fit);
  for (hwdb::Coefficient& row : calibrate::fitted_rows(ratios)) rows.push_back(std::move(row));
  if (options.learning_curve) {
    const auto studies = calibrate::learning_curves(runs, fit);
    if (studies.empty()) throw Error("no study of at least six runs; a learning curve needs one");
    std::string text = reports::render(curve_table(studies), format, style_of(options.output));
    if (format != reports::Format::Json) {
      const calibrate::MeasuredMemory memory = calibrate::measured_memory(files);
      std::vector<reports::Table> tables{study_table(studies)};
      if (!memory.peaks.empty()) {
        const auto peaks = calibrate::peak_curves(memory, calibrate::memory_fit(memory));
        tables.push_back(peak_curve_table(peaks));
        tables.push_back(peak_study_table(peaks));
      }
      for (const reports::Table& table : tables)
        text += "\n" + reports::render(table, format, style_of(options.output));
    }
    write_result(text, options.output);
    return 0;
  }
  const calibrate::MeasuredMemory memory = calibrate::measured_memory(files);
  const calibrate::MemoryFit memory_fit = calibrate::memory_fit(memory);
  const std::vector<hwdb::Coefficient> memory_rows = calibrate::fitted_rows(memory_fit);
  if (!options.coefficients.empty()) {
    coefficients =
        hwdb::with_fitted_rows(coefficients, options.coefficients, rows, calibrate::kRunFit);
    if (!memory.groups.empty())  // runs with times alone leave what is known of memory
      coefficients = hwdb::with_fitted_rows(coefficients, options.coefficients, memory_rows,
                                            calibrate::kMemoryFit);
    write_file(coefficients, options.coefficients);
  }
  rows.insert(rows.end(), memory_rows.begin(), memory_rows.end());
  if (format == reports::Format::Json) {
    write_result(hwdb::coefficients_json(rows), options.output);
    return 0;
  }
  std::vector<reports::Table> tables{group_table(runs, fit), spread_table(fit), ratio_table(ratios),
                                     layout_table(fit.layouts)};
  if (!memory.groups.empty()) {
    tables.push_back(peak_table(memory, memory_fit));
    tables.push_back(memory_table(memory_fit));
    if (!memory.outcomes.empty()) tables.push_back(verdict_table(memory, memory_fit));
  }
  if (options.effects) tables.push_back(effect_table(fit));
  return print_answer(tables, options.output);
}

}  // namespace

void add_calibrate_fit(CLI::App& calibrate, int& status) {
  CLI::App* fit = calibrate.add_subcommand(
      "fit", "fit coefficients and error bars to measured runs, each study left out in turn");
  const auto options = std::make_shared<FitOptions>();
  add_option(*fit, "runs", options->files, "FILE",
             "run files, or folders of them; default the project's measured runs");
  add_option(*fit, "--coefficients", options->coefficients, "FILE",
             "file of coefficients whose fitted rows are replaced; default none; example: "
             "--coefficients hwdb/facts/coefficients.json");
  fit->add_flag("--effects", options->effects, "also every effect, with the studies that move it");
  fit->add_flag("--learning-curve", options->learning_curve,
                "how well a few runs of a study predict its others, instead of the fit: median "
                "errors of step times and of peaks after 0, 1, 3 and 5 of them (llmsim calibrate "
                "site)")
      ->excludes("--coefficients")
      ->excludes("--effects");
  add_output_options(*fit, options->output);
  fit->callback([options, &status] { status = run_calibrate_fit(*options); });
}

}  // namespace llmsim::cli
