#include "hwdb/launch/row_text.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "hwdb/launch/launch_fields.h"
#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/text_blocks.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

// --- lines ---

struct Arrow {
  const char* sign;
  Direction direction;
};

constexpr Arrow kArrows[] = {
    {" <-> ", Direction::Both}, {" -> ", Direction::Read}, {" <- ", Direction::Write}};

// The arrow of a line; null where there is none.
const Arrow* arrow_in(const std::string& text) {
  const std::string line = " " + text + " ";
  for (const Arrow& arrow : kArrows)
    if (line.find(arrow.sign) != std::string::npos) return &arrow;
  return nullptr;
}

// What stands before and behind the arrow.
std::pair<std::string, std::string> sides_of(const std::string& text) {
  const Arrow* const arrow = arrow_in(text);
  return arrow ? parted(" " + text + " ", arrow->sign) : std::pair{text, std::string()};
}

// --- terms ---

using Names = std::map<std::string, std::string>;

// A name and what it may be: one value in each of several cases.
struct Choice {
  std::string key;
  std::vector<std::string> values;
};

std::string value_of(const std::string& word) {
  if (word == "*") return kAnything;
  if (word == "?") return kPresent;
  if (word == "!") return kAbsent;
  return unquoted(word);
}

// What the names of terms stand for: all names (keys of a row), or any field of a run.
struct Side {
  const Names* keys;  // null: fields
  std::string alone;  // the one that a value without a name is of; empty: none
};

std::string key_named(const Side& side, const std::string& name) {
  if (!side.keys) {
    if (!is_launch_field(name)) throw Error(name + ": no field of a run");
    return name;
  }
  const auto found = side.keys->find(name);
  if (found == side.keys->end()) throw Error(name + ": no key of this row");
  return found->second;
}

// "NAME != VALUE", "NAME ~ WORD" of a list, "NAME = VALUE|VALUE", or values alone.
Choice choice_of(const std::string& words, const Side& side) {
  const auto has = [&](const char* sign) { return words.find(sign) != std::string::npos; };
  const char* const sign = has(" != ") ? " != " : has(" ~ ") ? " ~ " : " = ";
  const auto [name, values] = has(sign) ? parted(words, sign) : std::pair{side.alone, words};
  if (name.empty()) throw Error(words + ": NAME = VALUE is expected");
  Choice choice{key_named(side, name), {}};
  for (const std::string& word : split(values, '|'))
    choice.values.push_back(has(" != ") ? kNot + word : has(" ~ ") ? kHas + word : value_of(word));
  return choice;
}

// A list of terms with those in the place of their names, "@NAME", that have one.
std::string expanded(const std::string& text, const Names& lets) {
  std::vector<std::string> terms;
  for (const std::string& words : split(text, ',')) {
    const auto found = lets.find(words.empty() ? words : words.substr(1));
    if (words.starts_with('@') && found == lets.end())
      throw Error(words + ": no \"let\" of that name stands above");
    terms.push_back(words.starts_with('@') ? found->second : words);
  }
  return sim::joined(terms, ", ");
}

std::vector<Choice> choices_of(const std::string& text, const Side& side) {
  std::vector<Choice> choices;
  for (const std::string& words : split(text, ',')) choices.push_back(choice_of(words, side));
  return choices;
}

// Every way to choose, the last choice changing first.
std::vector<std::vector<Term>> combinations(const std::vector<Choice>& choices) {
  std::vector<std::vector<Term>> all{{}};
  for (const Choice& choice : choices) {
    std::vector<std::vector<Term>> longer;
    for (const std::vector<Term>& begin : all) {
      for (const std::string& value : choice.values) {
        longer.push_back(begin);
        longer.back().push_back({choice.key, value});
      }
    }
    all = std::move(longer);
  }
  return all;
}

// --- rows ---

// Cases that several rows have: "flag", below "form flag (false)".
struct Form {
  std::string usual;  // "(false)"; empty: none
  std::vector<Line> cases;
};

// What stands above.
struct Words {
  Names lets;
  std::map<std::string, Form> forms;
};

// A row whose cases are still to come.
struct Head {
  Names keys;
  std::string alone;  // the only key
  std::string field;
  Row row;
};

// "NAME: KEY (DEFAULT)".
void add_key(const std::string& text, Head& head) {
  const bool renamed = text.find(": ") != std::string::npos;
  const auto [name, rest] = renamed ? parted(text, ": ") : std::pair{std::string(), text};
  const auto [key, usual] = parted(rest, " (");
  if (key.empty() || key.find(' ') != std::string::npos)
    throw Error(text + ": NAME: KEY (DEFAULT) is expected");
  head.alone = head.keys.empty() ? key : "";
  if (!head.keys.emplace(key, key).second) throw Error(key + ": stands twice");
  if (renamed && !head.keys.emplace(name, key).second) throw Error(name + ": stands twice");
  if (usual.empty()) return;
  if (!usual.ends_with(')')) throw Error(text + ": \")\" is missing");
  head.row.defaults.push_back({key, value_of(usual.substr(0, usual.size() - 1))});
}

