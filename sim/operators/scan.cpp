#include "sim/operators/scan.h"

namespace llmsim::sim {

LayerOperators convolution(double elements, double element) {
  return {
      .forward = {memory_bound(OperatorKind::Convolution, "conv1d", elements, 2.0 * element, 1)},
      .backward = {memory_bound(OperatorKind::Convolution, "conv1d_backward", elements,
                                3.0 * element, 1)},
      .recompute = {}};
}

}  // namespace llmsim::sim
