// Switches of a block's modules and the names that people type for them: "core_attn+mlp".
//
// Private to sim/strategy.  `Modules` is a plain struct of bools; a table gives each name its member.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace llmsim::sim {

template <class Modules>
struct NamedModule {
  const char* name;
  bool Modules::*flag;
};

// Names of the modules that are switched on, joined by `separator`; empty for none.
template <class Modules, std::size_t N>
std::string names_of(const Modules& modules, const std::array<NamedModule<Modules>, N>& table, const char* separator) {
  std::string text;
  for (const NamedModule<Modules>& module : table) {
    if (modules.*module.flag) text += (text.empty() ? "" : separator) + std::string(module.name);
  }
  return text;
}

// `modules` with those switched on that `names`, joined by "+", tells; none where one is unknown.
template <class Modules, std::size_t N>
std::optional<Modules> with_named(Modules modules, const std::array<NamedModule<Modules>, N>& table, std::string names) {
  for (names += '+'; !names.empty(); names.erase(0, names.find('+') + 1)) {
    const std::string name = names.substr(0, names.find('+'));
    const auto known = std::find_if(table.begin(), table.end(), [&](const auto& module) { return name == module.name; });
    if (known == table.end()) return std::nullopt;
    modules.*known->flag = true;
  }
  return modules;
}

}  // namespace llmsim::sim
