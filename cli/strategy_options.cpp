#include "cli/strategy_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <sstream>

#include "cli/number_list.h"
#include "sim/base/error.h"
#include "sim/base/number_text.h"

namespace llmsim::cli {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text.empty() ? text : text + separator);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

void refuse(const std::string& option, const std::string& value, const std::string& right) {
  throw Error(option + " = " + value + ": " + right + " is expected");
}

namespace {

const sim::StrategyField& field_of(const std::string& key) {
  return *sim::find_strategy_field(key);
}

// Words that people type for others, and in capitals: "BF16", "bfloat16", "fsdp".
std::string usual_word(const sim::StrategyField& field, const std::string& text) {
  constexpr std::array<std::array<const char*, 3>, 7> kOthers{{{"precision", "bfloat16", "bf16"},
                                                               {"precision", "float16", "fp16"},
                                                               {"precision", "float32", "fp32"},
                                                               {"sharding", "fsdp", "zero3"},
                                                               {"sharding", "fsdp2", "zero3"},
                                                               {"sharding", "ddp", "none"},
                                                               {"sharding", "zero0", "none"}}};
  std::string word = text;
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [key, other, usual] : kOthers)
    if (field.key == key && word == other) return usual;
  return word;
}

// A value of a field of the strategy as people type it.
sim::FieldValue value_in(const sim::StrategyField& field, const std::string& text) {
  const std::string option = option_name(field);
  const NumberRange range = range_of(field);
  sim::FieldValue value = text;
  if (field.kind == sim::FieldKind::Switch && (text == "true" || text == "false"))
    value = text == "true";
  if (field.kind == sim::FieldKind::Count) value = number_in(option, text, range);
  if (field.kind == sim::FieldKind::Number) {
    const std::optional<double> number = sim::number_from(text);
    if (!number) refuse(option, text, expected_values(field));
    value = *number;
  }
  if (field.kind == sim::FieldKind::Counts) {
    std::vector<int> counts;  // in the order of the stages, each as often as it stands there
    for (const std::string& part : split(text))
      counts.push_back(static_cast<int>(number_in(option, part, range)));
    value = counts;
  }
  if (const std::optional<sim::FieldValue> right = checked(field, value)) return *right;
  if (field.kind == sim::FieldKind::Word)
    if (const auto usual = checked(field, sim::FieldValue(usual_word(field, text)))) return *usual;
  refuse(option, text, expected_values(field));
}

// The values of a list such as 1,2,4 or zero1,zero3.
std::vector<sim::FieldValue> values_in(const sim::StrategyField& field, const std::string& text) {
  std::vector<sim::FieldValue> values;
  if (field.kind == sim::FieldKind::Count) {
    for (const int number : numbers_in(option_name(field), text, range_of(field)))
      values.emplace_back(std::int64_t{number});
  } else {
    for (const std::string& part : split(text)) values.push_back(value_in(field, part));
  }
  if (values.empty()) refuse(option_name(field), text, expected_values(field));
  return values;
}

std::vector<sim::FieldValue> recomputes_in(const std::string& text) {
  std::vector<sim::FieldValue> values;
  if (text.empty()) recompute_in(text);  // which refuses it
  for (const std::string& part : split(text)) values.emplace_back(sim::text_of(recompute_in(part)));
  return values;
}

void check_products(const sim::Restriction& restriction) {
  double product = 1.0;
  for (const char* ranks : {"tp", "pp", "cp", "dp"}) {
    const auto values = restriction.find(ranks);
    if (values != restriction.end()) product *= sim::number_of(values->second.back()).value();
  }
  if (product > std::numeric_limits<int>::max()) {
    throw Error(
        "--tp * --pp * --dp * --cp: the largest values together are more than 2147483647 devices; "
        "smaller lists are expected");
  }
}

}  // namespace

