#include "reports/step_difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reports/json.h"
#include "reports/result_text.h"
#include "reports/units.h"

namespace llmsim::reports {

namespace {

using calibrate::DifferenceLine;
using calibrate::StepDifference;
using calibrate::StepPart;
using sim::Seconds;

constexpr std::size_t kFindings = 3;
// Lines below this share of the step are not said in words.
constexpr double kWorthSaying = 0.0025;
// Of a profiled step to those of the log: below this they are the same.
constexpr double kOverhead = 0.02;
constexpr std::size_t kShownGemms = 5, kShownFactors = 8, kShownRanks = 8;

double worth(const DifferenceLine& line, const StepDifference& difference) {
  return line.difference() / difference.step;
}

std::string part_text(std::string_view key) {
  std::string text = with_spaces(std::string(key));
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"gemms", "GEMMs"},
      {"memory_bound", "memory-bound kernels"},
      {"casts", "casts to low precision"},
      {"pipeline", "pipeline, bubble"},
      {"waiting", "waiting for late ranks"},
      {"copies", "host copies"},
      {"idle", "idle: launches, host"},
      {"recomputation", "recomputation unasked"}};
  for (const auto& [known, words] : kWords)
    if (key == known) return words;
  return text;
}

// "tensor" of tensor_collectives.
std::string group_text(StepPart part) {
  const std::string name = sim::name_of(part);
  return name.substr(0, name.find('_'));
}

// --- what a line means ---

std::string times_text(const DifferenceLine& line) {
  return human(line.measured) + " where " + human(line.predicted) + " are predicted";
}

std::string gemm_text(const StepDifference& d) {
  const sim::FlopsPerSecond unknown(0.0);
  std::string text =
      "look at the clock under load (power cap, heat) and at the version of the "
      "library";
  if (d.gemm_rate > unknown && d.predicted_gemm_rate > unknown)
    text = "they reach " + human(d.gemm_rate) + ", " + human(d.predicted_gemm_rate) +
           " are expected: " + text;
  if (!d.gemms.empty() && d.gemms.front().lost() > Seconds(0.0)) {
    const calibrate::GemmComparison& worst = d.gemms.front();
    text += fmt::format("; most is lost in {} GEMMs of {} x {} x {}, {} each for {}",
                        std::llround(worst.calls), worst.shape.m, worst.shape.n, worst.shape.k,
                        human(worst.time / worst.calls), human(*worst.predicted_each));
  }
  return text;
}

std::string longest_kernel(const StepDifference& d, hwdb::KernelClass kernels) {
  constexpr std::size_t kLongName = 60;
  for (const calibrate::ProfiledKernel& kernel : d.profiled.kernels)
    if (kernel.kernels == kernels) return kernel.name.substr(0, kLongName);
  return "";
}

std::string attention_text(const StepDifference& d, const sim::Run& run) {
  const std::string name = longest_kernel(d, hwdb::KernelClass::Attention);
  return name.empty() ? "no kernel of fused attention ran: choose one (FlashAttention, cuDNN)"
                      : "it runs in " + name + ", " + name_of(run.framework.attention_kernel) +
                            " is assumed: choose the faster kernel (llmsim predict --explain "
                            "attention)";
}

std::string memory_text(const DifferenceLine& line) {
  if (line.kernels && line.predicted_kernels && *line.kernels > 1.2 * *line.predicted_kernels)
    return fmt::format(
        "{} kernels ran, {} are expected: fuse them (torch.compile, fused norms, rotary "
        "embeddings, activations and cross-entropy)",
        grouped(std::llround(*line.kernels)), grouped(std::llround(*line.predicted_kernels)));
  return "about as many kernels ran as expected, at another bandwidth: look at the memory clock, "
         "at strided copies and at 32-bit tensors";
}

