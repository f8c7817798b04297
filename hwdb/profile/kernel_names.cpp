#include "hwdb/profile/kernel_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <vector>

#include "hwdb/profile/shipped_kernel_names.h"
#include "hwdb/text/text_blocks.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

// Pieces of a name that stand in this order.
struct Pattern {
  KernelClass kernels;
  std::vector<std::string> pieces;

  bool is_in(const std::string& name) const {
    std::size_t from = 0;
    for (const std::string& piece : pieces) {
      const std::size_t found = name.find(piece, from);
      if (found == std::string::npos) return false;
      from = found + piece.size();
    }
    return true;
  }
};

std::vector<Pattern> parsed(std::string_view text) {
  constexpr const char* kFile = "kernel_names.rows";
  std::vector<Pattern> patterns;
  for (const Block& block : blocks_of(text, kFile)) {
    const std::string head = parted(block.head.text, ":").first;
    const std::optional<KernelClass> kernels = sim::named<KernelClass>(head);
    if (!kernels)
      at_line(kFile, block.head, [&] { throw Error(head + ": no class of kernel_names.h"); });
    for (const Line& line : block.body)
      for (const std::string& word : split(line.text, ','))
        patterns.push_back({*kernels, split(lower(word), '*')});
  }
  return patterns;
}

}  // namespace

sim::NameTable<KernelClass> name_table(KernelClass) {
  static constexpr auto kNames = sim::in_order<KernelClass>(
      {"gemm", "attention", "norm", "activation", "elementwise", "cast", "cross_entropy",
       "embedding", "scan", "optimizer", "collective", "copy", "other"});
  return kNames;
}

KernelClass class_of_kernel(std::string_view name) {
  static const std::vector<Pattern> patterns = parsed(shipped_kernel_names());
  const std::string small = lower(name);
  const auto found =
      std::ranges::find_if(patterns, [&](const Pattern& pattern) { return pattern.is_in(small); });
  return found == patterns.end() ? KernelClass::Other : found->kernels;
}

bool is_backward_kernel(std::string_view name) {
  const std::string small = lower(name);
  return small.find("bwd") != std::string::npos || small.find("backward") != std::string::npos ||
         small.find("bprop") != std::string::npos;
}

}  // namespace llmsim::hwdb
