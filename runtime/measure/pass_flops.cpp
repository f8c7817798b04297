#include "runtime/measure/pass_flops.h"

namespace llmsim::runtime {

void PassFlops::pass_done(bool backward) {
  const sim::PassFlopCounts now{.gemms = trace_.gemm_flops(), .attention = trace_.attention_flops()};
  sim::PassFlopCounts& pass = backward ? backward_ : forward_;
  pass.gemms += now.gemms - before_.gemms;
  pass.attention += now.attention - before_.attention;
  before_ = now;
}

}  // namespace llmsim::runtime