std::string collective_text(const StepDifference& d, StepPart part) {
  const calibrate::CollectiveComparison* longest = nullptr;
  for (const calibrate::CollectiveComparison& one : d.collectives)
    if (one.part == part && (!longest || one.wire > longest->wire)) longest = &one;
  std::string text;
  if (longest && longest->busbw() && longest->predicted_busbw())
    text = fmt::format(
        "{} over {} ranks at {} of bus bandwidth, {} are expected: ",
        longest->kind ? name_of(*longest->kind) : "calls", longest->ranks,
        fmt::format("{} GB/s", significant(longest->busbw()->value() / 1e9, 3)),
        fmt::format("{} GB/s", significant(longest->predicted_busbw()->value() / 1e9, 3)));
  text += "run nccl-tests with the same ranks and bytes";
  if (d.ranks.empty()) text += "; profiles of several ranks tell a slow wire from a late rank";
  return text;
}

std::string waiting_text(const StepDifference& d) {
  const auto late = std::ranges::max_element(d.ranks, {}, &calibrate::RankTimes::late);
  if (late == d.ranks.end() || late->late <= Seconds(0.0))
    return "all ranks wait about as long: they take turns at being late";
  const auto longer = [&](Seconds calibrate::RankTimes::*time) {
    Seconds least = (*late).*time;
    for (const calibrate::RankTimes& rank : d.ranks) least = std::min(least, rank.*time);
    return (*late).*time - least;
  };
  const Seconds computing = longer(&calibrate::RankTimes::computing),
                idle = longer(&calibrate::RankTimes::idle);
  const std::string where =
      computing > idle ? "it computes " + human(computing) + " longer: look at its clock and heat"
                       : "it is idle " + human(idle) + " longer: look at its host and its data";
  return late->name + " comes last to collectives and waits " + human(late->late) +
         " less than others; " + where;
}

std::string idle_text(const StepDifference& d) {
  const double gaps = std::max(1.0, d.profiled.gaps);
  return fmt::format(
      "{} {} of {} on average: launch fewer kernels (CUDA graphs, torch.compile), and look for "
      "synchronisation (.item(), .cpu(), prints) and a host that is shared",
      grouped(std::llround(gaps)), std::llround(gaps) == 1 ? "gap" : "gaps",
      human(d.profiled.idle / gaps));
}

std::string recomputation_text(const StepDifference& d) {
  return percent(std::min(1.0, d.unasked_recomputation)) +
         " of the attention of forward passes runs again: switch checkpointing off, or say so with "
         "--recompute";
}

std::string reason_of(const DifferenceLine& line, const StepDifference& d, const sim::Run& run) {
  if (line.recomputed) return recomputation_text(d);
  if (calibrate::is_collective(line.part) && line.part != StepPart::Pipeline)
    return collective_text(d, line.part);
  switch (line.part) {
    case StepPart::Gemms: return gemm_text(d);
    case StepPart::Attention: return attention_text(d, run);
    case StepPart::MemoryBound: return memory_text(line);
    case StepPart::Casts:
      return "more is quantised than assumed, or in kernels of its own: fuse casts with norms and "
             "activations";
    case StepPart::Optimizer: return "use a fused optimizer, and look at what it clips and scales";
    case StepPart::OtherKernels:
      return "kernels whose names say nothing, the longest " +
             longest_kernel(d, hwdb::KernelClass::Other);
    case StepPart::Pipeline:
      return "stages wait for one another: more micro-batches or virtual stages, or layers spread "
             "by time";
    case StepPart::Waiting: return waiting_text(d);
    case StepPart::Copies:
      return "copies between host and device that nothing hides: pin memory, prefetch";
    case StepPart::Loading:
      return "the host waits for its data loader: more workers, prefetching, data in memory";
    case StepPart::Idle: return idle_text(d);
    default: return "what the prediction cannot tell apart";
  }
}

std::string finding(const DifferenceLine& line, const StepDifference& d, const sim::Run& run) {
  const std::string key = part_text(calibrate::key_of(line));
  if (line.difference() < Seconds(0.0))
    return key + ", less than predicted: " + times_text(line) + ", " + percent(-worth(line, d)) +
           " of the step";
  return key + ", " + times_text(line) + ", worth " + percent(worth(line, d)) + ": " +
         reason_of(line, d, run);
}

// --- a log alone ---

