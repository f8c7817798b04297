#include "hwdb/text/json_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "hwdb/text/read_budget.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// Each may take a hundred times its shortest text; the longest file of runs has a hundredth.
constexpr int kMostValues = 4'000'000;

// A key as it may stand in a message: no control characters, no end of line.
std::string printable(const std::string& key) {
  const std::string quoted = json(key).dump(-1, ' ', true, json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

// What follows a path: ".key" or "[index]"; the first key has no dot.
std::string joined_path(const std::string& path, const std::string& rest) {
  const bool plain = path.empty() || rest.empty() || rest.starts_with('[');
  return plain ? path + rest : path + "." + rest;
}

std::string place_in(const std::string& text, std::size_t end, const std::string& file,
                     std::optional<int> line) {
  const auto lines =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  return file + ":" + std::to_string(line.value_or(1) + lines);
}

// Looks at the parts of a text in turn, before a document is made of them: refuses one that is too
// long for that, and an object in which a key stands twice, of which readers would take
// the last without a word.  (The library's own callbacks search all of a list for each item of it.)
class Parts : public nlohmann::json_sax<json> {
 public:
  explicit Parts(std::string place) : place_(std::move(place)) {}

  bool null() override { return see(); }
  bool boolean(bool) override { return see(); }
  bool number_integer(number_integer_t) override { return see(); }
  bool number_unsigned(number_unsigned_t) override { return see(); }
  bool number_float(number_float_t, const string_t&) override { return see(); }
  bool string(string_t&) override { return see(); }
  bool binary(binary_t&) override { return see(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_[levels_ - 1].insert(name).second)
      throw Error(place_ + ": \"" + printable(name) + "\" stands twice in one object");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;  // which the parser says
  }

 private:
  bool see() {
    if (++values_ > kMostValues)
      throw Error(place_ + ": holds more than " + std::to_string(kMostValues) + " values");
    return true;
  }
  bool open() {
    keys_.resize(std::max(keys_.size(), levels_ + 1));
    keys_[levels_++].clear();
    return see();
  }
  bool close() {
    --levels_;
    return true;
  }

  std::string place_;
  std::vector<std::set<std::string>> keys_;  // of what is open, by its level
  std::size_t levels_ = 0;
  int values_ = 0;
};

void check_depth(const std::string& text, const std::string& file, std::optional<int> line) {
  if (const auto at = too_deep_at(text))
    throw Error(place_in(text, *at, file, line) + ": " + too_deep_text());
}

}  // namespace

std::string reason_of(const json::exception& error) {
  const std::string message = error.what();
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
  std::size_t start = message.find("syntax error");
  if (start == std::string::npos) start = message.find("] ") + 2;
  std::string text = message.substr(std::min(start, message.size()));
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  return text.substr(0, 160);
}

json parse_json(const std::string& text, const std::string& file, std::optional<int> line) {
  const std::string place = line ? place_in(text, 0, file, line) : file;
  check_depth(text, file, line);
  try {
    Parts parts(place);
    json::sax_parse(text, &parts);
    return json::parse(text);
  } catch (const json::parse_error& error) {
    const std::size_t end = std::min<std::size_t>(error.byte, text.size());
    throw Error(place_in(text, end, file, line) + ": malformed JSON: " + reason_of(error));
  } catch (const json::exception& error) {
    throw Error(place + ": malformed JSON: " + reason_of(error));
  }
}

std::string shown(const json& value) {
  constexpr std::size_t kLongest = 40;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

std::optional<std::string> path_of_control_characters(const json& value) {
  if (value.is_string() && has_control_characters(value.get_ref<const std::string&>())) return "";
  if (!value.is_structured()) return std::nullopt;
  std::size_t index = 0;
  for (const auto& [key, member] : value.items()) {
    const auto rest = path_of_control_characters(member);
    const std::string place = value.is_array() ? "[" + std::to_string(index) + "]" : printable(key);
    if (rest) return joined_path(place, *rest);
    ++index;
  }
  return std::nullopt;
}

std::optional<sim::FieldValue> field_value_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer() && value >= std::numeric_limits<std::int64_t>::min() &&
      value <= std::numeric_limits<std::int64_t>::max())
    return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return std::nullopt;
  const auto is_count = [](const json& item) {
    return item.is_number_unsigned() && item <= std::numeric_limits<int>::max();
  };
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_count))
    return value.get<std::vector<int>>();
  if (!std::all_of(value.begin(), value.end(), [](const json& item) { return item.is_string(); }))
    return std::nullopt;
  return value.get<sim::Words>();
}