// A field without a limit has that of the type.
NumberRange range_of(const sim::StrategyField& field) {
  using Whole = std::numeric_limits<std::int64_t>;
  const auto limit = [](double value) {
    if (value >= static_cast<double>(Whole::max())) return Whole::max();
    return value <= static_cast<double>(Whole::min()) ? Whole::min()
                                                      : static_cast<std::int64_t>(value);
  };
  return {limit(field.least), limit(field.most)};
}

bool is_searched(const std::string& key, const std::string& text) {
  return sim::is_searched(key) &&
         (!sim::find_searched_field(key)->opt_in || text.find(',') != std::string::npos);
}

sim::PartialStrategy strategy_in(const RunOptions& options, SkippedFields skips) {
  sim::PartialStrategy strategy;
  for (const auto& [key, text] : options.strategy) {
    if (!skips(key, text)) strategy[key] = value_in(field_of(key), text);
  }
  return strategy;
}

sim::Recompute recompute_in(const std::string& text) {
  if (const auto recompute = sim::recompute_from(text)) return *recompute;
  refuse("--recompute", text,
         "none, selective, "
         "selective=core_attn+mlp+moe+layernorm+activation+moe_act+shared_experts+mla_up_proj, "
         "full, full=K, every-n=K, every-n=Q/P, op, op=all or "
         "op=qkv+core_attn+attn_proj+mlp_up+mlp_down");
}

void set_recompute(const sim::Recompute& recompute, sim::PartialStrategy& partial) {
  sim::Strategy strategy;
  strategy.recompute = recompute;
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    if (field.key.starts_with("recompute.") && is_stated(field, strategy))
      partial[field.key] = *field.get(strategy);
  }
}

void add_offload(const std::string& part, const std::string& text, sim::PartialStrategy& strategy) {
  const std::size_t equals = part.find('=');
  const std::string what = part.substr(0, equals);
  if ((what != "optimizer" && what != "parameters" && what != "activations") ||
      (equals != std::string::npos && what != "activations"))
    refuse("--offload", text,
           "a list of optimizer, parameters and activations, or activations=core_attn+moe_act");
  strategy["offload." + what] = true;
  if (equals == std::string::npos) return;
  const auto modules = checked(field_of("offload.modules"), split(part.substr(equals + 1), '+'));
  if (!modules || part.size() == equals + 1)
    refuse("--offload", text,
           "activations= and some of " + sim::text_of(sim::kAllOffloadedModules) + ", joined by +");
  strategy["offload.modules"] = *modules;
}

void check_shards(const sim::PartialStrategy& strategy) {
  const auto size = sim::stated<int>(strategy, "shard_size");
  const std::string sharding = sim::stated<std::string>(strategy, "sharding").value_or("none");
  if (size && sharding == "none")
    refuse("--shard-size", std::to_string(*size),
           "--sharding zero1, zero2, zero3 or hsdp beside it");
  if (!size && sharding == "hsdp") {
    throw Error(
        "--sharding = hsdp: --shard-size is missing, the ranks of a shard group (8 for nodes of "
        "eight)");
  }
}

void exclude(const std::string& text, sim::Restriction& excluded) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::vector<std::string> keys = sim::searched_keys();
  if (equals == std::string::npos || std::ranges::find(keys, key) == keys.end())
    refuse("--exclude", text, "KEY=VALUES with one of " + sim::joined(keys, ", "));
  const std::string values = text.substr(equals + 1);
  const auto list = key == "recompute" ? recomputes_in(values) : values_in(field_of(key), values);
  excluded[key].insert(excluded[key].end(), list.begin(), list.end());
}

sim::Restriction restriction_of(const RunOptions& options) {
  sim::Restriction restriction;
  for (const auto& [key, text] : options.strategy) {
    if (is_searched(key, text)) restriction[key] = values_in(field_of(key), text);
  }
  if (options.recompute) restriction["recompute"] = recomputes_in(*options.recompute);
  check_products(restriction);
  return restriction;
}

}  // namespace llmsim::cli
