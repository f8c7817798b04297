#include "sim/run.h"

namespace llmsim::sim {

int trained_vocab_size(const Run& run) {
  return padded_vocab_size(run.model.vocab_size, run.framework.vocab_multiple, run.strategy.tensor_parallel);
}

}  // namespace llmsim::sim