std::optional<double> number(const nlohmann::json& record, const char* key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string text(const nlohmann::json& record, const char* key) {
  const auto found = record.find(key);
  return found == record.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

std::string source_of(const nlohmann::json& record) {
  const auto source = record.find("source");
  if (source == record.end()) return text(record, "fact").empty() ? "" : "facts";
  if (source->is_string()) return source->get<std::string>();
  std::string all;
  for (const auto& [fields, where] : source->items()) {
    all += (all.empty() ? "" : "; ") + fields + ": " +
           (where.is_string() ? where.get<std::string>() : where.dump());
  }
  return all;
}

ObjectReader::ObjectReader(const json& object, std::string place, std::string path)
    : object_(&object), place_(std::move(place)), path_(std::move(path)) {
  if (!object.is_object()) {
    throw Error(place_ + ": " + (path_.empty() ? "" : path_ + " = ") + shown(object) +
                ": an object { ... } is expected");
  }
}

std::string ObjectReader::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

void ObjectReader::refuse(const std::string& key, const std::string& right) const {
  const auto found = object_->find(key);
  const std::string value = found == object_->end() ? "" : " = " + shown(*found);
  throw Error(place_ + ": " + path_of(key) + value + ": " + right);
}

void ObjectReader::refuse_control_characters() const {
  const std::optional<std::string> path = path_of_control_characters(*object_);
  if (path)
    throw Error(place_ + ": " + path_of(*path) +
                ": line feeds, tabs and other control characters are not allowed in a text");
}

const json* ObjectReader::any(const char* key) {
  known_.emplace_back(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> ObjectReader::integer(const char* key, std::int64_t least,
                                                  std::int64_t most) {
  const json* value = any(key);
  if (!value) return std::nullopt;
  const std::string right =
      "an integer from " + std::to_string(least) + " to " + std::to_string(most) + " is expected";
  if (!value->is_number()) refuse(key, right);
  const double rounded = value->get<double>();
  if (rounded != std::floor(rounded) || rounded < static_cast<double>(least) ||
      rounded > static_cast<double>(most))
    refuse(key, right);
  return value->is_number_integer() ? value->get<std::int64_t>()
                                    : static_cast<std::int64_t>(rounded);
}

std::optional<int> ObjectReader::count(const char* key, int least) {
  const std::optional<std::int64_t> value = integer(key, least, std::numeric_limits<int>::max());
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<double> ObjectReader::number(const char* key, double least) {
  const json* value = any(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) refuse(key, "a number is expected");
  const double number = value->get<double>();
  if (!std::isfinite(number) || number < least)
    refuse(key, "a finite number >= " + shown(json(least)) + " is expected");
  return number;
}

std::optional<bool> ObjectReader::boolean(const char* key) {
  const json* value = any(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "true or false is expected");
  return value->get<bool>();
}

std::optional<std::string> ObjectReader::text(const char* key) {
  const json* value = any(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(key, "a string is expected");
  return value->get<std::string>();
}

std::optional<std::string> ObjectReader::one_of(const char* key,
                                                const std::vector<std::string>& values) {
  const std::optional<std::string> value = text(key);
  if (!value || std::find(values.begin(), values.end(), *value) != values.end()) return value;
  refuse(key, "unknown value" + did_you_mean(*value, values) + " (one of " +
                  sim::joined(values, ", ") + ")");
}

std::vector<std::string> ObjectReader::texts(const char* key) {
  const json* value = any(key);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> list;
  if (!value->is_array()) refuse(key, "a string or a list of strings is expected");
  for (const json& item : *value) {
    if (!item.is_string()) refuse(key, "a string or a list of strings is expected");
    list.push_back(item.get<std::string>());
  }
  return list;
}

std::optional<ObjectReader> ObjectReader::object(const char* key) {
  const json* value = any(key);
  if (!value) return std::nullopt;
  return ObjectReader(*value, place_, path_of(key));
}

const json& ObjectReader::list(const char* key) {
  static const json none = json::array();
  const json* value = any(key);
  if (value && !value->is_array()) refuse(key, "a list is expected");
  return value ? *value : none;
}

void ObjectReader::finish() const {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    throw Error(place_ + ": " + path_of(printable(key)) + ": unknown key" +
                did_you_mean(key, known_));
  }
}

}  // namespace llmsim::hwdb
