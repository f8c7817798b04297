#include "hwdb/launch/config_text.h"

#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "hwdb/text/json_reader.h"
#include "hwdb/text/quoting.h"
#include "hwdb/text/read_budget.h"
#include "hwdb/text/toml.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/base/number_text.h"

namespace llmsim::hwdb {
namespace {

std::string toml_value(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto on = node.value_exact<bool>()) return *on ? "true" : "false";
  if (const auto count = node.value_exact<std::int64_t>()) return std::to_string(*count);
  if (const auto number = node.value_exact<double>()) return sim::text_of(sim::FieldValue(*number));
  std::string list;
  if (const toml::array* const array = node.as_array()) {
    for (const toml::node& item : *array) list += (list.empty() ? "" : ",") + toml_value(item);
  }
  return list;
}

void flatten(const toml::table& table, const std::string& prefix, LaunchValues& values) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* const inner = node.as_table())
      flatten(*inner, name + ".", values);
    else
      values[name] = toml_value(node);
  }
}

// A number, a switch, or a list of those and of words in double quotes.
bool is_bare(const std::string& value) {
  if (sim::number_from(value) || value == "true" || value == "false") return true;
  const nlohmann::json list = nlohmann::json::parse(value, nullptr, false);
  return list.is_array() && std::none_of(list.begin(), list.end(), [](const nlohmann::json& item) {
           return item.is_structured() || item.is_null();
         });
}

// As TOML writes it: numbers and switches bare, lists as they are.
std::string toml_spelled(const LaunchEntry& entry) {
  const std::string& value = entry.value;
  return is_bare(value) && !entry.is_text ? value : toml_quoted(value);
}

std::string json_value(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array())
    return value.is_number_float() ? sim::text_of(sim::FieldValue(value.get<double>()))
                                   : value.dump();
  std::string list;
  for (const nlohmann::json& item : value) list += (list.empty() ? "" : ",") + json_value(item);
  return list;
}

void flatten(const nlohmann::json& object, const std::string& prefix, LaunchValues& values) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      flatten(value, prefix + key + ".", values);
    else if (!value.is_null())
      values[prefix + key] = json_value(value);
  }
}

// Python writes switches with a capital letter.
std::string yaml_scalar(const YAML::Node& node) {
  std::string text = node.as<std::string>();
  const bool plain = node.Tag() == "?";
  if (plain && (text == "True" || text == "TRUE")) return "true";
  if (plain && (text == "False" || text == "FALSE")) return "false";
  return text;
}

std::string yaml_value(const YAML::Node& node, ReadBudget& budget) {
  if (!node.IsSequence()) {
    const std::string text = yaml_scalar(node);
    budget.spend(text.size());
    return text;
  }
  const ReadBudget::Level level = budget.deeper();
  std::string list;
  for (const YAML::Node& item : node) list += (list.empty() ? "" : ",") + yaml_value(item, budget);
  budget.spend(list.size());
  return list;
}

// Lists of maps have the places of their items as keys: "datasets.0.path".  An anchor may contain
// its own alias.
void flatten(const YAML::Node& node, const std::string& key, LaunchValues& values,
             ReadBudget& budget) {
  const ReadBudget::Level level = budget.deeper();
  budget.spend(key.size());
  const auto inner = [&](const std::string& name) { return key.empty() ? name : key + "." + name; };
  const auto is_map = [](const YAML::Node& item) { return item.IsMap(); };
  if (node.IsMap()) {
    for (const auto& entry : node) {
      const auto name = entry.first.as<std::string>();
      if (name != "<<") flatten(entry.second, inner(name), values, budget);
    }
    LaunchValues merged;  // of an anchor: what the map says itself wins
    if (const YAML::Node other = node["<<"]) flatten(other, key, merged, budget);
    values.merge(merged);
  } else if (node.IsSequence() && std::any_of(node.begin(), node.end(), is_map)) {
    std::size_t place = 0;
    for (const YAML::Node& item : node)
      flatten(item, inner(std::to_string(place++)), values, budget);
  } else if (!node.IsNull()) {
    values[key] = yaml_value(node, budget);
  }
}

// What "${...}" without another inside stands for; none where it is not known.
std::optional<std::string> referred(const std::string& inner, const std::string& key,
                                    const LaunchValues& values) {
  const std::string product = "multiply:";
  if (inner.starts_with(product)) {
    const std::size_t comma = inner.find(',');
    if (comma == std::string::npos) return std::nullopt;
    const auto a = sim::number_from(inner.substr(product.size(), comma - product.size()));
    const auto b = sim::number_from(inner.substr(comma + 1));
    return a && b ? std::optional(sim::text_of(sim::FieldValue(*a * *b))) : std::nullopt;
  }
  const std::size_t colon = inner.find(':');  // of a variable of the environment with a default
  if (colon != std::string::npos &&
      inner.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == colon)
    return inner.substr(colon + 1);
  const std::string section = key.substr(0, key.rfind('.') + 1);
  const auto* const value =
      value_in(values, inner.starts_with('.') ? section + inner.substr(1) : inner);
  if (!value || value->find("${") != std::string::npos) return std::nullopt;
  return *value;
}

