#include "cli/serve/question.h"

#include <algorithm>
#include <array>
#include <set>

#include "cli/mcp/json_text.h"
#include "cli/mcp/option_words.h"
#include "sim/base/error.h"

namespace llmsim::cli::serve {
namespace {

using mcp::Json;

// Fields that are no options.
constexpr std::array kSpecial{"kind", "of", "label", "options", "to", "questions", "fine_tuning"};

constexpr const char* kUsualRank = "16";  // of adapters: Hu et al., "LoRA", ICLR 2022

bool is_special(const std::string& name) {
  return std::ranges::find(kSpecial, name) != kSpecial.end();
}

mcp::ReadableFiles files_below(const std::filesystem::path& folder) {
  return {.below = folder, .expected = "a file that is sent with the question is expected"};
}

// Switches have true or false.
Json json_value(const CLI::Option& option, const std::string& value) {
  if (option.get_expected_max() == 0 && (value == "true" || value == "false"))
    return value == "true";
  return value;
}

// "lora" and "qlora" as options, beside those that the form has.
void add_fine_tuning(const Form& form, std::vector<std::pair<std::string, std::string>>& fields) {
  const std::string kind = form.value("fine_tuning");
  if (kind.empty() || kind == "all") return;
  if (kind != "lora" && kind != "qlora")
    throw Error("fine_tuning = " + Error::printable(kind) + ": all, lora or qlora is expected");
  if (form.value("lora").empty()) fields.emplace_back("lora", kUsualRank);
  if (kind == "qlora" && form.value("precision").empty()) fields.emplace_back("precision", "nf4");
}

// A text of TOML, which has JSON's escapes.
std::string quoted(const std::string& text) { return mcp::line_of(Json(text)); }

// The key of a word in a table file: "--tp=2" is `tp = "2"`, "--no-flash" is `flash = false`.
std::string table_line(const CLI::App& command, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string::npos)
    return word.substr(2, equals - 2) + " = " + quoted(word.substr(equals + 1)) + "\n";
  const std::string name = word.substr(2);
  const CLI::Option& option = mcp::option_of(command, name);
  const bool negative = std::ranges::find(option.get_fnames(), name) != option.get_fnames().end();
  return (negative ? option.get_lnames().front() + " = false" : name + " = true") + "\n";
}

// Whether a table has it: what a run is, and not what its question is after.
bool is_of_a_run(const CLI::App& compare, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const CLI::Option* const option = compare.get_option_no_throw(name);
  return option != nullptr && option->get_group() != "Table";
}

bool has_no_nulls(const std::string& word) { return word.find('\0') == std::string::npos; }

ComparedQuestion compared_question(const Json& json) {
  if (!json.is_object()) throw Error("questions: a list of objects is expected");
  ComparedQuestion question;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string())
      throw Error("questions: " + Error::printable(name) + ": a text is expected");
    if (name == "label")
      question.label = value.get<std::string>();
    else if (!value.get<std::string>().empty())
      question.form.fields.emplace_back(name, value.get<std::string>());
  }
  if (question.label.empty()) throw Error("questions: a label for each is expected");
  return question;
}

}  // namespace

Words words_in_line(const std::string& line) {
  Words words;
  char quotation = '\0';
  bool inside = false;  // of a word
  for (const char c : line) {
    if (quotation == '\0' && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quotation == '\0' && (c == '"' || c == '\''))
      quotation = c;
    else if (c == quotation)
      quotation = '\0';
    else
      words.back() += c;
  }
  if (quotation != '\0') throw Error("options: a quotation has no end");
  return words;
}

Words command_words(const CLI::App& program, const std::string& command, const Form& form,
                    const std::filesystem::path& folder) {
  const CLI::App& app = *program.get_subcommand(command);
  const mcp::ReadableFiles files = files_below(folder);
  auto fields = form.fields;
  add_fine_tuning(form, fields);
  Words words{command};
  for (const auto& [name, value] : fields) {
    if (is_special(name)) continue;
    const Json json = json_value(mcp::option_of(app, name), value);
    if (const auto word = mcp::word_of(app, name, json, files)) words.push_back(*word);
  }
  for (std::string& word : mcp::words_of(app, Json(words_in_line(form.value("options"))), files))
    words.push_back(std::move(word));
  for (const std::string& word : words)
    if (!has_no_nulls(word)) throw Error("a text without null characters is expected");
  return words;
}

std::string shell_line(const Words& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%";
  std::string line = "llmsim";
  for (const std::string& word : words) {
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      line += " " + word;
      continue;
    }
    line += " '";
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "'";
  }
  return line;
}

std::vector<ComparedQuestion> compared_questions(const std::string& json) {
  constexpr std::size_t kMost = 20;
  const Json list = mcp::json_in(json);
  if (!list.is_array() || list.size() < 2 || list.size() > kMost)
    throw Error("questions: a list of 2 to 20 is expected");
  std::vector<ComparedQuestion> questions;
  for (const Json& one : list) questions.push_back(compared_question(one));
  return questions;
}

std::string table_of(const CLI::App& program, const std::vector<ComparedQuestion>& questions,
                     bool planned, const std::filesystem::path& folder) {
  const char* const command = planned ? "plan" : "predict";
  const CLI::App &app = *program.get_subcommand(command),
                 &compare = *program.get_subcommand("compare");
  std::string rows;
  std::set<std::string> left_out;
  for (const ComparedQuestion& question : questions) {
    rows += "[[rows]]\nlabel = " + quoted(question.label) + "\n";
    const Words words = command_words(program, command, question.form, folder);
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (is_of_a_run(compare, words[i]))
        rows += table_line(app, words[i]);
      else
        left_out.insert(words[i].substr(0, words[i].find('=')));
    }
  }
  std::string note;
  for (const std::string& name : left_out) note += (note.empty() ? "" : ", ") + name;
  if (!note.empty()) note = "note = " + quoted("left out, as a table has no goals: " + note) + "\n";
  return "title = \"Questions\"\ncell = [\"step_time\", \"tokens\", \"mfu\", \"memory\"]\nplan = " +
         std::string(planned ? "true\n" : "false\n") + note + rows + "[[columns]]\nlabel = \"" +
         (planned ? "best plan" : "prediction") + "\"\n";
}

}  // namespace llmsim::cli::serve
