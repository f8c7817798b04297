#include "hwdb/runs/site_memory.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace llmsim::hwdb {
namespace {

constexpr std::string_view kPeak = "peak/";
constexpr std::size_t kParts = 8;  // after "peak", before the run, whose id may have slashes
constexpr std::size_t kNumbers = sim::kLayoutTraits + 4;

struct SpreadRow {
  const char* key;
  double sim::PeakSpreads::*value;
};
constexpr SpreadRow kSpreads[] = {{"memory.site", &sim::PeakSpreads::site},
                                  {"memory.layout", &sim::PeakSpreads::layout},
                                  {"memory.gaps", &sim::PeakSpreads::gaps},
                                  {"memory.context", &sim::PeakSpreads::context},
                                  {"memory.run", &sim::PeakSpreads::run}};

using Numbers = std::vector<double>;

Numbers numbers_of(const sim::PeakObservation& peak) {
  Numbers numbers(peak.layout.begin(), peak.layout.end());
  numbers.insert(numbers.end(), {peak.problem.log_seq_len, peak.slopes.allocated, peak.slopes.gaps,
                                 peak.slopes.context});
  return numbers;
}

// As many digits as read back the same; the number has zeros, so that keys are in its order.
std::string key_of(const sim::PeakObservation& peak, std::size_t number) {
  const sim::PeakProblem& of = peak.problem;
  return fmt::format("{}{:04}/{}/{}/{}/{}/{}/{}/{}/{}", kPeak, number, peak.kind, of.device,
                     of.framework, of.precision, of.trained, of.model,
                     fmt::join(numbers_of(peak), ","), peak.id);
}

std::optional<Numbers> numbers_from(std::string_view text) {
  Numbers numbers;
  while (!text.empty()) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  return numbers.size() == kNumbers ? std::optional(numbers) : std::nullopt;
}

std::optional<sim::PeakObservation> peak_from(const Coefficient& row) {
  std::vector<std::string> parts;
  std::string_view rest = std::string_view(row.key).substr(kPeak.size());
  for (std::size_t end = rest.find('/'); parts.size() < kParts && end != std::string_view::npos;
       end = rest.find('/')) {
    parts.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  if (parts.size() != kParts) return std::nullopt;
  const std::optional<Numbers> numbers = numbers_from(parts[7]);
  if (!numbers) return std::nullopt;
  sim::PeakObservation peak{.id = std::string(rest),
                            .kind = parts[1],
                            .problem = {.model = parts[6],
                                        .trained = parts[5],
                                        .precision = parts[4],
                                        .framework = parts[3],
                                        .device = parts[2],
                                        .log_seq_len = (*numbers)[sim::kLayoutTraits]},
                            .slopes = {},
                            .residual = row.value,
                            .noise = row.standard_error.value_or(sim::PeakSpreads{}.run)};
  for (std::size_t k = 0; k < sim::kLayoutTraits; ++k) peak.layout[k] = (*numbers)[k];
  peak.slopes = {.allocated = (*numbers)[sim::kLayoutTraits + 1],
                 .gaps = (*numbers)[sim::kLayoutTraits + 2],
                 .context = (*numbers)[sim::kLayoutTraits + 3]};
  return peak;
}

}  // namespace

std::vector<Coefficient> rows_of(const SiteMemory& memory) {
  std::vector<Coefficient> rows;
  if (memory.empty()) return rows;
  const auto add = [&](const std::string& key, double value, std::optional<double> error) {
    Coefficient row;
    row.key = key, row.value = value, row.standard_error = error;
    rows.push_back(std::move(row));
  };
  for (const SpreadRow& spread : kSpreads)
    add(spread.key, memory.spreads.*spread.value, std::nullopt);
  for (std::size_t i = 0; i < memory.peaks.size(); ++i)
    add(key_of(memory.peaks[i], i), memory.peaks[i].residual, memory.peaks[i].noise);
  return rows;
}

bool read(const Coefficient& row, SiteMemory& memory) {
  if (row.key.starts_with(kPeak)) {
    if (std::optional<sim::PeakObservation> peak = peak_from(row))
      memory.peaks.push_back(*std::move(peak));
    return true;
  }
  for (const SpreadRow& spread : kSpreads) {
    if (row.key != spread.key) continue;
    memory.spreads.*spread.value = row.value;
    return true;
  }
  return false;
}

void apply(const SiteMemory& memory, const std::string& owner, const std::string& source,
           sim::Run& run) {
  if (memory.empty()) return;
  run.measured_peaks = peak_correction(memory.peaks, memory.spreads, peak_problem(run));
  const sim::PeakCorrection& peaks = run.measured_peaks;
  run.framework.reserve.gaps_factor *= std::exp(peaks.log_gaps);
  sim::Device& device = run.cluster.device;
  const double context = std::exp(peaks.log_context);
  device.context_memory = context * device.context_memory;
  device.communicator_memory = context * device.communicator_memory;
  sim::PredictionErrors& errors = run.framework.errors;
  errors.needed_memory = peaks.largest_error({}) * errors.needed_per_peak();
  errors.memory = peaks.largest_error({});
  const auto note = [&](const char* key, const std::string& value) {
    run.facts.push_back({owner + ".memory." + key, value, sim::Evidence::Fitted, source});
  };
  const sim::LayoutTraits layout = traits_of(run.strategy);
  note("allocated",
       fmt::format("{:.4f} +- {:.4f}", peaks.log_factor(layout), peaks.error(layout, {})));
  note("gaps", fmt::format("{:.4f}", peaks.log_gaps));
  note("context", fmt::format("{:.4f}", peaks.log_context));
}

}  // namespace llmsim::hwdb