const char* measurement_for(StepPart part) {
  switch (part) {
    case StepPart::Gemms: return "nvidia-smi dmon -s pc during training: clock and power cap";
    case StepPart::Attention: return "one step with torch.profiler: which attention kernel runs";
    case StepPart::MemoryBound:
      return "one step with torch.profiler: how many elementwise kernels run";
    case StepPart::Idle:
      return "the same step with torch.compile or CUDA graphs, or py-spy on a rank";
    case StepPart::Pipeline:
      return "twice the micro-batches: the bubble halves, its share says the rest";
    case StepPart::Copies: return "nsys profile --gpu-metrics-device: host link traffic";
    case StepPart::Optimizer: return "time of optimizer.step() between two synchronisations";
    case StepPart::Casts: return "the same step in bf16";
    default: return "nccl-tests with the ranks and bytes of predict --explain collective";
  }
}

Table factor_table(const Diagnosis& diagnosis) {
  Table table(
      "What would explain it, if it alone did",
      {as_text("part"), in_seconds("predicted_s", "predicted"), as_factor("factor", "would take"),
       as_number("deviations", "deviations"), as_text("measurement", "what tells")});
  const std::size_t shown = std::min(kShownFactors, diagnosis.factors.size());
  for (const calibrate::PartFactor& factor : std::span(diagnosis.factors).first(shown))
    table.add_row({part_text(sim::name_of(factor.part)), factor.predicted, factor.factor,
                   factor.deviations, measurement_for(factor.part)});
  add_wrapped_note(table,
                   "deviations: how unusual such a factor is for predictions of this kind; small "
                   "ones are likely");
  return table;
}

// --- tables ---

std::string marks_text(const calibrate::StepWindow& window) {
  const std::string steps =
      window.steps == 1 ? "one step" : "mean of " + std::to_string(window.steps) + " steps";
  switch (window.marks) {
    case calibrate::StepMarks::Profiler: return steps + " that the profiler marked";
    case calibrate::StepMarks::Optimizer: return steps + " from one optimizer update to the next";
    case calibrate::StepMarks::Period: return steps + " between equal kernels";
    case calibrate::StepMarks::None: break;
  }
  return "the whole profile as one step: mark steps with profiler.step()";
}

std::string measured_text(const Diagnosis& diagnosis) {
  std::string text;
  if (diagnosis.difference) {
    const StepDifference& d = *diagnosis.difference;
    text = human(d.step) + ", " + marks_text(d.profiled.window);
    if (d.profiled.rank) text += ", rank " + std::to_string(*d.profiled.rank);
    if (d.ranks.size() > 1) text += " of " + std::to_string(d.ranks.size()) + " profiled";
  }
  if (!diagnosis.logged) return text;
  const LoggedStepTime& logged = *diagnosis.logged;
  const std::string log = human(logged.step) + fmt::format(" +- {} in the log, median of {} lines",
                                                           percent(logged.spread), logged.lines);
  if (!diagnosis.difference) return log;
  // Profilers slow the host, and synchronise.
  const double longer = diagnosis.difference->step / logged.step - 1.0;
  return text + "; " + log +
         (std::abs(longer) < kOverhead
              ? ""
              : fmt::format(": the profiled step is {} {}", percent(std::abs(longer)),
                            longer > 0.0 ? "longer" : "shorter"));
}

double percentile_of(const Diagnosis& diagnosis) {
  return diagnosis.difference
             ? diagnosis.difference->percentile
             : calibrate::step_percentile(diagnosis.prediction, diagnosis.logged->step);
}

std::string standing_text(double percentile) {
  constexpr double kTail = 0.05;
  const std::string at = fmt::format("{:.0f} % of such predictions are faster", 100.0 * percentile);
  if (percentile > 1.0 - kTail) return at + ": slower than the interval has it";
  return percentile < kTail ? at + ": faster than the interval has it" : at;
}

Table head_table(const Diagnosis& diagnosis) {
  Table table = figures_table(title_of(diagnosis.prediction));
  add_figure(table, "measured", measured_text(diagnosis));
  add_figure(table, "predicted", step_time_text(diagnosis.prediction));
  add_figure(table, "percentile", standing_text(percentile_of(diagnosis)));
  return table;
}

std::vector<Column> line_columns() {
  return {as_text("part"),
          in_seconds("measured_s", "measured"),
          in_seconds("predicted_s", "predicted"),
          in_seconds("difference_s", "difference"),
          in_percent("worth"),
          as_number("kernels"),
          as_number("predicted_kernels", "expected")};
}

