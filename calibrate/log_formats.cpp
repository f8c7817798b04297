#include "calibrate/log_formats.h"

#include <algorithm>

namespace llmsim::calibrate {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;
constexpr double kHour = 3600.0;
constexpr double kMs = 1e-3;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

// --- the formats ---

// Megatron-LM, megatron/training/training.py, training_log; Megatron-DeepSpeed adds rates and has a
// spelling with underscores.  report_memory prints MiB as "MB".
constexpr LogField kMegatron[] = {
    {Logged::Step, "iteration"},
    {Logged::StepTime, "elapsed time per iteration (ms)", kMs},
    {Logged::GlobalBatch, "global batch size"},
    {Logged::SamplesPerSecond, "samples per second"},
    {Logged::DeviceTokensPerSecond, "tokens per gpu per second (tgs)"},
    {Logged::DeviceFlopsPerSecond, "throughput per GPU (TFLOP/s/GPU)", kTera},
    {Logged::DeviceFlopsPerSecond, "TFLOPs", kTera},
};

// nanotron, src/nanotron/trainer.py, train_step_logs, and logging/logger.py, human_format: three
// digits.  Megatron-DeepSpeed of the Argonne facility prints the same keys with equals signs.
constexpr LogField kNanotron[] = {
    {Logged::Step, "iteration"},
    {Logged::StepTime, "elapsed_time_per_iteration_ms", kMs},
    {Logged::TokensPerSecond, "tokens_per_sec"},
    {Logged::DeviceTokensPerSecond, "tokens_per_sec_per_gpu"},
    {Logged::GlobalBatch, "global_batch_size"},
    {Logged::DeviceFlopsPerSecond, "model_tflops_per_gpu", kTera},
    {Logged::PeakAllocated, "cuda_max_memory_allocated"},
    {Logged::PeakReserved, "cuda_max_memory_reserved"},
};

// MaxText, MaxText/metric_logger.py, write_metrics_locally and log_metrics.
constexpr LogField kMaxText[] = {
    {Logged::Step, "completed step"},
    {Logged::StepTime, "seconds"},
    {Logged::DeviceFlopsPerSecond, "TFLOP/s/device", kTera},
    {Logged::DeviceTokensPerSecond, "Tokens/s/device"},
};

// NeMo, nemo/lightning/pytorch/callbacks/progress_printer.py.
constexpr LogField kNemo[] = {
    {Logged::Step, "global_step"},
    {Logged::StepTime, "train_step_timing in s"},
    {Logged::GlobalBatch, "global_batch_size"},
};

// DeepSpeed, deepspeed/runtime/pipe/engine.py, train_batch.
constexpr LogField kDeepSpeedPipeline[] = {
    {Logged::Step, "steps"},
    {Logged::StepTime, "iter time (s)"},
    {Logged::SamplesPerSecond, "samples/sec"},
};

// DeepSpeed, deepspeed/utils/timer.py, ThroughputTimer.stop; it prints GiB as "GB".
constexpr LogField kDeepSpeedThroughput[] = {
    {Logged::Step, "/global_step"},
    {Logged::SamplesPerSecond, "CurrSamplesPerSec"},
    {Logged::PeakAllocated, "MaxMemAllocated", kGiB},
};

// DeepSpeed, deepspeed/runtime/engine.py, EngineTimers and step: `wall_clock_breakdown`.  The
// second line is of the whole step, the first of each micro-batch.
constexpr LogField kDeepSpeedTimers[] = {
    {Logged::PartTime, "fwd", kMs},
    {Logged::PartTime, "bwd", kMs},
    {Logged::PartTime, "step", kMs},
};
constexpr LogField kDeepSpeedMicroTimers[] = {
    {Logged::MicroStepTime, "fwd_microstep", kMs},
    {Logged::MicroStepTime, "bwd_microstep", kMs},
    {Logged::MicroStepTime, "step_microstep", kMs},
};

// torchtitan, torchtitan/components/metrics.py, MetricsProcessor.log: tokens of one device, peak of
// reserved memory.  Earlier releases print "wps".
constexpr LogField kTorchtitan[] = {
    {Logged::Step, "step"},
    {Logged::PeakReserved, "memory", kGiB},
    {Logged::DeviceTokensPerSecond, "tps"},
    {Logged::DeviceFlopsPerSecond, "tflops", kTera},
    {Logged::Mfu, "mfu"},
};
constexpr LogField kTorchtitanWps[] = {
    {Logged::Step, "step"},
    {Logged::PeakReserved, "memory", kGiB},
    {Logged::DeviceTokensPerSecond, "wps"},
    {Logged::Mfu, "mfu"},
};

// Composer, composer/loggers/console_logger.py; rates are those of callbacks/speed_monitor.py,
// means over its window, with hours for time/train, bytes those of memory_monitor.py, in GB.
constexpr LogField kComposer[] = {
    {Logged::Step, "batch"},
    {Logged::StepsPerSecond, "throughput/batches_per_sec"},
    {Logged::SamplesPerSecond, "throughput/samples_per_sec"},
    {Logged::TokensPerSecond, "throughput/tokens_per_sec"},
    {Logged::DeviceTokensPerSecond, "throughput/device/tokens_per_sec"},
    {Logged::DeviceFlopsPerSecond, "throughput/device/flops_per_sec"},
    {Logged::Mfu, "throughput/device/mfu"},
    {Logged::ElapsedTime, "time/train", kHour},
    {Logged::PeakAllocated, "memory/peak_allocated_mem", kGiga},
    {Logged::PeakReserved, "memory/peak_reserved_mem", kGiga},
};

// transformers, src/transformers/trainer_utils.py, speed_metrics: printed when training ends, as a
// dictionary and as lines of "train metrics".
constexpr LogField kTrainer[] = {
    {Logged::SamplesPerSecond, "train_samples_per_second"},
    {Logged::StepsPerSecond, "train_steps_per_second"},
};

// JSON lines, dictionaries and tables, as people write them.  Keys of run files come first.
constexpr LogField kKeys[] = {
    {Logged::Step, "step"},
    {Logged::Step, "iteration"},
    {Logged::Step, "global_step"},
    {Logged::Step, "iter"},
    {Logged::Step, "_step"},
    {Logged::Step, "time/batch"},
    {Logged::StepTime, "step_time_s"},
    {Logged::StepTime, "step_time"},
    {Logged::StepTime, "step_time_seconds"},
    {Logged::StepTime, "seconds_per_step"},
    {Logged::StepTime, "time_per_step_s"},
    {Logged::StepTime, "iteration_time_s"},
    {Logged::StepTime, "iteration_time"},
    {Logged::StepTime, "iter_time_s"},
    {Logged::StepTime, "iter_time"},
    {Logged::StepTime, "iteration-time"},
    {Logged::StepTime, "train_step_timing in s"},
    {Logged::StepTime, "time_metrics/end_to_end(s)"},
    {Logged::StepTime, "perf/step_time_seconds"},
    {Logged::StepTime, "step_time_ms", kMs},
    {Logged::StepTime, "iteration_time_ms", kMs},
    {Logged::StepTime, "iter_time_ms", kMs},
    {Logged::StepTime, "elapsed_time_per_iteration_ms", kMs},
    {Logged::StepsPerSecond, "steps_per_s"},
    {Logged::StepsPerSecond, "steps_per_second"},
    {Logged::StepsPerSecond, "throughput/batches_per_sec"},
    {Logged::SamplesPerSecond, "samples_per_s"},
    {Logged::SamplesPerSecond, "samples_per_second"},
    {Logged::SamplesPerSecond, "samples_per_sec"},
    {Logged::SamplesPerSecond, "throughput/samples_per_sec"},
    {Logged::TokensPerSecond, "tokens_per_s"},
    {Logged::TokensPerSecond, "tokens_per_second"},
    {Logged::TokensPerSecond, "tokens_per_sec"},
    {Logged::TokensPerSecond, "throughput/tokens_per_sec"},
    {Logged::DeviceTokensPerSecond, "tokens_per_s_per_device"},
    {Logged::DeviceTokensPerSecond, "tokens_per_s_per_gpu"},
    {Logged::DeviceTokensPerSecond, "tokens_per_second_per_device"},
    {Logged::DeviceTokensPerSecond, "tokens_per_second_per_gpu"},
    {Logged::DeviceTokensPerSecond, "tokens_per_sec_per_gpu"},
    {Logged::DeviceTokensPerSecond, "throughput/device/tokens_per_sec"},
    {Logged::DeviceTokensPerSecond, "throughput(tps)"},
    {Logged::DeviceTokensPerSecond, "tps"},
    {Logged::DeviceTokensPerSecond, "tgs"},
    {Logged::DeviceTokensPerSecond, "perf/per_device_tokens_per_sec"},
    {Logged::GlobalBatch, "global_batch"},
    {Logged::GlobalBatch, "global_batch_size"},
    {Logged::DeviceFlopsPerSecond, "reported_tflops_per_device", kTera},
    {Logged::DeviceFlopsPerSecond, "tflops", kTera},
    {Logged::Mfu, "mfu"},
    {Logged::PeakAllocated, "peak_allocated_bytes"},
    {Logged::PeakAllocated, "peak_allocated_gib", kGiB},
    {Logged::PeakAllocated, "peak_memory_bytes"},
    {Logged::PeakAllocated, "max_memory_allocated"},
    {Logged::PeakAllocated, "memory/peak_allocated_mem", kGiga},
    {Logged::PeakAllocated, "memory/max_active(GiB)", kGiB},
    {Logged::PeakReserved, "peak_reserved_bytes"},
    {Logged::PeakReserved, "peak_reserved_gib", kGiB},
    {Logged::PeakReserved, "max_memory_reserved"},
    {Logged::PeakReserved, "memory/peak_reserved_mem", kGiga},
    {Logged::PeakReserved, "memory/max_reserved(GiB)", kGiB},
};

// Lines with peaks of memory and no step: Megatron-LM's report_memory (MiB), DeepSpeed's
// see_memory_usage (GiB), nanotron's log_memory.
constexpr LogField kMegatronMemory[] = {
    {Logged::PeakAllocated, "max allocated", kMiB},
    {Logged::PeakReserved, "max reserved", kMiB},
};
constexpr LogField kDeepSpeedMemory[] = {
    {Logged::PeakAllocated, "Max_MA", kGiB},
    {Logged::PeakReserved, "Max_CA", kGiB},
};
constexpr LogField kNanotronMemory[] = {
    {Logged::PeakAllocated, "Peak allocated", kMiB},
    {Logged::PeakReserved, "Peak reserved", kMiB},
};

constexpr LogFormat kFormats[] = {
    {"Megatron-LM", "elapsed time per iteration (ms)", LogLayout::Line, kMegatron},
    {"nanotron", "elapsed_time_per_iteration_ms", LogLayout::Line, kNanotron},
    {"MaxText", "completed step:", LogLayout::Line, kMaxText},
    {"NeMo", "train_step_timing in s", LogLayout::Line, kNemo},
    {"torchtitan", "tps: ", LogLayout::Line, kTorchtitan},
    {"torchtitan (wps)", "wps: ", LogLayout::Line, kTorchtitanWps},
    {"DeepSpeed pipeline", "iter time (s):", LogLayout::Line, kDeepSpeedPipeline},
    {"DeepSpeed", "CurrSamplesPerSec=", LogLayout::Line, kDeepSpeedThroughput},
    {"DeepSpeed timers", "time (ms) | fwd:", LogLayout::Line, kDeepSpeedTimers},
    {"DeepSpeed micro-timers", "time (ms) | fwd_microstep:", LogLayout::Line,
     kDeepSpeedMicroTimers},
    {"Composer", "[batch=", LogLayout::Block, kComposer},
    {"JSON lines", "\"step_time_s\": 2.44", LogLayout::Object, kKeys},
    {"Hugging Face Trainer", "train_runtime", LogLayout::Block, kTrainer, true},
    {"CSV", "step,step_time_s", LogLayout::Columns, kKeys},
};

constexpr LogFormat kMemoryFormats[] = {
    {"Megatron-LM", "memory (MB)", LogLayout::Line, kMegatronMemory},
    {"DeepSpeed", "Max_MA", LogLayout::Line, kDeepSpeedMemory},
    {"nanotron", "Peak allocated", LogLayout::Line, kNanotronMemory},
};

// --- keys ---

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether a key may end or begin beside this character.
bool is_border(char c) { return !is_letter(c) && !is_digit(c) && c != '_' && c != '/' && c != '-'; }

// From what stands behind a key to its number.
std::string_view to_number(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t:=\"'"), text.size());
  return text.substr(begin);
}

