#include "runtime/parallel/gradient_pieces.h"

#include <algorithm>

namespace llmsim::runtime {

std::vector<GradientPiece> gradient_pieces(const std::vector<GradientSlice>& slices) {
  std::vector<GradientPiece> pieces;
  for (const GradientSlice& slice : slices) {
    const ParameterUnit& unit = *slice.unit;
    const std::int64_t end = slice.begin + slice.gradient.numel();
    for (std::size_t i = 0; i < unit.shapes().size(); ++i) {
      const std::int64_t first = std::max(slice.begin, unit.offset(i));
      const std::int64_t last = std::min(end, i + 1 < unit.shapes().size() ? unit.offset(i + 1) : unit.parameters());
      if (first >= last) continue;
      pieces.push_back({.parameter = &unit.shapes()[i],
                        .begin = first - unit.offset(i),
                        .gradient = slice.gradient.narrow(0, first - slice.begin, last - first)});
    }
  }
  return pieces;
}

}  // namespace llmsim::runtime