// For people what is rounding of a profile's nanoseconds is nothing.
Seconds shown_difference(Seconds difference, Seconds step, bool words) {
  constexpr double kRounding = 1e-6;
  return words && std::abs(difference / step) < kRounding ? Seconds(0.0) : difference;
}

Table line_table(const StepDifference& d, bool words) {
  Table table("Where the difference is", line_columns());
  for (const DifferenceLine& line : d.lines) {
    const std::string key = calibrate::key_of(line);
    const Seconds difference = shown_difference(line.difference(), d.step, words);
    table.add_row({words ? part_text(key) : key, line.measured, line.predicted, difference,
                   difference / d.step, cell(line.kernels), cell(line.predicted_kernels)});
  }
  table.add_row({"step", d.step, d.predicted_step, d.step - d.predicted_step,
                 (d.step - d.predicted_step) / d.step, Cell(), Cell()});
  return table;
}

Table collective_table(const StepDifference& d) {
  Table table("Collectives of a step, hidden or not",
              {as_text("part"), as_text("collective"), as_integer("ranks"), as_number("calls"),
               as_number("predicted_calls", "expected"), in_seconds("wire_s", "wire"),
               in_seconds("predicted_s", "predicted"), in_bytes_per_s("busbw_bytes_per_s", "busbw"),
               in_bytes_per_s("predicted_busbw_bytes_per_s", "expected")});
  for (const calibrate::CollectiveComparison& one : d.collectives)
    table.add_row({group_text(one.part), std::string(one.kind ? name_of(*one.kind) : "-"),
                   count_or_none(one.ranks), one.calls, one.predicted_calls, one.wire,
                   one.predicted, cell(one.busbw()), cell(one.predicted_busbw())});
  return table;
}

Table gemm_table(const StepDifference& d) {
  Table table(
      "GEMMs that lose most",
      {as_text("shape", "sizes"), as_number("calls"), as_number("predicted_calls", "expected"),
       in_seconds("each_s", "each"), in_seconds("predicted_each_s", "predicted"),
       in_flops_per_s("flops_per_s", "achieved"), in_seconds("lost_s", "lost")});
  for (const calibrate::GemmComparison& one :
       std::span(d.gemms).first(std::min(kShownGemms, d.gemms.size()))) {
    const Seconds each = one.time / std::max(1e-9, one.calls);
    table.add_row({fmt::format("{}{} x {} x {}",
                               one.shape.batch > 1 ? std::to_string(one.shape.batch) + " x " : "",
                               one.shape.m, one.shape.n, one.shape.k),
                   one.calls, one.predicted_calls, each, cell(one.predicted_each),
                   one.flops_each() / each, one.lost()});
  }
  return table;
}

Table rank_table(const StepDifference& d) {
  Table table("Ranks", {as_text("rank"), in_seconds("step_s", "step"),
                        in_seconds("computing_s", "computing"), in_seconds("waiting_s", "waiting"),
                        in_seconds("idle_s", "idle"), in_seconds("late_s", "late")});
  std::vector<calibrate::RankTimes> ranks = d.ranks;
  std::ranges::stable_sort(ranks, [](const auto& a, const auto& b) { return a.late > b.late; });
  for (const calibrate::RankTimes& rank :
       std::span(ranks).first(std::min(kShownRanks, ranks.size())))
    table.add_row({rank.name, rank.step, rank.computing, rank.waiting, rank.idle, rank.late});
  return table;
}

Table findings_table(const Diagnosis& diagnosis) {
  Table table = figures_table("In words");
  int number = 0;
  for (const std::string& text : findings(diagnosis))
    add_figure(table, std::to_string(++number), text);
  return table;
}

std::vector<Table> screen(const Diagnosis& diagnosis) {
  std::vector<Table> tables{head_table(diagnosis)};
  if (diagnosis.difference) {
    const StepDifference& d = *diagnosis.difference;
    tables.push_back(line_table(d, true));
    if (!findings(diagnosis).empty()) tables.push_back(findings_table(diagnosis));
    if (!d.collectives.empty()) tables.push_back(collective_table(d));
    if (!d.gemms.empty()) tables.push_back(gemm_table(d));
    if (d.ranks.size() > 1) tables.push_back(rank_table(d));
  } else {
    tables.push_back(factor_table(diagnosis));
  }
  for (Table& table : tables) table.hide_empty();
  return tables;
}

