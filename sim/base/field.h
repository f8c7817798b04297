// Fields of a record by name, for readers, writers, options and tables.
//
// A field's key is the text of its member, so that the two cannot differ:
//
//   struct Recipe { double dropout = 0.0; Seconds pause; };
//   const Field<Recipe> field = LLMSIM_FIELD(Recipe, dropout);   // key "dropout"
//
// Values are plain: quantities are numbers in SI units (seconds, bytes, bytes per second),
// enumerators their names, switches of modules the names of those that are on.
//
// An enumeration has names where its namespace has a `name_table(Enum)`: one table serves both
// directions.  Of several names of one enumerator the first is written, and all are read.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/quantity.h"

namespace llmsim::sim {

template <class Enum>
struct Named {
  Enum value;
  const char* name;
};

template <class Enum>
using NameTable = std::span<const Named<Enum>>;

// A table of names in the order of the enumerators, each with one.
template <class Enum, std::size_t N>
constexpr std::array<Named<Enum>, N> in_order(const char* const (&names)[N]) {
  std::array<Named<Enum>, N> table{};
  for (std::size_t i = 0; i < N; ++i) table[i] = {static_cast<Enum>(i), names[i]};
  return table;
}

template <class Enum>
concept HasNames = requires(Enum value) {
  { name_table(value) } -> std::same_as<NameTable<Enum>>;
};

template <HasNames Enum>
const char* name_of(Enum value) {
  for (const Named<Enum>& known : name_table(value)) {
    if (known.value == value) return known.name;
  }
  return "";
}

// The enumerator of a name; none for an unknown one.
template <HasNames Enum>
std::optional<Enum> named(const std::string& name) {
  for (const Named<Enum>& known : name_table(Enum{})) {
    if (name == known.name) return known.value;
  }
  return std::nullopt;
}

// The other names that are read, in the order of the table.
template <HasNames Enum>
std::vector<std::string> other_names() {
  std::vector<std::string> names;
  for (const Named<Enum>& known : name_table(Enum{})) {
    if (name_of(known.value) != std::string(known.name)) names.emplace_back(known.name);
  }
  return names;
}

// The names that are written, in the order of the table.
template <HasNames Enum>
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Named<Enum>& known : name_table(Enum{})) {
    if (name_of(known.value) == known.name) names.emplace_back(known.name);
  }
  return names;
}

using Words = std::vector<std::string>;
using FieldValue = std::variant<bool, std::int64_t, double, std::string, std::vector<int>, Words>;

// As people write it: "true", "8", "0.1", "bf16", "19,21", "core_attn+mlp".
std::string text_of(const FieldValue& value);

// A number of either kind.
std::optional<double> number_of(const FieldValue& value);

enum class FieldKind { Switch, Count, Number, Word, Counts, Names };

// How a type of member is read and written.  `put` is false for a value of another kind.
template <class T>
struct FieldType;

struct NoWords {
  static Words words() { return {}; }
  static Words other_words() { return {}; }
};

// Of the types that a FieldValue has as they are.
template <class T, FieldKind of>
struct PlainField : NoWords {
  static constexpr FieldKind kind = of;
  static std::optional<FieldValue> value(const T& member) { return member; }
  static bool put(T& member, const FieldValue& value) {
    const T* const given = std::get_if<T>(&value);
    if (given) member = *given;
    return given != nullptr;
  }
};

template <>
struct FieldType<bool> : PlainField<bool, FieldKind::Switch> {};
template <>
struct FieldType<std::string> : PlainField<std::string, FieldKind::Word> {};
template <>
struct FieldType<std::vector<int>> : PlainField<std::vector<int>, FieldKind::Counts> {};
template <>
struct FieldType<Words> : PlainField<Words, FieldKind::Names> {};

template <>
struct FieldType<int> : NoWords {
  static constexpr FieldKind kind = FieldKind::Count;
  static std::optional<FieldValue> value(int member) { return std::int64_t{member}; }
  static bool put(int& member, const FieldValue& value) {
    const std::optional<double> number = number_of(value);
    if (!number || *number != std::floor(*number) ||
        std::abs(*number) > std::numeric_limits<int>::max())
      return false;
    return member = static_cast<int>(*number), true;
  }
};

template <>
struct FieldType<double> : NoWords {
  static constexpr FieldKind kind = FieldKind::Number;
  static std::optional<FieldValue> value(double member) { return member; }
  static bool put(double& member, const FieldValue& value) {
    const std::optional<double> number = number_of(value);
    if (!number || !std::isfinite(*number)) return false;
    return member = *number, true;
  }
};

template <int B, int F, int S>
struct FieldType<Quantity<B, F, S>> : NoWords {
  static constexpr FieldKind kind = FieldKind::Number;
  static std::optional<FieldValue> value(Quantity<B, F, S> member) { return member.value(); }
  static bool put(Quantity<B, F, S>& member, const FieldValue& value) {
    double number = 0.0;
    // Nothing travels at a rate of zero.
    if (!FieldType<double>::put(number, value) || (S < 0 && number == 0.0)) return false;
    return member = Quantity<B, F, S>(number), true;
  }
};

