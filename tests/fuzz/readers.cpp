#include "tests/fuzz/readers.h"

#include <exception>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "calibrate/benchmark_fit.h"
#include "calibrate/measured_kernels.h"
#include "calibrate/profile/profiled_step.h"
#include "calibrate/training_log.h"
#include "cli/mcp/server.h"
#include "hwdb/benchmarks/benchmark_file.h"
#include "hwdb/hardware/coefficient_file.h"
#include "hwdb/hardware/user_hardware.h"
#include "hwdb/huggingface/huggingface.h"
#include "hwdb/huggingface/model_types.h"
#include "hwdb/launch/launch_file.h"
#include "hwdb/profile/kineto_trace.h"
#include "hwdb/runs/comparison.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/runtime_results.h"
#include "hwdb/runs/source_tables.h"
#include "hwdb/store/database.h"
#include "hwdb/text/json_reader.h"
#include "hwdb/text/table_file.h"
#include "reports/data_rows.h"
#include "sim/base/error.h"
#include "sim/predict.h"
#include "tests/hwdb/launch/shipped_resolver.h"

namespace llmsim::fuzz {
namespace {

// Beyond these a step is priced for seconds, which is no fault of a reader.
bool is_quick(const sim::Run& run) {
  return run.model.num_layers <= 512 && run.strategy.pp <= 64 &&
         run.strategy.virtual_stages <= 64 && run.strategy.num_microbatches() <= 256;
}

// Of what is answered every figure is one, and none is beyond what can be meant.
void expect_figures(const sim::Prediction& p) {
  constexpr double kMost = 1e15;
  for (const double figure :
       {p.step_time.value(), p.interval.first.value(), p.interval.second.value(), p.mfu, p.hfu,
        p.bubble, p.tokens_per_second_per_device, p.memory.peak.value() / 1e9})
    if (!(figure >= 0.0 && figure <= kMost))
      throw std::logic_error("a figure of the answer is " + std::to_string(figure));
}

void predict_record(hwdb::RunRecord record) {
  const sim::Run run = hwdb::resolver().resolve(record);
  if (is_quick(run)) expect_figures(sim::predict(run));
}

void read_runs(const std::string& text) {
  for (const hwdb::RunRecord& record : hwdb::parse_runs(text, "fuzz.json").runs) {
    try {
      predict_record(record);
    } catch (const Error&) {
    }
  }
  predict_record(hwdb::parse_run(text, "fuzz.json"));
}

// A file of any of the programs whose format has this extension, on eight H100.
void read_launch(const std::string& text, const std::string& extension) {
  const std::string file = "fuzz." + extension;
  hwdb::LaunchReading reading;
  reading.ignores_unknown = true;
  hwdb::RunRecord record = hwdb::parse_launch(text, file, reading).record;
  if (!record.hardware.accelerator) record.hardware.accelerator = "h100_sxm";
  if (!record.hardware.num_devices) record.hardware.num_devices = 8;
  if (!record.model.name && record.model.fields.empty()) record.model.name = "llama3-8b";
  predict_record(record);
}

void read_hardware(const std::string& text) {
  static hwdb::Database database(":memory:", hwdb::Access::Write);
  hwdb::add_hardware(database, text, "fuzz.json", true);
}

void read_log(const std::string& text) {
  std::istringstream stream(text);
  calibrate::TrainingLog log;
  calibrate::read_training_log(stream, "fuzz.log", log);
}

// Of what is read one text in eight is fitted too, which takes a thousand times as long: no value
// that a reader lets pass breaks a fit.
void read_benchmark(const std::string& text) {
  static const hwdb::Database database(":memory:");
  const std::vector<hwdb::BenchmarkFile> files{
      hwdb::parse_benchmark_file(text, "fuzz.txt", {.collective = {}, .dtype = sim::DType::Bf16})};
  constexpr std::size_t kQuick = 1000;
  if (files.front().rows() > kQuick || std::hash<std::string>()(text) % 8 != 0) return;
  for (const calibrate::BenchmarkPart& part :
       calibrate::fit_benchmarks(database, "h100_sxm", files).parts)
    for (const calibrate::BenchmarkChange& one : part.changes)
      if (!(one.after > 0.0 && one.after < 1e15))
        throw std::logic_error(one.key + " is fitted to " + std::to_string(one.after));
}

void read_trace(const std::string& text) {
  std::istringstream stream(text);
  const std::vector<hwdb::ProfileTrace> traces = hwdb::parse_trace(stream, "fuzz.json");
  for (const calibrate::ProfiledStep& step : calibrate::profiled_steps(traces))
    if (!(step.step >= sim::Seconds(0.0) && step.idle <= step.step))
      throw std::logic_error("a step of " + std::to_string(step.step.value()) + " s");
}

// Lines of an agent: each has an answer, or needs none.
void read_messages(const std::string& text) {
  const cli::mcp::Server server{
      .version = "0",
      .instructions = "",
      .tools = cli::mcp::Json::array({{{"name", "predict"}}}),
      .call = [](const std::string& tool, const cli::mcp::Json& arguments) {
        return cli::mcp::ToolAnswer{.text = tool, .structured = arguments};
      }};
  std::istringstream lines(text);
  std::ostringstream answers;
  cli::mcp::serve(server, lines, answers);
  for (std::istringstream all(answers.str()); all.peek() != EOF;) {
    std::string line;
    std::getline(all, line);
    const auto answer = cli::mcp::Json::parse(line);
    if (answer.contains("error")) throw Error(answer["error"]["message"].get<std::string>());
  }
}

// Words that the text itself has, with what a message leaves out of it, are the text's.
bool has_words_of_a_library(const std::string& message, std::string text) {
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  for (const char* words : {"json.exception", "std::", "stod", "stoi", "basic_string",
                            "vector::", "bad_alloc", "filesystem error", "bad conversion"})
    if (message.find(words) != std::string::npos && text.find(words) == std::string::npos)
      return true;
  return false;
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{
      {"runs", read_runs},
      {"shell", [](const std::string& text) { read_launch(text, "sh"); }},
      {"yaml", [](const std::string& text) { read_launch(text, "yaml"); }},
      {"toml", [](const std::string& text) { read_launch(text, "toml"); }},
      {"json", [](const std::string& text) { read_launch(text, "json"); }},
      {"model", [](const std::string& text) { hwdb::read_model_config(text, "fuzz/config.json"); }},
      {"model_types",
       [](const std::string& text) {
         hwdb::parse_model_types(text, "fuzz.json", hwdb::model_types());
       }},
      {"hardware", read_hardware},
      {"coefficients",
       [](const std::string& text) { hwdb::with_fitted_rows(text, "fuzz.json", {}, "fit"); }},
      {"results", [](const std::string& text) { hwdb::parse_runtime_results(text, "fuzz.jsonl"); }},
      {"comparison", [](const std::string& text) { hwdb::parse_comparisons(text, "fuzz.json"); }},
      {"table", [](const std::string& text) { hwdb::parse_table_file(text, "fuzz.toml"); }},
      {"source_project",
       [](const std::string& text) { hwdb::parse_source_project(text, "fuzz.json"); }},
      {"kernel_fits",
       [](const std::string& text) { calibrate::parse_kernel_fits(text, "fuzz.json"); }},
      {"rows", [](const std::string& text) { reports::data_rows(text); }},
      {"log", read_log},
      {"benchmark", read_benchmark},
      {"profile", read_trace},
      {"messages", read_messages},
  };
  return all;
}

std::optional<std::string> fault_of(const Reader& reader, const std::string& text) {
  std::string message;
  try {
    reader.read(text);
  } catch (const Error& error) {
    message = error.what();
  } catch (const std::exception& error) {
    return std::string(typeid(error).name()) + ": " + error.what();
  }
  if (has_words_of_a_library(message, text)) return "a library's words: " + message;
  if (hwdb::has_control_characters(message)) return "control characters: " + message;
  return std::nullopt;
}

}  // namespace llmsim::fuzz
