#include "cli/mcp/tools.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "cli/run_library.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::cli::mcp {
namespace {

// What a pipe of the program is called on its side.
constexpr const char* kInput = "/dev/stdin";

// Arguments of a tool that are no options, and take their place in the command line.
struct Special {
  const char* name;
  Json schema;
};

struct Tool {
  const char* name;
  const char* title;
  const char* description;
  const char* command;               // whose options it takes
  std::vector<const char*> options;  // the usual ones, which its schema names
  std::vector<Special> special{};
  std::vector<const char*> required{};
};

Json text_argument(const char* description) {
  return {{"type", "string"}, {"description", description}};
}

Special run_argument() {
  return {"run",
          {{"type", "object"},
           {"description",
            "a run record in place of options, by the schema that `llmsim schema run` prints; the "
            "\"run\" of an earlier answer is one; example: {\"model\": {\"name\": \"gpt2\"}, "
            "\"hardware\": {\"accelerator\": \"h100\", \"num_devices\": 8}, \"training\": "
            "{\"global_batch\": 64, \"dp\": 8}}"}}};
}

Special file_argument() {
  return {"run_file",
          text_argument("path of such a record in a file; example: runs/baseline.json")};
}

using Names = std::vector<const char*>;

// Options of one run that plan has too: those that most questions have, and others.
Names usual_names() {
  return {"model", "gpus", "hardware", "framework",   "precision",    "seq_len",  "tp",       "pp",
          "dp",    "cp",   "ep",       "micro_batch", "global_batch", "sharding", "recompute"};
}

Names other_names() {
  return {"system", "optimizer",  "virtual_stages", "schedule", "compile",
          "flash",  "tp_overlap", "offload",        "lora",     "inter_node_bandwidth",
          "site"};
}

Names joined_names(std::initializer_list<Names> lists) {
  Names names;
  for (const Names& list : lists) names.insert(names.end(), list.begin(), list.end());
  return names;
}

Tool plan_tool() {
  return {"plan",
          "Best parallelism",
          "Searches all parallelism strategies (tensor, pipeline, data, context and expert ranks, "
          "sharding, recomputation, micro-batch) for training a model on a number of devices, and "
          "ranks them by predicted time: answers which layout to train with, how fast it is, "
          "whether it fits in memory, what it costs (tokens with price). Give model and gpus; what "
          "you give of the layout is kept, what you leave out is searched. Lists of model, "
          "hardware, gpus, precision or seq_len ask several questions at once. Takes seconds; top "
          "= 3 keeps structured answers short.",
          "plan",
          joined_names({usual_names(),
                        other_names(),
                        {"top", "objective", "fit", "largest", "deadline", "tokens", "price",
                         "sensitivity", "pareto", "require", "exclude", "fix"}}),
          {},
          {}};
}

Tool predict_tool() {
  return {"predict",
          "Predict one run",
          "Predicts one training run whose layout is given: step time, tokens/s, MFU, memory with "
          "the probability that it fits, what a step waits for, with intervals that hold the "
          "measured value in 9 of 10 runs. Use it for a run that exists or a change to one; use "
          "plan where the layout is open. Layout that is left out is 1 (dp: what remains).",
          "predict",
          joined_names({usual_names(),
                        other_names(),
                        {"sequence_parallel", "from", "tokens", "price", "sensitivity",
                         "reported_mfu", "reported_tflops", "convention", "require", "verbose"}}),
          {run_argument(), file_argument()},
          {}};
}

Tool explain_tool() {
  return {"explain",
          "Explain one run",
          "Says why a run takes what it takes: each GEMM, attention kernel or collective of a step "
          "with the factors of its rate, or the memory at the peak tensor by tensor. Ask after "
          "predict, for the largest part of its step, or of its memory.",
          "predict",
          joined_names({usual_names(), {"from"}}),
          {{"what",
            {{"enum", {"gemm", "attention", "collective", "memory"}},
             {"description", "what is explained; example: memory"}}},
           run_argument(),
           file_argument()},
          {"what"}};
}

Tool diagnose_tool() {
  return {
      "diagnose",
      "Explain a measured step",
      "Says where the time of a measured step went, part by part against its prediction, from "
      "a profile (torch.profiler, Nsight Systems as SQLite), and what would mend it; from a log "
      "alone, how unusual the step is and which part could explain it. Give the run as for "
      "predict.",
      "diagnose",
      joined_names({usual_names(), {"profile", "log"}}),
      {run_argument(), file_argument()},
      {}};
}

Tool compare_tool() {
  return {"compare",
          "Compare runs",
          "A table of predictions side by side. Either runs: two or more runs, each with the "
          "arguments of predict; or two lists of options (the first is the rows, the second the "
          "columns), where cells without a layout are planned; or table: the name of a table that "
          "ships, predicted against measured.",
          "compare",
          joined_names({usual_names(), {"cell", "interval", "plan", "convention", "list"}}),
          {{"runs",
            {{"type", "array"},
             {"minItems", 2},
             {"items", {{"type", "object"}, {"properties", {{"label", {{"type", "string"}}}}}}},
             {"description",
              "arguments of predict for each run, with a label; example: [{\"label\": \"bf16\", "
              "\"model\": \"llama3-8b\", \"gpus\": 8, \"sharding\": \"zero3\"}, {\"label\": "
              "\"fp8\", \"model\": \"llama3-8b\", \"gpus\": 8, \"sharding\": \"zero3\", "
              "\"precision\": \"fp8\"}]"}}},
           {"table", text_argument("name of a table, as list names them; example: gpt2-h100")}},
          {}};
}

Tool models_tool() {
  return {"models",
          "Known models",
          "The models that are known, by family, or with name one model in full: shape, "
          "parameters by part, FLOPs per token. Ask for names before plan and predict. A path of "
          "a Hugging Face config.json is a name too.",
          "models",
          {},
          {{"name", text_argument("one model in full; example: llama-3.1-70b")},
           {"family", text_argument("of the list: only this family; example: llama")},
           {"seq_len", {{"type", "integer"}, {"description", "tokens of a sequence, with name"}}}},
          {}};
}

Tool hardware_tool() {
  return {"hardware",
          "Known hardware",
          "The accelerators and systems that are known, with peaks, memory and links, or with name "
          "every fact of one with its evidence and source. Ask for ids before plan and predict.",
          "hardware",
          {},
          {{"name", text_argument("id or alias, in full; example: mi300x")}},
          {}};
}

const std::vector<Tool>& tools() {
  static const std::vector<Tool> all{plan_tool(),    predict_tool(),  compare_tool(),
                                     explain_tool(), diagnose_tool(), models_tool(),
                                     hardware_tool()};
  return all;
}

const Tool& tool_named(const std::string& name) {
  return *std::ranges::find_if(tools(), [&](const Tool& tool) { return tool.name == name; });
}

const CLI::App& command_of(const CLI::App& program, const Tool& tool) {
  return *program.get_subcommand(tool.command);
}

// Of tools whose command has options; models and hardware are a command for each question.
bool takes_options(const Tool& tool) { return !tool.options.empty(); }

Json input_schema(const CLI::App& program, const Tool& tool) {
  Json properties = Json::object();
  for (const Special& special : tool.special) properties[special.name] = special.schema;
  for (const char* name : tool.options)
    properties[name] = argument_schema(option_of(command_of(program, tool), name));
  if (takes_options(tool))
    properties["options"] = {
        {"type", "array"},
        {"items", {{"type", "string"}}},
        {"description", std::string("further words of the command line of llmsim ") + tool.command +
                            ", each option of which is an argument by its name too; example: "
                            "[\"--no-gradient-overlap\", \"--etp\", \"1\"]"}};
  Json schema{{"type", "object"}, {"properties", properties}};
  if (!tool.required.empty()) schema["required"] = tool.required;
  if (!takes_options(tool)) schema["additionalProperties"] = false;
  return schema;
}

// --- questions ---

std::string text_of(const Json& arguments, const char* name) {
  return arguments.contains(name) ? value_text(name, arguments[name]) : "";
}

bool is_special(const Tool& tool, const std::string& name) {
  return std::ranges::any_of(tool.special,
                             [&](const Special& special) { return special.name == name; });
}

// What is no option of a command is refused with the nearest name.
void require_known(const Tool& tool, const Json& arguments) {
  std::vector<std::string> names;
  for (const Special& special : tool.special) names.emplace_back(special.name);
  for (const auto& [name, value] : arguments.items())
    if (!is_special(tool, name))
      throw Error(Error::printable(name) + ": unknown argument" + hwdb::did_you_mean(name, names));
}

// Words of all arguments that are options, in their order.
void add_options(const CLI::App& command, const Tool& tool, const Json& arguments,
                 const ReadableFiles& files, std::vector<std::string>& words) {
  for (const auto& [name, value] : arguments.items()) {
    if (is_special(tool, name)) continue;
    if (name == "options") {
      for (std::string& word : words_of(command, value, files)) words.push_back(std::move(word));
    } else if (auto word = word_of(command, name, value, files)) {
      words.push_back(std::move(*word));
    }
  }
}

// A record on standard input, or a file.
void add_run(const Json& arguments, const ReadableFiles& files, Question& question) {
  if (arguments.contains("run") && arguments.contains("run_file"))
    throw Error("run and run_file exclude each other");
  if (arguments.contains("run")) {
    if (!arguments["run"].is_object()) throw Error("run: an object is expected");
    question.input = line_of(arguments["run"]);
    question.words.emplace_back(kInput);
  }
  const std::string path = text_of(arguments, "run_file");
  if (path.empty()) return;
  check_readable("run_file", path, files);
  question.words.push_back(path.starts_with("-") ? "./" + path : path);
}

// A text of TOML, which has JSON's escapes.
std::string quoted(const std::string& text) { return line_of(Json(text)); }

std::string table_row(const CLI::App& predict, const Json& run, std::size_t index,
                      const ReadableFiles& files) {
  if (!run.is_object()) throw Error("runs: a list of objects is expected");
  const std::string label = run.contains("label") ? value_text("label", run["label"])
                                                  : "run " + std::to_string(index + 1);
  std::string row = "[[rows]]\nlabel = " + quoted(label) + "\n";
  for (const auto& [name, value] : run.items()) {
    if (name == "label" || !word_of(predict, name, value, files)) continue;
    row += name + " = " +
           (value.is_boolean() ? std::string(value.get<bool>() ? "true" : "false")
                               : quoted(value_text(name, value))) +
           "\n";
  }
  return row;
}

// The runs as rows of a table file (hwdb/text/table_file.h) with one column.
std::string table_of(const CLI::App& program, const Json& runs, const ReadableFiles& files) {
  if (!runs.is_array() || runs.size() < 2) throw Error("runs: two or more are expected");
  const CLI::App& predict = *program.get_subcommand("predict");
  std::string table = "title = \"Runs\"\ncell = [\"step_time\", \"tokens\", \"mfu\", \"memory\"]\n";
  for (std::size_t i = 0; i < runs.size(); ++i) table += table_row(predict, runs[i], i, files);
  return table + "[[columns]]\nlabel = \"prediction\"\n";
}

// A table of one's own names further files, which only --allow-files lets it read.
std::string checked_table(const std::string& name, const ReadableFiles& files) {
  const bool ships = std::ranges::any_of(
      shipped_tables(), [&](const ShippedText& table) { return table.name == name; });
  if (ships || !files.below) return name;
  throw Error("table = " + Error::printable(name) +
              ": a table that ships is expected, as list names them; llmsim mcp --allow-files "
              "lets tools read others");
}

void add_table(const CLI::App& program, const Json& arguments, const ReadableFiles& files,
               Question& question) {
  if (arguments.contains("runs") && arguments.contains("table"))
    throw Error("runs and table exclude each other");
  if (arguments.contains("runs")) {
    question.input = table_of(program, arguments["runs"], files);
    question.words.emplace_back(kInput);
  }
  if (arguments.contains("table"))
    question.words.push_back(checked_table(text_of(arguments, "table"), files));
}

// `models list`, or `models show NAME`.
Question catalogue_question(const Tool& tool, const Json& arguments, const ReadableFiles& files) {
  require_known(tool, arguments);
  const std::string name = text_of(arguments, "name");
  Question question{.words = {tool.command, name.empty() ? "list" : "show"}};
  for (const char* option : {"family", "seq_len"}) {
    const std::string value = text_of(arguments, option);
    if (value.empty()) continue;
    const std::string dashed = option == std::string("seq_len") ? "--seq-len=" : "--family=";
    question.words.push_back(dashed + value);
  }
  if (name.empty()) return question;
  if (tool.command == std::string("models")) check_readable("name", name, files);
  question.words.push_back(name.starts_with("-") ? "./" + name : name);
  return question;
}

// Of what a call asks; null characters are looked for in the words of any.
Question any_question(const CLI::App& program, const Tool& tool, const Json& arguments,
                      const ReadableFiles& files) {
  if (!takes_options(tool)) return catalogue_question(tool, arguments, files);
  Question question{.words = {tool.command}};
  if (is_special(tool, "run")) add_run(arguments, files, question);
  if (is_special(tool, "table")) add_table(program, arguments, files, question);
  if (is_special(tool, "what")) {
    if (!arguments.contains("what"))
      throw Error("what is missing: gemm, attention, collective or memory is expected");
    question.words.push_back("--explain=" + text_of(arguments, "what"));
  }
  add_options(command_of(program, tool), tool, arguments, files, question.words);
  return question;
}

}  // namespace

