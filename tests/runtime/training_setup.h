// Small trainings that tests share.
#pragma once

#include "runtime/model/trainer.h"

namespace llmsim::runtime {

// MlaDirect projects queries directly.
enum class Family { Gpt2, Llama, Mla, MlaDirect };

inline const char* name_of(Family family) {
  const char* names[] = {"gpt2", "llama", "mla", "mla_direct"};
  return names[static_cast<int>(family)];
}

// 2 layers of width 64, 4 heads (Llama: 2 of keys; MLA: queries of 12 + 8 and values of 16),
// vocabulary 96, 32 tokens, fp32, 8 sequences a step one by one.
inline TrainingSetup small_training(Family family) {
  TrainingSetup setup;
  sim::Transformer& model = setup.model;
  model.num_layers = 2;
  model.hidden_size = 64;
  model.num_heads = 4;
  model.num_kv_heads = family == Family::Llama ? 2 : 4;
  model.head_dim = 16;
  model.ffn_size = 128;
  model.vocab_size = 96;
  model.seq_len = 32;
  if (family >= Family::Mla) {
    model.mla = sim::Mla{
        .kv_lora_rank = 20, .qk_nope_head_dim = 12, .qk_rope_head_dim = 8, .v_head_dim = 16};
    if (family == Family::Mla) model.mla->q_lora_rank = 24;
    model.head_dim = sim::query_head_dim(model);
  }
  if (family != Family::Gpt2) {
    model.gated_mlp = true;
    model.norm = sim::Norm::RmsNorm;
  } else {
    model.bias = sim::Biases::gpt();
    model.position = sim::Position::Learned;
    model.tied_embeddings = true;
  }
  setup.strategy.precision = sim::Precision::Fp32;
  setup.strategy.global_batch = 8;
  setup.optimizer.learning_rate = 3e-3;
  return setup;
}

}  // namespace llmsim::runtime
