// The small language in which a row of facts/model_types.json says how a size of a model follows
// from the keys of its config.json.
//
//   num_key_value_heads | @num_heads        the first of these that the file has
//   @hidden_size / @num_heads               a field of the model, already worked out
//   use_qk_norm | false ? 'per-head' : 'none'
//
// From the loosest to the tightest: a ? b : c; a | b; or; and; == != < <= > >=; + -; * /; not.
// A key is a word, with dots into objects (attn_config.kv_n_heads); one that a file lacks or that
// is null is none, and so is what is worked out of none.  Texts stand in single quotes.
//
// A number under a key is an integer from 1 to 2^27, that sums and small multiples stay inside an
// int, or as a function says:
//
//   zero_or_more(key)  number(key)          from 0; any positive number
//   integer(key)                            any integer, negative ones too
//   same(key)                               a number, or the one that a list repeats
//   has(key)                                whether the file has it, null or not
//   min(a, b) max(a, b) floor(a) ceil(a)
//   length(list)                            or of an object; 0 of one that is not there
//   ends_with(list, 'x')                    whether one of its texts does
//   letters(list, 'name', 'L', ...)         a letter for each layer; other kinds are '1' or 'true'
//   first_letters(list, ...)                the same of a list that may go on after the last layer
//   has_letter(text, 'x')                   whether it has one
//   each_layer(text)                        a text that has one, or a list of them
//   spelled(text, 'L', 'x', ...)            of a text that repeats, an x for each layer L; none of
//                                           what is no text
//   every(period, offset, 'x', 'y')         x in layers offset, offset + period, ..., y in others
//   listed(list, 'x', 'y')                  x in the layers that a list names, y in others; with a
//                                           fourth argument, 1, they are counted from one
//   in_last(letters, n, 'x', 'y', ...)      in the last n layers x is y
//   before(letters, 'x')                    how many layers stand before the first x, after which
//                                           there must be nothing else, or with a third argument,
//                                           n, x in every n-th layer
//   spacing(letters, 'x')                   from the first x to the next: such an n
//   repeated(letters)                       the shortest period of letters
//   joined(a, b, ...)                       one text of texts and numbers
//   full_every(list)                        of windows: n, where every n-th layer is full and the
//                                           others are windowed; 1 all windowed, 0 all full
//   windows(list)                           of a list for which no n is: * in full layers, W in
//                                           windowed ones
//   leading(list)                           how many layers a list 0, 1, ... names
//   among(list, letters, 'x')               of a number for each layer, that of the layers x; none
//                                           where no layer is x
//
// Private to hwdb.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hwdb/text/json_reader.h"

namespace llmsim::hwdb {

// What an expression gives.  `key`: the key of the file that it is, where it is one.
struct ExpressionValue {
  std::variant<std::monostate, bool, double, std::string, const nlohmann::json*> value{};
  std::string key{};

  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
};

// Where an expression looks things up.
struct ExpressionScope {
  // The value of a key of the file, null where it has none; `present` without looking at null.
  std::function<const nlohmann::json*(const std::string& key)> find;
  std::function<bool(const std::string& key)> has;
  std::function<ExpressionValue(const std::string& field)> field;
  // Throws Error that names the file and the key.
  std::function<void(const std::string& key, const std::string& right)> refuse;
};

// "an integer from 1 to 134217728 is expected".
std::string integer_expected(int least);

class Expression {
 public:
  // Throws Error that quotes the text, for what is none of the language.
  explicit Expression(std::string text);

  ExpressionValue in(const ExpressionScope& scope) const;
  bool holds_in(const ExpressionScope& scope) const;
  // Whether it says itself that there may be nothing.
  bool may_be_none() const;
  // The keys that it names, in their order.
  std::vector<std::string> keys() const;
  const std::string& text() const { return text_; }

  struct Node;

 private:
  std::string text_;
  std::shared_ptr<const Node> root_;
};

}  // namespace llmsim::hwdb
