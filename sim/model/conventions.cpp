#include "sim/model/conventions.h"

#include "sim/model/parameters.h"

namespace llmsim::sim {

std::vector<Convention> conventions(const Transformer& model, const StepWork& work) {
  const Parameters counts = parameters(model);
  const double all = static_cast<double>(counts.active());
  const double no_embedding =
      all - static_cast<double>(model.tied_embeddings ? counts.positions : counts.embedding + counts.positions);
  const double layers = model.num_layers, h = model.hidden_size, s = model.seq_len;
  const double square = 12.0 * layers * model.num_heads * model.head_dim * s;
  const double megatron = 72.0 * layers * h * h * (1.0 + s / (6.0 * h) + model.vocab_size / (12.0 * h * layers));
  const Flops per_token{work.tokens};
  std::vector<Convention> list;
  const auto add = [&](const char* name, Flops flops) {
    const FlopsPerSecond rate = flops / work.step_time / work.num_devices;
    list.push_back({.name = name, .flops_per_step = flops, .flops_per_device = rate, .mfu = rate / work.peak});
  };
  add("6N", 6.0 * all * per_token);
  add("6N_no_embedding", 6.0 * no_embedding * per_token);
  add("palm", (6.0 * all + square) * per_token);
  add("palm_causal", (6.0 * all + square / 2.0) * per_token);
  add("palm_no_embedding", (6.0 * no_embedding + square) * per_token);
  add("megatron", megatron * per_token);
  add("gemm_causal", work.model);
  add("hardware", work.hardware);
  return list;
}

}  // namespace llmsim::sim
