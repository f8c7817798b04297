#include "tests/structure/prose.h"

#include <regex>
#include <sstream>
#include <utility>

namespace llmsim::structure {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kFullLine = 70;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A line without anything but a comment.
bool is_comment(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin != std::string::npos && line.compare(begin, 2, "//") == 0;
}

// The words of a comment line; empty for any other line.
std::string comment_in(const std::string& line) {
  if (!is_comment(line)) return "";
  const std::size_t begin = line.find_first_not_of(" /");
  return begin == std::string::npos ? "" : line.substr(begin);
}

// The comment on a line, behind code too; empty where there is none.
std::string any_comment_in(const std::string& line) {
  const std::size_t begin = line.find("//");
  return begin == std::string::npos ? "" : line.substr(begin);
}

std::string code_in(const std::string& line) { return line.substr(0, line.find("//")); }

// Whether a comment may follow a line of code: a statement, a directive, an argument, the head of a
// template or of a block.
bool is_complete(const std::string& code) {
  if (code.empty() || code.front() == '#') return true;
  if (code.back() == '>') return code.find("template") != std::string::npos;
  return std::string(";{}:,()\\").find(code.back()) != std::string::npos;
}

struct Rule {
  const char* stem;  // stands in all that the pattern finds: a quick look before the slow one
  const char* pattern;
  const char* instead;
};

// Rules with their patterns compiled.
class Rules {
 public:
  template <std::size_t N>
  explicit Rules(const Rule (&rules)[N]) {
    for (const Rule& rule : rules) rules_.push_back({rule, std::regex(rule.pattern)});
  }

  // Complaints about what begins in the first `length` characters.
  void find(const std::string& text, std::size_t length, int line,
            std::vector<Complaint>& found) const {
    for (const auto& [rule, pattern] : rules_) {
      std::smatch match;
      if (text.find(rule.stem) != std::string::npos && std::regex_search(text, match, pattern) &&
          static_cast<std::size_t>(match.position()) < length)
        found.push_back({line, "\"" + match.str() + "\": " + rule.instead});
    }
  }

 private:
  std::vector<std::pair<Rule, std::regex>> rules_;
};

// Each for the words of comments, one paragraph in one line.
constexpr Rule kFalseGemms[] = {
    {"GEMM", R"(\b(outer|elementwise|nearest|then|scalar|inner) GEMMs?\b)",
     "a product, not a GEMM"},
    {"GEMM", R"(\bGEMMs? (then|and (a |its )?sums?|and quotients?|or a multiply-add)\b)",
     "a product, not a GEMM"},
    {"GEMM", R"(\b[Ss]ums? (then|and) GEMMs?\b)", "a product, not a GEMM"},
    {"both factors", R"(\bboth factors and the GEMM\b)", "the operands and the result"},
};

constexpr Rule kPrivateWords[] = {
    {"eside", R"(\b[Bb]eside\b)", "overlapped with, during, next to, in addition to"},
    {"kept", R"(\bkept\b)", "saved for backward, resident, stored"},
    {"apart", R"(\bapart\b)", "divided, separately, except for"},
    {"old", R"(\b[Tt]old\b)", "stated, distinguished"},
    {"deal", R"(\bdealt?s?\b(?! with))", "divided over, distributed"},
    {"len", R"(\b(lent|lends?)\b)", "provided"},
    {"igure", R"(\b[Ff]igures?\b(?!\.js))", "value, metric"},
    {"abit", R"(\b[Hh]abits?\b)", "behaviour"},
    {"nob", R"(\b[Kk]nobs?\b)", "factor, coefficient"},
    {"ends", R"(\b([Tt]he|of|both) ends \((embedding|head))", "embedding and LM head"},
    {"ends as", R"(\bends as layers\b)", "embedding and LM head"},
    {"art", R"(\b([Mm]odel parts?|[Pp]arts? of (the|a) (model|stage)|of a part)\b)", "model chunk"},
    {"to recompute", R"(\bways? to recompute\b)", "recompute policy"},
    {"wide", R"(\bwide (formats?|blocks?|copy|copies)\b)", "16-bit, high precision"},
};

constexpr Rule kPrivateNames[] = {
    {"habits", R"(\bhabits\b)", "behaviour"},
    {"nob", R"(\b[Kk]nobs?\b)", "factor"},
    {"told", R"(\b\w*(told_|_told)\w*\b)", "stated"},
    {"asked", R"(\b(asked_\w+|\w+_asked)\b)", "given, stated"},
    {"lend", R"(\blend\w*\b)", "provide"},
    {"end", R"(\b(end_parameters|gathered_ends)\b)", "embedding_and_head"},
    {"apart", R"(\b(apart|\w+_apart)\b)", "divided"},
    {"part", R"(\bModelChunk>?&? parts?\b|\bparts_of\b)", "chunk"},
    {"ends", R"(\bends\b)", "embedding_and_head, bounds"},
    {"wide", R"(\bwide\b)", "high_precision, in_16_bits"},
    {"lent", R"(\blent\b)", "provided"},
    {"ealt", R"(\b(\w+_dealt|dealt|dealt_\w+|Dealt\w+)\b)", "divided"},
    {"says", R"(\b(says|says_\w+)\b)", "states"},
    {"kept", R"(\b(kept|kept_(?!temporary)\w+)\b)", "saved, resident"},
    {"beside", R"(\b(beside|beside_\w+|\w+_beside)\b)", "overlapped"},
};

}  // namespace

