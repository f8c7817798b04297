#include "hwdb/models/catalogue.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/json_reader.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"
#include "sim/model/layer_kinds.h"

namespace llmsim::hwdb {

namespace {

using nlohmann::json;

// Families and models by name, each with what it inherits.
using Rows = std::map<std::string, sim::NamedModel>;

// What a row says of itself; all other keys are fields.
constexpr const char* kOwnKeys[] = {"name",   "like", "aliases", "num_parameters",
                                    "source", "note", "models"};

std::vector<std::string> known_keys() {
  std::vector<std::string> keys(std::begin(kOwnKeys), std::end(kOwnKeys));
  for (const sim::TransformerField& field : sim::transformer_fields()) keys.push_back(field.key);
  return keys;
}

void put_field(const std::string& key, const json& value, const std::string& place,
               sim::Transformer& model) {
  const auto* const field = sim::find_field(sim::transformer_fields(), key);
  if (!field) throw Error(place + key + ": unknown key" + did_you_mean(key, known_keys()));
  const std::optional<sim::FieldValue> plain = field_value_of(value);
  if (!plain || !sim::put_field(*field, model, *plain))
    throw Error(place + key + " = " + shown(value) + ": " + expected_values(*field) +
                " is expected");
}

// The fields of a row, or with a prefix those of an object in it, such as "moe.".
void put_fields(const json& row, const std::string& prefix, const std::string& place,
                sim::Transformer& model) {
  for (const auto& [key, value] : row.items()) {
    if (prefix.empty() &&
        std::find(std::begin(kOwnKeys), std::end(kOwnKeys), key) != std::end(kOwnKeys))
      continue;
    if (prefix.empty() && value.is_object())
      put_fields(value, key + ".", place, model);
    else
      put_field(prefix + key, value, place, model);
  }
}

// A family or a model on top of its family, or of the row that it is like.
sim::NamedModel read_row(const json& row, sim::NamedModel base, const Rows& above,
                         const std::string& file) {
  ObjectReader reader(row, file);
  const std::string name = reader.text("name").value_or(""), place = file + ": " + name + ": ";
  if (name.empty()) throw Error(file + ": a row has no name");
  if (above.contains(name)) throw Error(place + "this name stands twice");
  if (const auto like = reader.text("like")) {
    const auto found = above.find(*like);
    if (found == above.end())
      throw Error(place + "like = " + *like + ": no row above has that name");
    base = found->second;
  }
  base.model.name = name;
  base.aliases = reader.texts("aliases");
  base.published_parameters = reader.integer("num_parameters", 1, std::int64_t{1} << 53);
  base.source = reader.text("source").value_or(base.source);
  reader.text("note");
  put_fields(row, "", place, base.model);
  return base;
}

// With what follows from its fields where no row states it; a row that leaves a size open is none.
sim::NamedModel completed(sim::NamedModel entry, const std::string& file) {
  sim::Transformer& t = entry.model;
  if (t.position != sim::Position::Rope) t.rope.reset();
  if (t.num_kv_heads == 0) t.num_kv_heads = t.num_heads;
  if (t.head_dim == 0 && t.mla) t.head_dim = query_head_dim(t);
  if (t.head_dim == 0 && t.num_heads > 0 && t.hidden_size % t.num_heads == 0)
    t.head_dim = t.hidden_size / t.num_heads;
  const sim::LayerKinds kinds = layer_kinds(t);
  const auto dense = [](sim::LayerKind kind) { return kind.mlp == sim::LayerMlp::Dense; };
  if (t.ffn_size == 0 && !t.gated_mlp && std::any_of(kinds.begin(), kinds.end(), dense))
    t.ffn_size = 4 * t.hidden_size;
  try {
    t.validate();
  } catch (const Error& error) {
    throw Error(file + ": " + t.name + ": " + error.what());
  }
  if (entry.source.empty()) throw Error(file + ": " + t.name + ": source is missing");
  return entry;
}

bool is_alpha(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// A hyphen says nothing between a letter and a digit ("llama-3" is "llama3"), but between digits it
// does ("opt-1.3b", "opt-13b").
bool hyphen_matters(const std::string& text, std::size_t i) {
  if (i == 0 || i + 1 == text.size()) return false;
  const char before = text[i - 1], after = text[i + 1];
  return !(is_alpha(before) && is_digit(after)) && !(is_digit(before) && is_alpha(after));
}

std::string key_of(std::string_view name) {
  std::string text(
      name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == '_' || c == '.' || c == ' ') c = '-';
  }
  std::string key;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '-' || hyphen_matters(text, i)) key += text[i];
  }
  return key;
}

}  // namespace

std::vector<sim::NamedModel> parse_models(const std::string& content, const std::string& file) {
  const json document = parse_json(content, file);
  ObjectReader reader(document, file);
  reader.count("schema");
  reader.texts("about");
  const json& families = reader.list("families");
  reader.finish();
  std::vector<sim::NamedModel> models;
  Rows rows;
  for (const json& family : families) {
    const sim::NamedModel shared = read_row(family, {}, rows, file);
    rows[shared.model.name] = shared;
    for (const json& row : ObjectReader(family, file).list("models")) {
      const sim::NamedModel model = read_row(row, shared, rows, file);
      rows[model.model.name] = model;
      models.push_back(completed(model, file));
    }
  }
  return models;
}

std::span<const sim::NamedModel> catalogue() {
  static const std::vector<sim::NamedModel> models =
      parse_models(std::string(shipped_models_json()), "facts/models.json");
  return models;
}

const sim::NamedModel* find_model(std::string_view name) {
  const std::string key = key_of(name);
  const auto matches = [&](const std::string& other) { return key_of(other) == key; };
  for (const sim::NamedModel& entry : catalogue())
    if (matches(entry.model.name)) return &entry;
  for (const sim::NamedModel& entry : catalogue())
    if (std::ranges::any_of(entry.aliases, matches)) return &entry;
  return nullptr;
}

std::vector<std::string> nearest_models(std::string_view name, int count) {
  const std::string key = key_of(name).substr(0, 64);
  std::vector<std::pair<int, std::string>> ranked;
  for (const sim::NamedModel& entry : catalogue()) {
    ranked.emplace_back(misspelling(key, key_of(entry.model.name)), entry.model.name);
    for (const std::string& alias : entry.aliases)
      ranked.emplace_back(misspelling(key, key_of(alias)), alias);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(std::max(count, 0))));
  std::vector<std::string> names;
  names.reserve(ranked.size());
  for (auto& [distance, text] : ranked) names.push_back(std::move(text));
  return names;
}

}  // namespace llmsim::hwdb