Json tool_list(const CLI::App& program) {
  Json list = Json::array();
  for (const Tool& tool : tools())
    list.push_back({{"name", tool.name},
                    {"title", tool.title},
                    {"description", tool.description},
                    {"inputSchema", input_schema(program, tool)},
                    {"annotations",
                     {{"title", tool.title}, {"readOnlyHint", true}, {"openWorldHint", false}}}});
  return list;
}

Question question_of(const CLI::App& program, const std::string& name, const Json& arguments,
                     const ReadableFiles& files) {
  Question question = any_question(program, tool_named(name), arguments, files);
  // A word ends there for the system: what was checked would not be what is read.
  for (const std::string& word : question.words)
    if (word.find('\0') != std::string::npos)
      throw Error(word + ": a text without null characters is expected");
  return question;
}

std::string instructions() {
  return "llmsim predicts LLM training: how fast, in how much memory and with which parallelism a "
         "model trains on given hardware, without running it. Start with plan where the layout is "
         "open (model and gpus are enough) and with predict where it is known; explain says why; "
         "compare puts runs side by side; diagnose explains a measured step; models and hardware "
         "name what is known. Times are "
         "seconds, sizes bytes, ratios 1.0 = 100 %. Every time has an interval that holds the "
         "measured one in 9 of 10 runs: report it too. Plans that the answer calls ties (\"1=\") "
         "are not told apart. What a question leaves open is assumed and stands under "
         "provenance.assumed: look there before you rely on an answer. An answer that is no (does "
         "not fit, breaks a rule) says which rule and by how much and is no error; an error says "
         "which argument is wrong and what would be right.";
}

}  // namespace llmsim::cli::mcp