std::vector<Complaint> false_gemms(const std::string& text) {
  static const Rules rules(kFalseGemms);
  std::vector<Complaint> found;
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // With the first word of the next line, where a comment goes on.
    std::string words = any_comment_in(lines[i]);
    if (i + 1 < lines.size() && !words.empty()) words += " " + comment_in(lines[i + 1]);
    rules.find(words, any_comment_in(lines[i]).size(), static_cast<int>(i) + 1, found);
  }
  return found;
}

std::vector<Complaint> orphans(const std::string& text) {
  std::vector<Complaint> found;
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string words = comment_in(lines[i]);
    const bool goes_on = i + 1 < lines.size() && !comment_in(lines[i + 1]).empty();
    const bool follows = !comment_in(lines[i - 1]).empty() && lines[i - 1].size() > kFullLine;
    if (follows && !goes_on && !words.empty() && words.find(' ') == std::string::npos)
      found.push_back({static_cast<int>(i) + 1, "\"" + words + "\" is left alone on a line"});
  }
  return found;
}

std::vector<Complaint> comments_in_declarations(const std::string& text) {
  std::vector<Complaint> found;
  const std::vector<std::string> lines = lines_of(text);
  std::string code;  // the last line with code
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string own = code_in(lines[i]);
    own.erase(own.find_last_not_of(' ') + 1);
    if (is_comment(lines[i])) {
      if (!is_complete(code))
        found.push_back({static_cast<int>(i) + 1, "a comment inside of \"" + code + "\""});
    } else if (lines[i].empty() || !own.empty()) {
      code = own;
    }
  }
  return found;
}

std::vector<Complaint> private_words(const std::string& text) {
  static const Rules words(kPrivateWords), names(kPrivateNames);
  std::vector<Complaint> found;
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const int line = static_cast<int>(i) + 1;
    const std::string comment = any_comment_in(lines[i]), code = code_in(lines[i]);
    words.find(comment, comment.size(), line, found);
    names.find(code, code.size(), line, found);
  }
  return found;
}

std::vector<Complaint> long_lines(const std::string& text) {
  std::vector<Complaint> found;
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].size() > kColumns)
      found.push_back({static_cast<int>(i) + 1, std::to_string(lines[i].size()) + " columns"});
  return found;
}

}  // namespace llmsim::structure
