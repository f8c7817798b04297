// Strict reading of JSON objects: every key must be known, every value must have the
// right type and range.
//
// Private to hwdb: the only header that shows nlohmann-json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/base/field.h"

namespace llmsim::hwdb {

// The document in `text`: a file, or the line `line` of one.  Throws Error "FILE:LINE: malformed
// JSON: ..." where it is none, and "FILE:LINE: ..." where objects and lists lie in one another more
// than 100 deep, what reads and prints them recurs, or where there are more than 4 million values.
nlohmann::json parse_json(const std::string& text, const std::string& file,
                          std::optional<int> line = std::nullopt);

// What the library says is wrong, without its own names, on one printable line.
std::string reason_of(const nlohmann::json::exception& error);

// Text of the value for a message, cut after a few dozen characters.
std::string shown(const nlohmann::json& value);

// Whether a text has a character that is no text, such as a line feed: C0 controls and DEL.
bool has_control_characters(const std::string& text);

// The path of the first string in `value`, however deep, that has control characters: "model.name",
// "training.settings.x" or "caveats[2]"; none where every string is plain text.
std::optional<std::string> path_of_control_characters(const nlohmann::json& value);

// The value of a field: a switch, a number, a word, or a list of integers or of words; none where
// it is none of these.
std::optional<sim::FieldValue> field_value_of(const nlohmann::json& value);

// Lenient reading, for the program's own facts: the value of a key, or none (an empty text) where
// it is missing or of another type.
std::optional<double> number(const nlohmann::json& record, const char* key);
std::string text(const nlohmann::json& record, const char* key);
// One text for a source that is a text or an object {fields: text}.
std::string source_of(const nlohmann::json& record);

// One JSON object while it is read.  Each getter marks its key as known and gives none for a
// missing key or a null; a wrong type or range is an Error that names the place ("runs.json: run
// a100-7b: model.num_layers = -3: ...").  After the last getter, finish() refuses the keys that no
// getter asked for.  The document must outlive the reader.
class ObjectReader {
 public:
  // `place` stands before every message; `path` is the path of this object inside the run, "" for
  // the run itself.
  ObjectReader(const nlohmann::json& object, std::string place, std::string path = "");

  std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most);
  std::optional<int> count(const char* key, int least = 1);  // an integer that fits an int
  std::optional<double> number(const char* key, double least);
  std::optional<bool> boolean(const char* key);
  std::optional<std::string> text(const char* key);
  std::optional<std::string> one_of(const char* key, const std::vector<std::string>& values);
  // An array of strings, or one string; empty where missing.
  std::vector<std::string> texts(const char* key);
  std::optional<ObjectReader> object(const char* key);
  const nlohmann::json& list(const char* key);  // empty where missing
  const nlohmann::json* any(const char* key);   // null where missing or null

  // Throws Error where the object has a key that was not asked for, naming the nearest known one.
  void finish() const;

  // Throws Error where a string of the object, however deep, has control characters: names and
  // notes are printed in tables and written into scripts, where a line feed begins a command.
  void refuse_control_characters() const;

  // Throws Error "PLACE: PATH.KEY = VALUE: RIGHT".
  [[noreturn]] void refuse(const std::string& key, const std::string& right) const;

  const nlohmann::json& value() const { return *object_; }

 private:
  std::string path_of(const std::string& key) const;

  const nlohmann::json* object_;
  std::string place_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace llmsim::hwdb
