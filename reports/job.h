// A whole training job for people and for machines: days, goodput, what is lost and why, money and
// energy.  JSON has the keys of README.md, "job".
#pragma once

#include <vector>

#include "reports/table.h"
#include "sim/job.h"
#include "sim/run.h"

namespace llmsim::reports {

struct JobAnswer {
  sim::Job job;
  sim::JobEstimate estimate;
  std::vector<sim::Fact> facts{};  // that it rests on, in addition to the run's
};

// "The whole job": a line each, estimates with their 90 % intervals.
Table job_table(const JobAnswer& answer);

}  // namespace llmsim::reports