// The number behind the first place of `key` that has one.
std::optional<Reading> field_reading(const LogField& field, std::string_view line) {
  for (std::size_t at = line.find(field.key); at != std::string_view::npos;
       at = line.find(field.key, at + 1)) {
    const std::string_view rest = line.substr(at + field.key.size());
    if (rest.empty()) return std::nullopt;
    const bool begins = at == 0 || is_border(line[at - 1]) || field.key[0] == '/';
    if (!begins || !is_border(rest[0])) continue;
    if (const auto reading = reading_at(to_number(rest), field.unit)) return reading;
  }
  return std::nullopt;
}

// The number behind `key` in quotes and a colon.
std::optional<Reading> member_reading(const LogField& field, std::string_view line) {
  for (std::size_t at = line.find(field.key); at != std::string_view::npos;
       at = line.find(field.key, at + 1)) {
    const std::string_view rest = line.substr(at + field.key.size());
    if (at == 0 || rest.size() < 2) continue;
    const char quote = line[at - 1];
    if ((quote != '"' && quote != '\'') || rest[0] != quote) continue;
    const std::size_t colon = rest.find_first_not_of(" \t", 1);
    if (colon == std::string_view::npos || rest[colon] != ':') continue;
    if (const auto reading = reading_at(to_number(rest.substr(colon)), field.unit)) return reading;
  }
  return std::nullopt;
}

