#include "runtime/measure/pass_flops.h"

namespace llmsim::runtime {

void PassFlops::pass_done(bool backward) {
  const sim::PassFlopCounts now{.products = trace_.product_flops(), .attention = trace_.attention_flops()};
  sim::PassFlopCounts& pass = backward ? backward_ : forward_;
  pass.products += now.products - before_.products;
  pass.attention += now.attention - before_.attention;
  before_ = now;
}

}  // namespace llmsim::runtime
