#include "sim/strategy/recompute.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "sim/strategy/named_modules.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {
namespace {

constexpr int kMostBlocks = 4096;

using RecomputedModule = NamedModule<RecomputedModules>;

constexpr std::array<RecomputedModule, 8> kModules{{{"core_attn", &RecomputedModules::core_attention},
                                                    {"mlp", &RecomputedModules::mlp},
                                                    {"moe", &RecomputedModules::mixture},
                                                    {"layernorm", &RecomputedModules::norms},
                                                    {"activation", &RecomputedModules::activation},
                                                    {"moe_act", &RecomputedModules::expert_activation},
                                                    {"shared_experts", &RecomputedModules::shared_experts},
                                                    {"mla_up_proj", &RecomputedModules::latent_up}}};

std::string modules_text(const RecomputedModules& modules, const char* separator) {
  return names_of(modules, kModules, separator);
}

constexpr RecomputedModules kNoModules{.core_attention = false};

std::optional<int> count_from(const std::string& text) {
  if (text.empty() || text.size() > 4 || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const int count = std::atoi(text.c_str());
  return count >= 1 && count <= kMostBlocks ? std::optional(count) : std::nullopt;
}

std::optional<Recompute> every_n_from(const std::string& value) {
  const std::size_t slash = value.find('/');
  Recompute recompute{.kind = RecomputeKind::EveryN};
  const std::optional<int> last = count_from(slash == std::string::npos ? value : value.substr(slash + 1));
  const std::optional<int> share = slash == std::string::npos ? std::optional(1) : count_from(value.substr(0, slash));
  if (!last || !share || *share > *last) return std::nullopt;
  recompute.every_n = *last;
  recompute.share = *share;
  return recompute;
}

std::optional<Recompute> products_from(const std::string& value) {
  if (value == "all") return Recompute{.kind = RecomputeKind::Op, .kept = KeptProducts::All};
  if (value == "qkv") return Recompute{.kind = RecomputeKind::Op, .kept = KeptProducts::Qkv};
  return std::nullopt;
}

// The number that stands right after `words`.
std::optional<int> number_after(const std::string& text, const std::string& words) {
  const std::size_t found = text.find(words);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t start = found + words.size();
  return count_from(text.substr(start, text.find_first_not_of("0123456789", start) - start));
}

bool contains(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

// As a name by itself: "moe" is no part of "moe_act".
bool contains_word(const std::string& text, const std::string& word) {
  const auto belongs = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && belongs(at - 1)) && !belongs(at + word.size())) return true;
  }
  return false;
}

RecomputedModules described_modules(const std::string& detail) {
  RecomputedModules modules = kNoModules;
  for (const RecomputedModule& module : kModules) modules.*module.flag = contains_word(detail, module.name);
  return modules;
}

}  // namespace

double Recompute::blocks_of(int blocks) const {
  switch (kind) {
    case RecomputeKind::None: return 0.0;
    case RecomputeKind::EveryN: {
      const int period = std::max(1, every_n);
      return blocks / period * share + std::min(blocks % period, share);
    }
    default: return first_blocks > 0 ? std::min(blocks, first_blocks) : blocks;
  }
}

bool Recompute::repeats(int block) const {
  if (kind == RecomputeKind::None) return false;
  if (kind == RecomputeKind::EveryN) return block % std::max(1, every_n) < share;
  return first_blocks == 0 || block < first_blocks;
}

std::string text_of(const Recompute& r) {
  switch (r.kind) {
    case RecomputeKind::Selective:
      return r.modules == RecomputedModules{} ? "selective" : "selective=" + modules_text(r.modules, "+");
    case RecomputeKind::Full:
      if (r.first_blocks > 0) return "full=" + std::to_string(r.first_blocks);
      return r.every_n > 1 ? "full/" + std::to_string(r.every_n) : "full";
    case RecomputeKind::EveryN:
      return "every-n=" + (r.share > 1 ? std::to_string(r.share) + "/" : "") + std::to_string(r.every_n);
    case RecomputeKind::Op: return r.kept == KeptProducts::All ? "op=all" : r.kept == KeptProducts::Qkv ? "op=qkv" : "op";
    case RecomputeKind::None: break;
  }
  return "none";
}

std::optional<Recompute> recompute_from(const std::string& text) {
  const std::size_t mark = text.find_first_of("=/");
  std::string name = text.substr(0, mark);
  std::replace(name.begin(), name.end(), '-', '_');
  const std::optional<RecomputeKind> kind = recompute_named(name);
  if (!kind) return std::nullopt;
  if (mark == std::string::npos) return *kind == RecomputeKind::EveryN ? std::nullopt : std::optional(Recompute{.kind = *kind});
  const std::string value = text.substr(mark + 1);
  const bool equals = text[mark] == '=';
  if (*kind == RecomputeKind::EveryN && equals) return every_n_from(value);
  if (*kind == RecomputeKind::Op && equals) return products_from(value);
  if (*kind == RecomputeKind::Selective && equals) {
    const std::optional<RecomputedModules> modules = with_named(kNoModules, kModules, value);
    return modules ? std::optional(Recompute{.kind = *kind, .modules = *modules}) : std::nullopt;
  }
  const std::optional<int> count = count_from(value);
  if (*kind != RecomputeKind::Full || !count) return std::nullopt;
  return equals ? Recompute{.kind = *kind, .first_blocks = *count} : Recompute{.kind = *kind, .every_n = *count};
}

Recompute described(Recompute recompute, const std::string& detail) {
  if (const std::optional<int> first = number_after(detail, "the first ")) {
    recompute.kind = RecomputeKind::Full;
    recompute.first_blocks = *first;
  } else if (recompute.kind == RecomputeKind::Selective && contains(detail, "modules")) {
    recompute.modules = described_modules(detail);
  } else if (recompute.kind == RecomputeKind::Op && contains(detail, "matmul outputs are saved")) {
    recompute.kept = KeptProducts::All;
  } else if (recompute.kind == RecomputeKind::Op && contains(detail, "qkv projections")) {
    recompute.kept = KeptProducts::Qkv;
  } else if (const std::size_t of = detail.find(" of every ");
             recompute.kind == RecomputeKind::EveryN && of != std::string::npos) {
    const std::size_t start = detail.find_last_not_of("0123456789", of - 1) + 1;
    recompute.share = std::min(recompute.every_n, count_from(detail.substr(start, of - start)).value_or(1));
  }
  return recompute;
}

std::string description_of(const Recompute& r) {
  if (r.first_blocks > 0) return "full recompute of the first " + std::to_string(r.first_blocks) + " layers per stage";
  if (r.kind == RecomputeKind::Selective && r.modules != RecomputedModules{}) return "modules: " + modules_text(r.modules, ",");
  if (r.kind == RecomputeKind::EveryN && r.share > 1)
    return std::to_string(r.share) + " of every " + std::to_string(r.every_n) + " blocks are recomputed";
  if (r.kind == RecomputeKind::Op && r.kept == KeptProducts::All) return "matmul outputs are saved";
  if (r.kind == RecomputeKind::Op && r.kept == KeptProducts::Qkv) return "outputs of the qkv projections are saved";
  return "";
}

}  // namespace llmsim::sim