template <HasNames Enum>
struct FieldType<Enum> {
  static constexpr FieldKind kind = FieldKind::Word;
  static Words words() { return all_names<Enum>(); }
  static Words other_words() { return other_names<Enum>(); }
  static std::optional<FieldValue> value(Enum member) { return std::string(name_of(member)); }
  static bool put(Enum& member, const FieldValue& value) {
    const std::string* const name = std::get_if<std::string>(&value);
    const std::optional<Enum> known = name ? named<Enum>(*name) : std::nullopt;
    if (known) member = *known;
    return known.has_value();
  }
};

// None is a value that nobody states.
template <class T>
struct FieldType<std::optional<T>> {
  static constexpr FieldKind kind = FieldType<T>::kind;
  static Words words() { return FieldType<T>::words(); }
  static Words other_words() { return FieldType<T>::other_words(); }
  static std::optional<FieldValue> value(const std::optional<T>& member) {
    return member ? FieldType<T>::value(*member) : std::nullopt;
  }
  static bool put(std::optional<T>& member, const FieldValue& value) {
    T given{};
    if (!FieldType<T>::put(given, value)) return false;
    return member = given, true;
  }
};

template <class Record>
struct Field {
  std::string key;
  FieldKind kind = FieldKind::Switch;
  Words words{};  // that a Word or Names may be
  std::optional<FieldValue> (*get)(const Record&) = nullptr;
  bool (*put)(Record&, const FieldValue&) = nullptr;      // false: of another kind
  double least = 0.0;                                     // of numbers, both ends included
  double most = std::numeric_limits<double>::infinity();  //
  Words other_words{};  // further names of words, which are read and not written
};

// The field with this range.
template <class AnyField>
AnyField ranged(AnyField field, double least, double most) {
  field.least = least, field.most = most;
  return field;
}

// Whether numbers in a value lie in the range of a field.
bool in_range(const FieldValue& value, double least, double most);

// Puts a value where it belongs; false where it is of another kind or out of range, and then
// nothing changes.
template <class Record>
bool put_field(const Field<Record>& field, Record& record, const FieldValue& value) {
  return in_range(value, field.least, field.most) && field.put(record, value);
}

// What the values of a field are: "true or false", "an integer from 1 to 1024", "ring or tree".
std::string expected_values(FieldKind kind, const Words& words, double least, double most);

template <class Record>
std::string expected_values(const Field<Record>& field) {
  return expected_values(field.kind, field.words, field.least, field.most);
}

// The value in the spelling of the table ("zero-bubble" is "zb-h1"); none where the field cannot
// have it.
template <class Record>
std::optional<FieldValue> checked(const Field<Record>& field, const FieldValue& value) {
  Record probe;
  return put_field(field, probe, value) ? field.get(probe) : std::nullopt;
}

// Null for an unknown key.
template <class AnyField>
const AnyField* find_field(const std::vector<AnyField>& fields, const std::string& key) {
  for (const AnyField& field : fields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

// Some fields of a record, by key: what a run file or options state.
using PartialRecord = std::map<std::string, FieldValue>;

// The value that is stated of a field, as a bool, int, double, text, enumerator or list; none where
// it is not.
template <class T>
std::optional<T> stated(const PartialRecord& partial, const std::string& key) {
  const auto found = partial.find(key);
  T value{};
  if (found == partial.end() || !FieldType<T>::put(value, found->second)) return std::nullopt;
  return value;
}

// Throws Error for an unknown key, and for a value that its field cannot have.
template <class AnyField, class Record>
void put(const std::vector<AnyField>& fields, const PartialRecord& partial, Record& record) {
  for (const auto& [key, value] : partial) {
    const AnyField* const field = find_field(fields, key);
    if (!field) throw Error(key + ": no such field");
    if (!put_field(*field, record, value))
      throw Error(key + " = " + text_of(value) + ": " + expected_values(*field) + " is expected");
  }
}

// Where a key stands in objects of objects: "recompute.kind" is objects["recompute"]["kind"].
template <class Objects>
Objects& place_of(Objects& objects, const std::string& key) {
  const std::size_t dot = key.find('.');
  return dot == std::string::npos ? objects[key] : objects[key.substr(0, dot)][key.substr(dot + 1)];
}

template <class Record, class Access>
Field<Record> make_field(const char* key, Access) {
  using Type = FieldType<std::remove_cvref_t<std::invoke_result_t<Access, Record&>>>;
  return {.key = key,
          .kind = Type::kind,
          .words = Type::words(),
          .get = [](const Record& record) { return Type::value(Access{}(record)); },
          .put = [](Record& record,
                    const FieldValue& value) { return Type::put(Access{}(record), value); },
          .other_words = Type::other_words()};
}

// The field of `member`, a path such as `recompute.kind`.
#define LLMSIM_FIELD(Record, member) \
  ::llmsim::sim::make_field<Record>( \
      #member, [](auto& record) -> auto& { return record.member; })

}  // namespace llmsim::sim
