#include "hwdb/launch/shell_words.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

// --- tokens: words with their quotes, and operators ---

bool opens_bracket(const std::string& text, std::size_t at) {
  return at < text.size() && (text[at] == '(' || text[at] == '{');
}

// The end of what begins with a bracket or a quote at `at`, one behind it.
std::size_t end_of_group(const std::string& text, std::size_t at, ReadBudget& budget) {
  const ReadBudget::Level level = budget.deeper();
  const char open = text[at];
  const char close = open == '(' ? ')' : open == '{' ? '}' : open;
  const bool is_bracket = open != close;
  for (std::size_t i = at + 1; i < text.size();) {
    const char c = text[i];
    if (c == '\\' && open != '\'')
      i += 2;
    else if (c == close)
      return i + 1;
    else if (open != '\'' && c == '$' && opens_bracket(text, i + 1))
      i = end_of_group(text, i + 1, budget);
    else if (is_bracket && (c == '\'' || c == '"' || c == open))
      i = end_of_group(text, i, budget);
    else
      ++i;
  }
  throw Error(std::string("a line has ") + open + " and not its end");
}

std::size_t end_of_word(const std::string& text, std::size_t at, ReadBudget& budget) {
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\\')
      at += 2;
    else if (c == '\'' || c == '"' || c == '`')
      at = end_of_group(text, at, budget);
    else if (c == '$' && opens_bracket(text, at + 1))
      at = end_of_group(text, at + 1, budget);
    else if (std::isspace(static_cast<unsigned char>(c)) ||
             std::string(";|&()<>").find(c) != std::string::npos)
      return at;
    else
      ++at;
  }
  return std::min(at, text.size());
}

// "2>&1", ">> FILE", "<<EOF", of which `here` is then "EOF": the end of it.
std::size_t end_of_redirection(const std::string& text, std::size_t at, std::string& here,
                               ReadBudget& budget) {
  const std::size_t begin = at;
  at = std::min(text.find_first_not_of("<>&", at), text.size());
  const bool is_document = text.substr(begin, at - begin) == "<<";
  if (is_document && at < text.size() && text[at] == '-') ++at;
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  const std::size_t end = end_of_word(text, at, budget);
  if (is_document) here = text.substr(at, end - at);
  std::erase_if(here, [](char c) { return c == '\'' || c == '"'; });
  return end;
}

// What follows the line of which `word` is all; the text begins at `at`.
std::size_t end_of_document(const std::string& text, std::size_t at, const std::string& word) {
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    line.erase(0, line.find_first_not_of(" \t"));
    at = std::min(end + 1, text.size());
    if (line == word) break;
  }
  return at;
}

// "`# the model`", which stands for no word.
bool is_remark(const std::string& word) { return word.starts_with("`#") && word.ends_with("`"); }

// The "2" of "2>&1".
bool names_stream(const std::string& text, std::size_t begin, std::size_t end) {
  return end < text.size() && (text[end] == '>' || text[end] == '<') &&
         text.find_first_not_of("0123456789", begin) == end;
}

// --- expansion ---

// The value of a variable, which is paid for; null where it is not set.
const ShellWords* value_of(const std::string& name, const ShellVariables& variables,
                           ReadBudget& budget) {
  const auto known = variables.find(name);
  if (known == variables.end()) return nullptr;
  std::size_t size = known->second.size();
  for (const std::string& word : known->second) size += word.size();
  budget.spend(size);
  return &known->second;
}

// The value of "$(( ... ))": numbers, names, + - * /; none where something is unknown or no 64-bit
// integer holds the result.
class Arithmetic {
 public:
  Arithmetic(const std::string& text, const ShellVariables& variables, ReadBudget& budget)
      : text_(text), variables_(variables), budget_(budget) {}

  std::optional<std::int64_t> value() {
    const auto sum = sum_of();
    return at_ == text_.size() ? sum : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;

  char next() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) ||
                                  std::string("${}").find(text_[at_]) != std::string::npos))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  static Number result_of(std::int64_t left, char op, std::int64_t right) {
    std::int64_t result = 0;
    bool overflows = false;
    switch (op) {
      case '+': overflows = __builtin_add_overflow(left, right, &result); break;
      case '-': overflows = __builtin_sub_overflow(left, right, &result); break;
      case '*': overflows = __builtin_mul_overflow(left, right, &result); break;
      default:
        // The one quotient that overflows is the least integer over -1.
        overflows = right == 0 || (right == -1 && __builtin_sub_overflow(0, left, &result));
        if (!overflows) result = left / right;
    }
    return overflows ? std::nullopt : Number(result);
  }

  // Parts with operators of one rank between them, from left to right.
  Number chain_of(Number (Arithmetic::*part)(), char one, char other) {
    auto left = (this->*part)();
    for (char c = next(); left && (c == one || c == other); c = next()) {
      ++at_;
      const auto right = (this->*part)();
      left = right ? result_of(*left, c, *right) : std::nullopt;
    }
    return left;
  }

  Number sum_of() { return chain_of(&Arithmetic::product_of, '+', '-'); }
  Number product_of() { return chain_of(&Arithmetic::atom, '*', '/'); }

  Number atom() {
    if (next() == '(') {
      const ReadBudget::Level level = budget_.deeper();
      ++at_;
      const auto inner = sum_of();
      if (next() != ')') return std::nullopt;
      ++at_;
      next();
      return inner;
    }
    const std::size_t begin = std::exchange(at_, end_of_name(text_, at_));
    std::string word = text_.substr(begin, at_ - begin);
    next();
    if (const auto* const known = value_of(word, variables_, budget_))
      word = sim::joined(*known, " ");
    std::int64_t number = 0;
    const char* const end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, number);
    return read.ptr == end && read.ec == std::errc() ? Number(number) : std::nullopt;
  }

  const std::string& text_;
  const ShellVariables& variables_;
  ReadBudget& budget_;
  std::size_t at_ = 0;
};