bool is_sum(Logged what) { return what == Logged::PartTime || what == Logged::MicroStepTime; }

// Of several spellings the first counts; parts add.
void add_once(Logged what, const std::optional<Reading>& reading, Readings& readings) {
  if (reading && (is_sum(what) || !readings[what])) readings.add(what, *reading);
}

// --- tables ---

char delimiter_of(std::string_view line) {
  for (const char c : {'\t', ';', ','})
    if (line.find(c) != std::string_view::npos) return c;
  return ',';
}

std::string_view trimmed(std::string_view cell) {
  const std::size_t begin = cell.find_first_not_of(" \"\t");
  if (begin == std::string_view::npos) return {};
  return cell.substr(begin, cell.find_last_not_of(" \"\t") - begin + 1);
}

// Cells in quotes may hold the delimiter.
std::vector<std::string_view> cells_of(std::string_view line, char delimiter) {
  std::vector<std::string_view> cells;
  std::size_t begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (quoted || line[i] != delimiter)) continue;
    cells.push_back(trimmed(line.substr(begin, i - begin)));
    begin = i + 1;
  }
  return cells;
}

}  // namespace

void Readings::add(Logged what, const Reading& reading) {
  std::optional<Reading>& value = values_[index(what)];
  if (value && is_sum(what))
    value = Reading{value->value + reading.value, value->rounding + reading.rounding};
  else
    value = reading;
}

