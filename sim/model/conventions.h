// FLOPs of a training step under the conventions that publications use.  They differ by up to 1.6x for the same step.
//
// With T tokens per step, N parameters, L layers, H * Q = num_heads * head_dim, S = seq_len, h = hidden_size, V = vocab_size:
//
//   6N                    6 N T                               all parameters, no attention           Kaplan et al. 2020
//   6N_no_embedding       6 (N - N_embedding) T               without the input embedding
//   palm                  6 N T + 12 L H Q S T                attention over the full square         PaLM, nanoGPT, MosaicML
//   palm_causal           6 N T + 6 L H Q S T                attention's causal half
//   palm_no_embedding     6 (N - N_embedding) T + 12 L H Q S T                                      torchtitan
//   megatron              72 T L h^2 (1 + S/(6h) + V/(12 h L))   GPT shape, ffn 4 h, full attention   Korthikanti et al. 2022
//   gemm_causal           every GEMM, attention's masked half left out                     this program's own count
//   hardware              what is executed: also what is recomputed, padded or on several ranks
//
// An embedding lookup multiplies nothing: only the last two count it as zero by construction.
#pragma once

#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {

struct Convention {
  std::string name;
  Flops flops_per_step{};             // whole cluster
  FlopsPerSecond flops_per_device{};  // over the step time
  double mfu = 0.0;                   // over the peak of the recipe's format
};

// What the conventions need of a step.
struct StepWork {
  double tokens = 0.0;  // per step, whole cluster
  Flops model{};        // exact, by the shape of the model (flops.h)
  Flops hardware{};     // executed
  Seconds step_time{};
  int num_devices = 1;
  FlopsPerSecond peak{};  // of one device
};

std::vector<Convention> conventions(const Transformer& model, const StepWork& work);

}  // namespace llmsim::sim
