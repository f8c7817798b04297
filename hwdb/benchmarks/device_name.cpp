#include "hwdb/benchmarks/device_name.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "hwdb/text/json_reader.h"

namespace llmsim::hwdb {
namespace {

using NameWords = std::vector<std::string>;

constexpr double kMemoryTolerance = 0.1;
constexpr double kBinaryGB = 1024.0 * 1024.0 * 1024.0;
constexpr std::size_t kLongestMemory = 3;  // digits of "80", "141" in an id

bool is_numeral(char c) { return c >= '0' && c <= '9'; }

// Runs of letters and digits, in lower case.
NameWords words_in(const std::string& text) {
  NameWords words;
  bool inside = false;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    const bool letter = (c >= 'a' && c <= 'z') || is_numeral(c);
    if (letter && !inside) words.emplace_back();
    if (letter) words.back() += c;
    inside = letter;
  }
  return words;
}

bool has_word(const NameWords& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "rtx4090" stands in "GeForce RTX 4090" too.
bool has_or_joins(const NameWords& words, const std::string& word) {
  if (has_word(words, word)) return true;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] + words[i + 1] == word) return true;
  return false;
}

// "80gb" is 80; none of another word.
std::optional<double> memory_in(const NameWords& words) {
  for (const std::string& word : words) {
    if (!word.ends_with("gb") || word.size() < 3 || word.size() > 5) continue;
    if (std::all_of(word.begin(), word.end() - 2, is_numeral)) return std::stod(word);
  }
  return std::nullopt;
}

bool is_memory_size(const std::string& word) {
  return word.size() <= kLongestMemory && std::all_of(word.begin(), word.end(), is_numeral);
}

bool may_be(const HardwareRow& row, const nlohmann::json& record, const NameWords& name) {
  for (const std::string& word : words_in(row.id)) {
    const bool numbered = std::any_of(word.begin(), word.end(), is_numeral);
    if (numbered && !is_memory_size(word) && !word.starts_with("hbm") && !has_or_joins(name, word))
      return false;
    if ((word == "pcie" || word == "nvl") && !has_word(name, word)) return false;
    if (word == "sxm" && (has_word(name, "pcie") || has_word(name, "nvl"))) return false;
  }
  const auto bytes = number(record, "hbm_bytes");
  const auto stated = memory_in(name);
  return !stated || !bytes || std::abs(*bytes / kBinaryGB / *stated - 1.0) < kMemoryTolerance;
}

struct NamedAccelerator {
  std::string id;
  NameWords words;
};

NameWords words_of_record(const HardwareRow& row, const nlohmann::json& record) {
  std::string all = row.id + " " + row.name + " " + text(record, "hbm_type");
  for (const auto& alias : record.value("aliases", nlohmann::json::array()))
    if (alias.is_string()) all += " " + alias.get<std::string>();
  return words_in(all);
}

}  // namespace

std::vector<std::string> accelerators_named(const Database& database, const std::string& name) {
  const NameWords words = words_in(name);
  std::vector<NamedAccelerator> candidates;
  for (const HardwareRow& row : database.list(HardwareKind::Accelerator)) {
    const nlohmann::json record = parse_json(row.record, row.id);
    // One's own devices have any id, and are like one that ships.
    const NameWords id = words_in(row.id);
    const bool names_a_chip = std::any_of(id.begin(), id.end(), [](const std::string& word) {
      return std::any_of(word.begin(), word.end(), is_numeral) && !is_memory_size(word);
    });
    if (row.origin == Origin::Shipped && names_a_chip && may_be(row, record, words))
      candidates.push_back({row.id, words_of_record(row, record)});
  }
  for (const std::string& word : words) {
    const auto lacks = [&](const NamedAccelerator& one) { return !has_word(one.words, word); };
    if (!std::all_of(candidates.begin(), candidates.end(), lacks)) std::erase_if(candidates, lacks);
  }
  // Frameworks see the dies of a module as devices.
  const auto is_die = [](const NamedAccelerator& one) { return has_word(one.words, "gcd"); };
  if (std::any_of(candidates.begin(), candidates.end(), is_die))
    std::erase_if(candidates, [&](const NamedAccelerator& one) { return !is_die(one); });
  std::vector<std::string> ids;
  for (const NamedAccelerator& candidate : candidates) ids.push_back(candidate.id);
  return ids;
}

}  // namespace llmsim::hwdb
