#include "reports/data_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "reports/json.h"
#include "sim/base/error.h"

namespace llmsim::reports {

std::vector<std::string> csv_fields(const std::string& text, std::size_t& at) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '"' && text[std::min(at + 1, text.size() - 1)] == '"' &&
        at + 1 < text.size()) {
      fields.back() += text[++at];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      fields.back() += c;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  if (quoted) throw Error("a quoted field has no end");
  ++at;
  for (std::string& field : fields) {  // the quote before what would be a formula (table.h)
    if (field.size() > 1 && field[0] == '\'' &&
        std::string_view("=+-@\t\r").find(field[1]) != std::string_view::npos)
      field.erase(0, 1);
  }
  return fields;
}

namespace {

DataRows csv_rows(const std::string& text) {
  std::size_t at = 0;
  DataRows data{.keys = csv_fields(text, at), .rows = {}};
  constexpr std::size_t kMostCells = 8'000'000;
  std::size_t cells = data.keys.size();
  while (at < text.size()) {
    data.rows.push_back(csv_fields(text, at));
    cells += data.rows.back().size();
    if (cells > kMostCells)
      throw Error("holds more than " + std::to_string(kMostCells) + " values");
    if (data.rows.back().size() != data.keys.size())
      throw Error("row " + std::to_string(data.rows.size()) + " has " +
                  std::to_string(data.rows.back().size()) + " fields, the header " +
                  std::to_string(data.keys.size()));
  }
  return data;
}

bool is_deeper(const Json& value, int levels) {
  if (!value.is_structured()) return false;
  return levels == 0 ||
         std::ranges::any_of(value, [&](const Json& one) { return is_deeper(one, levels - 1); });
}

std::string text_of_value(const Json& value) {
  constexpr int kMostLevels = 8;
  if (is_deeper(value, kMostLevels))
    throw Error("a value has lists in one another more than " + std::to_string(kMostLevels) +
                " deep");
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string words;
  for (const Json& one : value) words += (words.empty() ? "" : " ") + text_of_value(one);
  return words;
}

// The texts of one value, with the endings of their keys.
std::vector<std::pair<std::string, std::string>> texts_of(const std::string& key,
                                                          const Json& value) {
  if (!key.ends_with("interval_s") && !key.ends_with("interval_bytes"))
    return {{key, text_of_value(value)}};
  const bool there = value.is_array() && value.size() == 2;
  return {{key + ".low", there ? text_of_value(value[0]) : ""},
          {key + ".high", there ? text_of_value(value[1]) : ""}};
}

DataRows json_rows(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception&) {
    throw Error("is no JSON, and no CSV either");
  }
  const Json& list = json.is_object() && json.contains("runs") ? json["runs"] : json;
  if (!list.is_array() || list.empty() || !list[0].is_object())
    throw Error("a list of rows is expected, as sweep and validate write it");
  DataRows data;
  for (const Json& object : list) {
    if (!object.is_object()) throw Error("a list of objects is expected");
    std::vector<std::string> keys, row;
    for (const auto& [key, value] : object.items()) {
      for (const auto& [name, one] : texts_of(key, value)) keys.push_back(name), row.push_back(one);
    }
    if (data.rows.empty()) data.keys = keys;
    if (keys != data.keys) throw Error("its objects differ in their keys");
    data.rows.push_back(std::move(row));
  }
  return data;
}

std::map<std::vector<std::string>, Rows> alike(const DataRows& data, const Rows& rows,
                                               const std::vector<std::string>& keys) {
  std::map<std::vector<std::string>, Rows> groups;
  for (const std::size_t row : rows) groups[texts_of(data, row, keys)].push_back(row);
  return groups;
}

}  // namespace

bool DataRows::has(std::string_view key) const {
  return std::ranges::find(keys, key) != keys.end();
}

std::size_t DataRows::column(std::string_view key) const {
  return static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin());
}

const std::string& DataRows::text(std::size_t row, std::string_view key) const {
  return rows[row][column(key)];
}

std::optional<double> DataRows::number(std::size_t row, std::string_view key) const {
  const std::string& written = text(row, key);
  double value = 0.0;
  const char* const end = written.data() + written.size();
  const auto read = std::from_chars(written.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

DataRows data_rows(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) throw Error("is empty");
  const bool json = text[begin] == '{' || text[begin] == '[';
  DataRows data = json ? json_rows(text) : csv_rows(text.substr(begin));
  if (data.rows.empty()) throw Error("has no rows");
  if (std::set<std::string>(data.keys.begin(), data.keys.end()).size() != data.keys.size())
    throw Error("has a column twice");
  return data;
}

bool is_validation(const DataRows& data) {
  return data.has("measured_s") && data.has("predicted_s") && data.has("scored");
}

std::set<std::string> texts_of(const DataRows& data, const Rows& rows, const std::string& key) {
  std::set<std::string> texts;
  for (const std::size_t row : rows) texts.insert(data.text(row, key));
  return texts;
}

std::vector<std::string> texts_of(const DataRows& data, std::size_t row,
                                  const std::vector<std::string>& keys) {
  std::vector<std::string> texts;
  for (const std::string& key : keys) texts.push_back(data.text(row, key));
  return texts;
}

std::vector<std::string> settings_that_vary(const DataRows& data, const Rows& rows) {
  std::vector<std::string> settings;
  for (const std::string& key : data.keys) {
    if (key == kFirstFigure) break;
    if (texts_of(data, rows, key).size() > 1) settings.push_back(key);
  }
  return settings;
}

std::vector<std::string> settings_between(const DataRows& data, const Rows& rows,
                                          const std::vector<std::string>& known) {
  std::vector<std::string> keys = known, added;
  for (const std::string& key : settings_that_vary(data, rows)) {
    const auto groups = alike(data, rows, keys);
    if (std::ranges::any_of(groups, [&](const auto& group) {
          return texts_of(data, group.second, key).size() > 1;
        }))
      keys.push_back(key), added.push_back(key);
  }
  return added;
}

std::string described(const DataRows& data, std::size_t row, const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys)
    text += (text.empty() ? "" : ", ") + key + " " + data.text(row, key);
  return text;
}

void require_one_row(const DataRows& data, const Rows& rows, const std::vector<std::string>& keys) {
  for (const auto& [texts, group] : alike(data, rows, keys)) {
    if (group.size() == 1) continue;
    const std::vector<std::string> between = settings_between(data, group, keys);
    throw Error(
        std::to_string(group.size()) + " rows have " + described(data, group.front(), keys) +
        (between.empty() ? "" : " and differ in " + between.front()) + "; --where chooses rows" +
        (between.empty() ? ""
                         : ", as in --where " + between.front() + "=" +
                               data.text(group.front(), between.front())));
  }
}

}  // namespace llmsim::reports