bool Readings::has_time() const {
  for (const Logged what :
       {Logged::StepTime, Logged::PartTime, Logged::MicroStepTime, Logged::StepsPerSecond,
        Logged::SamplesPerSecond, Logged::TokensPerSecond, Logged::DeviceTokensPerSecond,
        Logged::ElapsedTime}) {
    if ((*this)[what] && (*this)[what]->value > 0.0) return true;
  }
  return false;
}

std::span<const LogFormat> log_formats() { return kFormats; }
std::span<const LogFormat> memory_formats() { return kMemoryFormats; }

Readings readings_of(const LogFormat& format, std::string_view line) {
  Readings readings;
  if (format.layout == LogLayout::Object) {
    if (line.find('{') == std::string_view::npos) return readings;
    for (const LogField& field : format.fields)
      add_once(field.what, member_reading(field, line), readings);
    return readings;
  }
  if (format.layout == LogLayout::Line && line.find(format.sign) == std::string_view::npos)
    return readings;
  for (const LogField& field : format.fields)
    add_once(field.what, field_reading(field, line), readings);
  return readings;
}

std::vector<const LogField*> columns_of(const LogFormat& format, std::string_view line) {
  std::vector<const LogField*> columns;
  Readings found;
  for (const std::string_view cell : cells_of(line, delimiter_of(line))) {
    const auto field = std::ranges::find(format.fields, cell, &LogField::key);
    const bool known = field != format.fields.end() && !found[field->what];
    columns.push_back(known ? &*field : nullptr);
    if (known) found.add(field->what, {.value = 1.0});
  }
  if (!found.has_time()) columns.clear();
  return columns;
}

Readings readings_of(const std::vector<const LogField*>& columns, std::string_view line) {
  Readings readings;
  const std::vector<std::string_view> cells = cells_of(line, delimiter_of(line));
  if (cells.size() < columns.size()) return readings;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == nullptr) continue;
    if (const auto reading = reading_at(cells[i], columns[i]->unit))
      readings.add(columns[i]->what, *reading);
  }
  return readings;
}

}  // namespace llmsim::calibrate
