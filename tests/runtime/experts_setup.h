// Small trainings of MoE models that tests share.
#pragma once

#include <string>
#include <vector>

#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {

struct MoeForm {
  std::string name;
  Family family = Family::Llama;
  sim::Moe moe;
};

// 2 of 4 experts of width 32; with every further part that the runtime executes.
inline std::vector<MoeForm> moe_forms() {
  const sim::Moe plain{.num_experts = 4, .top_k = 2, .expert_ffn_size = 32};
  std::vector<MoeForm> forms{{.name = "llama", .moe = plain},
                             {.name = "gpt2", .family = Family::Gpt2, .moe = plain}};
  forms.push_back(
      {.name = "llama_one_of_eight", .moe = {.num_experts = 8, .top_k = 1, .expert_ffn_size = 16}});
  forms.push_back({.name = "llama_biases", .moe = plain});
  forms.back().moe.router_bias = forms.back().moe.expert_bias = true;
  forms.push_back({.name = "llama_shared", .moe = plain});
  forms.back().moe.num_shared_experts = 2, forms.back().moe.shared_expert_ffn_size = 24;
  forms.push_back({.name = "gpt2_gated_shared", .family = Family::Gpt2, .moe = plain});
  forms.back().moe.num_shared_experts = 1, forms.back().moe.shared_expert_ffn_size = 48;
  forms.back().moe.shared_expert_gate = true;
  forms.push_back({.name = "llama_dense_first", .moe = plain});
  forms.back().moe.num_dense_layers = 1;
  forms.push_back({.name = "mla_dense_first", .family = Family::Mla, .moe = plain});
  forms.back().moe.num_dense_layers = 1;
  forms.push_back({.name = "gpt2_every_second", .family = Family::Gpt2, .moe = plain});
  forms.back().moe.layer_interval = 2;
  return forms;
}

inline TrainingSetup small_moe(const MoeForm& form) {
  TrainingSetup setup = small_training(form.family);
  setup.model.moe = form.moe;
  return setup;
}

}  // namespace llmsim::runtime
