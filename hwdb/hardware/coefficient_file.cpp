#include "hwdb/hardware/coefficient_file.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hwdb/text/json_reader.h"
#include "hwdb/text/rounding.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::ordered_json;

constexpr int kCoefficientDigits = 4;  // a tenth of the smallest standard errors

ordered_json row_json(const Coefficient& row) {
  ordered_json object = {{"scope", row.scope},
                         {"id", row.id},
                         {"key", row.key},
                         {"value", rounded(row.value, kCoefficientDigits)}};
  if (row.standard_error)
    object["standard_error"] = rounded(*row.standard_error, kCoefficientDigits);
  object["evidence"] = name_of(row.evidence);
  object["source"] = row.source;
  if (!row.fitted_from.empty()) object["fitted_from"] = row.fitted_from;
  return object;
}

// What a row says on one line, where it comes from on the next.
std::string row_text(const ordered_json& row) {
  std::string text;
  for (const auto& [key, value] : row.items()) {
    const char* separator = text.empty() ? "" : key == "source" ? ",\n   " : ", ";
    text += fmt::format("{}{}: {}", separator, ordered_json(key).dump(), value.dump());
  }
  return "  {" + text + "}";
}

std::string document_text(const ordered_json& document) {
  std::vector<std::string> members;
  for (const auto& [name, value] : document.items()) {
    std::vector<std::string> rows;
    if (name == "coefficients")
      std::transform(value.begin(), value.end(), std::back_inserter(rows), row_text);
    const std::string list = fmt::format("[\n{}\n ]", fmt::join(rows, ",\n"));
    members.push_back(
        fmt::format(" {}: {}", ordered_json(name).dump(), rows.empty() ? value.dump(1) : list));
  }
  return fmt::format("{{\n{}\n}}\n", fmt::join(members, ",\n"));
}

bool same(const ordered_json& a, const ordered_json& b, std::initializer_list<const char*> keys) {
  return std::all_of(keys.begin(), keys.end(),
                     [&](const char* key) { return a.at(key) == b.at(key); });
}

// Behind the last row that agrees in `keys`.
ordered_json::iterator behind(ordered_json& rows, const ordered_json& row,
                              std::initializer_list<const char*> keys) {
  const auto last =
      std::find_if(std::make_reverse_iterator(rows.end()), std::make_reverse_iterator(rows.begin()),
                   [&](const ordered_json& other) { return same(row, other, keys); });
  return last.base();
}

void put(ordered_json& rows, ordered_json row) {
  const auto old = std::find_if(rows.begin(), rows.end(), [&](const ordered_json& r) {
    return same(r, row, {"scope", "id", "key"});
  });
  if (old != rows.end()) {
    *old = std::move(row);
    return;
  }
  auto place = behind(rows, row, {"scope", "id"});
  if (place == rows.begin()) place = behind(rows, row, {"scope"});
  rows.insert(place == rows.begin() ? rows.end() : place, std::move(row));
}

bool dropped(const ordered_json& row, const std::vector<Coefficient>& rows,
             const std::string& fit) {
  if (!row.value("fitted_from", std::string()).starts_with(fit)) return false;
  return std::none_of(rows.begin(), rows.end(), [&](const Coefficient& r) {
    return row.at("scope") == r.scope && row.at("id") == r.id && row.at("key") == r.key;
  });
}

void check_rows(const ordered_json& rows, const std::string& file) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto is_text = [&](const char* key) {
      return rows[i].is_object() && rows[i].contains(key) && rows[i][key].is_string();
    };
    const bool names_fit = !rows[i].is_object() || !rows[i].contains("fitted_from") ||
                           rows[i]["fitted_from"].is_string();
    if (!is_text("scope") || !is_text("id") || !is_text("key") || !names_fit)
      throw Error(
          fmt::format("{}: coefficients[{}]: scope, id, key (and fitted_from) are expected "
                      "to be texts",
                      file, i));
  }
}

}  // namespace

std::string coefficients_json(const std::vector<Coefficient>& rows) {
  ordered_json list = ordered_json::array();
  for (const Coefficient& row : rows) list.push_back(row_json(row));
  return document_text(ordered_json{{"coefficients", std::move(list)}});
}

std::string with_fitted_rows(const std::string& text, const std::string& file,
                             const std::vector<Coefficient>& rows, const std::string& fit) {
  parse_json(text, file);  // says what is wrong with it, where, and how deep it may be
  ordered_json document = ordered_json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("coefficients") ||
      !document["coefficients"].is_array())
    throw Error(file + ": an object with a list \"coefficients\" is expected");
  check_rows(document["coefficients"], file);
  ordered_json kept = ordered_json::array();
  for (ordered_json& row : document["coefficients"]) {
    if (!dropped(row, rows, fit)) kept.push_back(std::move(row));
  }
  for (const Coefficient& row : rows) put(kept, row_json(row));
  document["coefficients"] = std::move(kept);
  return document_text(document);
}

}  // namespace llmsim::hwdb
