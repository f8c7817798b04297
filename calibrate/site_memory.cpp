#include "calibrate/site_memory.h"

#include <algorithm>
#include <cmath>

#include "calibrate/backtest.h"
#include "calibrate/site_fit.h"
#include "hwdb/runs/run_resolver.h"
#include "sim/base/error.h"
#include "sim/base/uncertainty.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"

namespace llmsim::calibrate {
namespace {

constexpr double kPeakDifference = 0.05;  // of a numerical derivative
constexpr int kPeakLinearisations = 3;    // the last moves nothing by more than a thousandth
constexpr int kMostReweightings = 50;
constexpr double kWeightsSettled = 1e-6;  // of ln of the noise

double square(double x) { return x * x; }

// The effects on one run: ln of factors.
struct EffectsOnPeak {
  double allocated = 0.0, gaps = 0.0, context = 0.0;
};

struct ComparedPeak {
  double log_size = 0.0;
  double allocator_share = 1.0;  // what is not the driver's context
};

// The predicted peak that a measured one is compared with.
ComparedPeak compared(const SitePeak& peak, const EffectsOnPeak& effects) {
  sim::Run run = peak.run;
  run.framework.reserve.gaps_factor *= std::exp(effects.gaps);
  sim::Device& device = run.cluster.device;
  for (sim::Bytes* size : {&device.context_memory, &device.communicator_memory})
    *size = std::exp(effects.context) * *size;
  const sim::Memory memory = sim::predict(run).memory;
  const sim::Bytes whole = comparable_peak(memory, peak.measured),
                   context =
                       peak.measured.memory_kind == "device" ? memory.context : sim::Bytes(0.0);
  const double factor = std::exp(effects.allocated), allocated = factor * (whole - context).value(),
               all = allocated + context.value();
  return {.log_size = std::log(all), .allocator_share = allocated / all};
}

// Linear around `at`, as if the effects there were 0.
sim::PeakObservation linearised(const SitePeak& peak, const EffectsOnPeak& at) {
  const ComparedPeak here = compared(peak, at);
  EffectsOnPeak gaps = at, context = at;
  gaps.gaps += kPeakDifference, context.context += kPeakDifference;
  const sim::PeakSlopes slopes{
      .allocated = here.allocator_share,
      .gaps = (compared(peak, gaps).log_size - here.log_size) / kPeakDifference,
      .context = (compared(peak, context).log_size - here.log_size) / kPeakDifference};
  return {.id = peak.id,
          .kind = peak.measured.memory_kind.value_or("reserved"),
          .problem = peak_problem(peak.run),
          .layout = traits_of(peak.run.strategy),
          .slopes = slopes,
          .residual = std::log(peak.measured.peak_memory->value()) - here.log_size +
                      slopes.allocated * at.allocated + slopes.gaps * at.gaps +
                      slopes.context * at.context};
}

EffectsOnPeak effects_on(const sim::PeakObservation& of, const hwdb::SiteMemory& known) {
  const sim::PeakCorrection correction = peak_correction(known.peaks, known.spreads, of.problem);
  return {.allocated = correction.log_factor(of.layout),
          .gaps = correction.log_gaps,
          .context = correction.log_context};
}

bool has_peak(const hwdb::RunRecord& record) {
  return record.measured && record.measured->peak_memory;
}

SitePeak site_peak(const hwdb::RunRecord& record, hwdb::RunResolver& resolver) {
  SitePeak peak{.id = record.id, .run = resolver.resolve(record), .measured = *record.measured};
  const auto broken = sim::broken_rule(peak.run.model, peak.run.strategy, peak.run.cluster);
  if (broken) throw Error(record.file + ": run " + record.id + ": " + broken->message);
  if (*peak.measured.peak_memory <= sim::Bytes(0.0))
    throw Error(record.file + ": run " + record.id +
                ": measured.peak_memory_bytes is not positive; bytes are expected");
  peak.run.facts.clear();
  return peak;
}

constexpr double kLeastSite = 0.05;  // where errors.memory leaves less

}  // namespace

sim::PeakObservation peak_observation(const SitePeak& peak) { return linearised(peak, {}); }

sim::PeakSpreads site_spreads(double error) {
  sim::PeakSpreads spreads;
  spreads.site = std::sqrt(
      std::max(square(kLeastSite), square(error) - square(spreads.layout) - square(spreads.run)));
  return spreads;
}

std::vector<sim::PeakObservation> weighted(std::vector<sim::PeakObservation> observations,
                                           const sim::PeakSpreads& spreads) {
  for (sim::PeakObservation& of : observations) of.noise = spreads.run;
  if (std::ssize(observations) < kFewRuns) return observations;
  for (int i = 0; i < kMostReweightings; ++i) {
    double change = 0.0;
    const std::vector<sim::PeakObservation> last = observations;
    for (std::size_t k = 0; k < last.size(); ++k) {
      const ExpectedResidual fit = expected_residual(last, spreads, last[k]);
      const double miss = square(last[k].residual - fit.mean) +
                          std::max(0.0, square(fit.deviation) - square(spreads.run));
      const double weight =
          (sim::kStudentFreedom + 1.0) / (sim::kStudentFreedom + miss / square(spreads.run));
      observations[k].noise = spreads.run / std::sqrt(weight);
      change = std::max(change, std::abs(std::log(observations[k].noise / last[k].noise)));
    }
    if (change < kWeightsSettled) break;
  }
  return observations;
}

ExpectedResidual expected_residual(const std::vector<sim::PeakObservation>& known,
                                   const sim::PeakSpreads& spreads,
                                   const sim::PeakObservation& of) {
  const sim::PeakCorrection correction = peak_correction(known, spreads, of.problem);
  return {.mean = of.slopes.allocated * correction.log_factor(of.layout) +
                  of.slopes.gaps * correction.log_gaps + of.slopes.context * correction.log_context,
          .deviation = correction.error(of.layout, of.slopes)};
}

std::vector<SitePeak> site_peaks(std::span<const hwdb::RunFile> files,
                                 const hwdb::Database& database) {
  hwdb::RunResolver resolver(database);
  std::vector<SitePeak> peaks;
  for (const hwdb::RunFile& file : files) {
    const bool some_scored = std::ranges::any_of(
        file.runs, [](const hwdb::RunRecord& run) { return has_peak(run) && run.scored.memory; });
    for (const hwdb::RunRecord& record : file.runs)
      if (has_peak(record) && (record.scored.memory || !some_scored))
        peaks.push_back(site_peak(record, resolver));
  }
  return peaks;
}

SiteMemoryFit fit_site_memory(const std::vector<SitePeak>& peaks) {
  SiteMemoryFit result;
  if (peaks.empty()) return result;
  double error = 0.0;
  for (const SitePeak& peak : peaks)
    error += square(peak.run.framework.errors.memory) / static_cast<double>(peaks.size());
  hwdb::SiteMemory& memory = result.memory;
  memory.spreads = site_spreads(std::sqrt(error));
  for (int i = 0; i < kPeakLinearisations; ++i) {
    std::vector<sim::PeakObservation> observations;
    for (std::size_t k = 0; k < peaks.size(); ++k)
      observations.push_back(linearised(
          peaks[k], memory.peaks.empty() ? EffectsOnPeak{} : effects_on(memory.peaks[k], memory)));
    memory.peaks = weighted(std::move(observations), memory.spreads);
  }
  for (std::size_t k = 0; k < peaks.size(); ++k) {
    const sim::PeakObservation& of = memory.peaks[k];
    const double after = compared(peaks[k], effects_on(of, memory)).log_size;
    result.rows.push_back(
        {.id = of.id,
         .kind = of.kind,
         .measured = *peaks[k].measured.peak_memory,
         .before = sim::Bytes(std::exp(compared(peaks[k], {}).log_size)),
         .after = sim::Bytes(std::exp(after)),
         .deviations =
             (std::log(peaks[k].measured.peak_memory->value()) - after) / memory.spreads.run});
    const double share = 1.0 / static_cast<double>(peaks.size());
    result.prior_error += share * square(expected_residual({}, memory.spreads, of).deviation);
    result.error += share * square(expected_residual(memory.peaks, memory.spreads, of).deviation);
  }
  result.prior_error = std::sqrt(result.prior_error), result.error = std::sqrt(result.error);
  return result;
}

hwdb::Site site_without_times(const std::string& name, const SiteMemoryFit& fit,
                              const std::string& facts) {
  std::vector<std::string> ids;
  for (const SitePeakRow& row : fit.rows) ids.push_back(row.id);
  const std::string count = std::to_string(ids.size()) + (ids.size() == 1 ? " peak" : " peaks");
  hwdb::Site site;
  site.name = name;
  site.source = "site fit (calibrate/site_memory.h) to " + count + ", " + facts;
  site.fitted_from = count + ": " + sim::joined(ids, ", ");
  return site;
}

}  // namespace llmsim::calibrate