// "${a.b}" is the value of the key a.b, "${.b}" that of the same section (OmegaConf), and NeMo's
// "${multiply: a, b}" a product, Primus' "${NAME:default}" its default; what no key has stays as it is.
void follow_references(LaunchValues& values, ReadBudget& budget) {
  constexpr int kMost = 16, kPasses = 4;  // references of a value, and of those to others
  for (int pass = 0; pass < kPasses; ++pass) {
    for (auto& [key, value] : values) {
      for (int i = 0; i < kMost; ++i) {
        const std::size_t open = value.rfind("${"), close = value.find('}', open);
        if (open == std::string::npos || close == std::string::npos) break;
        const auto known = referred(value.substr(open + 2, close - open - 2), key, values);
        if (!known) break;
        budget.spend(value.size() + known->size());
        value.replace(open, close - open + 1, *known);
      }
    }
  }
}

// Numbers and switches as JSON has them, anything else a text.
nlohmann::ordered_json json_spelled(const LaunchEntry& entry) {
  const auto value = nlohmann::ordered_json::parse(entry.value, nullptr, false);
  return entry.is_text || value.is_discarded() ? nlohmann::ordered_json(entry.value) : value;
}

// What stands for itself in YAML without quotes: a number, a bare word, or a list of such.
bool is_yaml_plain(const std::string& value) {
  const auto only = [](const std::string& text, std::string_view signs) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
      return signs.find(c) != std::string_view::npos ||
             std::isalnum(static_cast<unsigned char>(c)) != 0;
    });
  };
  const bool is_list = value.size() > 2 && value.starts_with('[') && value.ends_with(']');
  return is_bare(value) || only(value, "-_./+") ||
         (is_list && only(value.substr(1, value.size() - 2), "-_./+, "));
}

// Entries of one section after one another, those of none first.
void gather_sections(std::vector<LaunchEntry>& entries) {
  const auto section = [](const LaunchEntry& entry) {
    const std::size_t dot = entry.key.find('.');
    return dot == std::string::npos ? std::string() : entry.key.substr(0, dot);
  };
  std::map<std::string, std::size_t> places{{"", 0}};
  for (const LaunchEntry& entry : entries) places.emplace(section(entry), places.size());
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    return places.at(section(a)) < places.at(section(b));
  });
}

}  // namespace

LaunchText parsed_json(const std::string& text, const std::string& path) {
  LaunchText read;
  const nlohmann::json document = parse_json(text, path);
  if (!document.is_object()) throw Error(path + ": an object is expected");
  flatten(document, "", read.values);
  return read;
}

LaunchText parsed_yaml(const std::string& text, const std::string& path) {
  try {
    LaunchText read;
    const YAML::Node document = YAML::Load(text);
    if (!document.IsMap()) throw Error(path + ": keys with values are expected");
    ReadBudget budget;
    flatten(document, "", read.values, budget);
    follow_references(read.values, budget);
    return read;
  } catch (const TooLarge& error) {
    throw TooLarge(path + ": " + error.what());
  } catch (const YAML::Exception& error) {
    throw Error(path + ": line " + std::to_string(error.mark.line + 1) + ": " + error.msg);
  }
}

std::string json_text(const std::vector<LaunchEntry>& entries) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const LaunchEntry& entry : entries) {
    nlohmann::ordered_json* place = &document;
    std::istringstream path(entry.key);
    for (std::string part; std::getline(path, part, '.');) place = &(*place)[part];
    *place = json_spelled(entry);
  }
  return document.dump(2) + "\n";
}

std::string yaml_text(std::vector<LaunchEntry> entries) {
  gather_sections(entries);
  std::string text, open;  // the section that the last entry stands in: "model.", "a.b."
  for (const LaunchEntry& entry : entries) {
    std::string indent;
    std::size_t begin = 0;
    for (std::size_t dot = entry.key.find('.'); dot != std::string::npos;
         dot = entry.key.find('.', begin)) {
      if (!open.starts_with(entry.key.substr(0, dot + 1)))
        text += indent + entry.key.substr(begin, dot - begin) + ":\n";
      indent += "  ", begin = dot + 1;
    }
    open = entry.key.substr(0, begin);
    const std::string value =
        entry.is_text || !is_yaml_plain(entry.value) ? yaml_quoted(entry.value) : entry.value;
    text += indent + entry.key.substr(begin) + ": " + value + "\n";
  }
  return text;
}

LaunchText parsed_toml(const std::string& text, const std::string& path) {
  try {
    LaunchText read;
    flatten(parse_toml(text), "", read.values);
    return read;
  } catch (const TooLarge& error) {
    throw TooLarge(path + ": " + error.what());
  } catch (const toml::parse_error& error) {
    throw Error(path + ": line " + std::to_string(error.source().begin.line) + ": " +
                std::string(error.description()));
  }
}

std::string toml_text(const std::vector<LaunchEntry>& entries) {
  std::string text;
  std::vector<std::pair<std::string, std::string>> sections;
  for (const LaunchEntry& entry : entries) {
    const std::size_t dot = entry.key.rfind('.');
    const std::string section = entry.key.substr(0, dot);
    auto place = std::find_if(sections.begin(), sections.end(),
                              [&](const auto& known) { return known.first == section; });
    if (place == sections.end()) place = sections.insert(sections.end(), {section, ""});
    place->second += entry.key.substr(dot + 1) + " = " + toml_spelled(entry) + "\n";
  }
  for (const auto& [section, lines] : sections) text += "\n[" + section + "]\n" + lines;
  return text;
}

}  // namespace llmsim::hwdb
