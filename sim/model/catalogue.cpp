#include "sim/model/catalogue.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <numeric>
#include <utility>

#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

std::vector<CatalogueEntry> all_entries() {
  std::vector<CatalogueEntry> all;
  for (auto family : {gpt_models, llama_models, llama_likes, olmo_models, qwen_models, gemma_models,
                      moe_models, glm_models, cohere_models, hybrid_models, encoder_models}) {
    std::vector<CatalogueEntry> entries = family();
    std::move(entries.begin(), entries.end(), std::back_inserter(all));
  }
  return all;
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

// Levenshtein: insertions, deletions and substitutions that turn one text into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string family_of(std::string_view name) {
  return std::string(name.begin(), std::find_if_not(name.begin(), name.end(), is_alpha));
}

std::span<const CatalogueEntry> catalogue() {
  static const std::vector<CatalogueEntry> entries = all_entries();
  return entries;
}

const CatalogueEntry* find_model(std::string_view name) {
  const std::string key = key_of(name);
  for (const CatalogueEntry& entry : catalogue()) {
    if (key_of(entry.model.name) == key) return &entry;
  }
  for (const CatalogueEntry& entry : catalogue()) {
    const auto matches = [&](const std::string& alias) { return key_of(alias) == key; };
    if (std::any_of(entry.aliases.begin(), entry.aliases.end(), matches)) return &entry;
  }
  return nullptr;
}

std::vector<std::string> nearest_models(std::string_view name, int count) {
  const std::string key = key_of(name).substr(0, 64);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const CatalogueEntry& entry : catalogue()) {
    ranked.emplace_back(edit_distance(key, key_of(entry.model.name)), entry.model.name);
    for (const std::string& alias : entry.aliases)
      ranked.emplace_back(edit_distance(key, key_of(alias)), alias);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(std::max(count, 0))));
  std::vector<std::string> names;
  names.reserve(ranked.size());
  for (auto& [distance, text] : ranked) names.push_back(std::move(text));
  return names;
}

}  // namespace llmsim::sim
