#include "sim/run.h"

namespace llmsim::sim {

int trained_vocab_size(const Run& run) {
  return padded_vocab_size(run.model.vocab_size, run.framework.vocab_multiple, run.strategy.tp);
}

}  // namespace llmsim::sim
