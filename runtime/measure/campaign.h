// A measuring run: what to measure, in which order, for how long, and where the results go.
//
// Device measurements first, then operators, then training steps.  Each kind has a share of the
// budget; operators come in rounds of one of each group, so that a run that stops early has seen
// all kinds.  What the file has already is left out.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "sim/base/quantity.h"

namespace llmsim::runtime {

struct CampaignOptions {
  c10::Device device = c10::kCPU;
  std::string accelerator;  // id under which the records call the device
  std::string output;
  bool resume = false;
  bool quick = false;  // few shapes, small ones
  bool kernels = true;
  bool steps = true;
  std::string step_file;  // the training step to measure (step_file.h); empty: step_cases.h
  sim::Seconds budget{};
  int threads = 1;
};

// The first record of a result file.
nlohmann::json campaign_header(const CampaignOptions& options);

// Of a step file, what the step counts on the first rank of each stage, on the meta device
// (counted_step.h); nothing where there is none.
std::vector<nlohmann::json> counted_records(const CampaignOptions& options);

// Measures until all is done or the budget is spent.  Throws Error where results cannot be written.
void run_campaign(const CampaignOptions& options);

}  // namespace llmsim::runtime
