#include "hwdb/huggingface/expression.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/field.h"

namespace llmsim::hwdb {

// `name`: of a key, a field, an operator or a function; the text of a text.
struct Expression::Node {
  enum class Kind { Literal, Key, Field, Call } kind;
  std::string name;
  ExpressionValue literal{};
  std::vector<Node> parts{};
};

namespace {

using nlohmann::json;
using Node = Expression::Node;
using Value = ExpressionValue;

constexpr double kLargest = 1 << 27;
constexpr int kDeepestExpression = 50;

// What the parser takes for one word.
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Node whole() {
    Node node = choice();
    skip_spaces();
    if (at_ != text_.size()) refuse();
    return node;
  }

 private:
  using Names = std::vector<std::string_view>;

  Node choice() {
    if (++depth_ > kDeepestExpression) refuse();
    Node node = binary(0);
    if (take("?")) {
      Node then = choice();
      if (!take(":")) refuse();
      node = call("?:", {std::move(node), std::move(then), choice()});
    }
    --depth_;
    return node;
  }

  // Operators of one level, from the left.
  Node binary(std::size_t level) {
    static const std::vector<Names> levels = {
        {"|"}, {"or"}, {"and"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/"}};
    if (level == levels.size()) return unary();
    Node node = binary(level + 1);
    while (const auto name = take_one_of(levels[level]))
      node = call(*name, {std::move(node), binary(level + 1)});
    return node;
  }

  Node unary() {
    if (take("not")) return call("not", {unary()});
    return primary();
  }

  Node primary() {
    if (take("(")) {
      Node node = choice();
      if (!take(")")) refuse();
      return node;
    }
    if (take("@")) return {.kind = Node::Kind::Field, .name = word()};
    if (take("'")) return literal(quoted());
    const std::string name = word();
    if (name == "true" || name == "false") return literal(name == "true");
    if (name == "none") return literal(std::monostate{});
    if (std::isdigit(static_cast<unsigned char>(name.front()))) return literal(number(name));
    if (take("(")) return call(name, arguments());
    return {.kind = Node::Kind::Key, .name = name};
  }

  std::vector<Node> arguments() {
    std::vector<Node> list{choice()};
    while (take(",")) list.push_back(choice());
    if (!take(")")) refuse();
    return list;
  }

  template <class T>
  static Node literal(T value) {
    return {.kind = Node::Kind::Literal, .name = "", .literal = {std::move(value)}};
  }
  static Node call(std::string_view name, std::vector<Node> parts) {
    return {.kind = Node::Kind::Call, .name = std::string(name), .parts = std::move(parts)};
  }

  double number(const std::string& digits) const {
    std::size_t read = 0;
    const double value = std::stod(digits.substr(0, 20), &read);
    if (read != digits.size()) refuse();
    return value;
  }

  std::string quoted() {
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string::npos) refuse();
    return text_.substr(std::exchange(at_, end + 1), end - at_);
  }

  std::string word() {
    skip_spaces();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) refuse();
    return text_.substr(start, at_ - start);
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  // A sign, or a whole word.
  bool take(std::string_view sign) {
    skip_spaces();
    if (text_.compare(at_, sign.size(), sign) != 0) return false;
    const std::size_t end = at_ + sign.size();
    if (is_word(sign.front()) && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }

  std::optional<std::string_view> take_one_of(const Names& signs) {
    const auto found = std::find_if(signs.begin(), signs.end(), [&](auto s) { return take(s); });
    return found == signs.end() ? std::nullopt : std::optional(*found);
  }

  [[noreturn]] void refuse() const {
    throw Error("\"" + text_ + "\" is no expression from \"" + text_.substr(at_, 20) + "\" on");
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

constexpr auto kSmaller = [](double a, double b) { return std::min(a, b); };
constexpr auto kLarger = [](double a, double b) { return std::max(a, b); };
constexpr auto kFloor = [](double a, double) { return std::floor(a); };
constexpr auto kCeil = [](double a, double) { return std::ceil(a); };

class Evaluation {
 public:
  explicit Evaluation(const ExpressionScope& scope) : scope_(scope) {}

  Value of(const Node& node) const {
    switch (node.kind) {
      case Node::Kind::Literal: return node.literal;
      case Node::Kind::Field: return scope_.field(node.name);
      case Node::Kind::Key: return key(node.name);
      case Node::Kind::Call: break;
    }
    if (node.name == "?:") return of(node.parts[truth(of(node.parts[0])) ? 1 : 2]);
    if (node.name == "|") {
      Value first = of(node.parts[0]);
      return first.is_none() ? of(node.parts[1]) : first;
    }
    if (node.name == "or") return {truth(of(node.parts[0])) || truth(of(node.parts[1]))};
    if (node.name == "and") return {truth(of(node.parts[0])) && truth(of(node.parts[1]))};
    const Callee& callee = calls().at(node.name);
    if (callee.first == First::NotNone && of(node.parts[0]).is_none()) return {};
    return (this->*callee.run)(node.parts);
  }

  bool truth(const Value& value) const {
    if (value.is_none()) return false;
    if (const bool* is = std::get_if<bool>(&value.value)) return *is;
    refuse(value, "true or false is expected");
  }

  // What the first argument is.  NotNone: the whole is none where it is.
  enum class First { Any, Key, NotNone };
  struct Callee {
    Value (Evaluation::*run)(const std::vector<Node>&) const;
    std::size_t least, most;  // arguments
    First first = First::Any;
  };

  static const std::map<std::string, Callee>& calls() {
    constexpr std::size_t kAny = 100;
    constexpr First kKey = First::Key, kNotNone = First::NotNone;
    using E = Evaluation;
    static const std::map<std::string, Callee> all = {
        {"?:", {nullptr, 3, 3}},
        {"|", {nullptr, 2, 2}},
        {"or", {nullptr, 2, 2}},
        {"and", {nullptr, 2, 2}},
        {"==", {&E::compared<std::equal_to<>>, 2, 2}},
        {"!=", {&E::compared<std::not_equal_to<>>, 2, 2}},
        {"<", {&E::with<std::less<>>, 2, 2}},
        {"<=", {&E::with<std::less_equal<>>, 2, 2}},
        {">", {&E::with<std::greater<>>, 2, 2}},
        {">=", {&E::with<std::greater_equal<>>, 2, 2}},
        {"+", {&E::with<std::plus<>>, 2, 2}},
        {"-", {&E::with<std::minus<>>, 2, 2}},
        {"*", {&E::with<std::multiplies<>>, 2, 2}},
        {"/", {&E::with<std::divides<>>, 2, 2}},
        {"not", {&E::negation, 1, 1}},
        {"min", {&E::with<decltype(kSmaller)>, 2, 2}},
        {"max", {&E::with<decltype(kLarger)>, 2, 2}},
        {"floor", {&E::with<decltype(kFloor)>, 1, 1}},
        {"ceil", {&E::with<decltype(kCeil)>, 1, 1}},
        {"zero_or_more", {&E::zero_or_more, 1, 1, kKey}},
        {"integer", {&E::integer, 1, 1, kKey}},
        {"number", {&E::number, 1, 1, kKey}},
        {"has", {&E::has, 1, 1, kKey}},
        {"length", {&E::length, 1, 1}},
        {"ends_with", {&E::ends_with, 2, 2}},
        {"has_letter", {&E::has_letter, 2, 2}},
        {"letters", {&E::letters<false>, 3, kAny, kKey}},
        {"first_letters", {&E::letters<true>, 3, kAny, kKey}},
        {"each_layer", {&E::each_layer, 1, 1}},
        {"spelled", {&E::spelled, 3, kAny}},
        {"every", {&E::every, 4, 4}},
        {"listed", {&E::listed, 3, 4, kKey}},
        {"before", {&E::before, 2, 3, kNotNone}},
        {"spacing", {&E::spacing, 2, 2, kNotNone}},
        {"in_last", {&E::in_last, 4, kAny, kNotNone}},
        {"repeated", {&E::repeated, 1, 1, kNotNone}},
        {"joined", {&E::joined, 2, kAny}},
        {"full_every", {&E::full_every, 1, 1, kKey}},
        {"leading", {&E::leading, 1, 1, kKey}},
        {"windows", {&E::windows, 1, 1, kKey}},
        {"same", {&E::same, 1, 1, kKey}},
        {"among", {&E::among, 3, 3, kKey}},
    };
    return all;
  }

 private:
  [[noreturn]] void refuse(const Value& value, const std::string& right) const {
    refuse_key(value.key, right);
  }
  [[noreturn]] void refuse_key(const std::string& key, const std::string& right) const {
    scope_.refuse(key, right);
    throw Error(key + ": " + right);
  }

  Value key(const std::string& name, double least = 1.0, bool whole = true) const {
    const json* const found = scope_.find(name);
    return found ? value_of(*found, name, least, whole) : Value{{}, name};
  }

  Value value_of(const json& found, const std::string& name, double least, bool whole) const {
    if (found.is_boolean()) return {found.get<bool>(), name};
    if (found.is_string()) return {found.get<std::string>(), name};
    if (!found.is_number()) return {&found, name};
    const double value = found.get<double>();
    if (!whole && !(value > 0.0 && value <= kLargest))
      refuse_key(name, "a positive number is expected");
    if (whole && (!found.is_number_integer() || value < least || value > kLargest))
      refuse_key(name, integer_expected(static_cast<int>(least)));
    return {value, name};
  }

  // Of one number or two; none where one of them is.
  template <class Operation>
  Value with(const std::vector<Node>& parts) const {
    std::vector<double> values;
    for (const Node& part : parts) {
      const Value value = of(part);
      if (value.is_none()) return {};
      values.push_back(number_of(value));
    }
    return {Operation{}(values[0], values.back())};
  }

  double number_of(const Value& value, double least = -kLargest) const {
    const double* const number = std::get_if<double>(&value.value);
    if (!number || *number < least) refuse(value, integer_expected(least == 0.0 ? 0 : 1));
    return *number;
  }
  std::size_t count_of(const Value& value, double least) const {
    return static_cast<std::size_t>(number_of(value, least));
  }

  template <class Comparison>
  Value compared(const std::vector<Node>& parts) const {
    return {Comparison{}(of(parts[0]).value, of(parts[1]).value)};
  }
  Value negation(const std::vector<Node>& parts) const { return {!truth(of(parts[0]))}; }

  Value zero_or_more(const std::vector<Node>& parts) const { return key(parts[0].name, 0.0); }
  Value integer(const std::vector<Node>& parts) const { return key(parts[0].name, -kLargest); }
  Value number(const std::vector<Node>& parts) const { return key(parts[0].name, 0.0, false); }
  Value has(const std::vector<Node>& parts) const { return {scope_.has(parts[0].name)}; }

  // None: not there.
  const json* list(const Node& part) const {
    const Value value = of(part);
    if (value.is_none()) return nullptr;
    const auto* const found = std::get_if<const json*>(&value.value);
    if (!found || !(*found)->is_array()) refuse(value, "a list is expected");
    return *found;
  }

  Value length(const std::vector<Node>& parts) const {
    const Value value = of(parts[0]);
    if (value.is_none()) return {0.0};
    const auto* const found = std::get_if<const json*>(&value.value);
    if (!found) refuse(value, "a list is expected");
    return {static_cast<double>((*found)->size())};
  }

  Value ends_with(const std::vector<Node>& parts) const {
    const json* const found = list(parts[0]);
    const std::string end = text(of(parts[1]));
    const auto ends = [&](const json& one) {
      return one.is_string() && one.get_ref<const std::string&>().ends_with(end);
    };
    return {found && std::any_of(found->begin(), found->end(), ends)};
  }

  Value has_letter(const std::vector<Node>& parts) const {
    const Value letters = of(parts[0]);
    return {!letters.is_none() && text(letters).find(text(of(parts[1]))) != std::string::npos};
  }

  Value joined(const std::vector<Node>& parts) const {
    std::string all;
    for (const Node& part : parts) {
      const Value value = of(part);
      const double* const number = std::get_if<double>(&value.value);
      all += number ? sim::text_of(*number) : text(value);
    }
    return {all};
  }

  std::string text(const Value& value) const {
    if (const auto* found = std::get_if<std::string>(&value.value)) return *found;
    refuse(value, "a text is expected");
  }

  std::size_t num_layers() const {
    Value layers = scope_.field("num_layers");
    if (layers.key.empty()) layers.key = "num_layers";
    return count_of(layers, 1);
  }

  void check_layers(const std::string& key, std::size_t count, const char* each) const {
    if (count != num_layers())
      refuse_key(key, std::string(each) + " for each of " + std::to_string(num_layers()) +
                          " layers is expected");
  }

  // 'name', 'L', ... from argument `i` on: the letter of each name.
  std::map<std::string, std::string> named_letters(const std::vector<Node>& parts,
                                                   std::size_t i) const {
    std::map<std::string, std::string> all;
    for (; i + 1 < parts.size(); i += 2) all.emplace(text(of(parts[i])), text(of(parts[i + 1])));
    return all;
  }

  // `may_go_on`: the list, after the last layer.
  template <bool may_go_on>
  Value letters(const std::vector<Node>& parts) const {
    const json* const found = list(parts[0]);
    if (!found) return {};
    if (!may_go_on || found->size() < num_layers())
      check_layers(parts[0].name, found->size(), "a kind");
    const auto known = named_letters(parts, 1);
    std::string all;
    for (const json& one : *found) {
      if (all.size() == num_layers()) break;
      const auto letter = known.find(one.is_string() ? one.get<std::string>() : one.dump());
      if (letter == known.end()) refuse_kind(parts[0].name, one);
      all += letter->second;
    }
    return {all};
  }

  [[noreturn]] void refuse_kind(const std::string& key, const json& kind) const {
    refuse_key(key, "layers of the kind " + shown(kind) + " are not modelled for this model_type");
  }

  Value each_layer(const std::vector<Node>& parts) const {
    Value letters = of(parts[0]);
    if (std::holds_alternative<const json*>(letters.value)) {
      std::string all;
      for (const json& letter : *list(parts[0]))
        all += letter.is_string() ? letter.get<std::string>() : letter.dump();
      letters.value = all;
    }
    if (!letters.is_none()) check_layers(letters.key, text(letters).size(), "a letter");
    return letters;
  }

  Value spelled(const std::vector<Node>& parts) const {
    const Value value = of(parts[0]);
    if (!std::holds_alternative<std::string>(value.value)) return {};
    const auto known = named_letters(parts, 1);
    std::string letters = text(value);
    for (char& letter : letters) {
      const auto found = known.find(std::string(1, letter));
      if (found == known.end()) refuse_kind(value.key, std::string(1, letter));
      letter = found->second.front();
    }
    std::string all;
    while (!letters.empty() && all.size() < num_layers()) all += letters;
    return {all.substr(0, num_layers())};
  }

  Value every(const std::vector<Node>& parts) const {
    const Value period = of(parts[0]), offset = of(parts[1]);
    const std::size_t n = count_of(period, 1), first = count_of(offset, 0);
    if (first >= n)
      refuse(offset,
             "less than " + (period.key.empty() ? "the period" : period.key) + " is expected");
    const std::string there = text(of(parts[2])), other = text(of(parts[3]));
    std::string all;
    for (std::size_t layer = 0; layer < num_layers(); ++layer)
      all += layer % n == first ? there : other;
    return {all};
  }

  // A list of numbers, or a text that has them with commas between.
  std::optional<json> listed_layers(const Node& part) const {
    const Value value = of(part);
    if (value.is_none()) return std::nullopt;
    if (!std::holds_alternative<std::string>(value.value)) return *list(part);
    const json layers = json::parse("[" + text(value) + "]", nullptr, false);
    if (!layers.is_array()) refuse(value, "numbers of layers are expected");
    return layers;
  }

  Value listed(const std::vector<Node>& parts) const {
    const std::optional<json> found = listed_layers(parts[0]);
    if (!found) return {};
    const std::string there = text(of(parts[1])), other = text(of(parts[2]));
    const std::size_t first = parts.size() > 3 ? 1 : 0;
    std::vector<bool> is_there(num_layers());
    for (const json& layer : *found) {
      if (!layer.is_number_unsigned() || layer < first || layer >= is_there.size() + first)
        refuse_key(parts[0].name, "numbers of layers, from " + std::to_string(first) +
                                      " to the last, are expected");
      is_there[layer.get<std::size_t>() - first] = true;
    }
    std::string all;
    for (const bool is : is_there) all += is ? there : other;
    return {all};
  }

  Value in_last(const std::vector<Node>& parts) const {
    const Value count = of(parts[1]);
    const auto known = named_letters(parts, 2);
    std::string all = text(of(parts[0]));
    const std::size_t last = count_of(count, 0);
    if (last > all.size()) refuse(count, "a number of layers is expected");
    for (std::size_t layer = all.size() - last; layer < all.size(); ++layer) {
      const auto found = known.find(all.substr(layer, 1));
      if (found != known.end()) all.replace(layer, 1, found->second);
    }
    return {all};
  }

  // The first layer of a letter; as many as there are where there is none.
  static std::size_t first_of(const std::string& all, const std::string& letter) {
    return std::min(all.find(letter), all.size());
  }

  Value before(const std::vector<Node>& parts) const {
    const std::string all = text(of(parts[0])), letter = text(of(parts[1]));
    const std::size_t n = parts.size() > 2 ? count_of(of(parts[2]), 1) : 1;
    const std::size_t first = first_of(all, letter);
    for (std::size_t layer = first; layer < all.size(); ++layer) {
      if ((all.compare(layer, 1, letter) == 0) != ((layer - first) % n == 0))
        refuse_key(parts[0].parts.empty() ? parts[0].name : parts[0].parts[0].name,
                   "only leading layers may be of another kind, and layer " +
                       std::to_string(layer) + " is");
    }
    return {static_cast<double>(first)};
  }

  Value spacing(const std::vector<Node>& parts) const {
    const std::string all = text(of(parts[0])), letter = text(of(parts[1]));
    const std::size_t first = first_of(all, letter);
    const std::size_t second = std::min(all.find(letter, first + 1), all.size());
    return {std::max(1.0, static_cast<double>(second) - static_cast<double>(first))};
  }

  Value repeated(const std::vector<Node>& parts) const {
    const std::string pattern = text(of(parts[0]));
    for (std::size_t n = 1; n < pattern.size(); ++n) {
      if (pattern.size() % n == 0 &&
          pattern.compare(n, std::string::npos, pattern, 0, pattern.size() - n) == 0)
        return {pattern.substr(0, n)};
    }
    return {pattern};
  }

  // Of each layer, whether it sees everything.
  std::vector<bool> full_layers(const Node& part, const json& kinds) const {
    check_layers(part.name, kinds.size(), "a string");
    std::vector<bool> full;
    for (const json& kind : kinds) {
      full.push_back(kind == "full_attention");
      if (!full.back() && kind != "sliding_attention" && kind != "chunked_attention")
        refuse_kind(part.name, kind);
    }
    return full;
  }

  // None where no n says it: every n-th layer is full; 1 where no layer is, 0 where all are.
  static std::optional<double> interval_of(const std::vector<bool>& full) {
    const auto first = std::find(full.begin(), full.end(), true);
    if (first == full.end()) return 1.0;
    if (std::find(full.begin(), full.end(), false) == full.end()) return 0.0;
    const auto n = static_cast<std::size_t>(first - full.begin()) + 1;
    for (std::size_t layer = 0; layer < full.size(); ++layer)
      if (full[layer] != (layer % n == n - 1)) return std::nullopt;
    return static_cast<double>(n);
  }

  Value full_every(const std::vector<Node>& parts) const {
    const json* const found = list(parts[0]);
    if (!found) return {};
    const std::optional<double> n = interval_of(full_layers(parts[0], *found));
    if (!n) refuse_key(parts[0].name, "only a pattern with every n-th layer full is modelled");
    return {*n};
  }

  Value windows(const std::vector<Node>& parts) const {
    const json* const found = list(parts[0]);
    if (!found) return {};
    const std::vector<bool> full = full_layers(parts[0], *found);
    if (interval_of(full)) return {};
    std::string all;
    for (const bool is : full) all += is ? '*' : 'W';
    return {all};
  }

  Value leading(const std::vector<Node>& parts) const {
    const json* const found = list(parts[0]);
    if (!found) return {0.0};
    for (std::size_t i = 0; i < found->size(); ++i) {
      if ((*found)[i] != i)
        refuse_key(parts[0].name, "only the leading layers may be dense: [0, 1, ...]");
    }
    return {static_cast<double>(found->size())};
  }

  Value same(const std::vector<Node>& parts) const {
    const std::string& name = parts[0].name;
    const json* const found = scope_.find(name);
    if (!found || !found->is_array()) return key(name);
    for (const json& one : *found)
      if (one != found->front()) refuse_key(name, "only the same number in all layers is modelled");
    return found->empty() ? Value{{}, name} : value_of(found->front(), name, 1.0, true);
  }

  Value among(const std::vector<Node>& parts) const {
    const json* const found = list(parts[0]);
    if (!found) return {};
    const std::string &name = parts[0].name, all = text(of(parts[1])), letter = text(of(parts[2]));
    check_layers(name, found->size(), "a number");
    Value one;
    for (std::size_t layer = 0; layer < found->size() && !all.empty(); ++layer) {
      if (all.compare(layer % all.size(), 1, letter) != 0) continue;
      const Value value = value_of((*found)[layer], name, 1.0, true);
      if (!one.is_none() && one.value != value.value)
        refuse_key(name, "only the same number in all layers of a kind is modelled");
      one = value;
    }
    return one;
  }

  const ExpressionScope& scope_;
};

// Functions with as many arguments as they take, and keys where they take those.
void check_calls(const Node& node, const std::string& text) {
  if (node.kind == Node::Kind::Call) {
    const auto found = Evaluation::calls().find(node.name);
    if (found == Evaluation::calls().end())
      throw Error("\"" + text + "\": there is no function " + node.name);
    const Evaluation::Callee& callee = found->second;
    if (node.parts.size() < callee.least || node.parts.size() > callee.most ||
        (callee.first == Evaluation::First::Key && node.parts[0].kind != Node::Kind::Key))
      throw Error("\"" + text + "\": " + node.name + " takes other arguments");
  }
  for (const Node& part : node.parts) check_calls(part, text);
}

template <class Visit>
void visit_nodes(const Node& node, const Visit& visit) {
  visit(node);
  for (const Node& part : node.parts) visit_nodes(part, visit);
}

}  // namespace

std::string integer_expected(int least) {
  return "an integer from " + std::to_string(least) + " to " +
         std::to_string(static_cast<int>(kLargest)) + " is expected";
}

Expression::Expression(std::string text) : text_(std::move(text)) {
  root_ = std::make_shared<const Node>(Parser(text_).whole());
  check_calls(*root_, text_);
}

ExpressionValue Expression::in(const ExpressionScope& scope) const {
  return Evaluation(scope).of(*root_);
}

bool Expression::holds_in(const ExpressionScope& scope) const {
  const Evaluation evaluation(scope);
  return evaluation.truth(evaluation.of(*root_));
}

bool Expression::may_be_none() const {
  bool found = false;
  visit_nodes(*root_, [&](const Node& node) {
    found = found || (node.kind == Node::Kind::Literal && node.literal.is_none());
  });
  return found;
}

std::vector<std::string> Expression::keys() const {
  std::vector<std::string> all;
  visit_nodes(*root_, [&](const Node& node) {
    if (node.kind == Node::Kind::Key) all.push_back(node.name);
  });
  return all;
}

}  // namespace llmsim::hwdb
