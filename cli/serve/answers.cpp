#include "cli/serve/answers.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "cli/mcp/json_text.h"
#include "cli/output.h"
#include "cli/own_process.h"
#include "cli/serve/archive.h"
#include "cli/serve/question.h"
#include "sim/base/error.h"

namespace llmsim::cli::serve {
namespace {

namespace fs = std::filesystem;
using mcp::Json;

constexpr const char* kInput = "/dev/stdin";
constexpr const char* kRunFile = "llmsim-run.json";  // of a launch file, in the question's folder
constexpr const char* kLaunchFolder = "launch";
constexpr int kNo = 3;  // exit status of an answer that is no

// Nobody waits for the answer.
struct NobodyWaits {};

// A command line and what stands on its standard input.
struct Command {
  Words words;
  std::string input{};
};

// One of those that may be answered at the same time, while it lives.
class Turn {
 public:
  Turn(std::counting_semaphore<>& turns, Client& client, bool in_lines) : turns_(turns) {
    constexpr std::chrono::milliseconds kBetween{100};
    bool told = false;
    while (!turns_.try_acquire_for(kBetween)) {
      if (in_lines && !told) client.send("{\"waiting\":true}\n");
      told = true;
      if (client.is_gone()) throw NobodyWaits{};
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { turns_.release(); }

 private:
  std::counting_semaphore<>& turns_;
};

// A question while it is answered.
struct Asking {
  const Means& means;
  Client& client;
  bool in_lines;  // progress is sent
  Form form;
  QuestionFolder folder;
  std::string record{};  // name of the run record that was sent; empty: none
  std::string progress{};
};

void send_line(Asking& asking, const Json& line) {
  if (asking.in_lines && !asking.client.send(mcp::line_of(line) + "\n")) throw NobodyWaits{};
}

bool still_waits(Asking& asking, const std::string& progress) {
  if (asking.client.is_gone()) return false;
  if (!asking.in_lines || progress.empty() || progress == asking.progress) return true;
  asking.progress = progress;
  return asking.client.send(mcp::line_of({{"progress", progress}}) + "\n");
}

ProcessOutcome run(Asking& asking, const Command& command, const Words& more = {}) {
  Words words = command.words;
  words.insert(words.end(), more.begin(), more.end());
  ProcessOutcome outcome = run_self(
      {.arguments = std::move(words),
       .input = command.input,
       .limit = asking.means.limit,
       .folder = asking.folder.path().string(),
       .watch = [&](const std::string& progress) { return still_waits(asking, progress); }});
  if (outcome.ended) return outcome;
  if (asking.client.is_gone()) throw NobodyWaits{};
  const double seconds = std::chrono::duration<double>(asking.means.limit).count();
  throw Error("stopped: no answer within " + std::to_string(std::lround(seconds)) +
              " s (--time-limit); a smaller question is expected");
}

bool answers(const ProcessOutcome& outcome) {
  return (outcome.status == 0 || outcome.status == kNo) && !outcome.out.empty();
}

// Throws Error with what the program says where it has no answer.
const ProcessOutcome& answered(const ProcessOutcome& outcome) {
  const std::string messages = messages_of(outcome);
  if (answers(outcome)) return outcome;
  throw Error(messages.empty() ? "the program ended without an answer" : messages);
}

// --- what was sent ---

// A run record, or what predict --format json wrote, and not a launch file.
bool is_run_record(const UploadedFile& file) {
  if (!file.name.ends_with(".json")) return false;
  try {
    const Json json = mcp::json_in(file.text);
    return json.is_object() && (json.contains("run") || json.contains("hardware"));
  } catch (const Error&) {
    return false;
  }
}

void remove_fields(Form& form, const std::string& name) {
  std::erase_if(form.fields, [&](const auto& field) { return field.first == name; });
}

// The option that a file of a form is given to.
std::string option_of(const UploadedFile& file) {
  if (file.field == "model_file") return "model";
  if (file.field == "from" || file.field == "log" || file.field == "profile") return file.field;
  throw Error(Error::printable(file.field) + ": no file is expected there");
}

// Writes the files of a form into the folder of the question, and names them among its fields.
void store_files(Asking& asking) {
  if (asking.form.files_of("from").size() > 1)
    throw Error("from: one launch file or run record is expected");
  for (const UploadedFile& file : asking.form.files) {
    const fs::path path = asking.folder.path() / file.name;
    if (fs::exists(path)) throw Error(file.name + ": two files have this name");
    write_file(file.text, path.string());
    const std::string option = option_of(file);
    if (option == "model") remove_fields(asking.form, "model");
    if (option == "from" && is_run_record(file))
      asking.record = file.name;
    else
      asking.form.fields.emplace_back(option, file.name);
  }
}

// --- command lines ---

Words words_of(const Asking& asking, const std::string& command, const Form& form) {
  return command_words(asking.means.program, command, form, asking.folder.path());
}

Command predict_command(const Asking& asking, const Form& form) {
  Words words = words_of(asking, "predict", form);
  if (!asking.record.empty()) words.insert(words.begin() + 1, asking.record);
  return {std::move(words)};
}

bool is_measured(const std::string& field) { return field == "log" || field == "profile"; }

// A launch file is read by predict, whose answer is a run record.
Command diagnose_command(Asking& asking) {
  Form run_form = asking.form;
  std::erase_if(run_form.fields, [](const auto& field) { return is_measured(field.first); });
  if (!run_form.value("from").empty()) {
    const ProcessOutcome run_of_file =
        answered(run(asking, predict_command(asking, run_form), {"--format=json"}));
    write_file(run_of_file.out, (asking.folder.path() / kRunFile).string());
    asking.record = kRunFile;
    std::erase_if(asking.form.fields, [](const auto& field) { return !is_measured(field.first); });
  }
  Words words = words_of(asking, "diagnose", asking.form);
  if (!asking.record.empty()) words.insert(words.begin() + 1, asking.record);
  return {std::move(words)};
}

bool is_plan(const ComparedQuestion& question) { return question.form.value("kind") == "plan"; }

Command compare_command(const Asking& asking) {
  const std::string json = asking.form.value("questions");
  if (json.empty()) return {words_of(asking, "compare", asking.form)};
  const std::vector<ComparedQuestion> questions = compared_questions(json);
  const bool planned = std::ranges::all_of(questions, is_plan);
  if (!planned && std::ranges::any_of(questions, is_plan))
    throw Error("questions: plans, or runs that are predicted, and not both are expected");
  return {{"compare", kInput},
          table_of(asking.means.program, questions, planned, asking.folder.path())};
}

Command command_of(Asking& asking, const std::string& kind) {
  if (kind == "plan") return {words_of(asking, "plan", asking.form)};
  if (kind == "predict") return predict_command(asking, asking.form);
  if (kind == "diagnose") return diagnose_command(asking);
  if (kind == "compare") return compare_command(asking);
  throw Error("kind = " + Error::printable(kind) +
              ": plan, predict, diagnose, compare or export is expected");
}

// --- pages ---

// What `report` says of the job and the site beside a run.
bool stands_beside_a_run(const CLI::App& report, const std::string& word) {
  const CLI::Option* const option = report.get_option_no_throw(word.substr(0, word.find('=')));
  return option != nullptr && (option->get_group() == "Job" || option->check_name("--site"));
}

Command page_of_run(Asking& asking, const Command& predict) {
  const CLI::App& report = *asking.means.program.get_subcommand("report");
  Command page{{"report", std::string("--run=") + kInput},
               answered(run(asking, predict, {"--format=json"})).out};
  for (const std::string& word : predict.words)
    if (stands_beside_a_run(report, word)) page.words.push_back(word);
  return page;
}

// The page of an answer, by the same question.
Command page_of(Asking& asking, const std::string& kind, const Command& command) {
  if (kind == "plan") return {words_of(asking, "report", asking.form)};
  if (kind == "predict") return page_of_run(asking, command);
  Command page = command;
  page.words.emplace_back("--format=html");
  return page;
}

// The exit status and the messages of a command as part of what is done.
Json done_of(const ProcessOutcome& outcome) {
  return {{"status", outcome.status}, {"messages", messages_of(outcome)}};
}

std::string path_of(const std::string& id) { return "/answers/" + id; }

Json answer_of(Asking& asking, const std::string& kind) {
  const Command command = command_of(asking, kind);
  const ProcessOutcome screen = run(asking, command);
  if (screen.status != kNo) answered(screen);
  send_line(asking, {{"text", screen.out}, {"command", shell_line(command.words)}});
  Json done = done_of(screen);
  if (screen.out.empty()) return done;
  const ProcessOutcome drawn = run(asking, page_of(asking, kind, command));
  if (answers(drawn)) done["page"] = path_of(asking.means.store.put({kind + ".html", drawn.out}));
  return done;
}

// --- launch files ---

std::string text_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<ArchivedFile> files_in(const fs::path& folder) {
  std::vector<ArchivedFile> files;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error))
    files.push_back({.name = file.path().filename().string(),
                     .text = text_of_file(file.path()),
                     .is_executable = file.path().extension() == ".sh"});
  std::ranges::sort(files, {}, &ArchivedFile::name);
  return files;
}

Command export_command(const Asking& asking) {
  const bool of_run = asking.form.value("of") == "predict";
  const std::string to = asking.form.value("to");
  Form form = asking.form;
  remove_fields(form, "of");
  Command command{words_of(asking, of_run ? "export" : "plan", form)};
  if (of_run && !asking.record.empty())
    command.words.insert(command.words.begin() + 1, asking.record);
  command.words.push_back(std::string(of_run ? "--output=" : "--export=") + kLaunchFolder);
  if (!to.empty() || of_run) command.words.push_back("--to=" + (to.empty() ? "slurm" : to));
  return command;
}

Json launch_files_of(Asking& asking) {
  const Command command = export_command(asking);
  const ProcessOutcome outcome = run(asking, command);
  std::vector<ArchivedFile> files = files_in(asking.folder.path() / kLaunchFolder);
  if (files.empty())
    throw Error(messages_of(outcome).empty() ? "no launch files" : messages_of(outcome));
  Json done = done_of(outcome);
  done["command"] = shell_line(command.words);
  done["archive"] = path_of(asking.means.store.put({"launch.tar.gz", gzip(tar(files))}));
  for (ArchivedFile& file : files)
    done["files"].push_back({{"name", file.name},
                             {"path", path_of(asking.means.store.put({file.name, file.text}))},
                             {"text", file.text}});
  return done;
}

}  // namespace

void answer_in_lines(const Form& form, const Means& means, Client& client) {
  Json done;
  try {
    const Turn turn(means.turns, client, true);
    Asking asking{means, client, true, form, QuestionFolder(means.temporary)};
    store_files(asking);
    const std::string kind = form.value("kind");
    done = kind == "export" ? launch_files_of(asking) : answer_of(asking, kind);
  } catch (const NobodyWaits&) {
    return;
  } catch (const Error& error) {
    done = {{"error", error.what()}};
  } catch (const std::exception&) {  // of a library, or no memory: a fault of this program
    done = {{"error", "an unexpected fault, please report it"}};
  }
  client.send(mcp::line_of({{"done", done}}) + "\n");
}

Response json_answer(const std::string& command, const Form& form, const Means& means,
                     Client& client) {
  Response response{.type = "application/json"};
  try {
    const Turn turn(means.turns, client, false);
    Asking asking{means, client, false, form, QuestionFolder(means.temporary)};
    store_files(asking);
    response.body = answered(run(asking, command_of(asking, command), {"--format=json"})).out;
  } catch (const NobodyWaits&) {
    response.status = 503;
  } catch (const Error& error) {
    response.status = 400;
    response.body = mcp::line_of({{"error", error.what()}}) + "\n";
  }
  return response;
}

}  // namespace llmsim::cli::serve