// "NAME", "NAME:-default", "NAME[@]" of braces.
ShellWords braced(const std::string& inner, const ShellVariables& variables, ReadBudget& budget) {
  const std::size_t end = end_of_name(inner, 0);
  const std::string name = inner.substr(0, end), rest = inner.substr(end);
  const ShellWords* const known = value_of(name, variables, budget);
  if (known && !known->empty()) return *known;
  const std::size_t dash = rest.find_first_of("-=");
  if (dash <= 1) return {sim::joined(expanded_word(rest.substr(dash + 1), variables, budget), " ")};
  return known ? *known : ShellWords{"$" + name};
}

// What "$" at `at` stands for; moves behind it.
ShellWords substituted(const std::string& raw, std::size_t& at, const ShellVariables& variables,
                       ReadBudget& budget) {
  const char open = at + 1 < raw.size() ? raw[at + 1] : ' ';
  if (open == '{' || open == '(') {
    const std::size_t end = end_of_group(raw, at + 1, budget);
    const std::string inner = raw.substr(at + 2, end - at - 3);
    const std::string whole = raw.substr(at, end - at);
    at = end;
    if (open == '{') return braced(inner, variables, budget);
    if (!inner.starts_with('(')) return {whole};
    const std::string sum = inner.substr(1, inner.size() - 2);
    const auto value = Arithmetic(sum, variables, budget).value();
    return {value ? std::to_string(*value) : whole};
  }
  std::size_t end = end_of_name(raw, at + 1);
  if (end == at + 1 && end < raw.size()) ++end;  // "$@"
  const std::string name = raw.substr(at + 1, end - at - 1);
  at = end;
  if (name == "@" || name == "*") return {};
  const ShellWords* const known = value_of(name, variables, budget);
  return known ? *known : ShellWords{"$" + name};
}

// Words while a raw one is read.
struct Expansion {
  ShellWords words;
  std::string word;
  bool has_word = false;

  void add(const std::string& text) { word += text, has_word = true; }
  void end_word() {
    if (has_word) words.push_back(word);
    word.clear(), has_word = false;
  }
  // Words of a variable; the first and the last stand beside what is around them.
  void add_words(const ShellWords& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) end_word();
      add(parts[i]);
    }
  }
};

// Adds what a word stands for; a value in double quotes stays one word.
void expand(const std::string& raw, bool is_quoted, const ShellVariables& variables,
            ReadBudget& budget, Expansion& out) {
  for (std::size_t at = 0; at < raw.size();) {
    const char c = raw[at];
    if (!is_quoted && (c == '\'' || c == '"')) {
      const std::size_t end = end_of_group(raw, at, budget);
      const std::string inner = raw.substr(at + 1, end - at - 2);
      if (c == '\'' || inner.empty())
        out.add(inner);
      else
        expand(inner, true, variables, budget, out);
      at = end;
    } else if (c == '$') {
      const ShellWords value = substituted(raw, at, variables, budget);
      out.add_words(is_quoted ? value : split_words(sim::joined(value, " ")));
    } else if (c == '\\' && at + 1 < raw.size()) {
      if (raw[at + 1] != '\n') out.add(std::string(1, raw[at + 1]));
      at += 2;
    } else {
      out.add(std::string(1, c));
      ++at;
    }
  }
}

}  // namespace

std::size_t end_of_name(const std::string& text, std::size_t at) {
  while (at < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_'))
    ++at;
  return at;
}

std::vector<ShellToken> tokens_of(const std::string& text, ReadBudget& budget) {
  std::vector<ShellToken> tokens;
  std::string here;  // what ends the document that begins on the next line
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '\\' && at + 1 < text.size() && text[at + 1] == '\n') {
      at += 2;
    } else if (c == '<' || c == '>' || (c == '&' && text.substr(at + 1, 1) == ">")) {
      at = end_of_redirection(text, at, here, budget);
    } else if (c == '\n' || std::string(";|&()").find(c) != std::string::npos) {
      const bool is_double = at + 1 < text.size() && text[at + 1] == c && (c == '|' || c == '&');
      tokens.push_back({is_double ? std::string(2, c) : std::string(1, c), true});
      at += is_double ? 2 : 1;
      if (c == '\n' && !here.empty()) at = end_of_document(text, at, std::exchange(here, ""));
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++at;
    } else {
      const std::size_t end = std::max(end_of_word(text, at, budget), at + 1);
      const std::string word = text.substr(at, end - at);
      budget.spend(word.size());
      if (!is_remark(word) && !names_stream(text, at, end)) tokens.push_back({word});
      at = end;
    }
  }
  return tokens;
}

ShellWords split_words(const std::string& text) {
  ShellWords words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

ShellWords expanded_word(const std::string& raw, const ShellVariables& variables,
                         ReadBudget& budget) {
  const ReadBudget::Level level = budget.deeper();
  budget.spend(raw.size());
  Expansion out;
  expand(raw, false, variables, budget, out);
  out.end_word();
  return out.words;
}

}  // namespace llmsim::hwdb
