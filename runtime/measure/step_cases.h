// Which training steps to measure.
//
// On a CPU the models are GPT-2 and Llama shapes of the catalogue made small enough that a step
// takes a fraction of a second; an MoE model with a balanced load and MLA among them; each
// configuration varies one or two things of a base one: width, depth, vocabulary, sequence,
// micro-batch, accumulation, precision, recomputation, attention, loss.  On an accelerator they are
// the models themselves, of 125 million to 70 billion parameters, the large ones in a few layers.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "runtime/model/trainer.h"

namespace llmsim::runtime {

struct StepCase {
  std::string key;
  TrainingSetup setup;
};

// Those that one process executes on `device`; bf16 ones only where it can multiply in it.
std::vector<StepCase> step_cases(c10::Device device, bool bf16);

// Those of an accelerator: GPT-2 whole, Llama in slices, 1k to 32k tokens, up to what does not fit.
std::vector<StepCase> large_step_cases(c10::Device device);

// Those of `ranks` processes: replicated, fully sharded, tensor ranks with and without sequence
// parallelism, pipeline stages; an MoE model over expert ranks;
// what does not divide is left out.
std::vector<StepCase> parallel_step_cases(int ranks, c10::Device device);

}  // namespace llmsim::runtime
