#include "sim/strategy/recompute.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>

namespace llmsim::sim {
namespace {

// Switches of a block's modules and the names that people type for them: "core_attn+mlp".
// `Modules` is a plain struct of bools; a table gives each name its member.
template <class Modules>
struct NamedModule {
  const char* name;
  bool Modules::*flag;
};

// Names of the modules that are switched on, joined by "+"; empty for none.
template <class Modules, std::size_t N>
std::string names_of(const Modules& modules, const std::array<NamedModule<Modules>, N>& table) {
  std::string text;
  for (const NamedModule<Modules>& module : table) {
    if (modules.*module.flag) text += (text.empty() ? "" : "+") + std::string(module.name);
  }
  return text;
}

// `modules` with those switched on that `names`, joined by "+", tells; none where one is unknown.
template <class Modules, std::size_t N>
std::optional<Modules> with_named(Modules modules, const std::array<NamedModule<Modules>, N>& table,
                                  std::string names) {
  for (names += '+'; !names.empty(); names.erase(0, names.find('+') + 1)) {
    const std::string name = names.substr(0, names.find('+'));
    const auto known = std::find_if(table.begin(), table.end(),
                                    [&](const auto& module) { return name == module.name; });
    if (known == table.end()) return std::nullopt;
    modules.*known->flag = true;
  }
  return modules;
}

constexpr int kMostBlocks = 4096;

using RecomputedModule = NamedModule<RecomputedModules>;

constexpr std::array<RecomputedModule, 8> kRecomputedModules{
    {{"core_attn", &RecomputedModules::core_attention},
     {"mlp", &RecomputedModules::mlp},
     {"moe", &RecomputedModules::moe},
     {"layernorm", &RecomputedModules::norms},
     {"activation", &RecomputedModules::activation},
     {"moe_act", &RecomputedModules::expert_activation},
     {"shared_experts", &RecomputedModules::shared_experts},
     {"mla_up_proj", &RecomputedModules::mla_up}}};

constexpr std::array<NamedModule<OffloadedModules>, 7> kOffloadedModules{
    {{"attn_norm", &OffloadedModules::attention_norm},
     {"qkv_linear", &OffloadedModules::qkv},
     {"core_attn", &OffloadedModules::core_attention},
     {"attn_proj", &OffloadedModules::attention_output},
     {"mlp_norm", &OffloadedModules::mlp_norm},
     {"expert_fc1", &OffloadedModules::mlp_input},
     {"moe_act", &OffloadedModules::activation}}};

constexpr auto kRecomputeKinds =
    in_order<RecomputeKind>({"none", "selective", "full", "every_n", "op"});

constexpr std::array<NamedModule<SavedGemms>, 5> kSavedGemms{
    {{"qkv", &SavedGemms::qkv},
     {"core_attn", &SavedGemms::core_attention},
     {"attn_proj", &SavedGemms::attention_output},
     {"mlp_up", &SavedGemms::mlp_up},
     {"mlp_down", &SavedGemms::mlp_down}}};

constexpr RecomputedModules kNoModules{.core_attention = false};
constexpr SavedGemms kNoGemms{.every_second = false};

std::optional<int> count_from(const std::string& text) {
  if (text.empty() || text.size() > 4 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  const int count = std::atoi(text.c_str());
  return count >= 1 && count <= kMostBlocks ? std::optional(count) : std::nullopt;
}

std::optional<Recompute> every_n_from(const std::string& value) {
  const std::size_t slash = value.find('/');
  Recompute recompute{.kind = RecomputeKind::EveryN};
  const std::optional<int> last =
      count_from(slash == std::string::npos ? value : value.substr(slash + 1));
  const std::optional<int> share =
      slash == std::string::npos ? std::optional(1) : count_from(value.substr(0, slash));
  if (!last || !share || *share > *last) return std::nullopt;
  recompute.every_n = *last;
  recompute.share = *share;
  return recompute;
}

std::optional<Recompute> gemms_from(const std::string& value) {
  const std::optional<SavedGemms> kept = saved_gemms_from(value);
  if (!kept || kept->every_second) return std::nullopt;
  return Recompute{.kind = RecomputeKind::Op, .saved = *kept};
}

}  // namespace

double Recompute::blocks_of(int chunk) const {
  switch (kind) {
    case RecomputeKind::None: return 0.0;
    case RecomputeKind::EveryN: {
      const int period = std::max(1, every_n);
      return chunk / period * share + std::min(chunk % period, share);
    }
    default: return blocks > 0 ? std::min(chunk, blocks) : chunk;
  }
}

bool Recompute::repeats(int block) const {
  if (kind == RecomputeKind::None) return false;
  if (kind == RecomputeKind::EveryN) return block % std::max(1, every_n) < share;
  return blocks == 0 || block < blocks;
}

Recompute Recompute::of_block() const {
  Recompute block{.kind = whole() ? RecomputeKind::Full : kind};
  if (kind == RecomputeKind::Selective) block.modules = modules;
  if (kind == RecomputeKind::Op) block.saved = saved;
  return block;
}

std::string text_of(const Recompute& r) {
  switch (r.kind) {
    case RecomputeKind::Selective:
      return r.modules == RecomputedModules{} ? "selective" : "selective=" + text_of(r.modules);
    case RecomputeKind::Full:
      if (r.blocks > 0) return "full=" + std::to_string(r.blocks);
      return r.every_n > 1 ? "full/" + std::to_string(r.every_n) : "full";
    case RecomputeKind::EveryN:
      return "every-n=" + (r.share > 1 ? std::to_string(r.share) + "/" : "") +
             std::to_string(r.every_n);
    case RecomputeKind::Op: return r.saved.every_second ? "op" : "op=" + text_of(r.saved);
    case RecomputeKind::None: break;
  }
  return "none";
}

std::optional<Recompute> recompute_from(const std::string& text) {
  const std::size_t mark = text.find_first_of("=/");
  std::string name = text.substr(0, mark);
  std::replace(name.begin(), name.end(), '-', '_');
  const std::optional<RecomputeKind> kind = named<RecomputeKind>(name);
  if (!kind) return std::nullopt;
  if (mark == std::string::npos)
    return *kind == RecomputeKind::EveryN ? std::nullopt : std::optional(Recompute{.kind = *kind});
  const std::string value = text.substr(mark + 1);
  const bool equals = text[mark] == '=';
  if (*kind == RecomputeKind::EveryN && equals) return every_n_from(value);
  if (*kind == RecomputeKind::Op && equals) return gemms_from(value);
  if (*kind == RecomputeKind::Selective && equals) {
    const std::optional<RecomputedModules> modules = recomputed_modules_from(value);
    return modules ? std::optional(Recompute{.kind = *kind, .modules = *modules}) : std::nullopt;
  }
  const std::optional<int> count = count_from(value);
  if (*kind != RecomputeKind::Full || !count) return std::nullopt;
  return equals ? Recompute{.kind = *kind, .blocks = *count}
                : Recompute{.kind = *kind, .every_n = *count};
}

std::string text_of(const RecomputedModules& modules) {
  return names_of(modules, kRecomputedModules);
}

std::optional<RecomputedModules> recomputed_modules_from(const std::string& names) {
  return with_named(kNoModules, kRecomputedModules, names);
}

std::string text_of(const OffloadedModules& modules) {
  return names_of(modules, kOffloadedModules);
}

std::optional<OffloadedModules> offloaded_modules_from(const std::string& names) {
  return with_named(OffloadedModules{}, kOffloadedModules, names);
}

std::string text_of(const SavedGemms& saved) {
  if (saved.every_second) return "every-second";
  return saved == kAllSavedGemms ? "all" : names_of(saved, kSavedGemms);
}

std::optional<SavedGemms> saved_gemms_from(const std::string& names) {
  if (names == "every-second") return SavedGemms{};
  if (names == "all") return kAllSavedGemms;
  return with_named(kNoGemms, kSavedGemms, names);
}

NameTable<RecomputeKind> name_table(RecomputeKind) { return kRecomputeKinds; }
}  // namespace llmsim::sim