// "KEY <-> FIELD", of the given form where there is one.
void add_head_line(const std::string& text, const Form* form, Head& head) {
  const auto [words, field] = sides_of(text);
  std::string key = form ? parted(words, " ").second : words;
  if (form && key.find(" (") == std::string::npos) key += " " + form->usual;
  if (!key.empty()) add_key(key, head);
  if (!field.empty()) head.field = key_named({nullptr, ""}, field);
}

// Throws where one side has a variable that the other, which gives it its value, has not.
void check_variables(const std::vector<Term>& terms, const std::vector<Term>& source) {
  for (const Term& term : terms) {
    const bool given = std::any_of(source.begin(), source.end(),
                                   [&](const Term& other) { return other.value == term.value; });
    if (term.value.starts_with('$') && !given)
      throw Error(term.key + " = " + term.value + ": stands on one side alone");
  }
}

// "CASE when CONDITIONS"; as many cases as there are choices.
void add_cases(const std::string& text, const Names& lets, Head& head) {
  const auto [file, rest] = sides_of(text);
  const auto [run, when] = parted(" " + rest, " when ");
  const Side of_file{&head.keys, head.alone}, of_run{nullptr, head.field}, of_any{nullptr, ""};
  const auto runs = combinations(choices_of(expanded(run, lets), of_run));
  const auto conditions = combinations(choices_of(expanded(when, lets), of_any));
  const Direction direction = arrow_in(text)->direction;
  if (runs.size() != 1) throw Error(run + ": one value of each field is expected");
  for (const auto& keys : combinations(choices_of(expanded(file, lets), of_file))) {
    if (direction != Direction::Write) check_variables(runs.front(), keys);
    if (direction != Direction::Read) check_variables(keys, runs.front());
    for (const auto& holds : conditions)
      head.row.cases.push_back({keys, runs.front(), holds, direction});
  }
}

// What holds of all cases of a row.
void set_option(const std::string& text, Row& row) {
  const auto [option, words] = parted(text, ": ");
  if (option == "text") {
    row.is_text = true;
  } else if (option == "overrides") {
    row.overrides = true;
  } else if (option == "list by blanks" || option == "list in brackets") {
    row.list = NameList{.in_brackets = option == "list in brackets", .words = {}};
    for (const std::string& word : split(words, ','))
      row.list->words.push_back(parted(word, " = "));
  } else {
    throw Error(text +
                ": a case with <->, -> or <-, or \"text\", \"overrides\", \"list by blanks\", "
                "\"list in brackets\" is expected");
  }
}

void check_keys(const Head& head) {
  const std::vector<std::string> used = keys_of({head.row});
  for (const auto& [name, key] : head.keys) {
    if (std::find(used.begin(), used.end(), key) == used.end())
      throw Error(name + ": in no case of its row");
  }
}

// --- a file ---

// The row of keys, a line each, and of cases or other lines below them.
Row row_of(const std::vector<Line>& keys, const std::vector<Line>& body, const std::string& file,
           const Words& known) {
  Head head;
  const auto found = known.forms.find(parted(keys.front().text, " ").first);
  const Form* const form = found == known.forms.end() ? nullptr : &found->second;
  for (const Line& line : keys)
    at_line(file, line,
            [&] { add_head_line(line.text, &line == &keys.front() ? form : nullptr, head); });
  std::vector<Line> cases = form ? form->cases : std::vector<Line>();
  cases.insert(cases.end(), body.begin(), body.end());
  for (const Line& line : cases) {
    at_line(file, line, [&] {
      if (arrow_in(line.text))
        add_cases(line.text, known.lets, head);
      else
        set_option(line.text, head.row);
    });
  }
  at_line(file, keys.front(), [&] {
    if (head.row.cases.empty() && (head.alone.empty() || head.field.empty()))
      throw Error("KEY <-> FIELD is expected, or cases below");
    if (head.row.cases.empty())
      add_cases("$" + std::string(arrow_in(keys.back().text)->sign) + "$", known.lets, head);
    check_keys(head);
  });
  return head.row;
}

// What a line below a statement is added to: "noted EFFECT" and its keys.
struct Listed {
  const std::string& rest;  // what stands behind the statement's word
  const Names& lets;
  LaunchTable& table;
};

// "KEY, KEY = VALUE".
std::vector<Term> terms_in(const std::string& line) {
  std::vector<Term> terms;
  for (const std::string& words : split(line, ',')) {
    const auto [key, value] = parted(words, " = ");
    terms.push_back({key, value.empty() ? kAbsent : value_of(value)});
  }
  return terms;
}

void add_harmless(const std::string& line, const Listed& to) {
  for (const std::string& key : split(line, ' '))
    if (!key.empty()) to.table.harmless.push_back(key);
}

void add_refused(const std::string& line, const Listed& to) {
  for (const Term& term : terms_in(line)) to.table.refused.push_back(term);
}

void add_noted(const std::string& line, const Listed& to) {
  for (const Term& term : terms_in(line)) to.table.noted.push_back({term, to.rest});
}

