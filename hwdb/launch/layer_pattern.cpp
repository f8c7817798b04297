#include "hwdb/launch/layer_pattern.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "sim/base/error.h"
#include "sim/base/number_text.h"
#include "sim/strategy/stages.h"

namespace llmsim::hwdb {
namespace {

constexpr int kMostLayers = 1 << 16;

std::string without_marks(std::string text, const char* marks) {
  const std::string all = marks;
  std::erase_if(text, [&](char c) { return all.find(c) != std::string::npos; });
  return text;
}

// The factor behind "*" at `at`, which moves past it; 1 where there is none.
int repetitions(const std::string& text, std::size_t& at) {
  if (at >= text.size() || text[at] != '*') return 1;
  char* end = nullptr;
  const long factor = std::strtol(text.c_str() + at + 1, &end, 10);
  if (end == text.c_str() + at + 1 || factor < 0 || factor > kMostLayers)
    throw Error("pattern " + text + ": a number is expected after *");
  at = static_cast<std::size_t>(end - text.c_str());
  return static_cast<int>(factor);
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times && all.size() < kMostLayers; ++i) all += text;
  return all;
}

// The bracket that closes the one at `open`.
std::size_t closing(const std::string& text, std::size_t open) {
  constexpr int kDeepest = 8;
  int depth = 0;
  for (std::size_t at = open; at < text.size() && depth <= kDeepest; ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at;
  }
  throw Error("pattern " + text + ": ) is missing");
}

// A pattern without repetitions.
std::string expanded(const std::string& pattern) {
  std::string plain;
  for (std::size_t at = 0; at < pattern.size();) {
    std::size_t next = at + 1;
    std::string item(1, pattern[at]);
    if (pattern[at] == '(') {
      const std::size_t close = closing(pattern, at);
      item = expanded(pattern.substr(at + 1, close - at - 1));
      next = close + 1;
    }
    plain += repeated(item, repetitions(pattern, next));
    if (plain.size() > kMostLayers) throw Error("pattern: has too many layers");
    at = next;
  }
  return plain;
}

// "([0]*3+[1]*58)", a list in Python, as 0 and 1 for each layer.
std::string layer_bits(const std::string& pattern) {
  std::string groups = without_marks(pattern, "'\"");
  std::replace(groups.begin(), groups.end(), '[', '(');
  std::replace(groups.begin(), groups.end(), ']', ')');
  for (const char mark : {',', '+'}) std::replace(groups.begin(), groups.end(), mark, ' ');
  const std::string bits = without_marks(expanded(groups), " ");
  if (bits.empty() || bits.find_first_not_of("01") != std::string::npos)
    throw Error("layers " + pattern + ": a pattern such as ([0]*3+[1]*58) is expected");
  return bits;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// "[1,1,0]".
std::string list_of(const std::string& bits) {
  std::string list;
  for (const char bit : bits) list += std::string(list.empty() ? "[" : ",") + bit;
  return list + "]";
}

// "2": every second layer; 0 and what is beyond all layers are not told apart from 1 and the most.
int interval_in(const std::string& text) {
  const double interval = sim::number_from(text).value_or(1.0);
  return static_cast<int>(std::clamp(interval, 1.0, double{kMostLayers}));
}

std::string bits_of(int num_layers, const ExpertLayers& layers) {
  std::string bits;
  for (int l = 0; l < num_layers; ++l)
    bits += l >= layers.dense && (l - layers.dense) % layers.interval == 0 ? '1' : '0';
  return bits;
}

}  // namespace

std::string layer_pattern(int num_layers, int dense, int interval) {
  if (dense == 0) return std::to_string(interval);
  if (interval == 1)
    return "([0]*" + std::to_string(dense) + "+[1]*" + std::to_string(num_layers - dense) + ")";
  return list_of(bits_of(num_layers, {dense, interval}));
}

ExpertLayers expert_layers(const std::string& pattern, int num_layers) {
  if (is_number(pattern)) return {.dense = 0, .interval = interval_in(pattern)};
  const std::string bits = layer_bits(pattern);
  const std::size_t first = bits.find('1');
  ExpertLayers layers;
  if (first != std::string::npos) {
    const std::size_t second = bits.find('1', first + 1);
    layers = {.dense = static_cast<int>(first),
              .interval = second == std::string::npos ? 1 : static_cast<int>(second - first)};
  }
  if (num_layers > kMostLayers || bits != bits_of(num_layers, layers))
    throw Error("moe.layers = " + pattern + ": not modelled, dense layers first and then one of " +
                "every few with experts, " + std::to_string(num_layers) + " in all, are expected");
  return layers;
}

std::string linear_layers(const std::string& letters) {
  const std::size_t interval = letters.find('*') + 1;  // 0: there is none
  std::string bits;
  for (std::size_t l = 0; l < letters.size(); ++l) bits += letters[l] == '*' ? '0' : '1';
  for (std::size_t l = 0; l < letters.size(); ++l)
    if (interval == 0 || (bits[l] == '0') != ((l + 1) % interval == 0)) return list_of(bits);
  return std::to_string(interval);
}

std::string mixers_of(const std::string& linear_layers) {
  std::string bits;
  if (is_number(linear_layers))
    bits = std::string(static_cast<std::size_t>(interval_in(linear_layers) - 1), '1') + '0';
  else
    bits = layer_bits(linear_layers);
  std::replace(bits.begin(), bits.end(), '0', '*');
  std::replace(bits.begin(), bits.end(), '1', 'G');
  return bits;
}

HybridLayers hybrid_layers(const std::string& pattern) {
  HybridLayers layers{.chunks = {0}};
  std::istringstream parts(pattern);
  std::string main;
  std::getline(parts, main, '/');
  for (std::string one; std::getline(parts, one, '/'); ++layers.predicted) {
    if (one != "*E")
      throw Error("layers of multi-token prediction, " + one + ": not modelled, *E is expected");
  }
  for (const char letter : main) {
    if (letter == '|')
      layers.chunks.push_back(0);
    else
      layers.letters += letter, ++layers.chunks.back();
  }
  return layers;
}

std::string stage_layout_text(const sim::Transformer& model, const sim::Strategy& strategy) {
  std::string layout;
  for (const sim::ModelChunk& chunk : model_chunks(model, strategy)) {
    const int predicted = chunk.head ? model.mtp_layers : 0;
    if (chunk.first_layer > 0 || !layout.empty()) layout += "|";
    if (chunk.embedding) layout += "E";
    if (chunk.blocks > predicted) layout += "t*" + std::to_string(chunk.blocks - predicted);
    if (predicted > 0) layout += "m*" + std::to_string(predicted);
    if (chunk.head) layout += "L";
  }
  return layout;
}

std::vector<int> chunk_layers(const std::string& layout) {
  const std::string plain = expanded(without_marks(layout, " ,\\'\""));
  if (plain.find_first_not_of("EtmL|") != std::string::npos)
    throw Error("pipeline layout " + layout + ": E, t, m, L and | are expected");
  std::vector<int> counts{0};
  for (const char item : plain) {
    if (item == '|') counts.push_back(0);
    if (item == 't') ++counts.back();
  }
  return counts;
}

std::vector<int> stages_between(int num_layers, int stages, std::optional<int> first,
                                std::optional<int> last) {
  const int others = stages - (first ? 1 : 0) - (last ? 1 : 0);
  const int rest = num_layers - first.value_or(0) - last.value_or(0);
  if (others < 1 || rest < others || rest % others != 0)
    throw Error(std::to_string(rest) + " layers between the first and the last stage: a multiple " +
                "of the stages there, " + std::to_string(others) + ", is expected");
  std::vector<int> layers(static_cast<std::size_t>(stages), rest / others);
  if (first) layers.front() = *first;
  if (last) layers.back() = *last;
  return layers;
}

std::vector<int> counts_in(const std::string& text) {
  std::vector<int> counts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    int count = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), count);
    if (read.ec != std::errc() || read.ptr != part.data() + part.size()) return {};
    counts.push_back(count);
  }
  return counts;
}

}  // namespace llmsim::hwdb