// --- JSON ---

Json line_json(const DifferenceLine& line, const StepDifference& d, const sim::Run& run) {
  return {{"part", calibrate::key_of(line)},
          {"measured_s", line.measured.value()},
          {"predicted_s", line.predicted.value()},
          {"difference_s", line.difference().value()},
          {"worth", worth(line, d)},
          {"kernels", or_null(line.kernels)},
          {"predicted_kernels", or_null(line.predicted_kernels)},
          {"reason", or_null(worth(line, d) >= kWorthSaying, reason_of(line, d, run))}};
}

Json classes_json(const calibrate::ProfiledStep& step) {
  Json json = Json::object();
  for (int i = 0; i < hwdb::kNumKernelClasses; ++i) {
    const auto kernels = static_cast<hwdb::KernelClass>(i);
    const calibrate::KernelTotal& total = step.of(kernels);
    json[sim::name_of(kernels)] = {{"kernels", total.kernels},
                                   {"busy_s", total.busy.value()},
                                   {"exposed_s", total.exposed.value()}};
  }
  return json;
}

Json difference_json(const StepDifference& d, const sim::Run& run) {
  return {{"steps", d.profiled.window.steps},
          {"marked_by", sim::name_of(d.profiled.window.marks)},
          {"rank", or_null(d.profiled.rank)},
          {"lines", list_json(d.lines, [&](const auto& line) { return line_json(line, d, run); })},
          {"classes", classes_json(d.profiled)},
          {"gemm_flops_per_s", d.gemm_rate.value()},
          {"predicted_gemm_flops_per_s", d.predicted_gemm_rate.value()},
          {"collectives", rows_json(collective_table(d))},
          {"gemms", rows_json(gemm_table(d))},
          {"ranks", rows_json(rank_table(d))}};
}

}  // namespace

Json diagnosis_json(const Diagnosis& diagnosis, const Provenance& provenance) {
  const sim::Prediction& p = diagnosis.prediction;
  const Seconds measured =
      diagnosis.difference ? diagnosis.difference->step : diagnosis.logged->step;
  Json json{
      {"run", run_json(p)},
      {"measured_s", measured.value()},
      {"predicted_s", p.step_time.value()},
      {"interval_s", {p.interval.first.value(), p.interval.second.value()}},
      {"percentile", percentile_of(diagnosis)},
      {"profile", diagnosis.difference ? difference_json(*diagnosis.difference, p.run) : Json()}};
  json["log"] = diagnosis.logged ? Json{{"step_time_s", diagnosis.logged->step.value()},
                                        {"spread", diagnosis.logged->spread},
                                        {"lines", diagnosis.logged->lines},
                                        {"format", diagnosis.logged->format}}
                                 : Json();
  json["factors"] = list_json(diagnosis.factors, [](const calibrate::PartFactor& factor) {
    return Json{{"part", sim::name_of(factor.part)},
                {"predicted_s", factor.predicted.value()},
                {"factor", factor.factor},
                {"deviations", factor.deviations}};
  });
  json["findings"] = findings(diagnosis);
  json["provenance"] = {{"database", provenance.database}};
  return json;
}

std::vector<std::string> findings(const Diagnosis& diagnosis) {
  std::vector<std::string> texts;
  if (!diagnosis.difference) return texts;
  const StepDifference& d = *diagnosis.difference;
  for (const DifferenceLine& line : d.lines)
    if (texts.size() < kFindings && std::abs(worth(line, d)) >= kWorthSaying)
      texts.push_back(finding(line, d, diagnosis.prediction.run));
  return texts;
}

std::string render(const Diagnosis& diagnosis, const Provenance& provenance, Format format,
                   const Style& style) {
  if (format == Format::Json) return diagnosis_json(diagnosis, provenance).dump(2) + "\n";
  if (format != Format::Csv) {
    const std::vector<Table> tables = screen(diagnosis);
    return render(std::span<const Table>(tables), format, style);
  }
  return render(
      diagnosis.difference ? line_table(*diagnosis.difference, false) : factor_table(diagnosis),
      format, style);
}

}  // namespace llmsim::reports