void add_rules(const std::string& line, const Listed& to) {
  for (auto& terms : combinations(choices_of(expanded(line, to.lets), {nullptr, ""})))
    to.table.never.push_back({std::move(terms), to.rest});
}

void add_elsewhere(const std::string& line, const Listed& to) {
  const std::string field = key_named({nullptr, ""}, to.rest);
  for (const std::string& key : split(line, ' '))
    if (!key.empty()) to.table.elsewhere.push_back({key, field});
}

void add_program(const std::string& line, const Listed& to) {
  const auto [word, what] = parted(line, " ");
  if (what.empty()) throw Error(word + ": what such a program trains is missing");
  to.table.programs.push_back({word, what});
}

void add_release(const std::string& line, const Listed& to) {
  if (!to.table.releases) to.table.releases = Releases{to.rest, {}};
  std::vector<Term>& all = to.table.releases->all;
  const auto [release, date] = parted(line, " ");
  if (date.empty()) throw Error(release + ": its date is missing");
  if (!all.empty() && all.back().value > date)
    throw Error(release + ": is older than the one above");
  all.push_back({release, date});
}

// Statements with lines below; null: nothing has to stand there.
struct ListStatement {
  const char *word, *behind, *below;
  void (*add_line)(const std::string& line, const Listed& to);
};

constexpr ListStatement kListStatements[] = {
    {"harmless", "a reason", "keys", add_harmless},
    {"refused", "a reason", "keys", add_refused},
    {"noted", "what is not counted", nullptr, add_noted},
    {"never", "a reason", "fields that do not go together", add_rules},
    {"elsewhere", "a field", "keys", add_elsewhere},
    {"programs", nullptr, nullptr, add_program},
    {"releases", "the name of a program", "releases", add_release}};

void add_list(const Block& block, const ListStatement& list, const Listed& to,
              const std::string& file) {
  at_line(file, block.head, [&] {
    if (list.behind && to.rest.empty()) throw Error(std::string(list.behind) + " is missing");
    if (list.below && block.body.empty())
      throw Error(std::string(list.below) + " are expected below");
  });
  for (const Line& line : block.body) at_line(file, line, [&] { list.add_line(line.text, to); });
}

void add_table(const LaunchTable& other, LaunchTable& table) {
  table.rows.insert(table.rows.end(), other.rows.begin(), other.rows.end());
  table.harmless.insert(table.harmless.end(), other.harmless.begin(), other.harmless.end());
  table.refused.insert(table.refused.end(), other.refused.begin(), other.refused.end());
  table.never.insert(table.never.end(), other.never.begin(), other.never.end());
  table.noted.insert(table.noted.end(), other.noted.begin(), other.noted.end());
  table.elsewhere.insert(table.elsewhere.end(), other.elsewhere.begin(), other.elsewhere.end());
  table.programs.insert(table.programs.end(), other.programs.begin(), other.programs.end());
}

void add_let(const std::string& text, Words& known) {
  const auto [name, terms] = parted(text, ": ");
  if (terms.empty()) throw Error("let " + text + ": NAME: TERMS is expected");
  if (!known.lets.emplace(name, expanded(terms, known.lets)).second)
    throw Error(name + ": stands twice");
}

// Whether a block is one of the words that are no keys.
bool add_statement(const Block& block, const std::string& file, Words& known, LaunchTable& table) {
  const auto parts = parted(block.head.text, " ");
  const std::string &word = parts.first, &rest = parts.second;
  for (const ListStatement& list : kListStatements) {
    if (word != list.word) continue;
    add_list(block, list, {rest, known.lets, table}, file);
    return true;
  }
  if (word == "let")
    at_line(file, block.head, [&] { add_let(rest, known); });
  else if (word == "form")
    known.forms[parted(rest, " ").first] = {parted(rest, " ").second, block.body};
  else if (word == "include")
    at_line(file, block.head, [&] { add_table(shipped_table(rest), table); });
  else
    return false;
  return true;
}

}  // namespace

LaunchTable table_of_text(std::string_view text, const std::string& file) {
  LaunchTable table;
  Words known;
  std::vector<Line> keys;  // of a row that goes on
  for (const Block& block : blocks_of(text, file)) {
    if (keys.empty() && add_statement(block, file, known, table)) continue;
    keys.push_back(block.head);
    if (block.body.empty() && !arrow_in(block.head.text)) continue;
    table.rows.push_back(row_of(keys, block.body, file, known));
    keys.clear();
  }
  if (!keys.empty()) table.rows.push_back(row_of(keys, {}, file, known));
  return table;
}

const LaunchTable& shipped_table(const std::string& name) {
  static std::recursive_mutex mutex;  // a file may include others
  static std::map<std::string, LaunchTable> tables;
  const std::lock_guard lock(mutex);
  const auto known = tables.find(name);
  if (known != tables.end()) return known->second;
  for (const ShippedText& shipped : shipped_launch_rows()) {
    if (shipped.name == name)
      return tables.emplace(name, table_of_text(shipped.text, name + ".rows")).first->second;
  }
  throw Error(name + ".rows: not part of the program");
}

}  // namespace llmsim::hwdb
