// Steps on which simulator and runtime must agree to the byte, the call and the FLOP.
//
//   small   GPT-2 and Llama shapes, every recompute mode that is executed, whole and chunked loss,
//           unfused and blockwise attention; fp32 on the CPU, bf16 with fp32 master weights and
//           autocast on the meta device
//   heads   large heads and a small residual stream: the peak is in a copy of heads
//   ranks   every way to divide a step: data, sharded, tensor, sequence and pipeline parallelism
//           and combinations, one rank of each stage, on the meta device
//   experts an MoE model on one process and over data, tensor, expert ranks and stages; fp32 on the
//           CPU, the others on the meta device
//   large   ranks of Llama 3 70B and Llama 3.1 405B, on the meta device
#pragma once

#include <vector>

#include "runtime/measure/campaign.h"
#include "runtime/measure/step_bench.h"

namespace llmsim::runtime {

struct CountedCase {
  StepCase step;
  std::vector<int> ranks;  // whose steps are counted
};

std::vector<CountedCase> counted_cases();

// Counts them all and writes a record each (counted_step.h) to the campaign's output.
void count_steps(const CampaignOptions& options);

}  // namespace llmsim::runtime
